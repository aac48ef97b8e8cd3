"""What is known beforehand of inequalities: sampling errors, margins, units of multipliers."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from fairboost import FairGBMClassifier
from fairboost.algorithm.margins import CAUTION, INSIDE, Margins, answers_of, crowding_of
from fairboost.algorithm.multipliers import Control, DualState, start
from fairboost.data.cells import SensitiveColumn, build_cells
from fairboost.data.holdout import Holdout
from fairboost.fairness.binding import MomentMap, bind
from fairboost.fairness.classes import moment_of
from fairboost.fairness.constraints import bound, parity
from fairboost.fairness.means import NUMBERS
from fairboost.fairness.numbers import Calibrated
from fairboost.fairness.proxies import PROXIES
from fairboost.fairness.rates import RATES
from fairboost.fairness.two_sided import TwoSided, two_sided
from fairboost.kernel.losses import Loss
from fairboost.tasks.binary import Binary
from fairboost.tasks.layout import lay_out
from fairboost.tasks.multiclass import Multiclass
from fairboost.tasks.regression import RESPONSE, Regression
from tests.problems import MeanGap, session, without_margin

N = 900


class Spy:
    """A player that writes down what it is told, and does not move."""

    def __init__(self):
        self.violations, self.units = [], []

    def step(self, state: DualState, violations, units):
        self.violations.append(violations)
        self.units.append(units)
        return state


class AtMostThreeTenths:
    """A constraint of someone's own: no group's share of positive decisions above 0.3."""

    moments, by = ("ppr",), "g"

    def violations(self, rates):
        return rates.values[0] - 0.3

    def pullback(self, rates, multipliers):
        return multipliers[np.newaxis]


@pytest.fixture
def data():
    """Groups of 600, 240 and 60 rows, with every second row positive."""
    group = np.repeat([0, 1, 2], [600, 240, 60]).astype(np.int32)
    y = np.tile([0, 1], N // 2).astype(np.int32)
    rng = np.random.default_rng(0)
    f = rng.normal(0.3 * group, 1.0)
    return y, SensitiveColumn("g", group, ("a", "b", "c")), f, rng.gamma(2.0, size=N)


def look(y, column, f, constraints, weight=None, **options):
    """What a player is told about a round on these scores, next to what the trace shows."""
    spy = Spy()
    weight = None if weight is None else weight.astype(np.float32)
    lagrangian = session(
        build_cells(y, [column], weight), constraints, PROXIES["sigmoid"], spy,
        convex=True, sample_weight=weight, **options,
    )  # fmt: skip
    lagrangian.play(f)
    recorded = lagrangian.record().to_frame().iloc[0]
    return spy.violations[0], recorded.filter(like="violation: ").to_numpy(), spy.units[0]


def errors_by_hand(y, column, f, weight):
    """Of the distance of each group's FNR to the pooled one, from rates that are independent.

    With pi the groups' shares, the distance of group g is sum_h ([h = g] - pi_h) R_h, and R_h has
    variance R_h (1 - R_h) / n_h; n_h is Kish's effective number of rows, (sum w)^2 / sum w^2.
    """
    w = np.ones(N) if weight is None else weight.astype(np.float32).astype(float)
    mine = [(column.codes == g) & (y == 1) for g in range(3)]
    rates = np.array([np.average(f[m] < 0, weights=w[m]) for m in mine])
    effective = np.array([w[m].sum() ** 2 / (w[m] ** 2).sum() for m in mine])
    shares = np.array([w[m].sum() for m in mine]) / sum(w[m].sum() for m in mine)
    jacobian = np.eye(3) - shares
    one_side = np.sqrt(jacobian**2 @ (rates * (1 - rates) / effective))
    return np.tile(one_side, 2)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_a_violation_has_the_sampling_error_of_the_rows_it_is_read_on(data, weighted):
    y, column, f, weight = data
    weight = weight.astype(np.float32) if weighted else None
    lagrangian = session(
        build_cells(y, [column], weight), [two_sided(parity("fnr", 0.1, by="g"))],
        PROXIES["sigmoid"], Spy(), convex=True, sample_weight=weight,
    )  # fmt: skip
    lagrangian.play(f)
    expected = errors_by_hand(y, column, f, weight)
    np.testing.assert_allclose(lagrangian.rounds[0].errors, expected, rtol=1e-9)
    drawn = simulated_errors(y, column, f, weight)
    np.testing.assert_allclose(expected, drawn, rtol=0.15)


def simulated_errors(y, column, f, weight, times=600):
    """The deviation of the same distances over redrawn decisions, weights staying as they are."""
    rng = np.random.default_rng(1)
    w = np.ones(N) if weight is None else weight.astype(float)
    mine = [(column.codes == g) & (y == 1) for g in range(3)]
    chance = np.zeros(N)
    for m in mine:
        chance[m] = np.average(f[m] < 0, weights=w[m])
    events = rng.random((times, N)) < chance
    rates = np.stack([events[:, m] @ w[m] / w[m].sum() for m in mine], axis=1)
    pooled = np.average(rates, axis=1, weights=[w[m].sum() for m in mine])
    return np.tile((rates - pooled[:, None]).std(axis=0), 2)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_confidence_adds_what_a_violation_may_be_larger_on_all_people(data, confidence):
    """All inequalities of a constraint at once, by Bonferroni: here the bounds on three groups."""
    y, column, f, _ = data
    told, exact, _ = look(y, column, f, [AtMostThreeTenths()], confidence=confidence)
    rates = np.array([(f[column.codes == g] >= 0).mean() for g in range(3)])
    errors = np.sqrt(rates * (1 - rates) / [600, 240, 60])
    z = norm.ppf(1 - (1 - confidence) / 3)
    np.testing.assert_allclose(told - exact, z * errors, rtol=1e-9, atol=1e-15)


def test_the_margin_goes_all_the_way_to_parity_and_no_further(data):
    """Beyond it the two sides of a group would pull against each other."""
    y, column, f, _ = data
    constraints = [two_sided(parity("fnr", 0.02, by="g"))]
    told, exact, _ = look(y, column, f, constraints, confidence=0.99)
    np.testing.assert_allclose(told - exact, 0.01, rtol=1e-9)
    above, below = np.split(told, 2)
    np.testing.assert_allclose(above, -below, atol=1e-12)


def test_a_bound_has_a_margin_of_its_own(data):
    y, column, f, _ = data
    told, exact, _ = look(y, column, f, [bound("fpr", 0.3)], confidence=0.95)
    rate = (f[y == 0] >= 0).mean()
    expected = norm.ppf(0.975) * np.sqrt(rate * (1 - rate) / (N / 2))
    np.testing.assert_allclose(told - exact, [expected], rtol=1e-9)


def test_a_rate_of_zero_is_not_known_exactly():
    """As if half a row had differed."""
    sampling, _ = positives([450, 50], [bound("fnr", 0.3)])
    low = 0.5 / 501
    for rate in (0.0, 1.0):
        errors = errors_of(sampling, np.array([rate]))
        np.testing.assert_allclose(errors, np.sqrt(low * (1 - low) / 500), rtol=1e-9)


def test_the_trace_shows_violations_without_margins(data):
    y, column, f, _ = data
    constraints = [two_sided(parity("fnr", 0.1, by="g"))]
    _, cautious, _ = look(y, column, f, constraints, confidence=0.99)
    _, plain, _ = look(y, column, f, constraints)
    np.testing.assert_array_equal(cautious, plain)


# Against samples drawn by the thousand

GROUPS = {
    "two": ([400, 90], [0.3, 0.4]),
    "six": ([900, 500, 300, 150, 80, 40], [0.2, 0.25, 0.3, 0.2, 0.5, 0.1]),
}
DRAWS = 20_000
FNR = two_sided(parity("fnr", 0.1, by="g"))
CONSTRAINTS = {
    "parity": FNR,
    "bound": bound("fnr", 0.3),
    "bound on a group": bound("fnr", 0.3, group={"g": 1}),
}


def positives(n, constraints, confidence=None, weight=None):
    """Sampling errors of constraints on n[g] positive rows of group g."""
    column = SensitiveColumn("g", np.repeat(np.arange(len(n)), n), tuple(range(len(n))))
    cells = build_cells(np.ones(sum(n), np.int32), [column], weight)
    terms = [bind(c, cells) for c in constraints]
    per_row = MomentMap(cells, terms, 2).per_row
    return Margins(Binary(PROXIES["sigmoid"]), per_row, terms, confidence), terms


def errors_of(margins, rates):
    return margins.errors(rates, None, margins.half_way)


def samples(n, truth, weight=None, draws=DRAWS):
    """Rates of the groups in samples of the same people."""
    rng = np.random.default_rng(0)
    if weight is None:
        return rng.binomial(n, truth, (draws, len(n))) / np.asarray(n)
    rates = []
    for w, p in zip(np.split(weight, np.cumsum(n)[:-1]), truth, strict=True):
        rates.append((rng.random((draws, len(w))) < p) @ w / w.sum())
    return np.stack(rates, axis=1)


def violations_of(term, rates, weights):
    """The constraint's own, in every sample; one on everyone reads the pooled rate."""
    everyone = rates @ weights / weights.sum()
    shown = rates if len(term.groups) > 1 else everyone[:, None]
    return np.array([term.constraint.violations(term.read(r)) for r in shown])


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("groups", GROUPS)
def test_the_error_is_the_deviation_over_samples(groups, constraint, weighted):
    n, truth = GROUPS[groups]
    weight = np.random.default_rng(1).gamma(2.0, size=sum(n)) if weighted else None
    sampling, (term,) = positives(n, [CONSTRAINTS[constraint]], weight=weight)
    w = np.ones(sum(n)) if weight is None else weight
    by_group = np.add.reduceat(w, np.cumsum([0, *n[:-1]]))
    drawn = samples(n, truth, weight, DRAWS if weight is None else 4_000)
    found = violations_of(term, drawn, by_group).std(axis=0)
    rates = np.array(truth) if len(term.groups) > 1 else np.array([truth @ by_group / w.sum()])
    errors = errors_of(sampling, rates)
    # A pooled rate of unlike groups varies less than rows drawn from everyone; by 3% here.
    slack = 0.02 if len(term.groups) > 1 and weight is None else 0.06
    np.testing.assert_allclose(errors, found, rtol=slack)


@pytest.mark.parametrize("groups", GROUPS)
def test_margins_hold_for_all_inequalities_at_once(groups):
    """Bonferroni: so they cover more often than asked for, and half of them much less often."""
    n, truth = GROUPS[groups]
    n = [10 * m for m in n]  # the law of a rate of 0.1 on 40 rows is not normal: 84% are covered
    sampling, (term,) = positives(n, [two_sided(parity("fnr", 0.9, by="g"))], confidence=0.9)
    exact = term.constraint.violations(term.read(np.array(truth)))
    covered = {1.0: 0, 0.5: 0}
    for rates in samples(n, truth, draws=1_000):
        seen = term.constraint.violations(term.read(rates))
        margin = sampling.z * errors_of(sampling, rates)
        for share in covered:
            covered[share] += (exact <= seen + share * margin).all()
    assert covered[1.0] / 1_000 >= 0.89
    assert covered[0.5] / 1_000 < 0.8


def test_bonferroni_counts_the_inequalities_of_each_constraint_by_itself():
    sampling, _ = positives([50, 50, 50], [FNR, bound("fnr", 0.3)], confidence=0.95)
    np.testing.assert_allclose(sampling.z[:6], norm.isf(0.05 / 6))
    np.testing.assert_allclose(sampling.z[6:], norm.isf(0.05 / 2))  # one, of which an end is read
    without, _ = positives([50, 50, 50], [FNR, bound("fnr", 0.3)])
    np.testing.assert_array_equal(without.z, CAUTION)


def test_with_a_confidence_the_margin_grows_with_the_error_up_to_half_the_tolerance():
    sampling, _ = positives([50, 50], [two_sided(parity("fnr", 0.1, by="g"))], 0.9)
    errors = np.linspace(0.0, 0.2, 50)
    margins = np.array([sampling.margin(np.full(4, e), sampling.half_way) for e in errors])
    assert (np.diff(margins, axis=0) >= 0).all()
    assert margins.max() == pytest.approx(0.05)
    assert (margins >= np.minimum(sampling.z * errors[:, None], 0.05) - 1e-12).all()


def test_without_a_confidence_the_margin_is_a_quarter_of_the_tolerance_at_most():
    sampling, _ = positives([150, 50], [two_sided(parity("fnr", 0.1, by="g"))])
    quarter = np.tile([0.25, 0.75], 2) * 0.1 * INSIDE
    for error in (0.0, 0.01, 0.02, 0.2):
        found = sampling.margin(np.full(4, error), sampling.half_way)
        np.testing.assert_allclose(found, np.minimum(CAUTION * error, quarter))


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_the_margin_of_a_bound_is_in_standard_errors(confidence):
    a_bound, _ = positives([50, 50], [bound("fnr", 0.3)], confidence)
    found = a_bound.margin(np.array([10.0]), a_bound.half_way)
    np.testing.assert_allclose(found, 10 * a_bound.z)  # no parity there


# Units


def test_the_unit_is_the_weight_of_a_row_and_the_size_of_the_rate(data):
    """By hand, for demographic parity of groups with shares 2/3, 4/15 and 1/15.

    A multiplier of 1 on group g puts (n / W_g) (1 - pi_g) on its rows, and n / W_h pi_h = 1 on
    those of others. The rate's own size is 2 sqrt(R (1 - R)), a mean by the same derivative.
    """
    y, column, f, _ = data
    _, _, units = look(y, column, f, [two_sided(parity("ppr", 0.0, by="g"))])
    pi = np.array([600, 240, 60]) / N
    rates = np.array([(f[column.codes == g] >= 0).mean() for g in range(3)])
    jacobian = np.abs(np.eye(3) - pi)
    on_row = (jacobian / pi).max(axis=1)
    np.testing.assert_allclose(on_row, [1.0, 1 / pi[1] - 1, 1 / pi[2] - 1])
    size = jacobian @ (2 * np.sqrt(rates * (1 - rates))) / jacobian.sum(axis=1)
    np.testing.assert_allclose(units, np.tile(1 / (on_row * size), 2))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("told", "faster"), [(1, 1), (0.3, 1), (0.05, 2.82), (0.02, 3.75), (0, 1)]
)
def test_multipliers_of_groups_that_features_tell_little_of_move_faster(
    data, told, faster, weighted, monkeypatch
):
    """Rows are of their group with so much more than its share; 0.15 / 0.05 would be 3."""
    monkeypatch.setattr(Binary, "full_answer", 0.15)
    y, column, f, weight = data
    weight = weight if weighted else None
    shares = np.bincount(column.codes, weight) / (N if weight is None else weight.sum())
    likely = told * np.eye(3)[column.codes] + (1 - told) * shares
    asked = y, column, f, [two_sided(parity("ppr", 0.0, by="g"))], weight
    _, _, observed = look(*asked)
    _, _, units = look(*asked, memberships={("g",): likely.astype(np.float32)})
    np.testing.assert_allclose(units / observed, faster, rtol=2e-3)


def test_rare_rates_have_larger_units_up_to_a_limit(data):
    """The same change of scores moves them less; 0.2% is as rare as rates are taken for."""
    y, column, _, _ = data
    negatives = np.flatnonzero(y == 0)

    def unit(n_positive):
        f = np.full(N, -1.0)
        f[negatives[:n_positive]] = 1.0
        return look(y, column, f, [bound("fpr", 0.3)])[2][0]

    at_half = unit(N // 4)
    assert unit(N // 40) / at_half == pytest.approx(0.5 / np.sqrt(22 / 450 * 428 / 450), rel=1e-9)
    assert unit(0) / at_half == pytest.approx(0.5 / np.sqrt(0.002), rel=1e-9)


def test_a_constraint_that_is_flat_at_parity_is_not_ignored(data):
    """The variance of rates has no derivative where rates are equal; its multipliers must move."""
    y, column, f, _ = data
    lagrangian = session(
        build_cells(y, [column]), [MeanGap(0.0)], PROXIES["sigmoid"], Control(), convex=True
    )
    without_margin(lagrangian)
    f = f - 2 * column.codes  # the groups are far apart
    for _ in range(3):
        lagrangian.play(f)
    violations = lagrangian.record().to_frame().filter(like="violation: ").iloc[-1]
    assert (violations > 0.02).all()
    assert (lagrangian.state.dual.multipliers > 0).all()


def test_a_constraint_that_starts_flat_moves_once_groups_part(data):
    """f_0 gives everyone the same score: the rates are equal and the derivative is 0."""
    y, column, f, _ = data
    lagrangian = session(
        build_cells(y, [column]), [MeanGap(0.0)], PROXIES["sigmoid"], Control(), convex=True
    )
    without_margin(lagrangian)
    for _ in range(3):
        lagrangian.play(np.zeros(N))
    assert not lagrangian.state.dual.multipliers.any()
    for _ in range(2):
        gradient, hessian = lagrangian.play(f - 2 * column.codes)
    assert (lagrangian.state.dual.multipliers > 0).all()
    assert np.isfinite(lagrangian.state.dual.multipliers).all()
    assert np.isfinite(gradient).all() and np.isfinite(hessian).all()


def test_someone_elses_constraint_is_heeded_in_a_fit(engine, toy):
    """From the constant f_0, by the control that needs units for it."""
    constraint = MeanGap(0.0005)
    constraint.by = "sensitive_feature"

    def spread(model):
        decided = model.predict(toy.X) == 1
        return sum(
            np.var([decided[(toy.y == label) & (toy.group == g)].mean() for g in "ab"])
            for label in (0, 1)
        )

    model = FairGBMClassifier(
        engine(n_estimators=40), constraint=constraint, holdout=None, memberships="observed"
    ).fit(toy.X, toy.y, sensitive_features=toy.group)
    multipliers = model.trace_.filter(like="multiplier: ")
    assert (multipliers.max() > 0).all() and np.isfinite(multipliers).all(axis=None)
    plain = engine(n_estimators=40).fit(toy.X, toy.y)
    assert spread(model) < 0.5 * spread(plain)


def test_the_spy_is_told_what_control_would_be(data):
    """The tests above look at what moves the multipliers."""
    y, column, f, _ = data
    constraints = [two_sided(parity("fnr", 0.1, by="g"))]
    told, _, units = look(y, column, f, constraints, confidence=0.9)
    lagrangian = session(
        build_cells(y, [column]), constraints, PROXIES["sigmoid"], Control(),
        convex=True, confidence=0.9,
    )  # fmt: skip
    lagrangian.play(f)
    expected = Control().step(start(6), told, units).multipliers
    np.testing.assert_array_equal(lagrangian.state.dual.multipliers, expected)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_a_parity_of_many_groups_is_not_written_out(data, weighted, monkeypatch):
    """The same numbers without the derivative of every violation by every rate."""
    y, column, f, weight = data
    constraints = [
        two_sided(parity("fnr", 0.05, by="g")),
        AtMostThreeTenths(),
        two_sided(parity("ppr", 0.1, by="g")),
    ]
    weight = weight if weighted else None
    written = look(y, column, f, constraints, weight)
    monkeypatch.setattr("fairboost.algorithm.margins.MOST_ENTRIES", 0)
    for found, expected in zip(look(y, column, f, constraints, weight), written, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("relative", [False, True], ids=["", "relative"])
def test_nor_is_one_that_is_given_a_column(data, relative, monkeypatch):
    """Each stratum by itself, in its own unit."""
    y, column, f, _ = data
    stratum = SensitiveColumn("h", np.arange(N, dtype=np.int32) // 2 % 2, ("p", "q"))
    asked = two_sided(parity("fnr", 0.1, by="g", given="h", relative=relative))

    def found():
        spy = Spy()
        lagrangian = session(
            build_cells(y, [column, stratum]), [asked], PROXIES["sigmoid"], spy, convex=True
        )
        lagrangian.play(f)
        return spy.violations[0], spy.units[0]

    written = found()
    monkeypatch.setattr("fairboost.algorithm.margins.MOST_ENTRIES", 0)
    for one, other in zip(found(), written, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


# Bounds, which an untrained model breaks


def test_the_derivative_of_the_papers_parity_is_that_of_the_leading_groups():
    constraints = [parity("fnr", 0.02, by="g"), bound("ppr", 0.4)]
    margins, terms = positives((200, 300, 400), constraints)
    size = terms[0].counted.size
    rng = np.random.default_rng(0)
    for rates in (*rng.random((30, margins.rows.size)), np.full(margins.rows.size, 0.5)):
        found, fresh = margins.at(rates), positives((200, 300, 400), constraints)[0].at(rates)
        values = rng.random(rates.size)
        for figure in ("squares", "means"):
            np.testing.assert_array_equal(
                getattr(found.A, figure)(values), getattr(fresh.A, figure)(values)
            )
        np.testing.assert_array_equal(found.row_units, fresh.row_units)
        elsewhere = rates * 0.9  # with the same leader
        assert margins.at(elsewhere).A is found.A
        led = np.array(rates)
        led[led[:size].argmin()] = 1.5
        assert margins.at(led).A is not found.A


def test_a_bounded_rate_above_one_half_has_the_unit_of_one_half(data):
    """No one is decided positively yet: the rate of 1 says nothing of how hard it is to move."""
    y, column, _, _ = data

    def unit(constraint, n_negative):
        f = np.where(np.cumsum(y == 1) <= n_negative, -1.0, 1.0)
        return look(y, column, f, [constraint])[2][0]

    half = (y == 1).sum() // 2
    for limit in (0.3, 0.5):
        assert unit(bound("fnr", limit), N) == unit(bound("fnr", limit), half)
    assert unit(bound("fnr", 0.9), N) == pytest.approx(unit(bound("fnr", 0.3), half) / 0.6)
    below = unit(bound("fnr", 0.3), half // 5)
    assert below == pytest.approx(unit(bound("fnr", 0.3), half) / 0.6, rel=1e-3)


def test_the_unit_of_a_bound_grows_with_its_multiplier_up_to_a_limit():
    margins, _ = positives([50, 50], [two_sided(parity("fnr", 0.0, by="g")), bound("fnr", 0.3)])
    units = np.full(5, 0.1)
    for integral, expected in ((0.0, 0.1), (0.04, 0.1), (0.5, 1.0), (100.0, 2.5)):
        grown = margins.grown(units, np.full(5, integral))
        assert grown.tolist() == pytest.approx([0.1] * 4 + [expected])


# Tasks whose moments are no shares


class Scaled(Binary):
    """The binary task, that writes down what it is asked."""

    asked = ()

    def deviations(self, moments, squares, quantities):
        object.__setattr__(self, "asked", quantities)
        return np.ones_like(moments)


def scaled(constraints, n=(300, 200)):
    column = SensitiveColumn("g", np.repeat([0, 1], n), ("a", "b"))
    cells = build_cells(np.tile([0, 1], sum(n) // 2).astype(np.int32), [column])
    terms = [bind(c, cells) for c in constraints]
    task = Scaled(PROXIES["sigmoid"])
    return task, Margins(task, np.ones(sum(t.counted.size for t in terms)), terms, None)


def test_the_task_is_told_of_which_quantity_each_moment_is():
    task, margins = scaled([MeanGap(), TwoSided(RATES["fnr"], 0.1, "g")])
    moments = np.array([0.1, 0.2, 0.6, 0.7, 0.3, 0.4])
    margins.units(moments, None, margins.at(moments))
    assert task.asked.tolist() == [0, 0, 0, 0, 1, 1]  # fpr and tpr, then fnr, of two groups


def test_the_ratio_of_large_moments_is_not_taken_for_flat():
    """Its derivative is one over ten million, as it should be; that at parity is none at all."""
    cells = build_cells(np.zeros(500, np.int32), [SensitiveColumn("g", np.arange(500) % 2, "ab")])
    term = bind(Calibrated(0.01, "g"), cells)
    margins = Margins(Scaled(PROXIES["sigmoid"]), np.ones(4), [term], None)
    moments = np.array([1e7, 2e7, 1.1e7, 2.2e7])
    squares = margins.at(moments).A.squares(np.array([1.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(squares, [(1.01 / 1.1e7) ** 2, 0.0, (0.99 / 1.1e7) ** 2, 0.0])


class InMillions:
    """A constraint of someone's own: linear, in millions of the unit of the moments."""

    moments, by = ("ppr",), "g"

    def violations(self, moments):
        return moments.values[0] / 1e7 - 0.3

    def pullback(self, moments, multipliers):
        return multipliers[np.newaxis] / 1e7


def test_a_line_is_flat_at_small_moments_alone():
    """Its matrix is the same everywhere, and that of training is the one at the moments."""
    cells = build_cells(np.zeros(500, np.int32), [SensitiveColumn("g", np.arange(500) % 2, "ab")])
    margins = Margins(Scaled(PROXIES["sigmoid"]), np.ones(2), [bind(InMillions(), cells)], None)
    for moments, slope in ((np.full(2, 0.5), 1.0), (np.full(2, 1e6), 1e-7), (np.ones(2), 1.0)):
        squares = margins.at(moments).A.squares(np.array([1.0, 0.0]))
        np.testing.assert_allclose(squares[0], slope**2)


# Of numbers: one over what violations answer


def means_of(counts, relative=False):
    """The parity of mean predictions of groups of some sizes, bound to rows, and its margins."""
    column = SensitiveColumn("g", np.repeat(np.arange(len(counts)), counts), "abcdefgh")
    cells = build_cells(np.zeros(sum(counts), np.int32), [column])
    term = bind(TwoSided(NUMBERS["prediction"], 0.1, "g", relative), cells)
    task = Regression(Loss("squared"))
    per_row = MomentMap(cells, [term], task.n_quantities).per_row
    return term, Margins(task, per_row, [term], None)


@pytest.mark.parametrize(
    ("counts", "expected"), [((50, 50), 2.0), ((90, 10), 2.0), ((20,) * 5, 1.25)]
)
def test_two_groups_pull_as_one_and_many_each_for_itself(counts, expected):
    term, margins = means_of(counts)
    np.testing.assert_allclose(margins.crowding, expected)
    moments = np.full(len(counts), 0.5)
    J = term.linearized(moments).A.dense() * np.sqrt(margins.per_row)
    J /= np.linalg.norm(J, axis=1, keepdims=True)
    # Sides count once.
    assert np.linalg.norm(J, 2) ** 2 / 2 == pytest.approx(expected)


def test_multipliers_that_have_a_moment_each_are_no_crowd():
    column = SensitiveColumn("g", np.arange(90) % 3, "abc")
    cells = build_cells(np.zeros(90, np.int32), [column])
    term = bind(Calibrated(0.01, "g"), cells)
    pulled = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])  # what is actual stays
    np.testing.assert_allclose(crowding_of(term, np.full(6, 0.5), pulled), 1.0)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("counts", [(50, 50), (90, 10), (20,) * 5, (300, 100, 60, 30, 10)])
def test_a_step_of_all_multipliers_closes_a_quarter_of_a_gap_at_most(counts, relative):
    """Answers of violations to multipliers, times units: one side of each at a time."""
    term, margins = means_of(counts, relative)
    means = np.linspace(3.0, 5.0, len(counts))
    at, squares = margins.at(means), means**2
    J = term.linearized(means).A.dense()
    answers = J * margins.per_row @ J.T * margins.units(means, squares, at)
    one_side = answers[: len(counts), : len(counts)]
    largest = np.abs(np.linalg.eigvals(one_side)).max()
    assert largest <= 1.001 / RESPONSE
    assert largest >= 0.4 / RESPONSE  # and is not far from it


@pytest.mark.parametrize(
    ("constraint", "told", "faster"),
    [
        (TwoSided(NUMBERS["prediction"], 0.1, "g"), 0.02, 7.5),  # 0.3 / 0.04
        (TwoSided(NUMBERS["prediction"], 0.1, "g"), 0.004, 33.3),  # 0.15 / 0.0045
        (TwoSided(NUMBERS["prediction"], 0.1, "g"), 0.0, 1.0),
        (Calibrated(0.01, "g"), 0.004, 1.0),  # out of reach
    ],
)
def test_equal_means_are_within_reach_of_features_that_tell_next_to_nothing(
    constraint, told, faster
):
    """One prediction for everyone has equal means, but is not calibrated."""
    column = SensitiveColumn("g", np.repeat([0, 1], [60, 30]), "ab")
    cells = build_cells(np.zeros(90, np.int32), [column])
    term = bind(constraint, cells)
    answers = np.full(term.counted.size, told)
    per_row = np.ones(term.counted.size)
    found = Margins(Regression(Loss("squared")), per_row, [term], None, answers=answers)
    np.testing.assert_allclose(found.faster, faster, rtol=2e-3)


def test_answers_do_not_depend_on_the_mean_of_the_probabilities():
    """Two groups pull as one: what features tell of the one they tell of the other."""
    rng = np.random.default_rng(0)
    column = SensitiveColumn("g", np.repeat([0, 1], [60, 30]), "ab")
    cells = build_cells(np.zeros(90, np.int32), [column])
    weight = rng.uniform(0.1, 1.0, 90).astype(np.float32)
    likely = rng.uniform(0.2, 0.4, 90) + 0.1 * column.codes  # its mean is not the share, 1/3
    both = np.stack([1 - likely, likely], axis=1).astype(np.float32)
    parity_of_means = TwoSided(NUMBERS["prediction"], 0.1, "g")
    layout = replace(
        lay_out(cells, [parity_of_means], Holdout("none", ""), sample_weight=weight),
        memberships={("g",): both},
    )
    first, second = answers_of(layout.terms[0], layout)
    inside, outside = (np.average(likely[column.codes == g], weights=weight[column.codes == g])
                       for g in (1, 0))  # fmt: skip
    assert first == pytest.approx(inside - outside, rel=1e-5)
    assert second == pytest.approx(first, rel=1e-5)


@pytest.mark.parametrize("sizes", [(50, 50), (70, 30), (10, 20, 70), (25, 25, 25, 25)])
def test_units_of_groups_that_pull_as_one(sizes):
    """The answers of all violations to multipliers of one unit have no eigenvalue above 1."""
    shares = np.array(sizes) / sum(sizes)
    g = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    y = np.arange(len(g)) % 3
    cells = build_cells(y, [SensitiveColumn("g", g, tuple(range(len(sizes))))])
    terms = lay_out(cells, [TwoSided(moment_of("given", (0,), ["a", "b", "c"]), 0.1, "g")]).terms
    margins = Margins(Multiclass(3), 1.0 / shares, terms, None)
    moments = np.full(len(sizes), 0.5)
    units = margins.units(moments, None, margins.at(moments))[: len(sizes)]
    J = np.eye(len(sizes)) - shares
    answers = J @ np.diag(1.0 / shares) @ J.T * units
    assert np.abs(np.linalg.eigvals(answers)).max() == pytest.approx(1.0)
