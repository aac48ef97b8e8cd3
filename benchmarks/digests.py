"""Digests of many fits: proof that a change of the code changes no result, to the bit.

``python -m benchmarks.digests --write before.json`` on the code as it was, and then, on the same
machine with the same libraries, ``python -m benchmarks.digests --compare before.json`` on the code
as it is. Only public names are used, so one file serves both. Engines get a fixed number of
threads and a fixed way to build histograms: LightGBM otherwise chooses one by a race.

Each fit is summed up by digests of its scores, threshold, multipliers, trace, fairness report (as
data and as text), saved file and exported file; each document by a digest of its text.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, early_stopping
from sklearn.frozen import FrozenEstimator
from xgboost import XGBClassifier

from fairboost import (
    FairGBMClassifier,
    at_fpr,
    at_positive_rate,
    at_tpr,
    bound,
    metrics,
    parity,
    tradeoff_curve,
    tune,
)
from fairboost.datasets import make_loans

LOANS, NEW, LARGE = make_loans(3_000, seed=0), make_loans(1_500, seed=1), make_loans(70_000)
FEATURES = [c for c in LOANS.X.columns if pd.api.types.is_numeric_dtype(LOANS.X[c])]
WEIGHT = np.random.default_rng(3).uniform(0.5, 2.0, 3_000)


def lightgbm(**options: Any) -> LGBMClassifier:
    """A small LightGBM whose results can be repeated."""
    fixed = {"n_estimators": 30, "num_leaves": 15, "n_jobs": 1, "verbose": -1, "random_state": 0}
    return LGBMClassifier(**{**fixed, "force_col_wise": True, **options})


def xgboost(**options: Any) -> XGBClassifier:
    """A small XGBoost whose results can be repeated."""
    fixed = {"n_estimators": 30, "max_depth": 4, "n_jobs": 1, "random_state": 0}
    return XGBClassifier(**{**fixed, "learning_rate": 0.2, **options})


ENGINES: dict[str, Callable[..., Any]] = {"lightgbm": lightgbm, "xgboost": xgboost}
POINTS = {"fpr": at_fpr(0.1), "tpr": at_tpr(0.7), "budget": at_positive_rate(0.2), "p": 0.3}


class WorstGroup:
    """A constraint of a user's own: the largest rate at most 0.35."""

    rates = ("fnr", "fpr")
    by = None
    name = "worst"

    def violations(self, rates: Any) -> np.ndarray:
        """The rate of each group, less the limit."""
        return rates.values.max(axis=1) - 0.35

    def pullback(self, rates: Any, multipliers: np.ndarray) -> np.ndarray:
        """All of the weight on the worst group."""
        out = np.zeros_like(rates.values)
        out[np.arange(len(out)), rates.values.argmax(axis=1)] = multipliers
        return out


def model(engine: Any, **options: Any) -> FairGBMClassifier:
    """A model by what most cases share."""
    shared = {"constraint": "equal_opportunity", "tolerance": 0.02, "random_state": 0}
    return FairGBMClassifier(engine, **{**shared, **options})


def fit(made: FairGBMClassifier, rows: Any = LOANS, by: str = "sex", **options: Any) -> Any:
    """Train on the numeric features of some rows."""
    groups = rows.sensitive if by == "all" else rows.sensitive[by]
    return made.fit(rows.X[FEATURES], rows.y, sensitive_features=groups, **options)


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names of fits, and what makes them."""
    later = NEW.X[FEATURES], NEW.y, NEW.sensitive["sex"]
    for name, make in ENGINES.items():
        yield from _holdouts_and_iterates(name, make, later)
        for where, point in POINTS.items():
            for holdout in (0.3, "cross"):
                yield (
                    f"{name}, {where}, holdout {holdout}",
                    lambda p=point, h=holdout, m=make: fit(
                        model(m(), operating_point=p, holdout=h)
                    ),
                )
        yield from _constraints(name, make)
        yield from _memberships_and_stages(name, make, later)
        yield from _paper(name, make)
        yield from _engine_options(name, make)
    yield from _forms_of_tables()


def _holdouts_and_iterates(name: str, make: Any, later: Any) -> Iterator[Any]:
    for holdout in ("auto", 0.2, "cross", None):
        yield f"{name}, holdout {holdout}", lambda h=holdout: fit(model(make(), holdout=h))
    for holdout in ("auto", 0.2):
        for point in (0.5, at_fpr(0.1)):
            yield (
                f"{name}, holdout set and {holdout} at {point}",
                lambda h=holdout, p=point: fit(
                    model(make(), holdout=h, operating_point=p), holdout_set=later
                ),
            )
    for iterate in ("last", "average", "randomized"):
        for point in (0.5, at_fpr(0.1)):
            yield (
                f"{name}, iterate {iterate} at {point}",
                lambda i=iterate, p=point: fit(
                    model(make(), holdout=0.2, iterate=i, operating_point=p)
                ),
            )
    yield f"{name}, average, cross", lambda: fit(model(make(), holdout="cross", iterate="average"))


def _constraints(name: str, make: Any) -> Iterator[Any]:
    wanted = {
        "demographic parity": "demographic_parity",
        "predictive equality": "predictive_equality",
        "equalized odds": "equalized_odds",
        "none": None,
        "crossed": parity("fnr", 0.05, by=("sex", "age_band")),
        "bound": [parity("fpr", 0.02, by="sex"), bound("fnr", 0.4), bound("ppr", 0.6)],
        "bound of a group": bound("fnr", 0.3, group={"sex": LOANS.sensitive["sex"].iloc[0]}),
        "custom": WorstGroup(),
    }
    for what, constraint in wanted.items():
        tolerance = 0.02 if isinstance(constraint, str) else None
        for holdout in (0.3, "cross"):
            yield (
                f"{name}, {what}, holdout {holdout}",
                lambda c=constraint, h=holdout, t=tolerance: fit(
                    model(make(), constraint=c, holdout=h, tolerance=t), by="all"
                ),
            )
    yield (
        f"{name}, confidence",
        lambda: fit(model(make(), confidence=0.9, tolerance=0.1, holdout=0.3)),
    )
    yield (
        f"{name}, weights",
        lambda: fit(model(make(), constraint="equalized_odds"), sample_weight=WEIGHT),
    )
    yield (
        f"{name}, weights, holdout .3 at a point",
        lambda: fit(model(make(), holdout=0.3, operating_point=at_fpr(0.1)), sample_weight=WEIGHT),
    )


def _memberships_and_stages(name: str, make: Any, later: Any) -> Iterator[Any]:
    for memberships in ("honest", "observed"):
        for holdout in (0.3, "cross"):
            yield (
                f"{name}, memberships {memberships}, holdout {holdout}",
                lambda h=holdout, m=memberships: fit(model(make(), memberships=m, holdout=h)),
            )
    for proxy in ("cross_entropy", "hinge", "squared"):
        yield (
            f"{name}, memberships honest, proxy {proxy}",
            lambda p=proxy: fit(model(make(), memberships="honest", proxy=p, holdout=0.3)),
        )
    base = FrozenEstimator(make(n_estimators=15).fit(LOANS.X[FEATURES], LOANS.y))
    for holdout in (0.3, "cross", None):
        yield f"{name}, stage, holdout {holdout}", lambda h=holdout: fit(model(base, holdout=h))
    yield (
        f"{name}, stage at a point",
        lambda: fit(model(base, holdout=0.3, operating_point=at_tpr(0.7)), holdout_set=later),
    )


def _paper(name: str, make: Any) -> Iterator[Any]:
    for proxy in ("cross_entropy", "hinge", "squared", "sigmoid"):
        yield (
            f"{name}, paper, {proxy}",
            lambda p=proxy: fit(
                FairGBMClassifier.paper(make(), constraint="equalized_odds", proxy=p), by="all"
            ),
        )
    yield (
        f"{name}, paper, randomized",
        lambda: fit(FairGBMClassifier.paper(make(), iterate="randomized", random_state=1)),
    )
    yield (
        f"{name}, paper's multipliers held out",
        lambda: fit(model(make(), multipliers="paper", holdout=0.3, operating_point=0.4)),
    )
    yield (
        f"{name}, paper's multipliers cross-fitted",
        lambda: fit(model(make(), multipliers="paper", holdout="cross")),
    )


def _engine_options(name: str, make: Any) -> Iterator[Any]:
    yield (
        f"{name}, scale_pos_weight",
        lambda: fit(model(make(scale_pos_weight=3.0), holdout=0.3)),
    )
    yield (
        f"{name}, rows drawn",
        lambda: fit(
            model(
                make(subsample=0.7, subsample_freq=1)
                if name == "lightgbm"
                else make(subsample=0.7)
            )
        ),
    )
    dart = {"boosting_type": "dart"} if name == "lightgbm" else {"booster": "dart"}
    yield f"{name}, dart", lambda: fit(model(make(**dart), iterate="last", holdout=0.3))
    for threads in (1, 2):
        yield (
            f"{name}, 70,000 rows, {threads} threads",
            lambda t=threads: fit(model(make(n_jobs=t), holdout=0.2), LARGE),
        )
        yield (
            f"{name}, 70,000 rows, {threads} threads, paper",
            lambda t=threads: fit(
                FairGBMClassifier.paper(make(n_jobs=t), constraint="equalized_odds"), LARGE
            ),
        )
    yield (
        f"{name}, 70,000 rows, memberships",
        lambda: fit(
            model(make(n_jobs=2), memberships="honest", proxy="hinge", holdout=0.2), LARGE
        ),
    )


def _forms_of_tables() -> Iterator[Any]:
    def early() -> Any:
        return fit(
            model(lightgbm(n_estimators=60), holdout=0.3),
            eval_set=[(NEW.X[FEATURES], NEW.y)],
            callbacks=[early_stopping(5, verbose=False)],
        )

    def categories(engine: Any, **asked: Any) -> Any:
        made = model(engine, **asked)
        groups = LOANS.sensitive.assign(sex=LOANS.sensitive["sex"].mask(WEIGHT > 1.9))
        return made.fit(LOANS.X, LOANS.y, sensitive_features=groups)

    yield "early stopping", early
    yield "categories and missing groups", lambda: categories(lightgbm(), holdout=0.3)
    for asked in ({"holdout": 0.3}, {"holdout": "cross"}, {"memberships": "honest"}):
        yield (
            f"xgboost, categories, {asked}",
            lambda a=asked: categories(xgboost(enable_categorical=True), **a),
        )
    for name, make in ENGINES.items():
        yield f"{name}, curve", lambda m=make: _curve(m(), 0.3)
        yield f"{name}, curve, cross", lambda m=make: _curve(m(), "cross")
    yield "tune", _tune


def _curve(engine: Any, holdout: Any) -> Any:
    return tradeoff_curve(
        engine, LOANS.X[FEATURES], LOANS.y, sensitive_features=LOANS.sensitive["sex"],
        constraint="equalized_odds", tolerances=4, holdout=holdout, random_state=0,
    )  # fmt: skip


def _tune() -> Any:
    return tune(
        lightgbm(), LOANS.X[FEATURES], LOANS.y, sensitive_features=LOANS.sensitive["sex"],
        n_trials=2, random_state=0,
    )  # fmt: skip


def on_dask() -> dict[str, dict[str, str]]:
    """Fits on a cluster of two processes."""
    import dask
    import dask.dataframe as dd
    from distributed import Client, LocalCluster
    from xgboost.dask import DaskXGBClassifier

    table = LOANS.X[FEATURES].assign(y=LOANS.y, sex=LOANS.sensitive["sex"], w=WEIGHT)
    options = {"n_estimators": 20, "max_depth": 3, "random_state": 0}
    out = {}
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        addresses = sorted(client.nthreads())
        halves = [table.iloc[:1_400], table.iloc[1_400:]]
        lazy = [
            client.persist(
                dd.from_delayed([dask.delayed(half)], meta=half.iloc[:0]), workers=[address]
            )
            for half, address in zip(halves, addresses, strict=True)
        ]
        rows = dd.concat(lazy)
        for name, asked, weighted in (
            ("default", {}, False),
            ("at a point, weighted", {"operating_point": at_fpr(0.1)}, True),
            ("holdout none", {"holdout": None}, False),
            ("paper", {"multipliers": "paper", "proxy": "cross_entropy"}, False),
            ("odds, last", {"constraint": "equalized_odds", "iterate": "last"}, True),
        ):
            made = model(DaskXGBClassifier(**options), **asked).fit(
                rows[FEATURES],
                rows["y"],
                sensitive_features=rows["sex"],
                sample_weight=rows["w"] if weighted else None,
            )
            out[f"dask, {name}"] = of_model(made)
    return out


def digest(value: Any) -> str:
    """A short digest of an array, a table, or anything that JSON takes."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        data = np.ascontiguousarray(value).tobytes()
    elif isinstance(value, pd.DataFrame):
        data = (repr(list(value.columns)) + value.to_json(double_precision=15)).encode()
    elif isinstance(value, bytes):
        data = value
    else:
        data = json.dumps(value, default=repr, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def of_model(made: FairGBMClassifier) -> dict[str, str]:
    """Digests of everything that a fit leaves."""
    X = NEW.X[made.feature_names_in_]
    parts: dict[str, Any] = {
        "scores": made.decision_function(X),
        "decisions": made.predict(X).astype(str).tolist(),
        "threshold": repr(made.threshold_),
        "multipliers": [made.multipliers_.index.tolist(), made.multipliers_.to_numpy().tolist()],
        "trace": [list(made.trace_.columns), made.trace_.to_numpy(np.float64).tobytes().hex()],
        "rounds": made.best_iteration_,
    }
    if made.fairness_report_ is not None:
        parts["report"] = made.fairness_report_.to_dict()
        parts["report text"] = str(made.fairness_report_)
        if made.constraint is not None and not isinstance(made.constraint, WorstGroup):
            judged = made.report_on(X, NEW.y, sensitive_features=NEW.sensitive)
            parts["test report"] = judged.to_dict()
    with tempfile.TemporaryDirectory() as folder:
        if not isinstance(made.constraint, WorstGroup):
            made.save(f"{folder}/model.json")
            parts["file"] = Path(f"{folder}/model.json").read_bytes()
        if made.iterate != "randomized":
            ending = "txt" if "lightgbm" in type(made.booster_).__module__ else "json"
            made.export(f"{folder}/stock.{ending}")
            parts["export"] = Path(f"{folder}/stock.{ending}").read_bytes()
    return {name: digest(value) for name, value in parts.items()}


def of_result(made: Any) -> dict[str, str]:
    """Digests of a model, a curve or a search."""
    if isinstance(made, FairGBMClassifier):
        return of_model(made)
    if hasattr(made, "models"):
        found = {
            f"model {k}: {p}": d for k, m in enumerate(made.models) for p, d in of_model(m).items()
        }
        return {"table": digest(made.table), **found}
    timeless = made.table.drop(columns=[c for c in made.table if "second" in c or "time" in c])
    return {"table": digest(timeless)}


def documents() -> dict[str, dict[str, str]]:
    """Metrics, reports and what the command line writes."""
    from fairboost.report import gather, to_html, to_markdown

    out: dict[str, dict[str, str]] = {}
    proba = fit(model(lightgbm(), holdout=0.3)).predict_proba(NEW.X[FEATURES])[:, 1]
    found = metrics.audit(NEW.y, proba, sensitive_features=NEW.sensitive)
    out["audit"] = {
        name: digest(value)
        for name, value in vars(found).items()
        if isinstance(value, pd.DataFrame | str | float | tuple)
    }
    curve = _curve(lightgbm(), 0.3)
    chosen = curve.best()
    evidence = gather(
        chosen, NEW.X[FEATURES], NEW.y, sensitive_features=NEW.sensitive["sex"], curve=curve,
        train=(LOANS.X[FEATURES], LOANS.y, LOANS.sensitive["sex"]),
    )  # fmt: skip
    out["report"] = {"markdown": digest(to_markdown(evidence))}
    html = to_html(evidence)
    out["report"]["html"] = digest(html if isinstance(html, bytes) else html.encode())
    with tempfile.TemporaryDirectory() as folder:
        out |= _commands(Path(folder))
    return out


def _commands(folder: Path) -> dict[str, dict[str, str]]:
    table = LOANS.X.assign(**LOANS.sensitive, approved=np.where(LOANS.y, "yes", "no"))
    table.to_csv(folder / "loans.csv", index=False)
    new = NEW.X.assign(**NEW.sensitive, approved=np.where(NEW.y, "yes", "no"))
    new.to_csv(folder / "new.csv", index=False)
    scores = np.random.default_rng(5).random(len(new)).round(3) * 0.5 + NEW.y * 0.3
    new.assign(score=scores).to_csv(folder / "scores.csv", index=False)
    trained = [
        "train", "loans.csv", "--label", "approved", "--positive", "yes", "--sensitive", "sex",
        "--sensitive", "age_band", "--constraint", "equal_opportunity", "--tolerance", "0.05",
        "--out", "model",
    ]  # fmt: skip
    lines = {
        "train": trained,
        "predict": ["predict", "model", "new.csv", "--out", "scored.csv"],
        "audit": ["audit", "scores.csv", "--label", "approved", "--positive", "yes",
                  "--score", "score", "--sensitive", "sex", "--out", "audited"],
        "help": ["--help"],
        "train --help": ["train", "--help"],
        "audit --help": ["audit", "--help"],
        "compare": ["compare", *trained[1:-2]],
        "bad": ["train", "nowhere.csv", "--label", "a", "--out", "b"],
    }  # fmt: skip
    out = {}
    for name, words in lines.items():
        done = subprocess.run(
            [sys.executable, "-m", "fairboost.cli", *words], cwd=folder, capture_output=True,
            env={**__import__("os").environ, "COLUMNS": "99", "OMP_NUM_THREADS": "1"}, text=True,
        )  # fmt: skip
        out[f"fairboost {name}"] = {"exit": str(done.returncode), "stdout": digest(done.stdout)}
        if done.returncode:
            out[f"fairboost {name}"]["stderr"] = digest(done.stderr)
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".json", ".txt", ".csv")):
        out["fairboost train"][str(path.relative_to(folder))] = digest(path.read_bytes())
    return out


def collect(only: str) -> dict[str, dict[str, str]]:
    """Run all cases whose name has a text in it."""
    out: dict[str, dict[str, str]] = {}
    todo = [(name, make) for name, make in cases() if only in name]
    started = time.monotonic()
    for k, (name, make) in enumerate(todo, 1):
        print(f"\r{k} of {len(todo)}, {time.monotonic() - started:.0f} s", end="", file=sys.stderr)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            out[name] = of_result(make())
        # The text of a warning is a result too.
        said = sorted(str(w.message) for w in caught if w.category.__module__.startswith("fair"))
        out[name]["warnings"] = digest(said)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if only in "dask":
            out |= on_dask()
        if only in "documents":
            out |= documents()
    print(file=sys.stderr)
    return out


def main() -> None:
    """Write digests, or compare with some."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--compare", type=Path, metavar="FILE")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their name")
    asked = parser.parse_args()
    found = collect(asked.only)
    if asked.write:
        asked.write.write_text(json.dumps(found, indent=1))
    if asked.compare:
        before = json.loads(asked.compare.read_text())
        differ = {
            name: sorted(
                p
                for p in {*parts, *before.get(name, {})}
                if parts.get(p) != before.get(name, {}).get(p)
            )
            for name, parts in found.items()
        }
        differ = {name: parts for name, parts in differ.items() if parts}
        for name, parts in differ.items():
            print(f"{name}: {', '.join(parts)}")
        print(f"{len(found) - len(differ)} of {len(found)} equal to the bit")
        sys.exit(bool(differ))


if __name__ == "__main__":
    main()
