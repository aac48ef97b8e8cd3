"""``fairboost audit --format``: documents that laws and supervisors ask for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairboost._text import printable, text_table
from fairboost.cli import arguments
from fairboost.cli.console import Console
from fairboost.exceptions import InvalidInputError

if TYPE_CHECKING:
    from fairboost.filings import Filing
    from fairboost.report.evidence import Evidence
    from fairboost.tabular.audit import AuditRequest
    from fairboost.tabular.files import TableFile
    from fairboost.tabular.people import FilePeople

LL144, FOUR_FIFTHS, ANNEX_IV, MODEL_RISK = "ll144", "four_fifths", "annex_iv", "model_risk"
FORMATS = (LL144, FOUR_FIFTHS, ANNEX_IV, MODEL_RISK)
COUNTED = (LL144, FOUR_FIFTHS)
"""Formats that count people, without labels and weights."""
MOST_SCORED, ROUNDED = 10_000, 1e-3
"""Rows that the model is applied to again, and what rounding may change a prediction by."""
GATHER = Callable[[argparse.Namespace, Console], "tuple[Evidence, float | None]"]

ONLY_FOR = {
    "sex": (LL144,),
    "race": (LL144,),
    "leave_out_below": COUNTED,
    "unknown": COUNTED,
    "model": (ANNEX_IV,),
    "field": FORMATS,
}
"""Options that are for some formats alone."""
NOT_COUNTED = (
    "label", "task", "weight", "exposure", "favourable", "level", "min_rows", "min_group_rows",
    "max_gap", "loss", "decide",
)  # fmt: skip
"""Options that mean nothing where people are counted."""
SEX_NAMES, RACE_NAMES = ("sex", "gender"), ("race", "ethnic")


def add_filing_options(parser: argparse.ArgumentParser) -> None:
    """Options on documents."""
    group = parser.add_argument_group("documents that laws ask for (docs/law/)")
    group.add_argument(
        "--format",
        choices=FORMATS,
        help="ll144: bias audit of New York City's Local Law 144, from decisions or scores; "
        "four_fifths: adverse impact by 29 CFR 1607.4 D, from decisions; annex_iv: technical "
        "documentation of the EU AI Act, from a table or the folder of `fairboost train`; "
        "model_risk: comparison of candidate models, from the folder of `fairboost train`, "
        "`fairboost compare` or `fairboost study` (default: an audit, with a report)",
    )
    group.add_argument("--sex", **arguments.COLUMN, help="the column of sex (ll144)")
    group.add_argument(
        "--race", **arguments.COLUMN, help="the column of race or ethnicity (ll144)"
    )
    group.add_argument(
        "--leave-out-below",
        type=float,
        metavar="SHARE",
        help="leave groups below this share out of the ratios, such as 0.02; they are still shown "
        "(ll144, four_fifths; default: none)",
    )
    group.add_argument(
        "--unknown",
        **arguments.REPEATABLE,
        metavar="TEXT",
        help="a value that means that a category is not known, besides missing values and words "
        "such as Unknown or Prefer not to say (ll144, four_fifths); repeatable",
    )
    group.add_argument(
        "--field",
        **arguments.REPEATABLE,
        type=_field,
        metavar="NAME=TEXT",
        help='fill in a blank, such as --field "auditor=Doe & Partners"; a wrong name lists all '
        "names; repeatable",
    )
    words = "the folder of the model that `fairboost train` wrote (annex_iv)"
    group.add_argument("--model", type=Path, metavar="FOLDER", help=words)


def _field(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise argparse.ArgumentTypeError(
            f"expected NAME=TEXT, such as audit_date=2026-03-31; found {text!r}"
        )
    return name.strip(), value.strip()


def settle_format(options: argparse.Namespace) -> None:
    """Refuse options that do not go with the format, before anything is read."""
    page, form = options.page, options.format
    for name, formats in ONLY_FOR.items():
        if getattr(options, name) not in (None, []) and form not in formats:
            flag = f"--{name.replace('_', '-')}"
            page.error(f"{flag} is for --format {' or '.join(formats)}; pass it, or leave it out")
    if form in COUNTED:
        for name in NOT_COUNTED:
            if getattr(options, name) != page.get_default(name):
                flag = f"--{name.replace('_', '-')}"
                page.error(
                    f"--format {form} counts people and has no use for {flag}; leave it out"
                )
    if form == MODEL_RISK:
        for name in ("score", "decision", "label"):
            if getattr(options, name) is not None:
                page.error(
                    f"--format {form} reads the folder of `fairboost train`, `fairboost compare` "
                    f"or `fairboost study` and has no use for --{name}"
                )
    if len({name for name, _ in options.field}) < len(options.field):
        page.error("a --field is named twice; name each once")


def require_columns(options: argparse.Namespace) -> None:
    """End with a usage error if what an audit cannot do without is missing."""
    if options.score is None and options.decision is None:
        options.page.error("one of the arguments --score --decision is required")
    if not options.sensitive:
        options.page.error("the following arguments are required: --sensitive")


def say_positive(
    console: Console, request: AuditRequest, decisions: tuple[str, str] | None
) -> None:
    """Say which decision was taken for the positive one, if nobody named it."""
    named = (request.positive or "").lower()
    if decisions is not None and named not in [value.lower() for value in decisions]:
        console.remark(
            f"Note: {decisions[1]!r} counts as the positive decision of {request.score!r}, "
            f"guessed from its name; if {decisions[0]!r} is, pass --positive {decisions[0]!r}."
        )


def run_filing(options: argparse.Namespace, console: Console, gather: GATHER) -> None:
    """Prepare the document, show its tables, and write it.

    Parameters
    ----------
    options, console
        Of the command.
    gather : callable
        Audits a table as without a format.
    """
    from fairboost.cli.outputs import fill_folder

    makers = {LL144: _counted, FOUR_FIFTHS: _counted, ANNEX_IV: _annex_iv, MODEL_RISK: _risk}
    filing = makers[options.format](options, console, gather)
    if options.title is not None:
        from dataclasses import replace

        filing = replace(filing, title=options.title)
    console.result(filing_text(filing))
    files = fill_folder(options, filing.write)
    console.written(options.out, files)
    if options.out is None:
        console.remark("Note: pass --out FOLDER to write the document as HTML, Markdown and CSV.")
    console.finish(format=filing.kind, **filing.facts, tables=filing.tables, files=files)


# People that are counted
# -----------------------------------------------------------------------


def _counted(options: argparse.Namespace, console: Console, gather: GATHER) -> Filing:
    from fairboost.filings import four_fifths, ll144
    from fairboost.tabular.audit import AuditRequest
    from fairboost.tabular.people import read_people

    if options.data.is_dir():
        options.page.error(
            f"--format {options.format} reads a table of decisions, and {str(options.data)!r} is "
            "a folder; write the decisions of a model with `fairboost predict FOLDER TABLE --keep "
            "COLUMN --out scores.csv`, keep the sensitive columns, and audit that table"
        )
    columns = _sex_and_race(options, console) if options.format == LL144 else options.sensitive
    options.sensitive = list(columns)
    require_columns(options)
    threshold = _threshold(options)
    request = AuditRequest(
        label=None,
        score=options.score or options.decision,
        sensitive=tuple(columns),
        positive=options.positive,
        decides=options.decision is not None,
    )
    file = arguments.table_of(options, options.data)
    with console.reading(file, "reading") as advance:
        people = read_people(file, request, advance)
    say_positive(console, request, people.decisions)
    if people.undecided:
        console.notes([f"{people.undecided:,} rows are left out, since their decision is missing"])
    told: Any = {
        "leave_out_below": options.leave_out_below,
        "unknown": options.unknown,
        "fields": dict(options.field),
        "data": _about_rows(file, request, people, threshold),
    }
    if options.format == FOUR_FIFTHS:
        return four_fifths(people.groups, people.scores >= threshold, **told)
    if people.decisions is None:
        return ll144(people.groups, scores=people.scores, **told)
    return ll144(people.groups, selected=people.scores >= threshold, **told)


def _sex_and_race(options: argparse.Namespace, console: Console) -> list[str]:
    """The two columns of Local Law 144: named, or told by the names of the sensitive columns."""
    found = {"sex": options.sex, "race": options.race}
    for role, words in (("sex", SEX_NAMES), ("race", RACE_NAMES)):
        named = [c for c in options.sensitive if any(word in c.lower() for word in words)]
        if found[role] is None and len(named) == 1:
            found[role] = named[0]
            console.remark(f"Note: {named[0]!r} is taken for the column of {role} (--{role}).")
    missing = [f"--{role} COLUMN" for role, column in found.items() if column is None]
    if missing:
        known = arguments.table_of(options, options.data).column_names()
        options.page.error(
            f"--format ll144 needs {' and '.join(missing)}; columns of the table: "
            f"{', '.join(map(printable, known))}"
        )
    columns = [str(column) for column in found.values()]
    if others := [c for c in options.sensitive if c not in columns]:
        options.page.error(
            f"--format ll144 is about sex and race alone; leave --sensitive {others[0]} out"
        )
    return columns


def _threshold(options: argparse.Namespace) -> float:
    """The score from which a person is selected; decisions are 0 and 1."""
    point = options.point
    if options.decision is not None and point is not None:
        options.page.error("--threshold is for --score: the column of --decision has decisions")
    if options.format == LL144 and point is not None:
        options.page.error("--format ll144 compares scores with their median; leave it out")
    if options.score is not None and options.format == FOUR_FIFTHS and type(point) is not float:
        options.page.error(
            "--format four_fifths needs decisions: name a column with --decision, or the score "
            "from which people are selected with --threshold"
        )
    if options.score is not None and options.positive is not None:
        options.page.error("--positive is for --decision; leave it out")
    return 0.5 if point is None else float(point)


def _about_rows(
    file: TableFile, request: AuditRequest, people: FilePeople, threshold: float
) -> dict[str, str]:
    """Where the rows came from, for the page."""
    told = {"File": file.path.name, "SHA-256 of the file": file.sha256()}
    if people.decisions is not None:
        told["Selected"] = f"{request.score} is {people.decisions[1]}"
    else:
        told["Score"] = request.score
        if threshold != 0.5:
            told["Selected"] = f"{request.score} is at least {threshold:g}"
    if people.undecided:
        told["Rows left out, since their decision is missing"] = f"{people.undecided:,}"
    return told


# Models
# -----------------------------------------------------------------------


def _annex_iv(options: argparse.Namespace, console: Console, gather: GATHER) -> Filing:
    from fairboost.filings import annex_iv
    from fairboost.filings.matching import check_about_model

    if options.data.is_dir():
        if options.model is not None:
            options.page.error("name the folder of the model once: as DATA, or as --model")
        own = _trained(options.data)
        return annex_iv(own, own, fields=dict(options.field))
    trained = None if options.model is None else _trained(options.model)
    evidence, _ = gather(options, console)
    if trained is not None:
        check_about_model(evidence, trained)
    scored_again = None if trained is None else _score_again(options)
    return annex_iv(evidence, trained, fields=dict(options.field), scored_again=scored_again)


def _score_again(options: argparse.Namespace) -> int | None:
    """Refuse predictions that are not the model's; how many rows show it, None if none can.

    A table that `fairboost predict` wrote need not have the features.
    """
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    from fairboost.cli.model_folder import load_model
    from fairboost.cli.predictions import DECISION, EXPECTED, PREDICTION, SCORE, predictions_of

    model, schema = load_model(options.model)
    file = arguments.table_of(options, options.data, schema.missing)
    column, types = options.decision or options.score, schema.csv_types()
    if not set(types) <= set(file.column_names()):
        return None
    exposed = {options.exposure: pa.float64()} if options.exposure else {}
    batch = next(iter(file.batches({**exposed, **types, column: None})))[:MOST_SCORED]
    found = predictions_of(model, schema, options.exposure)
    own = found.columns(schema.features(batch), batch)
    name = DECISION if options.decision else EXPECTED if options.exposure else PREDICTION
    ours = own[name if name in own else SCORE].to_pandas()
    theirs = batch.column(column).to_pandas()
    if options.decision:
        differ = ours.astype(str) != theirs.astype(str)
    else:
        theirs = pd.to_numeric(theirs, errors="coerce")
        differ = ~np.isclose(ours, theirs, rtol=ROUNDED, atol=ROUNDED)
    if differ.any():
        raise InvalidInputError(
            f"the column {column!r} does not have the predictions of the model in "
            f"{str(options.model)!r}: in {int(differ.sum()):,} of the first {len(ours):,} rows "
            "they differ; write them with `fairboost predict`, or leave --model out"
        )
    return len(ours)


def _trained(folder: Path) -> Evidence:
    """What is known of a trained model; raises if its file was changed since."""
    import hashlib

    evidence = _evidence_of(folder, "train")
    model = evidence.model
    if model is None or model.export_file is None:
        raise InvalidInputError(
            f"{str(folder)!r} holds no trained model; name a folder that `fairboost train` wrote"
        )
    path = folder / model.export_file
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != model.export_sha256:
        raise InvalidInputError(
            f"{str(path)!r} is missing or was changed after training: its checksum is not the one "
            "in evidence.json; restore the folder, or train again"
        )
    return evidence


def _risk(options: argparse.Namespace, console: Console, gather: GATHER) -> Filing:
    from fairboost.filings.candidates import study_candidates
    from fairboost.filings.comparison import model_risk

    folder, fields = options.data, dict(options.field)
    if not folder.is_dir():
        raise InvalidInputError(
            "--format model_risk reads a folder that `fairboost train`, `fairboost compare` or "
            f"`fairboost study` wrote, found {str(folder)!r}; name such a folder"
        )
    if (folder / "trials.parquet").is_file():
        return model_risk(study_candidates(folder), fields=fields)
    return model_risk(_evidence_of(folder, "train", "compare"), fields=fields)


def _evidence_of(folder: Path, *commands: str) -> Evidence:
    from fairboost.report import Evidence

    path = folder / "evidence.json"
    if not path.is_file():
        raise InvalidInputError(
            f"there is no {str(path)!r}; name the folder that was passed as --out to "
            f"{' or '.join(f'`fairboost {command}`' for command in commands)}"
        )
    return Evidence.load(path)


# The terminal
# -----------------------------------------------------------------------


def filing_text(filing: Filing) -> str:
    """What a document says in short, and its tables, as text for a terminal."""
    from fairboost.report.blocks import BLANK, Bullets, Facts, TableBlock, Text

    parts = [filing.title]
    blanks, signed = 0, False
    for k, section in enumerate(filing.sections):
        for block in section.blocks:
            if isinstance(block, TableBlock):
                rows = [[cell.shown for cell in row] for row in block.rows]
                parts.append(f"{block.title}\n\n{text_table(block.header, rows)}")
            elif k == 0 and isinstance(block, Text):
                parts.append(block.text)
            elif k == 0 and isinstance(block, Bullets):
                parts.append("\n".join(f"- {item}" for item in block.items))
            blanks += _blanks(block.items) if isinstance(block, Facts) else 0
            signed |= isinstance(block, Text) and block.text.startswith(BLANK)
    said = f"{blanks} fields are blank; fill them in with --field, or by hand. " if blanks else ""
    said += "A person has to sign the document. " if signed else ""
    return "\n\n".join([*parts, f"{said}Not legal advice."])


def _blanks(items: Iterable[tuple[str, str]]) -> int:
    from fairboost.report.blocks import BLANK

    return sum(value.startswith(BLANK) for _, value in items)
