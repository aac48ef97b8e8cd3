"""Ratios and floors: by hand, by finite differences, and what holds for all rates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairboost import at_least, parity
from fairboost.exceptions import ConstraintError
from fairboost.fairness.constraints import Constraint, bound, resolve
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.ratios import Floor, RatioParity

NAMES = tuple((k,) for k in "abcdef")
KINDS = {
    "largest": parity("ppr", ratio=0.8, by="g"),
    "strict": parity("tpr", ratio=1.0, by="g"),
    "everyone": parity("ppr", ratio=0.8, by="g", of="everyone"),
    "reference": parity("fpr", ratio=0.6, reference={"g": "b"}),
    "floor": at_least("tpr", 0.8, by="g"),
}
rates_of_groups = arrays(np.float64, st.integers(2, 6), elements=st.floats(0.01, 0.99))


def moments(values, weights=None, strata=None):
    values = np.array([values], float)
    weights = np.ones_like(values) if weights is None else np.array([weights], float)
    return GroupMoments(values, weights, NAMES[: values.shape[1]], strata)


def test_a_ratio_by_hand():
    """Both ends are broken by as much as 0.8 times the largest is above the smallest, over 1.8."""
    c = parity("ppr", ratio=0.8, by="g")
    found = c.violations(moments([0.1, 0.3, 0.2]))
    np.testing.assert_allclose(found, [-11 / 90, 7 / 90, -2 / 90, 7 / 90, -11 / 90, -2 / 90])
    assert found.max() == pytest.approx((0.8 * 0.3 - 0.1) / 1.8)


def test_two_groups_are_pushed_as_by_the_plain_inequality():
    """Coefficients are those of ``0.8 R_1 - R_0``, whichever multiplier has grown."""
    c = parity("ppr", ratio=0.8, by="g")
    r = moments([0.1, 0.3])
    for multipliers in ([0, 1.8, 0, 0], [0, 0, 1.8, 0], [0, 0.9, 0.9, 0]):
        coef = c.pullback(r, np.array(multipliers, float))
        np.testing.assert_allclose(coef, [[-1.0, 0.8]])


def test_compared_with_everyone_and_with_a_group_by_hand():
    r = moments([0.1, 0.3], weights=[3.0, 1.0])
    everyone = KINDS["everyone"]
    np.testing.assert_allclose(everyone.violations(r), [0.8 * 0.15 - 0.1, 0.8 * 0.15 - 0.3])
    np.testing.assert_allclose(everyone.pullback(r, np.array([1.0, 0.0])), [[-0.4, 0.2]])
    group = KINDS["reference"]
    np.testing.assert_allclose(group.violations(r), [0.6 * 0.3 - 0.1, -0.4 * 0.3])
    np.testing.assert_allclose(group.pullback(r, np.array([1.0, 0.0])), [[-1.0, 0.6]])


def test_a_floor_by_hand():
    c = at_least("tpr", 0.8)
    np.testing.assert_allclose(c.violations(moments([0.7, 0.9])), [0.1, -0.1])
    np.testing.assert_allclose(c.pullback(moments([0.7, 0.9]), np.array([2.0, 0.5])), [[-2, -0.5]])


def test_groups_given_the_same_value_are_compared():
    c = parity("ppr", ratio=0.8, by="g", given="h")
    r = moments([0.1, 0.2, 0.5, 0.6], strata=np.array([0, 1, 0, 1], np.int32))
    one, other = moments([0.1, 0.5]), moments([0.2, 0.6])
    alone = [parity("ppr", ratio=0.8).violations(part) for part in (one, other)]
    found = c.violations(r).reshape(2, 4)
    np.testing.assert_allclose(found[:, [0, 2]].ravel(), alone[0])
    np.testing.assert_allclose(found[:, [1, 3]].ravel(), alone[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_the_pullback_is_the_derivative(kind, seed):
    rng = np.random.default_rng(seed)
    c, n = KINDS[kind], 5
    r, w = rng.uniform(0.1, 0.9, n), rng.uniform(1, 9, n)
    k = len(c.violations(moments(r, w)))
    multipliers, step = rng.uniform(0, 2, k), 1e-6
    found = c.pullback(moments(r, w), multipliers)[0]
    for g in range(n):
        up, down = (r + sign * step * (np.arange(n) == g) for sign in (1, -1))
        ends = [multipliers @ c.violations(moments(end, w)) for end in (up, down)]
        assert found[g] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-8)


@given(rates_of_groups, st.floats(0.05, 1.0))
def test_the_constraint_holds_exactly_if_the_ratio_does(r, ratio):
    """Nothing more is asked for than the ratio, and nothing less."""
    worst = parity("ppr", ratio=ratio).violations(moments(r)).max()
    assert worst == pytest.approx((ratio * r.max() - r.min()) / (1 + ratio), abs=1e-12)


@given(rates_of_groups, st.floats(0.1, 1.0), st.sampled_from(["largest", "everyone"]))
def test_a_ratio_does_not_depend_on_the_scale_of_rates(r, scale, of):
    c = parity("ppr", ratio=0.8, of=of)
    whole, part = moments(r), moments(scale * r)
    np.testing.assert_allclose(c.violations(part), scale * c.violations(whole), atol=1e-12)
    np.testing.assert_allclose(c.ratios(part), c.ratios(whole))
    np.testing.assert_allclose(
        c.linearized(part).room, scale * c.linearized(whole).room, atol=1e-12
    )


@given(rates_of_groups, st.randoms(use_true_random=False))
def test_the_order_of_groups_does_not_matter(r, random):
    c = parity("ppr", ratio=0.8)
    order = list(range(len(r)))
    random.shuffle(order)
    found = c.violations(moments(r)).reshape(2, -1)[:, order]
    np.testing.assert_allclose(c.violations(moments(r[order])).reshape(2, -1), found)


@given(rates_of_groups)
def test_equal_rates_lie_as_far_inside_as_there_is_room(r):
    """A margin up to the room can be kept: at parity no aimed violation is positive."""
    for c in (parity("ppr", ratio=0.8), parity("ppr", ratio=0.8, of="everyone")):
        equal = moments(np.full(len(r), r[0]))
        np.testing.assert_allclose(c.violations(equal), -c.linearized(equal).room, atol=1e-12)


def test_no_decisions_at_all_break_no_ratio():
    c = parity("ppr", ratio=0.8)
    nothing = moments([0.0, 0.0])
    assert c.violations(nothing).max() == 0
    np.testing.assert_array_equal(c.ratios(nothing), [1.0, 1.0])
    c.pullback(moments([np.nan, np.nan]), np.ones(4))  # without a warning


def test_four_fifths_is_a_name():
    (found,) = resolve("four_fifths", None, ["sex"])
    assert found == parity("ppr", ratio=0.8, by="sex")
    assert isinstance(found, Constraint)
    both = resolve(["four_fifths", "equal_opportunity"], 0.05, ["sex"])
    assert [c.name for c in both] == ["ppr ratio", "fnr"]
    assert both[1].tolerance == 0.05


def test_every_column_has_a_copy():
    found = resolve([parity("ppr", ratio=0.9), at_least("tpr", 0.5)], None, ["sex", "race"])
    assert [(c.name, c.by) for c in found] == [
        ("ppr ratio", "sex"), ("ppr ratio", "race"), ("tpr>=0.5", "sex"), ("tpr>=0.5", "race"),
    ]  # fmt: skip


def test_of_is_a_class_for_rates_of_classes_and_a_comparison_for_others():
    assert parity("ppr", ratio=0.8, of="everyone").of == "everyone"
    recall = parity("recall", ratio=0.8, of="everyone")  # a class of this name
    assert recall.of == "largest"
    assert recall.moment.of == "everyone"
    assert parity("recall", ratio=0.8).moment.of is None


def test_a_reference_of_several_columns():
    c = parity("ppr", ratio=0.8, reference={"sex": "M", "race": "w"})
    assert (c.by, c.reference, c.of) == (("sex", "race"), ("M", "w"), "reference")
    assert (
        parity("ppr", ratio=0.8, by=("sex", "race"), reference=("M", "w")).reference == c.reference
    )


def test_words():
    assert parity("ppr", ratio=0.8).words("sex").endswith("by sex at least 0.8 of the largest")
    assert KINDS["everyone"].words("g").endswith("of everyone's")
    assert KINDS["reference"].words("g").endswith("of that of b")
    given_h = parity("ppr", ratio=0.8, by="g", given="h")
    assert given_h.words("g given h").endswith("of the largest of the same h")


@pytest.mark.parametrize("ratio", [0, -0.5, 1.01, np.nan, np.inf, "0.8", True])
def test_what_is_no_ratio_is_refused(ratio):
    with pytest.raises(ConstraintError, match="above 0 and at most 1"):
        parity("ppr", ratio=ratio)


@pytest.mark.parametrize("floor", [0, 1, -1, 1.5, np.nan, "0.8"])
def test_what_is_no_floor_is_refused(floor):
    with pytest.raises(ConstraintError, match=r"must lie in \(0, 1\)"):
        at_least("tpr", floor)


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        (lambda: parity("ppr", 0.1, ratio=0.8), "two ways to say"),
        (lambda: parity("ppr", ratio=0.8, relative=True), "two ways to say"),
        (lambda: parity("ppr", reference="M"), "no ratio is asked for"),
        (lambda: parity("ppr", ratio=0.8, of="men"), "names a class"),
        (lambda: parity("ppr", ratio=0.8, of="everyone", reference="M"), "both say what"),
        (lambda: parity("ppr", ratio=0.8, by="g", given="h", reference="M"), "cannot be combined"),
        (lambda: parity("ppr", ratio=0.8, by="race", reference={"sex": "M"}), "names others"),
        (lambda: parity("nonsense", ratio=0.8), "unknown rate"),
        (lambda: at_least("prediction", 0.5), "mean of numbers"),
        (lambda: at_least("tpr", 0.5, by=["g"]), "by must be"),
        (lambda: resolve(parity("ppr", ratio=0.8, reference="M"), None, ["sex", "race"]),
         "ambiguous"),
        (lambda: resolve("four_fifths", 0.05, ["sex"]), "limit in itself"),
        (lambda: resolve([at_least("tpr", 0.5), bound("fpr", 0.1)], 0.05, ["sex"]), "limit in"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(asked, match):
    with pytest.raises(ConstraintError, match=match):
        asked()


def test_an_absent_reference_is_refused_with_the_groups_that_there_are():
    c = parity("ppr", ratio=0.8, reference={"g": "z"})
    with pytest.raises(ConstraintError, match="the groups of 'g' are 'a', 'b'"):
        c.violations(moments([0.1, 0.2]))


def test_constraints_are_plain_values():
    assert parity("ppr", ratio=0.8) == parity("ppr", ratio=0.8)
    assert hash(at_least("tpr", 0.8)) == hash(at_least("tpr", 0.8))
    assert isinstance(at_least("tpr", 0.8), Floor)
    assert isinstance(parity("ppr", ratio=0.8), RatioParity)
