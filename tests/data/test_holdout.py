"""Which rows the multipliers look at, and what becomes of those rows in training."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairboost.algorithm.multipliers import Ascent, Control
from fairboost.data import holdout
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import NOTHING_HELD_OUT, align_groups, choose, choose_shares
from fairboost.exceptions import FairnessWarning, InvalidInputError
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.rates import RATES
from fairboost.fairness.two_sided import two_sided
from tests.problems import rows, session

SIZES = st.lists(st.integers(1, 60), min_size=2, max_size=8).filter(lambda m: len(m) % 2 == 0)


def rng(seed=0):
    return np.random.default_rng(seed)


def cells_of(sizes, seed=0):
    """Cells of given sizes, two to a group, their rows mixed."""
    cell = rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    values = tuple(range(len(sizes) // 2))
    group = SensitiveColumn("g", (cell // 2).astype(np.int32), values)
    return build_cells((cell % 2).astype(np.int32), [group])


def chosen(how, cells, seed=0, smallest=0.0, weight=None):
    return choose(how, cells, smallest, weight, rng(seed))


# What "auto" comes to


def test_auto_cross_fits_where_a_row_tells_little():
    """5,000 held-out rows of a group are enough for a rate, and not for a mean of rare claims."""
    cells = cells_of([25_000] * 4)
    share, cross = (
        choose("auto", cells, 25_000.0, None, rng(), worth=worth) for worth in (1.0, 0.03)
    )
    assert (share.kind, cross.kind) == ("share", "cross")
    assert cross.why.endswith(
        "with a share of 20%, with as much information as 150 rows have about a rate"
    )
    asked = choose(0.2, cells, 25_000.0, None, rng(), worth=0.03)
    assert asked.kind == "share"  # what is asked for goes before


# The draw


@given(SIZES, st.floats(0.01, 0.99), st.integers(0, 1000))
def test_a_share_is_taken_of_every_cell(sizes, share, seed):
    """To the nearest row: a cell gives one as soon as half a row is asked of it."""
    cells = cells_of(sizes, seed)
    held = chosen(share, cells, seed)
    taken = np.bincount(cells.codes[held.folds == 1], minlength=len(cells))
    assert set(np.unique(held.folds)) <= {0, 1}
    assert np.abs(taken - share * cells.counts).max() <= 0.5 + 1e-9
    np.testing.assert_array_equal(held.measured.counts, taken)
    np.testing.assert_array_equal(held.trained, held.folds == 0)


@given(SIZES, st.sampled_from([0, 1]), st.integers(0, 1000))
def test_less_is_held_out_of_a_label_that_no_rate_counts(sizes, label, seed):
    cells = cells_of([20 * size for size in sizes])
    held = choose(0.4, cells, 0.0, None, rng(seed), labels=[label])
    taken = np.bincount(cells.codes, held.folds)
    counted = cells.labels == label
    assert (np.abs(taken - 0.4 * cells.counts)[counted] <= 0.5 + 1e-9).all()
    spared = cells.counts[~counted].sum()
    share = max(0.1, min(0.4, 200 / spared))  # the loss is to be read on some rows
    assert taken[~counted].sum() == pytest.approx(share * spared, abs=0.5 + 1e-9)
    if share == 0.4:
        assert held.trained_labels == held.measured_labels == (1.0, 1.0)
        return
    assert f"which no rate counts, {100 * share:.2g}%" in held.why
    whole = np.bincount(cells.labels, cells.counts, minlength=2)
    for part, factors in (
        (held.trained, held.trained_labels),
        (~held.trained, held.measured_labels),
    ):
        weight = np.array(factors)[cells.labels[cells.codes]] * part
        found = np.bincount(cells.labels[cells.codes], weight, minlength=2)
        np.testing.assert_allclose(found / found.sum(), whole / whole.sum(), rtol=1e-9)
        assert found.sum() == pytest.approx(part.sum())


@given(SIZES, st.sampled_from([(0, 1), (0,)]), st.integers(1, 9), st.integers(0, 1000))
def test_parts_of_the_rows_hold_out_as_many_as_the_whole(sizes, labels, n_parts, seed):
    """However many rows of a cell a part has, and whatever their order."""
    cells = cells_of([20 * size for size in sizes], seed)
    shares = choose_shares(0.2, cells, 0.0, labels)
    whole = np.bincount(cells.codes, shares.mark(cells.codes, rng(seed)), len(cells))
    before, taken = np.zeros((2, len(cells)), int)
    for part in np.array_split(cells.codes, n_parts):
        held = shares.mark(part, rng(seed), before)
        taken += np.bincount(part[held], minlength=len(cells))
        before += np.bincount(part, minlength=len(cells))
    spared = shares.spared
    np.testing.assert_array_equal(taken[~spared], whole[~spared])
    assert taken[spared].sum() == whole[spared].sum()


@given(SIZES, st.integers(0, 1000))
def test_folds_deal_every_cell_out_evenly(sizes, seed):
    cells = cells_of(sizes, seed)
    held = chosen("cross", cells, seed)
    folds = np.unique(held.folds)
    assert folds.min() >= 0 and folds.max() < held.n_folds == 5
    for cell in range(len(cells)):
        hands = np.bincount(held.folds[cells.codes == cell], minlength=held.n_folds)
        assert hands.sum() == cells.counts[cell]
        assert hands.max() - hands.min() <= 1
    per_fold = np.bincount(held.folds, minlength=held.n_folds)
    assert per_fold.max() - per_fold.min() <= 1  # over all rows, too
    np.testing.assert_array_equal(held.measured.counts, cells.counts)  # every row is seen
    assert held.trained is None  # and every row is trained on


@pytest.mark.parametrize("how", [0.3, "cross"])
def test_the_draw_is_that_of_the_generator(how):
    cells = cells_of([40, 60, 30, 80])
    first, same, other = (chosen(how, cells, seed).folds for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


@pytest.mark.parametrize("how", [0.5, "cross"])
def test_the_draw_knows_nothing_of_the_order_of_rows(how):
    """Rows sorted by cell, as files often are, are drawn from all over their cell."""
    cells = build_cells(np.repeat([0, 1], 500).astype(np.int32))
    folds = chosen(how, cells).folds[:500]
    early, late = (np.bincount(part, minlength=5) for part in np.split(folds, 2))
    assert np.abs(early - late).max() < 60  # six deviations of a fair draw, at most


@pytest.mark.parametrize("how", [0.2, "cross"])
@pytest.mark.parametrize("labels", [(0, 1), (1,)])
def test_names_of_groups_do_not_decide_who_is_held_out(how, labels):
    """Groups are numbered by their names; another name is another number."""
    codes, y = rng(1).integers(0, 3, 3_000), rng(2).integers(0, 2, 3_000).astype(np.int8)
    found = []
    for names in ("abc", "cab", "bca", "acb"):
        order = np.argsort(list(names))
        renamed = np.argsort(order)[codes].astype(np.int32)
        cells = build_cells(y, [SensitiveColumn("g", renamed, tuple(sorted(names)))])
        found.append(choose(how, cells, 0.0, None, rng(0), labels).folds)
    for folds in found[1:]:
        np.testing.assert_array_equal(folds, found[0])


def test_weights_of_the_rows_held_out():
    cells = cells_of([40, 60, 30, 80])
    weight = rng().gamma(2.0, size=210).astype(np.float32)
    held = chosen(0.3, cells, weight=weight)
    at = held.folds == 1
    expected = np.bincount(cells.codes[at], weight[at].astype(float), len(cells))
    np.testing.assert_allclose(held.measured.weights, expected)
    squares = np.bincount(cells.codes[at], weight[at].astype(float) ** 2, len(cells))
    np.testing.assert_allclose(held.measured.squares, squares)


# What "auto" chooses


@pytest.mark.parametrize(
    ("n", "n_folds"), [(50, 5), (9_999, 5), (10_000, 3), (19_999, 3), (20_000, 2), (500_000, 2)]
)
def test_many_rows_are_cut_into_few_folds(n, n_folds):
    cells = build_cells(np.arange(n) % 2, [])
    held = choose("cross", cells, 0.0, None, rng())
    assert held.n_folds == n_folds and f"in {n_folds} folds" in held.why
    assert np.ptp(np.bincount(held.folds)) <= 1
    for k, others in enumerate(held.rows_without_folds()):
        np.testing.assert_array_equal(others, np.flatnonzero(held.folds != k))


def test_a_threshold_is_placed_on_scores_of_five_folds():
    """Boosters of half the rows spread their scores less than the one that is kept."""
    cells = build_cells(np.arange(30_000) % 2, [])
    assert choose("cross", cells, 0.0, None, rng(), need="exacting").n_folds == 5


def test_a_stage_is_cut_into_halves():
    for n, n_folds in ((8_000, 5), (9_000, 2), (30_000, 2)):
        cells = build_cells(np.arange(n) % 2, [])
        assert choose("cross", cells, 0.0, None, rng(), need="stage").n_folds == n_folds


def test_nothing():
    assert chosen(None, cells_of([9, 9])) is NOTHING_HELD_OUT
    assert NOTHING_HELD_OUT.trained is None and NOTHING_HELD_OUT.n_folds == 0
    assert NOTHING_HELD_OUT.rows_without_folds() == []


@pytest.mark.parametrize(
    ("smallest", "kind", "why"),
    [
        (9_999, "cross", r"in 5 folds, as only 2,000 held-out rows would count for the smallest"),
        (40, "cross", r"cross-fitting in 5 folds, as only 8 held-out rows .* with a share of 20%"),
        (10_000, "share", r"^a share of 20%: 2,000 held-out rows would count .* smallest group$"),
    ],
)
def test_auto_cross_fits_where_cells_are_small_and_says_why(smallest, kind, why):
    held = chosen("auto", cells_of([50, 50]), smallest=smallest)
    assert held.kind == kind
    assert_matches(why, held.why)


def test_auto_does_not_cross_fit_large_data():
    labels = np.zeros(holdout.CROSS_BELOW_ROWS + 1, np.int32)
    labels[::2] = 1
    held = chosen("auto", build_cells(labels), smallest=40)
    assert held.kind == "share"
    assert_matches(
        r"8 held-out rows .*, and with 200,001 rows cross-fitting would take l", held.why
    )
    assert chosen("auto", build_cells(labels[1:]), smallest=40).kind == "cross"


@pytest.mark.parametrize(
    ("how", "kind", "why"),
    [("cross", "cross", "cross-fitting in 5 folds"), (0.25, "share", "a share of 25%")],
)
def test_what_is_asked_for_is_done_whatever_the_sizes(how, kind, why):
    for smallest in (1, 1e6):
        held = chosen(how, cells_of([50, 50]), smallest=smallest)
        assert (held.kind, held.why) == (kind, why)


@pytest.mark.parametrize(
    "bad", [0, 1, -0.1, 1.5, True, False, "half", "", float("nan"), [0.2], np.True_, b"auto"]
)
def test_other_values_are_refused(bad):
    with pytest.raises(InvalidInputError, match=r"holdout must be 'auto', 'cross', a share of"):
        chosen(bad, cells_of([50, 50]))


@pytest.mark.parametrize("number", [0.2, np.float64(0.2), np.float32(0.2)])
def test_numbers_of_any_kind(number):
    assert chosen(number, cells_of([50, 50])).kind == "share"


# In training


def game(cells, held, weight=None, **options):
    constraints = [two_sided(parity("ppr", 0.0, by="g")), bound("fnr", 0.1)]
    options = {"convex": True, "dtype": np.float64, **options}
    return session(
        cells, constraints, PROXIES["sigmoid"], Control(), holdout=held, sample_weight=weight,
        **options,
    )  # fmt: skip


def rates_by_numpy(f, y, group, weight):
    """PPR of the three groups and FNR of everyone, as ``game`` reads them."""
    w = np.ones(len(y)) if weight is None else weight.astype(float)
    ppr = [np.average(f[group == g] >= 0, weights=w[group == g]) for g in range(3)]
    return [*ppr, np.average(f[y == 1] < 0, weights=w[y == 1])]


def log_loss(f, y, weight):
    w = None if weight is None else weight.astype(float)
    return np.average(np.logaddexp(0, np.where(y == 1, -f, f)), weights=w)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_of_a_share_the_rows_held_out_move_the_multipliers_and_the_others_have_the_gradient(
    weighted,
):
    y, columns, weight, cells = rows(0, n=240, weighted=weighted)
    held = chosen(0.3, cells, weight=weight)
    at, group = held.folds == 1, columns[0].codes
    outside, inside = (None, None) if weight is None else (weight[at], weight[~at])
    lagrangian = game(cells.among(held.trained, weight), held, inside)
    for t in range(5):
        f = rng(t).normal(0, 2, len(y))
        gradient, hessian = lagrangian.play(f[~at], f[at])
        assert (gradient != 0).all() and (hessian > 0).all()
        row = lagrangian.record().to_frame().iloc[t]
        expected = rates_by_numpy(f[at], y[at], group[at], outside)
        np.testing.assert_allclose(row.filter(like="rate: "), expected, atol=1e-12)
        assert row["held-out loss"] == pytest.approx(log_loss(f[at], y[at], outside), rel=1e-12)
        assert row["loss"] == pytest.approx(log_loss(f[~at], y[~at], inside), rel=1e-12)
    assert lagrangian.state.dual.multipliers.any()


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_a_set_of_ones_own_is_read_from_the_scores_watched(weighted):
    """Training rows and the set share cells; scores of the set come by another way."""
    n = 160
    y, columns, weight, both = rows(2, n=240, weighted=weighted)
    group = columns[0].codes
    seen = both.among(slice(n, None), weight)
    outside = None if weight is None else weight[n:]
    held = holdout.Holdout("set", "a set", measured=seen, outside_weight=outside)
    inside = None if weight is None else weight[:n]
    lagrangian = game(both.among(slice(None, n), weight), held, inside)
    for t in range(3):
        f = rng(t).normal(0, 2, len(y))
        gradient, hessian = lagrangian.play(f[:n], f[n:])
        assert (gradient != 0).all() and (hessian > 0).all()  # all rows are trained on
        row = lagrangian.record().to_frame().iloc[t]
        expected = rates_by_numpy(f[n:], y[n:], group[n:], outside)
        np.testing.assert_allclose(row.filter(like="rate: "), expected, atol=1e-12)
        assert row["held-out loss"] == pytest.approx(log_loss(f[n:], y[n:], outside), rel=1e-12)
        assert row["loss"] == pytest.approx(log_loss(f[:n], y[:n], inside), rel=1e-12)


# Cross-fitting


@pytest.fixture(params=[False, True], ids=["", "weighted"])
def cross(request):
    y, columns, weight, cells = rows(4, n=240, weighted=request.param)
    held = chosen("cross", cells, weight=weight)
    return y, columns, weight, cells, held, game(cells, held, weight)


def test_in_cross_fitting_every_row_is_read_by_the_booster_that_left_it_out(cross):
    y, columns, weight, _, held, lagrangian = cross
    for t in range(4):
        scores = rng(t).normal(0, 2, (held.n_folds, len(y)))  # each booster has its own
        kept = rng(100 + t).normal(0, 2, len(y))
        out_of_fold = scores[held.folds, np.arange(len(y))]
        gradient, hessian = lagrangian.play(kept, out_of_fold)
        assert (gradient != 0).all() and (hessian > 0).all()
        for k in range(held.n_folds):
            inside = held.folds != k
            gradient, hessian = lagrangian.follow(k, scores[k][inside])
            assert gradient.shape == hessian.shape == (inside.sum(),)
            assert (gradient != 0).all() and (hessian > 0).all()
        row = lagrangian.record().to_frame().iloc[t]
        expected = rates_by_numpy(out_of_fold, y, columns[0].codes, weight)
        np.testing.assert_allclose(row.filter(like="rate: "), expected, atol=1e-12)
        assert row["held-out loss"] == pytest.approx(log_loss(out_of_fold, y, weight), rel=1e-12)
        assert row["loss"] == pytest.approx(log_loss(kept, y, weight), rel=1e-12)
    assert len(lagrangian.rounds) == 4
    assert lagrangian.state.dual.multipliers.any()


def test_after_the_last_round_all_boosters_are_looked_at_once_more(cross):
    y, columns, weight, _, held, lagrangian = cross
    for t in range(2):
        f = rng(t).normal(0, 2, len(y))
        lagrangian.play(f, f)
    before = lagrangian.state
    last = rng(9).normal(0, 2, (held.n_folds, len(y)))
    out_of_fold = last[held.folds, np.arange(len(y))]
    lagrangian.finish(f, out_of_fold)
    assert len(lagrangian.rounds) == 2
    assert lagrangian.state is before  # to measure does not move the multipliers
    np.testing.assert_allclose(
        lagrangian.record().iterates[-1].moments,
        rates_by_numpy(out_of_fold, y, columns[0].codes, weight),
        atol=1e-12,
    )


@pytest.mark.parametrize("convex", [True, False], ids=["convex", "paper"])
def test_all_boosters_descend_under_the_same_multipliers(convex):
    """On the same scores a follower has the leader's gradient, but for the rows it leaves out."""
    y, _, _, cells = rows(5, n=240)
    held = chosen("cross", cells)
    constraint = parity("ppr", 0.0, by="g")
    lagrangian = session(
        cells,
        [two_sided(constraint) if convex else constraint],
        PROXIES["cross_entropy"],
        Ascent(1.0),
        holdout=held,
        convex=convex,
        dtype=np.float64,
    )
    f = rng(0).normal(0, 2, len(y))  # the same in all rounds: so is the group of largest rate
    for _ in range(4):
        gradient, _ = lagrangian.play(f, f)
        for k in range(held.n_folds):
            kept = held.folds != k
            theirs = lagrangian.follow(k, f[kept])[0]
            np.testing.assert_allclose(theirs, gradient[kept], rtol=1e-10, atol=1e-12)
    assert lagrangian.state.dual.multipliers.any()


# Numerics


def test_a_rate_of_one_is_one_however_its_weights_are_added_up():
    """Sums by fold round otherwise than the total; a rate above 1 has no deviation."""
    y, columns, _, _ = rows(0, n=600, missing=False)
    for seed in range(20):
        weight = np.exp(4 * rng(seed).normal(size=len(y))).astype(np.float32)
        cells = build_cells(y, columns, weight)
        lagrangian = game(cells, chosen("cross", cells, weight=weight), weight)
        lagrangian.play(np.ones(len(y)), np.ones(len(y)))  # all are said yes to
        rates = lagrangian.record().to_frame().filter(like="rate: ").iloc[0]
        assert rates.min() >= 0 and rates.max() <= 1
        assert np.isfinite(lagrangian.state.dual.multipliers).all()


# Groups of a set of one's own


def column(name, values):
    kinds = tuple(sorted({v for v in values if v is not None}))
    codes = [-1 if v is None else kinds.index(v) for v in values]
    return SensitiveColumn(name, np.array(codes, np.int32), kinds)


def test_groups_are_known_by_their_values_not_by_their_codes():
    known = column("sex", ["F", "M", "X"])
    (aligned,) = align_groups([known], [column("sex", ["X", None, "M", "M"])])
    assert aligned.values == ("F", "M", "X")
    assert aligned.codes.tolist() == [2, -1, 1, 1]


def test_a_group_that_training_never_saw_counts_as_missing_and_is_named():
    known = column("sex", ["F", "M"])
    with pytest.warns(FairnessWarning, match=r"groups of 'sex' that training never saw: 'A', 'Z'"):
        (aligned,) = align_groups([known], [column("sex", ["Z", "F", "A", "M"])])
    assert aligned.codes.tolist() == [-1, 0, -1, 1]


@pytest.mark.parametrize(
    ("names", "found"), [(["race"], "race"), ([], "none"), (["age", "sex"], "age, sex")]
)
def test_other_columns_are_refused(names, found):
    held_out = [column(name, ["F", "M"]) for name in names]
    with pytest.raises(
        InvalidInputError,
        match=rf"has the sensitive columns {found}, expected .*: sex, race; pass",
    ):
        align_groups([column("sex", ["F", "M"]), column("race", ["F", "M"])], held_out)


def test_columns_go_by_name_and_others_do_not_matter():
    known = [column("sex", ["F", "M"]), column("race", ["A", "B"])]
    held = [column("age", [1, 1]), column("race", ["B", "A"]), column("sex", ["M", "M"])]
    assert [c.codes.tolist() for c in align_groups(known, held)] == [[1, 1], [1, 0]]


def test_one_column_needs_no_name():
    (aligned,) = align_groups(
        [column("sex", ["F", "M"])], [column("sensitive_feature", ["M", "F"])]
    )
    assert (aligned.name, aligned.codes.tolist()) == ("sex", [1, 0])


def test_every_rate_can_be_read_on_rows_held_out():
    y, columns, _, cells = rows(6, n=240)
    held = chosen(0.4, cells)
    constraints = [two_sided(parity(name, 0.0, by="g")) for name in RATES]
    lagrangian = session(
        cells.among(held.trained), constraints, PROXIES["sigmoid"], Control(), holdout=held,
        convex=True,
    )  # fmt: skip
    f = rng(0).normal(0, 2, len(y))
    at = held.folds == 1
    lagrangian.play(f[~at], f[at])
    row = lagrangian.record().to_frame().iloc[0]
    for name, rate in RATES.items():
        for g in range(3):
            counts = at & (columns[0].codes == g) & rate.counts(y)
            event = (f >= 0) if rate.direction > 0 else (f < 0)
            assert row[f"rate: {name}[g={g}]"] == pytest.approx(event[counts].mean(), abs=1e-12)


def assert_matches(pattern, text):
    assert re.search(pattern, text), text
