"""Damaged and tampered model files: each is refused, or scores as the model that was saved.

Files are loaded by a process of their own, with limits on time and memory, so that a crash or a
hang is counted like any other outcome. What is done to file k of a seed depends on nothing else,
so ``python -m tests.fuzz.model_files show SEED K FILE`` writes it out again.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import re
import resource
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.fuzz import workers

SECONDS = 30
"""Time for one file; loading one takes some 10 ms."""
MEMORY = 1_500_000_000
"""Bytes that a worker may take beyond what the engines' libraries take."""

FINE = ("refused", "same scores", "another sound model")
"""What may come of a file."""
NOT_FINE = ("crashed", "hung", "other error", "other scores")
"""What must not."""
DAMAGED, RESEALED, ALL_RESEALED = SEALS = (
    "damaged", "seal of the file remade", "every seal remade by hand",
)  # fmt: skip
"""Whether the seals were left as they were, or the one on the file was made good again, or the one
on what decides as well. Who does the last has made another model, and nothing can tell that it is
not the one that was saved; but it must not end the process, nor go on for ever."""


def campaign(n: int, seed: int) -> dict[str, int]:
    """Try ``n`` files; returns how many had each outcome, such as ``"damaged: refused"``."""
    counts: Counter[str] = Counter()
    for _, seal, what, _ in run(n, seed):
        counts[what if what in NOT_FINE else f"{seal}: {what}"] += 1
    return {**dict.fromkeys(NOT_FINE, 0), **dict(sorted(counts.items()))}


def run(n: int, seed: int) -> list[tuple[int, str, str, str]]:
    """Try ``n`` files; returns number, seal, outcome and detail of each."""
    with tempfile.TemporaryDirectory() as name:
        write_models(Path(name))
        found = workers.outcomes("tests.fuzz.model_files", [name, seed], n, SECONDS)
    return [(k, _seal(k), *what) for k, (what,) in enumerate(found)]


# The models that are damaged
# -----------------------------------------------------------------------


def write_models(folder: Path) -> None:
    """Write models of all kinds, and rows with the scores that each gives them."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from xgboost import XGBClassifier, XGBRegressor

    from fairboost import FairGBMClassifier, FairGBMRegressor, at_fpr, parity

    draw = np.random.default_rng(0)
    n = 400
    X = pd.DataFrame({"a": draw.normal(size=n), "b b": draw.normal(size=n).round(1)})
    X["c"] = pd.Categorical(draw.choice(list("uvwxyz"), n))
    X.loc[::7, "a"] = np.nan
    y = np.where(X.a.fillna(0) + X["b b"] + (X.c.cat.codes > 2) + draw.normal(size=n) > 0.5, 1, 0)
    groups = draw.choice(["f", "m"], n)
    numbers = X[["a", "b b"]].to_numpy()
    light = {"n_estimators": 6, "num_leaves": 6, "verbose": -1, "n_jobs": 1, "random_state": 0}
    small = {**light, "min_child_samples": 5, "min_data_per_group": 5, "cat_smooth": 1.0}
    extreme = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1, "enable_categorical": True}
    kinds: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "lightgbm": (LGBMClassifier(**small), X, {}),
        "linear": (LGBMClassifier(**light, linear_tree=True), numbers, {}),
        "randomized": (LGBMClassifier(**light), numbers, {"iterate": "randomized"}),
        "xgboost": (XGBClassifier(**extreme), X, {"operating_point": at_fpr(0.2)}),
        "dart": (
            XGBClassifier(**extreme, booster="dart", rate_drop=0.5), numbers, {"iterate": "last"},
        ),
    }  # fmt: skip
    relative = {"constraint": parity("prediction", 0.1, relative=True)}
    kinds |= {
        "absolute": (LGBMRegressor(**light, objective="mae"), numbers, {"constraint": None}),
        "poisson": (LGBMRegressor(**small, objective="poisson"), X, {"constraint": "calibrated"}),
        "tweedie": (XGBRegressor(**extreme, objective="reg:tweedie"), X, relative),
        "quantile": (
            XGBRegressor(**extreme, objective="reg:quantileerror", quantile_alpha=0.7), numbers,
            {"constraint": ["equal_distributions", parity("loss", 0.2)], "iterate": "average"},
        ),
    }  # fmt: skip
    years = draw.uniform(0.5, 2.0, n)
    for name, (engine, table, options) in kinds.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if "Regressor" in type(engine).__name__:
                model: Any = FairGBMRegressor(engine, random_state=0, **options)
                claims, exposed = y + draw.gamma(2.0, size=n), name == "poisson"
                given = {"exposure": years} if exposed else {}
                model.fit(table, claims, sensitive_features=groups, **given)
            else:
                model = FairGBMClassifier(engine, random_state=0, **options)
                model.fit(table, np.where(y, "yes", "no"), sensitive_features=groups)
        model.save(folder / f"{name}.json")
        (folder / f"{name}.pickle").write_bytes(pickle.dumps((table, *_answers(model, table))))


def _answers(model: Any, table: Any) -> tuple[Any, ...]:
    if not hasattr(model, "classes_"):
        return (model.predict(table),)
    return model.decision_function(table), model.predict_proba(table), model.predict(table)


# One file
# -----------------------------------------------------------------------


def work(folder: Path, seed: int, start: int, stop: int) -> None:
    """Try files and print what came of each; runs in a process of its own."""
    import lightgbm  # noqa: F401  (before memory is limited)
    import xgboost  # noqa: F401

    import fairboost.model.estimator  # noqa: F401

    warnings.simplefilter("ignore")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what engines print
    for k in range(start, stop):
        file, model = folder / f"tried-{start}.json", _model(folder, seed, k)
        file.write_bytes(mutant(model.read_bytes(), seed, k))
        what, detail = outcome(file, model.with_suffix(".pickle"))
        if what == "other scores" and _seal(k) == ALL_RESEALED:
            what = "another sound model"
        print(json.dumps([(what, detail)]), file=out, flush=True)


def outcome(file: Path, expected: Path) -> tuple[str, str]:
    """What comes of loading a file: what, and a detail."""
    from fairboost import load
    from fairboost.exceptions import ModelFileError

    table, *answers = pickle.loads(expected.read_bytes())
    try:
        model = load(file)
    except ModelFileError as error:
        return "refused", str(error)[-200:]
    except Exception as error:
        return "other error", f"loading: {error!r}"[:300]
    try:
        found = _answers(model, table)
        str(model.fairness_report_)
    except Exception as error:
        return "other error", f"use: {error!r}"[:300]
    if len(answers) != len(found):
        return "other scores", "labels for numbers, or numbers for labels"
    for a, b in zip(answers, found, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return "other scores", "other labels"
        if a.dtype.kind != "f":
            if (a != b).any():
                return "other scores", "other labels"
        elif not np.allclose(a, b, rtol=1e-6, atol=1e-6, equal_nan=True):
            return "other scores", f"by {np.max(np.abs(a - b))}"
    return "same scores", ""


def _seal(k: int) -> str:
    return SEALS[k % 3]


def _model(folder: Path, seed: int, k: int) -> Path:
    return random.Random(f"{seed} {k} model").choice(sorted(folder.glob("[a-z]*[a-z].json")))


def mutant(sound: bytes, seed: int, k: int) -> bytes:
    """The file, changed."""
    draw = random.Random(f"{seed} {k}")
    times = draw.choice((1, 1, 1, 2, 5))
    if _seal(k) == DAMAGED:
        for _ in range(times):
            sound = _damage(sound, draw)
        return sound
    from fairboost._files import checksum
    from fairboost.model.files import DECIDING

    document = json.loads(sound)
    for _ in range(times):
        _tamper(document["model"], draw)
    model, test = document["model"], document["model"].get("self_test")
    if _seal(k) == ALL_RESEALED and isinstance(test, dict):
        test["sha256"] = checksum({name: model.get(name) for name in DECIDING})
    document["sha256"] = checksum(model)
    return _written(document).encode()


DEEP, LONG = "deep!", "long!"


def _written(document: Any) -> str:
    """JSON, with what no writer would write."""
    text = json.dumps(document).replace(json.dumps(LONG), "9" * 5_000)
    return text.replace(json.dumps(DEEP), "[" * 100_000 + "]" * 100_000)


def _damage(text: bytes, draw: random.Random) -> bytes:
    """Bytes as a disk, a cable or an editor may leave them."""
    at, length = draw.randrange(len(text) + 1), draw.choice((1, 1, 2, 10, 1000))
    part = text[at : at + length]
    return draw.choice(
        (
            lambda: text[:at],
            lambda: text[:at] + text[at + length :],
            lambda: text[:at] + part + text[at:],
            lambda: text[:at] + draw.randbytes(length) + text[at + length :],
            lambda: (
                text[:at] + bytes(b ^ (1 << draw.randrange(8)) for b in part[:1]) + text[at + 1 :]
            ),
            lambda: text[:at] + b"%d" % draw.randrange(10) + text[at + 1 :],
            lambda: text[:at] + draw.choice((b"[", b'{"a":')) * 100_000 + text[at:],
            lambda: text[:at] + b"9" * 5_000 + text[at:],
            lambda: text.replace(b'"', b'"' + b"9" * draw.choice((1, 5_000)), 1),
            lambda: text[:at] + b" " * length + text[at:],
            lambda: text + part,
        )
    )()


def _tamper(content: dict[str, Any], draw: random.Random) -> None:
    """Change a value of the content; half of the time one of the booster."""
    lines = content.get("booster")
    if draw.random() < 0.5 or not isinstance(lines, list) or not all(map(_is_text, lines)):
        _change_some_value(content, draw)
    elif content.get("engine") == "lightgbm":
        _change_text(lines, draw)
        if draw.random() < 0.8:
            content["booster"] = _with_sizes("\n".join(lines)).split("\n")
    else:
        text = "\n".join(lines)
        try:
            booster = json.loads(text)
            _change_some_value(booster, draw)
        except (ValueError, RecursionError):  # after another change
            return
        if draw.random() < 0.2:
            text = _damage(_bytes(text), draw).decode("utf-8", "replace")
        else:
            text = _written(booster)
        content["booster"] = text.split("\n")


def _bytes(text: str) -> bytes:
    """Text as bytes, whatever an earlier change has left in it."""
    return text.encode("utf-8", "surrogatepass")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _change_text(lines: list[str], draw: random.Random) -> None:
    """Change LightGBM's text."""
    end = lines.index("end of trees") if "end of trees" in lines else len(lines)
    at = draw.randrange(end if draw.random() < 0.9 else len(lines)) if end else 0
    key, equals, values = lines[at].partition("=")
    tokens = values.split(" ")
    place = draw.randrange(len(tokens))
    choice = draw.randrange(12)
    if choice == 0:
        del lines[at]
    elif choice == 1:
        lines.insert(at, draw.choice(lines))
    elif choice == 2:
        other = draw.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif choice == 3:
        lines[at] = _damage(_bytes(lines[at]), draw).decode("utf-8", "replace")
    else:
        if choice == 4:
            del tokens[place]
        elif choice == 5:
            tokens.insert(place, draw.choice(tokens))
        elif choice == 6:
            other = draw.randrange(len(tokens))
            tokens[place], tokens[other] = tokens[other], tokens[place]
        else:
            tokens[place] = str(_value(tokens[place], draw))
        lines[at] = key + equals + " ".join(tokens)


def _with_sizes(text: str) -> str:
    """The text of a LightGBM model with the sizes of its trees made good again."""
    trees = re.split(r"(?m)^(?=Tree=)", text.partition("end of trees\n")[0])[1:]
    sizes = " ".join(str(len(tree.encode("utf-8", "replace"))) for tree in trees)
    return re.sub(r"(?m)^tree_sizes=.*$", f"tree_sizes={sizes}", text)


def _change_some_value(document: Any, draw: random.Random) -> None:
    """Change a value somewhere within nested lists and objects, the deeper the likelier."""
    places = list(_places(document))
    inside, key = draw.choice(places)
    choice = draw.randrange(10)
    if choice == 0:
        del inside[key]
    elif choice == 1 and isinstance(inside, list):
        inside.insert(key, inside[draw.randrange(len(inside))])
    elif choice == 2:
        other, name = draw.choice(places)
        inside[key], other[name] = other[name], inside[key]
    elif choice == 3 and isinstance(inside, list):
        inside.reverse()
    else:
        inside[key] = _value(inside[key], draw)


def _places(document: Any) -> Any:
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(items):
        yield document, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _value(old: Any, draw: random.Random) -> Any:
    """Another value: a little off, or out of all bounds, or of another kind."""
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        number = float(old)
        if draw.random() < 0.4:
            near: Any = draw.choice(
                (number + 1, number - 1, -number, number * 2, number * 1e3, number + 1e-3)
            )
            near = int(near) if number == int(number) else near
            return str(near) if isinstance(old, str) else near
    return draw.choice(
        (
            None, True, False, -1, 0, 1, 2, 31, 32, 33, 255, 3_000_000, 2**31 - 1, 2**31, 2**32,
            2**63, -(2**31), 1e308, -1e308, 1e-320, 1e39, 0.5, "", "x", "1", "-1", "nan", "inf",
            "1e400", "0x10", "\u0664", "a b", "a\nb", "a\0b", "\ud800", "9" * 400, "x" * 10_000,
            [], {}, [1], [[]], {"a": 1}, {"items": 3}, {"float": "x"}, {"tuple": 1}, LONG, DEEP,
        )
    )  # fmt: skip


if __name__ == "__main__":
    task, *rest = sys.argv[1:]
    if task == "work":
        work(Path(rest[0]), *map(int, rest[1:]))
    elif task == "show":
        with tempfile.TemporaryDirectory() as name:
            write_models(Path(name))
            seed, k = map(int, rest[:2])
            chosen = _model(Path(name), seed, k)
            Path(rest[2]).write_bytes(mutant(chosen.read_bytes(), seed, k))
            Path(rest[2]).with_suffix(".pickle").write_bytes(
                chosen.with_suffix(".pickle").read_bytes()
            )
            print(chosen.name)
    else:
        for line in run(int(rest[0]), int(rest[1])):
            if line[2] not in FINE:
                print(*line)
