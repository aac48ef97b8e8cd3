"""Some random audits and periods; ``make fuzz`` tries as many as are asked for."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.fuzz import audits


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_each_is_as_by_hand():
    found = Counter()
    for k in range(60):
        what, why = audits.outcome(0, k)
        assert what.endswith(audits.FINE), (k, what, why)
        found[what] += 1
    for kind in audits.KINDS:
        assert found[f"{kind}: as by hand"] >= 5
    assert found["two labels: refused"] and found["periods: refused"]


def test_a_process_of_its_own_says_the_same():
    assert sum(audits.campaign(3, seed=0).values()) == 3


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "table", "column"),
    [
        ("audit", "rates", "value"), ("audit", "rates", "low"), ("audit", "gaps", "ratio"),
        ("audit_classes", "rates", "rows"), ("audit_classes", "gaps", "gap"),
        ("audit_numbers", "by_group", "a_over_e"), ("audit_numbers", "gaps", "value"),
    ],
)  # fmt: skip
def test_the_harness_can_tell(monkeypatch, name, table, column):
    """What it looks for it finds: figures that are off a little."""
    told = getattr(audits, name)

    def off(*args, **kwargs):
        found = told(*args, **kwargs)
        lines = getattr(found, table)
        return replace(found, **{table: lines.assign(**{column: lines[column] + 1e-3})})

    monkeypatch.setattr(audits, name, off)
    kind = {"audit": "two labels", "audit_classes": "classes"}.get(name, "numbers")
    found = {audits.outcome(0, k)[0] for k in range(12)}
    assert f"{kind}: wrong" in found and f"{kind}: as by hand" not in found


def test_an_order_that_is_not_that_of_time_is_found(monkeypatch):
    monkeypatch.setattr(audits, "in_order", lambda names, column: sorted(range(len(names))))
    assert "periods: wrong" in {audits.outcome(0, k)[0] for k in range(20)}
