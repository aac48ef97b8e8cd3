"""Some fits judged on fresh rows; ``make fuzz`` tries as many as are asked for."""

from collections import Counter

import pytest

from fairboost import FairGBMClassifier
from tests.fuzz import fresh, workers

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_reports_on_fresh_rows_are_those_of_predict():
    found = Counter()
    for k in range(12):
        for what, why in fresh.outcomes(0, k):
            assert what.endswith(fresh.FINE), (k, what, why)
            found[what.split(":")[0]] += 1
    assert found["verdicts on held out"] == found["verdicts on test"] >= 8
    assert found["weights for repeated rows"] >= 1


def test_what_does_not_hold_is_found(monkeypatch):
    """A model that predicts otherwise than it is reported on."""
    told = FairGBMClassifier.predict
    monkeypatch.setattr(FairGBMClassifier, "predict", lambda self, X: 1 - told(self, X).clip(0, 1))
    assert ("broken",) in {tuple(what for what, _ in fresh.outcomes(0, k)) for k in range(8)}


def test_more_wrong_verdicts_than_chance_allows_are_an_outcome(monkeypatch):
    def found(wrong):
        verdicts = ["right"] * 95 + ["wrong"] * wrong
        cases = [[(f"verdicts on test: certain, {v}", "")] for v in verdicts]
        monkeypatch.setattr(workers, "outcomes", lambda *asked: cases)
        return fresh.campaign(len(cases), 0)

    assert not any(fresh.SWITCHED in what for what in found(5))
    assert any(fresh.SWITCHED in what for what in found(25))
