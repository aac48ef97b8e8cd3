"""Ctrl-C that arrives while an engine calls back is not lost."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager

import lightgbm
import pytest

from fairboost import FairGBMClassifier, tradeoff_curve
from fairboost.engines.signals import heeding_signals
from tests.kinds import KINDS


@pytest.fixture(autouse=True)
def ctrl_c():
    """Ctrl-C as Python has it, whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Logger:
    """Is interrupted at the first line; LightGBM calls it from compiled code."""

    def __init__(self):
        self.lines = []

    def info(self, line):
        self.lines.append(line)
        if len(self.lines) == 1:
            signal.raise_signal(signal.SIGINT)

    warning = info


@contextmanager
def interrupted_at_the_first_line():
    before = lightgbm.basic._LOGGER
    lightgbm.register_logger(Logger())
    try:
        yield
    finally:
        lightgbm.basic._LOGGER = before


FITS = {
    "fit": lambda engine, toy: FairGBMClassifier(engine, holdout=0.3, memberships="observed").fit(
        toy.X, toy.y, sensitive_features=toy.group
    ),
    "curve": lambda engine, toy: tradeoff_curve(
        engine, toy.X, toy.y, sensitive_features=toy.group, constraint="equal_opportunity",
        tolerances=[0.05],
    ),
}  # fmt: skip


@pytest.mark.parametrize("fit", FITS)
def test_in_a_line_that_lightgbm_logs(toy, fit):
    with interrupted_at_the_first_line(), pytest.raises(KeyboardInterrupt):
        FITS[fit](KINDS["lightgbm"].make(verbose=1), toy)


def test_no_round_is_trained_after_it(toy):
    rounds = []
    model = FairGBMClassifier(KINDS["lightgbm"].make(verbose=1), constraint=None)
    with interrupted_at_the_first_line(), pytest.raises(KeyboardInterrupt):
        model.fit(toy.X, toy.y, callbacks=[lambda env: rounds.append(env.iteration)])
    assert not rounds


@pytest.mark.parametrize("fit", FITS)
def test_in_rows_that_xgboost_asks_for(toy, fit, monkeypatch):
    """It took the rows that it had by then for all there are."""
    pytest.importorskip("xgboost")
    from fairboost.engines.xgboost import batches

    pick, calls = batches.pick, []

    def interrupted(X, rows):
        calls.append(rows)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return pick(X, rows)

    monkeypatch.setattr(batches, "pick", interrupted)
    monkeypatch.setattr(batches, "PIECE", 100)
    with pytest.raises(KeyboardInterrupt):
        FITS[fit](KINDS["xgboost"].make(), toy)


def test_what_no_signal_has_raised_is_left_to_python(monkeypatch):
    seen = []

    class Clumsy:
        def __del__(self):
            raise ValueError("not now")

    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: seen.append(dropped.exc_type))
    hook = sys.unraisablehook
    with heeding_signals():
        Clumsy()
    assert seen == [ValueError] and sys.unraisablehook is hook
