"""Compiled constraints: A and b against violations by definition, and the forms that A has."""

import tracemalloc

import numpy as np
import pytest

from fairboost import at_least, calibrated, equal_distributions, minimax
from fairboost.algorithm.margins import Margins
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.fairness.base import GroupConstraint, OwnConstraint, adapted
from fairboost.fairness.binding import MomentMap, bind
from fairboost.fairness.calibration import of_labels
from fairboost.fairness.compiled import Blocks, ByGroup, Centred, Dense
from fairboost.fairness.constraints import Bound, Parity, bound, parity
from fairboost.fairness.label_moments import GROUP_LOSS
from fairboost.fairness.means import NUMBERS
from fairboost.fairness.minimax import Minimax
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.numbers import Calibrated, EachAtMost, SameDistribution
from fairboost.fairness.precision import EqualPrecision, trained_form
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.ratios import Floor, RatioParity
from fairboost.fairness.two_sided import TwoSided
from fairboost.tasks.binary import Binary
from tests.problems import ALL_CONSTRAINTS, MeanGap, rows

ASKED = [c for constraints in ALL_CONSTRAINTS.values() for c in constraints]
TRAINED = [
    *map(trained_form, (c for c in ASKED if isinstance(c, Parity))),
    parity("fnr", 0.1, by="g", relative=True),
    parity("fnr", 0.1, by="g", given="h", relative=True),
    trained_form(parity("fnr", 0.1, by="g", relative=True)),
    trained_form(parity("fnr", 0.1, by="g", given="h", relative=True)),
    trained_form(parity("precision", 0.1, by="g")),
    trained_form(parity("precision", 0.1, by="g", given="h")),
    parity("ppr", ratio=0.9, by="g", given="h", of="everyone"),
    minimax("fnr", by="g"),
    minimax("loss", by="g"),
    equal_distributions(0.1, by="g"),
    equal_distributions(0.1, by="g", given="h"),
    calibrated(0.1, by="g"),
    calibrated(0.1, by="g", within=3),
    of_labels(calibrated(0.1, by="g", within=2)),
    EachAtMost(NUMBERS["loss"], 0.3, "g"),
]
EVERY = {f"{k} {adapted(c).name} {c.by}": c for k, c in enumerate([*ASKED, *TRAINED])}


@pytest.fixture(scope="module")
def cells():
    y, columns, weight, _ = rows(3, n=96, weighted=True)
    return build_cells(y, columns, weight)


def drawn(term, seed=0):
    """Moments that no two groups have in common."""
    values = np.random.default_rng(seed).uniform(0.2, 0.8, term.counted.size)
    assert len(np.unique(values)) == len(values)
    return values


def by_definition(c, m: GroupMoments, at: GroupMoments):
    """Violations, group by group; what A holds fixed is taken ``at`` other moments."""
    groups = range(len(m.groups))
    peers = [[h for h in groups if m.strata is None or m.strata[h] == m.strata[g]] for g in groups]

    def mean(values, weights, g):
        return sum(weights[h] * values[h] for h in peers[g]) / sum(weights[h] for h in peers[g])

    if isinstance(c, OwnConstraint | MeanGap):
        return MeanGap(0.05).violations(m)
    if isinstance(c, EqualPrecision):
        return precision_by_definition(c, m, at, peers)
    if isinstance(c, SameDistribution):
        w = m.weights
        apart = [r[g] - mean(r, w[k], g) for k, r in enumerate(m.values) for g in groups]
        return np.array([*apart, *np.negative(apart)]) - c.tolerance
    if isinstance(c, Calibrated):
        return calibration_by_definition(c, m)
    (r,), (w,) = m.values, m.weights
    pooled = np.array([mean(r, w, g) for g in groups])
    unit = [abs(mean(at.values[0], w, g)) if c.relative else 1.0 for g in groups]
    if isinstance(c, Parity):
        return np.array([(max(r[peers[g]]) - r[g]) / unit[g] - c.tolerance for g in groups])
    if isinstance(c, TwoSided):
        shares = np.array([w[g] / sum(w[peers[g]]) for g in groups])
        room = c.tolerance * np.where([len(p) == 2 for p in peers], 1 - shares, 0.5)
        apart = (r - pooled) / unit
        return np.concatenate([apart - room, -apart - room])
    if isinstance(c, Bound):
        return np.array([r[m.groups.index(c.group)] - c.at_most])
    if isinstance(c, Floor):
        return c.at_least - r
    if isinstance(c, EachAtMost):
        return r - c.at_most
    if isinstance(c, Minimax):
        return r - pooled if c.moment == GROUP_LOSS else r
    assert isinstance(c, RatioParity)
    if c.of == "everyone":
        return c.ratio * pooled - r
    if c.of == "reference":
        return c.ratio * r[m.groups.index(c.reference)] - r
    centre = np.array([max(r[p]) + min(r[p]) for p in peers]) / (1 + c.ratio)
    return np.concatenate([r - centre, c.ratio * centre - r])


def precision_by_definition(c, m, at, peers):
    """Right decisions less those that the precision of all has, in a unit that is held fixed."""
    (true, false), weights = m.values * m.weights, m.weights.sum(axis=0)
    share = (at.values * at.weights).sum(axis=0)
    out = []
    for sign in (1, -1):
        for g, p in enumerate(peers):
            positive = true[g] + false[g]
            pooled = true[p].sum() / (true[p] + false[p]).sum()
            unit = weights[g] * share[p].sum() / weights[p].sum()
            apart = sign * (true[g] - pooled * positive)
            out.append((apart - c.tolerance / 2 * positive) / unit)
    return np.array(out)


def calibration_by_definition(c, m):
    """Actual less expected, over what was actual in the group, or in its mean part."""
    n = c.within or 0
    expected = np.concatenate([m.values[:1], m.values[2 : 2 + n]])
    actual = np.concatenate([m.values[1:2], m.values[2 + n :]])
    out = []
    for sign in (1, -1):
        for k, (e, a) in enumerate(zip(expected, actual, strict=True)):
            out.append((sign * (a - e) - c.tolerance * e) / (actual[0] / (n if k else 1)))
    return np.concatenate(out)


@pytest.mark.parametrize("name", EVERY)
def test_lines_are_the_violations_by_definition(name, cells):
    c, term = EVERY[name], bind(EVERY[name], cells)
    values = drawn(term)
    read = term.read(values)
    expected, lines = by_definition(c, read, read), term.linearized(values)
    np.testing.assert_allclose(lines.violations(values), expected, atol=1e-12)
    np.testing.assert_allclose(lines.A @ values - lines.b, expected, atol=1e-12)
    np.testing.assert_allclose(term.violations(values), expected, atol=1e-12)
    np.testing.assert_allclose(term.constraint.violations(read), expected, atol=1e-12)
    assert len(term.inequalities) == len(expected) == len(set(term.inequalities))


@pytest.mark.parametrize("name", EVERY)
def test_the_matrix_is_the_derivative(name, cells):
    """Of violations by definition.

    Fixed are the unit of a relative tolerance, and the unit W_g D of precisions. Largest and
    smallest groups are those at the moments, so no two of them are equal there.
    """
    c, term = EVERY[name], bind(EVERY[name], cells)
    values, step = drawn(term), 1e-6
    at = term.read(values)
    columns = []
    for unit in np.eye(len(values)):
        ends = [by_definition(c, term.read(values + s * step * unit), at) for s in (1, -1)]
        columns.append((ends[0] - ends[1]) / (2 * step))
    expected = np.stack(columns, axis=1)
    A = term.linearized(values).A
    np.testing.assert_allclose(A.dense(), expected, atol=1e-7)
    multipliers = np.random.default_rng(1).random(len(expected))
    np.testing.assert_allclose(multipliers @ A, multipliers @ expected, atol=1e-6)
    np.testing.assert_allclose(term.pullback(values, multipliers), multipliers @ A, atol=1e-12)


@pytest.mark.parametrize("name", EVERY)
def test_an_affine_constraint_has_the_same_lines_at_all_moments(name, cells):
    term = bind(EVERY[name], cells)
    one, other = (term.constraint.linearized(term.read(drawn(term, seed))) for seed in (0, 1))
    if term.constraint.affine:
        assert one.A.equals(other.A)
        np.testing.assert_array_equal(one.b, other.b)
    if term.constraint.fixed:
        assert term.linearized(drawn(term, 0)) is term.linearized(drawn(term, 1)) is term.lines


@pytest.mark.parametrize("name", EVERY)
def test_room_is_what_lines_have_where_groups_are_equal(name, cells):
    """Equal moments lie as far inside their limits as the room says, if there is a tolerance."""
    c, term = EVERY[name], bind(EVERY[name], cells)
    if isinstance(c, Calibrated | EqualPrecision):  # whose groups are equal elsewhere
        return
    equal = np.repeat(np.linspace(0.3, 0.6, len(term.moments)), len(term.groups))
    lines = term.linearized(equal)
    if np.all(np.isfinite(lines.room)):
        np.testing.assert_allclose(term.violations(equal), -np.asarray(lines.room), atol=1e-12)


@pytest.mark.parametrize("name", EVERY)
def test_every_line_of_groups_is_about_one_group(name, cells):
    """The group of a line is the one that its name has."""
    term = bind(EVERY[name], cells)
    groups = term.linearized(drawn(term)).A.groups
    assert len(groups) == len(term.inequalities)
    for line, g in zip(term.inequalities, groups, strict=True):
        assert g < 0 or f"[{term.groups.label(g)}" in line


# A constraint of the user's own


class Offering(MeanGap):
    """One that has a figure in words of its own, and names for its inequalities."""

    given = "h"
    limit = 0.05
    least = 0.0
    figure_name = "largest spread"
    tolerance = 0.05

    def inequality_names(self, groups):
        return [f"{rate} over {len(groups)} groups" for rate in self.moments]

    def figure(self, moments):
        return float(self.violations(moments).max() + self.at_most)

    def words(self, by):
        return f"spread of rates by {by}"


def test_a_constraint_of_ones_own_is_adapted(cells):
    term = bind(MeanGap(), cells)
    own = term.constraint
    assert isinstance(own, OwnConstraint) and adapted(own) is own
    assert own.constraint.at_most == 0.05 and own.by == "g"
    assert term.inequalities == ("mean_gap[0]", "mean_gap[1]")
    assert not own.affine and own.judged == "violation" and own.limit == 0.0
    assert own.words("g") == "mean_gap by g" and own.in_short("g") == "mean_gap"
    assert own.farthest(term.read(drawn(term))) is None
    (elsewhere,) = own.by_each(["h"])
    assert elsewhere.by == "h" and elsewhere.constraint is own.constraint
    values = drawn(term)
    lines, read = term.linearized(values), term.read(values)
    units = [MeanGap().pullback(read, unit).ravel() for unit in np.eye(2)]
    np.testing.assert_array_equal(lines.A.dense(), units)
    np.testing.assert_allclose(lines.b, units @ values - MeanGap().violations(read))
    multipliers = np.array([0.3, 2.0])
    expected = MeanGap().pullback(read, multipliers).ravel()
    np.testing.assert_array_equal(term.pullback(values, multipliers), expected)


def test_what_a_constraint_of_ones_own_offers_is_used(cells):
    own = adapted(Offering())
    assert own.judged == "figure" and own.limit == own.tolerated == 0.05
    assert own.given == "h" and own.least == 0.0
    assert own.figure_name == "largest spread" and own.words("g") == "spread of rates by g"
    assert own.inequality_names(["a", "b"]) == ["fpr over 2 groups", "tpr over 2 groups"]
    term = bind(Offering(), cells)
    read = term.read(drawn(term))
    assert own.figure(read) == Offering().figure(read)
    assert not own.traits.folds and own.not_judged(read, []) == ""


def test_constraints_of_the_package_are_as_they_are():
    for c in (parity("fnr"), bound("fpr", 0.1), at_least("tpr", 0.5)):
        assert adapted(c) is c
        assert isinstance(c, GroupConstraint)


# The forms of the matrix

N = 7
STRATA = {"": None, "strata": np.array([0, 1, 0, 2, 1, 2, 1], np.int32)}


def random_matrix(kind, strata, seed=0):
    """A matrix of a form, on random numbers; in two levels where it is centred."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(1.0, 5.0, (2, N))
    read = GroupMoments(np.zeros((2, N)), weights, tuple((g,) for g in range(N)), strata)
    if kind == "by group":
        return ByGroup(rng.normal(size=(3, 2, N)))
    if kind == "each":
        return Centred(read, (-1,))
    unit = read.total(weights[:1])[0] / 10
    return Centred(read, (1, -1), (-1, 0.8), weights, read.total(weights), unit)


@pytest.mark.parametrize("strata", STRATA)
@pytest.mark.parametrize("kind", ["centred", "each", "by group"])
def test_a_form_of_the_matrix_is_the_matrix_written_out(kind, strata):
    A = random_matrix(kind, STRATA[strata])
    whole, rng = Dense(A.dense()), np.random.default_rng(1)
    lines, moments = whole.dense().shape
    values, multipliers, positive = (
        rng.normal(size=moments),
        rng.random(lines),
        rng.random(moments),
    )
    np.testing.assert_allclose(A @ values, whole @ values, atol=1e-12)
    np.testing.assert_allclose(multipliers @ A, multipliers @ whole, atol=1e-12)
    for figure in ("squares", "means", "most"):
        found, expected = (getattr(each, figure)(positive) for each in (A, whole))
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert A.equals(random_matrix(kind, STRATA[strata]))
    assert len(A.groups) == lines
    if kind != "by group":
        assert A.main().tolist() == list(range(moments)) * (lines // moments)


@pytest.mark.parametrize("strata", STRATA)
def test_blocks_are_the_matrix_written_out(strata):
    blocks = [random_matrix(kind, STRATA[strata]) for kind in ("centred", "by group")]
    A = Blocks(blocks, [slice(0, 2 * N), slice(2 * N, 4 * N)])
    whole, values = Dense(A.dense()), np.random.default_rng(1).random(4 * N)
    for figure in ("squares", "means", "most"):
        found, expected = (getattr(each, figure)(values) for each in (A, whole))
        np.testing.assert_allclose(found, expected, atol=1e-12)
    main = np.abs(whole.dense()).argmax(axis=1)[4 * N :]  # of the second block
    np.testing.assert_array_equal(A.main()[4 * N :], main)


def test_a_parity_of_thousands_of_groups_is_not_written_out():
    """It would take 400 megabytes."""
    n, column = 10_000, np.arange(10_000, dtype=np.int32) % 5_000
    cells = build_cells(np.ones(n, np.int32), [SensitiveColumn("g", column, tuple(range(5_000)))])
    tracemalloc.start()
    terms = [bind(trained_form(parity("fnr", 0.1, by="g")), cells)]
    per_row = MomentMap(cells, terms, 2).per_row
    margins = Margins(Binary(PROXIES["sigmoid"]), per_row, terms, None)
    moments = np.full(5_000, 0.5)
    at = margins.at(moments)
    for figures in (margins.errors(moments, None, at), margins.units(moments, None, at)):
        assert len(figures) == 10_000 and np.isfinite(figures).all()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100e6
    assert isinstance(at.A, Blocks)
