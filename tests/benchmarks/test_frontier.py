"""Comparisons at equal gap are what they say; a run goes on where it ended."""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
import pytest

from benchmarks import frontier
from benchmarks.frontier import Data, Split, read_results, run
from benchmarks.frontier_page import Key, interval, lines, mean_leads, page, verdict

CASE = ("d", "blind", "demographic_parity")


def results(seeds=3):
    """Fairboost loses 0.1 of accuracy per unit of gap; a peer is 0.002 better in every seed."""
    out = {}
    for seed in range(seeds):
        top = 0.9 + 0.01 * seed
        for tolerance, gap in ((0.01, 0.01), (0.05, 0.05), (1.0, 0.2)):
            method = "fairboost" if tolerance < 1 else "plain"
            figures = {"gap": gap, "accuracy": top - 0.1 * (0.2 - gap)}
            out[Key(*CASE, method, tolerance, seed)] = figures
        gap = 0.03 + 0.001 * seed
        figures = {"gap": gap, "accuracy": top - 0.1 * (0.2 - gap) + 0.002 + 1e-5 * seed}
        out[Key(*CASE, "linear", 0.03, seed)] = figures
        low = {"gap": 0.001, "accuracy": 0.5}
        out[Key(*CASE, "EG", 0.01, seed)] = low
    return out


def test_accuracy_is_compared_at_the_gap_of_the_peer():
    linear, reductions = lines(results(), CASE)
    np.testing.assert_allclose(linear.lead, -0.002 - 1e-5 * np.arange(3), atol=1e-12)
    assert (linear.below, verdict(linear.lead)) == (0, "behind")
    # A peer with a gap that fairboost does not reach is not behind, however inaccurate it is.
    assert (reductions.below, verdict(reductions.lead)) == (3, "not reached")


def test_seeds_that_lack_a_tolerance_do_not_count():
    found = results()
    del found[Key(*CASE, "fairboost", 0.05, 1)]
    found[Key(*CASE, "EG", 0.01, 2)]["gap"] = 0.04
    linear, reductions = lines(found, CASE)
    assert (linear.seeds, reductions.seeds) == ([0, 2], [2])
    both = [linear.lead[0], (linear.lead[1] + reductions.lead[0]) / 2]
    np.testing.assert_allclose(mean_leads([linear, reductions]), both)


def test_the_interval_of_a_mean():
    assert interval(np.array([1.0])) == np.inf
    assert interval(np.array([0.0, 2.0])) == pytest.approx(12.706, abs=1e-3)
    assert verdict(np.array([-0.1, 0.2])) == "even"


def test_the_page_has_every_case():
    text = page(results(), {"d": "Data", "absent": "None"}, {"d": "d.png"})
    assert "### blind, demographic parity (3 seeds)" in text and "absent" not in text
    words = " ".join(text.split())
    assert "| d, blind, demographic parity | linear post-processing | 0 | 0 | 1 | 0 |" in words


def read(seed):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, 1_500)
    X = pd.DataFrame(rng.normal(size=(1_500, 3)) + 0.5 * s[:, None], columns=list("abc"))
    return X, (X["a"] + rng.logistic(size=1_500) > 0.3).to_numpy(np.int8), pd.Series(s)


def test_a_run_keeps_every_fit_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(frontier, "all_data", lambda all_rows: {"small": Data("S", read, 0.6, 2)})
    options = argparse.Namespace(
        results=tmp_path / "r.jsonl", case=["small/*/demographic_parity"], seeds=1, n_jobs=1,
        methods=["plain", "linear", "linear_aware"], all_rows=False, again=False,
    )  # fmt: skip
    assert run(options) == 0
    found = read_results(options.results)
    assert len(found) == 2 + 5 + 5
    assert {key.features for key in found if key.method == "linear_aware"} == {"aware"}
    assert run(options) == 0 and len(options.results.read_text().splitlines()) == 12
    key = Key("small", "blind", "demographic_parity", "plain", 1.0, 0)
    again = Split(Data("S", read, 0.6, 2), "blind", 0, 1).figures(*key[2:5])
    assert again["accuracy"] == found[key]["accuracy"]
