"""All studies in a few tables: where we stand against whom, how fair, how fast.

Reads the folders that ``fairboost study`` has written under docs/results, and writes
``summary.md`` there. Nothing is trained.

    fairboost study studies/acs_income_small.toml --out docs/results/acs_income
    python -m benchmarks.study_summary
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "results"
CASES = {
    "acs_income": "ACSIncome",
    "acs_public_coverage": "ACSPublicCoverage",
    "acs_mobility": "ACSMobility",
    "acs_employment": "ACSEmployment",
    "acs_travel_time": "ACSTravelTime",
    "aof": "AOF, generated",
    "baf": "BAF, a sample",
}
OURS = ("fairboost", "fairboost, fair stage")
PAPER, PLAIN, ALL = "the paper's algorithm", "LightGBM", "every peer without a mark"
MARKS = ("†", "‡")
LAST = 95
"""We are to be ahead up to this alpha, in hundredths."""


def read(case: str, table: str) -> pd.DataFrame:
    """Read a table of a study."""
    return pd.read_csv(FOLDER / case / f"{table}.csv")


def hundredths(spans: str | float) -> set[int]:
    """Turn spans such as ``0.00-0.10, 0.30`` into whole hundredths, up to ``LAST``."""
    found: set[int] = set()
    for span in [] if pd.isna(spans) else str(spans).split(", "):
        ends = [round(100 * float(end)) for end in span.split("-")]
        found.update(range(ends[0], min(ends[-1], LAST) + 1))
    return {k for k in found if k <= LAST}


def spans(numbers: set[int]) -> str:
    """Turn hundredths into spans again."""
    out: list[list[int]] = []
    for k in sorted(numbers):
        if out and out[-1][1] == k - 1:
            out[-1][1] = k
        else:
            out.append([k, k])
    return ", ".join(f".{a:02d}" if a == b else f".{a:02d} to .{b:02d}" for a, b in out)


def reach(cases: list[str]) -> list[dict[str, str]]:
    """Where each of our methods is ahead of all, and where behind someone, and whom."""
    lines = []
    for case in cases:
        table = read(case, "reach")
        for (features, ours), part in table.groupby(["features", "algorithm"], sort=False):
            everyone = part[part["peer"] == ALL].iloc[0]
            behind = [
                f"{line['peer']}: {spans(hundredths(line['behind']))}"
                for line in part.to_dict("records")
                if line["peer"] != ALL
                and not line["peer"].endswith(MARKS)
                and hundredths(line["behind"])
            ]
            lines.append(
                {
                    "case": CASES[case], "features": features, "": ours,
                    "ahead of all": spans(hundredths(everyone["ahead"])) or "-",
                    "even with some, behind none": spans(hundredths(everyone["even"])) or "-",
                    "behind": "; ".join(behind) or "nowhere",
                }
            )  # fmt: skip
    return lines


def chosen(cases: list[str]) -> list[dict[str, str]]:
    """Weighted test metric of ours and of the best peer without a mark."""
    lines = []
    for case in cases:
        table, leads = read(case, "selected"), read(case, "leads")
        for (features, alpha), part in table.groupby(["features", "alpha"], sort=False):
            weighted = part.set_index("algorithm")["weighted"]
            peers = weighted.drop([*OURS, *(a for a in weighted.index if a.endswith(MARKS))])
            best = peers.idxmax()
            line = {
                "case": CASES[case], "features": features, "alpha": f"{alpha:g}",
                **{ours: f"{weighted[ours]:.4f}" for ours in OURS},
                "best peer": f"{peers[best]:.4f} ({best})",
            }  # fmt: skip
            for ours in OURS:
                lead = leads[
                    (leads["features"] == features) & (leads["alpha"] == alpha)
                    & (leads["algorithm"] == ours) & (leads["peer"] == best)
                ].iloc[0]  # fmt: skip
                line[f"lead of {ours} [95% of draws]"] = (
                    f"{lead['lead']:+.4f} [{lead['low']:+.4f}, {lead['high']:+.4f}]"
                )
            line["error of test rows"] = f"{lead['test error']:.4f}"
            lines.append(line)
    return lines


def against(cases: list[str]) -> list[dict[str, str]]:
    """Give the lead over every peer, in the mean over all cases, features and alphas."""
    leads = pd.concat([read(case, "leads").assign(case=case) for case in cases])
    lines = []
    for (ours, peer), part in leads.groupby(["algorithm", "peer"], sort=False):
        surveys = part["case"].str.startswith("acs")
        acs, fraud = part[surveys], part[~surveys]
        verdicts = part["verdict"].value_counts()
        lines.append(
            {
                "": str(ours), "peer": str(peer),
                "larger": f"{(part['lead'] > 0).sum()} of {len(part)}",
                **{
                    f"{word}, by 95% of draws": str(verdicts.get(word, 0))
                    for word in ("ahead", "behind")
                },
                "mean lead, ACS": f"{acs['lead'].mean():+.4f}",
                "mean lead, fraud": "" if fraud.empty else f"{fraud['lead'].mean():+.4f}",
            }
        )  # fmt: skip
    return lines


def splits(cases: list[str]) -> list[dict[str, str]]:
    """How far the gap of the same models differs between validation and test rows, and may."""
    lines = []
    for case in cases:
        table = pd.read_parquet(FOLDER / case / "trials.parquet")
        table = table[table["error"].isna() & (table["variant"] != "randomized")]
        for seed, part in table.groupby("seed"):
            moved, errors = [], []
            for line in part[["validation_rates", "test_rates"]].itertuples(index=False):
                gaps, variance = [], 0.0
                for rates in map(json.loads, line):
                    (_, a, n), (_, b, m) = next(iter(rates.values()))[:2]
                    gaps.append(b - a)
                    variance += a * (1 - a) / n + b * (1 - b) / m
                moved.append(gaps[1] - gaps[0])
                errors.append(variance**0.5)
            shift, error = float(np.mean(moved)), float(np.mean(errors))
            lines.append(
                {
                    "case": CASES[case], "split": str(seed), "models": f"{len(part):,}",
                    "gap on test less on validation rows": f"{shift:+.4f}",
                    "its standard error": f"{error:.4f}",
                    "in standard errors": f"{shift / error:+.1f}",
                    "deviation between models": f"{np.std(moved):.4f}",
                }
            )  # fmt: skip
    return lines


def within(cases: list[str]) -> list[dict[str, str]]:
    """Share of configurations whose test gap is within tolerance."""
    names = (*OURS, PAPER, "fairgbm (reference)", PLAIN, "fairlearn EG ‡", "fairlearn GS",
             "RS reweighing", "ThresholdOptimizer, sees the group †")  # fmt: skip
    lines = []
    for case in cases:
        for features, part in read(case, "within").groupby("features", sort=False):
            part = part.set_index("algorithm")
            lines.append(
                {
                    "case": CASES[case], "features": str(features),
                    **{
                        name: f"{part.loc[name, 'within']:.0%}" if name in part.index else ""
                        for name in names
                    },
                }
            )  # fmt: skip
    return lines


def times(cases: list[str]) -> list[dict[str, str]]:
    """Give CPU time of a trial over plain LightGBM's, and of one curve over the paper's draw."""
    names = (*OURS, PAPER, "fairgbm (reference)", "fairlearn EG ‡", "fairlearn GS")
    lines = []
    for case in cases:
        curves = read(case, "one_trial")
        for features, part in read(case, "times").groupby("features", sort=False):
            part = part.set_index("method")["per trial, relative"]
            curve = curves[(curves["features"] == features) & (curves["peer"] == PAPER)]
            lines.append(
                {
                    "case": CASES[case], "features": str(features),
                    **{n: f"{part[n]:.1f}" if n in part.index else "" for n in names},
                    "one curve / the paper's 20 trials": f"{curve['time'].iloc[0]:.2f}",
                    "its lead at alpha .5, .75, .95": ", ".join(
                        f"{v:+.4f}" for v in curve["lead"]
                    ),
                }
            )  # fmt: skip
    return lines


def published(cases: list[str]) -> list[dict[str, str]]:
    """Give test figures of the paper beside ours, in percent."""
    lines = []
    for case in cases:
        if not (FOLDER / case / "published.csv").is_file():
            continue
        for line in read(case, "published").to_dict("records"):
            if line["algorithm"] not in (PAPER, PLAIN, *OURS):
                continue
            entry = {"case": CASES[case], "alpha": f"{line['alpha']:g}", "": line["algorithm"]}
            for name in ("fairness", "performance"):
                for where in ("published", "here"):
                    mean, deviation = line[f"{where} {name}"], line[f"{where} {name} sd"]
                    found = "" if pd.isna(mean) else f"{mean:.1f} ± {deviation:.1f}"
                    entry[f"{name}, {where}"] = found
            lines.append(entry)
    return lines


def markdown(lines: list[dict[str, str]]) -> str:
    """Turn records of text into a table."""
    names = list(lines[0])
    rows = [names, ["---"] * len(names), *([line[n] for n in names] for line in lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def page(cases: list[str]) -> str:
    """All tables."""
    parts = [
        "# The studies in a few tables",
        "Made by `python -m benchmarks.study_summary` from the folders beside this page, whose "
        "`results.md` have everything. Marked peers are left to those pages: † sees the group of "
        "everyone it decides on, ‡ draws lots.",
        "These studies have one to three splits, and the choice of the split moves every gap by "
        "about .01. [The whole trade-off](../../benchmarks/frontier.md) answers the question of "
        "who is ahead at an equal gap better: it compares methods in pairs, on the same splits "
        "and seeds, and has an interval for every difference. This page remains for what that one "
        "does not have: the paper's protocol, searches over the options of LightGBM, and fraud.",
        "## Where we stand",
        "Alphas up to .95 at which 95% of bootstrap draws put us ahead of every peer without a "
        "mark, ahead of none or some of them but behind nobody, or behind someone.",
        markdown(reach(cases)),
        "## Against each peer",
        "Cases, features and alphas .5, .75 and .95 together: how often our weighted test metric "
        "is the larger, and by how much in the mean.",
        markdown(against(cases)),
        "## What is chosen",
        "alpha x performance + (1 - alpha) x fairness on test rows; lead over the best peer, "
        "paired. *error of test rows*: the standard error of that lead that comes from the test "
        "rows being a sample, were the two models independent.",
        markdown(chosen(cases)),
        "## The luck of the split",
        "The gap (second group less first) of one and the same model on test rows, less that on "
        "the validation rows it was chosen by: mean over all models of all methods. What moves "
        "all of them alike is the draw of the rows. A model that is best on validation rows is "
        "off on test rows by that much, and one that is off the other way looks fair.",
        markdown(splits(cases)),
        "## How many configurations come out fair",
        "Share whose gap on test rows is within the tolerance of the study.",
        markdown(within(cases)),
        "## CPU time",
        "Of a trial, in trials of plain LightGBM (a trial of fair stage is a curve of 20 models, "
        "one of EG or GS trains ten); then one such curve against the 20 trials that a draw of "
        "the paper's algorithm takes, and how far that single curve is ahead of them.",
        markdown(times(cases)),
        "## The paper's figures beside ours",
        "Aware, in percent, with the deviation over draws.",
        markdown(published(cases)),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    cases = [case for case in CASES if (FOLDER / case / "reach.csv").is_file()]
    out = FOLDER / "summary.md"
    temporary = out.with_suffix(".tmp")
    temporary.write_text(page(cases), encoding="utf-8")
    temporary.replace(out)
    print(f"{len(cases)} studies in {out}")


if __name__ == "__main__":
    main()
