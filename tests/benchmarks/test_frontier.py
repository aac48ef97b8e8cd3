"""Comparisons at equal gap are what they say; a run goes on where it ended."""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
import pytest

from benchmarks import frontier
from benchmarks.frontier import Data, Split, read_results, run
from benchmarks.frontier_leads import (
    Fits,
    Key,
    Lead,
    accuracy_at,
    compare,
    default_lead,
    fits,
    overall,
    pseudo_values,
    squared_gaps,
    variance,
)
from benchmarks.frontier_page import About, against, page
from benchmarks.frontier_pictures import draw, draw_leads

CASE = ("d", "blind", "demographic_parity")
MANY = 10**9  # rows, so that rates have no sampling variance to speak of


def record(gap, accuracy):
    return {"accuracy": accuracy, "rates": {"ppr": [[0.4, MANY], [0.4 + gap, MANY]]},
            "seconds": 1.0}  # fmt: skip


def results(seeds=3):
    """Fairboost loses 0.1 of accuracy per unit of gap; a peer is 0.002 better in every seed."""
    out = {}
    for seed in range(seeds):
        top = 0.9 + 0.01 * seed
        for tolerance, gap in ((0.01, 0.01), (0.05, 0.05), (1.0, 0.2)):
            method = "fairboost" if tolerance < 1 else "plain"
            out[Key(*CASE, method, tolerance, seed)] = record(gap, top - 0.1 * (0.2 - gap))
        peer = record(0.03, top - 0.1 * (0.2 - 0.03) + 0.002 + 1e-5 * (seed - 1))
        out[Key(*CASE, "linear", 0.03, seed)] = peer
        out[Key(*CASE, "EG", 0.01, seed)] = record(0.001, 0.5)
    return out


@pytest.mark.parametrize("rates", [[0.3, 0.3], [0.2, 0.5], [0.3, 0.35, 0.5, 0.3]])
def test_squared_gaps_have_no_bias(rates):
    rng, n = np.random.default_rng(0), [60, 200, 90, 120][: len(rates)]
    seen = rng.binomial(n, rates, size=(20_000, len(rates))) / n
    found = [
        squared_gaps({"rates": {"fnr": list(zip(row, n, strict=True))}})[0]
        for row in seen.tolist()
    ]
    true = 4 * np.var(rates)
    error = np.std(found) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(true, abs=4 * error)
    # The square of the plain gap is off by far more than that.
    naive = (np.ptp(seen, axis=1) ** 2).mean()
    assert naive > true + 10 * error


def test_the_squared_gap_of_two_groups_is_that_of_their_difference():
    assert squared_gaps(record(0.07, 0.8)) == pytest.approx([0.07**2], abs=1e-8)


def test_accuracy_is_compared_at_the_gap_of_the_peer():
    linear = against(results(), CASE, "linear", 0.0)
    assert linear.leads[0].mean == pytest.approx(-0.002, abs=1e-9)
    assert linear.mean.verdict == "behind"
    # A peer with a gap that fairboost does not reach is not behind, however inaccurate it is.
    reductions = against(results(), CASE, "EG", 0.0)
    assert reductions.leads == [None] and reductions.mean is None


def test_luck_that_methods_share_cancels_and_seeds_without_all_fits_do_not_count():
    found = results(4)
    del found[Key(*CASE, "fairboost", 0.05, 1)]
    lead = against(found, CASE, "linear", 0.0).mean
    assert len(lead.pseudo) == 3
    assert lead.half < 1e-4  # accuracies of seeds differ by 0.01


def test_the_lead_has_no_bias_and_its_interval_holds_it():
    """Two equal methods whose gaps are seen with errors larger than they are."""
    rng, held, means = np.random.default_rng(1), 0, []
    true = np.array([0.01, 0.04, 0.1])
    for _ in range(300):
        luck = rng.normal(0, 0.01, 12)

        def made(luck=luck):
            accuracy = 0.8 + 0.2 * true[:, None] + luck + rng.normal(0, 0.001, (3, 12))
            seen = true[:, None] + rng.normal(0, 0.015, (3, 12))
            return Fits([0, 1, 2], accuracy, (seen**2 - 0.015**2)[..., None], accuracy)

        lead = compare(made(), made(), 0.0).leads[1]
        means.append(lead.mean)
        held += abs(lead.mean) <= lead.half
    assert np.mean(means) == pytest.approx(0.0, abs=4 * np.std(means) / np.sqrt(300))
    assert held / 300 == pytest.approx(0.95, abs=0.05)


def test_accuracy_at_a_gap():
    gaps, accuracies = np.array([0.1, 0.0, 0.0, 0.2]), np.array([0.7, 0.8, 0.6, 0.9])
    at = np.array([0.0, 0.05, 0.15])
    np.testing.assert_allclose(accuracy_at(at, gaps, accuracies), [0.7, 0.7, 0.8])
    worse = np.array([0.6, 0.8, 0.6, 0.9])
    np.testing.assert_allclose(accuracy_at(at, gaps, worse, search=True), [0.7, 0.7, 0.8])


def test_pseudo_values_of_a_mean_are_its_values():
    values = np.array([1.0, 4.0, 7.0])
    np.testing.assert_allclose(
        pseudo_values(lambda k: values[k].mean(keepdims=True), 3)[0], values
    )


def test_the_variance_of_seeds_that_overlap():
    """Means of seeds that share a part of their luck, as Nadeau and Bengio have it."""
    rng, overlap = np.random.default_rng(2), 0.2
    shared = rng.normal(0, np.sqrt(overlap), (20_000, 1))
    values = shared + rng.normal(0, np.sqrt(1 - overlap), (20_000, 10))
    found = np.mean([variance(row, overlap) for row in values])
    assert found == pytest.approx(values.mean(axis=1).var(), rel=0.05)
    assert variance(np.array([1.0]), 0.0) == np.inf


def test_the_mean_over_cases():
    one, other = Lead(1.0, np.array([0.0, 2.0]), 0.0), Lead(3.0, np.array([2.0, 4.0]), 0.0)
    mean, half = overall({("a", "", ""): one, ("b", "", ""): other})
    # Two variances of one degree of freedom each have two.
    assert (mean, half) == (2.0, pytest.approx(4.303 * np.sqrt(1 / 2), abs=1e-3))
    same = overall({("a", "", "x"): one, ("a_race", "", "y"): other})[1]
    assert same == pytest.approx(one.half)  # two cases of the same rows tell no more than one
    sure = [Lead(0.0, np.array([-size, size]), 0.0) for size in (0.01, 1e-6)]
    three = {("a", "", ""): one, ("b", "", ""): sure[0], ("c", "", ""): sure[1]}
    # Of the three the first counts for 1e-4 of another, and the last for no more than the second.
    assert overall(three, weighted=True)[0] == pytest.approx(0.5e-4, rel=1e-3)


def test_a_default_fit_against_a_search():
    lead, reached = default_lead(results(), CASE, "linear", 0.0)
    assert not reached  # the peer has no gap so small: its model at a gap of 0.03 is the best
    assert lead.mean == pytest.approx(-0.1 * 0.02 - 0.002, abs=1e-9)
    found = results()
    for seed in range(3):
        found[Key(*CASE, "linear", 0.01, seed)] = record(0.01, 0.88 + 0.01 * seed)
    lead, reached = default_lead(found, CASE, "linear", 0.0)
    assert reached and lead.mean == pytest.approx(0.9 - 0.1 * 0.19 - 0.88, abs=1e-9)


def test_the_page_and_the_pictures_have_every_case(tmp_path):
    about = {"d": About("Data", 0.2), "absent": About("None", 0.0)}
    pictures = draw(results(), about, tmp_path)
    draw_leads(results(), about, tmp_path / "all.png")
    assert pictures == {"d": "frontier_d.png"} and (tmp_path / "all.png").is_file()
    text = page(results(), about, pictures)
    assert "### Data, blind, demographic parity" in text and "absent" not in text
    words = " ".join(text.split())
    assert "| d, demographic parity | 3 | -0.0020 ± 0.0000 behind | not reached |" in words


def read(seed):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, 1_500)
    X = pd.DataFrame(rng.normal(size=(1_500, 3)) + 0.5 * s[:, None], columns=list("abc"))
    return X, (X["a"] + rng.logistic(size=1_500) > 0.3).to_numpy(np.int8), pd.Series(s)


SMALL = Data("S", read, 0.6)


def test_a_run_keeps_every_fit_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(frontier, "all_data", lambda: {"small": SMALL})
    options = argparse.Namespace(
        results=tmp_path / "r.jsonl", case=["small/*/demographic_parity"], seeds=1, n_jobs=1,
        methods=["plain", "linear", "linear_aware"], again=False,
    )  # fmt: skip
    assert run(options) == 0
    found = read_results(options.results)
    assert len(found) == 2 + 5 + 5
    assert {key.features for key in found if key.method == "linear_aware"} == {"aware"}
    assert run(options) == 0 and len(options.results.read_text().splitlines()) == 12
    assert len(fits(found, ("small", "blind", "demographic_parity"), ["linear"])) == 1


@pytest.mark.parametrize("method", ["plain", "linear", "OxonFair", "group_frontier"])
def test_fits_that_are_shared_give_what_fits_alone_give(method, monkeypatch):
    shared = Split(SMALL, "blind", 0, 1)
    for constraint in ("demographic_parity", "equal_opportunity"):
        shared.figures(constraint, method, 0.05)
    again = shared.figures("demographic_parity", method, 0.01)
    assert again["seconds"] > 0
    monkeypatch.setattr(frontier, "SHARING", ())
    alone = Split(SMALL, "blind", 0, 1).figures("demographic_parity", method, 0.01)
    assert {**again, "seconds": 0} == {**alone, "seconds": 0}
