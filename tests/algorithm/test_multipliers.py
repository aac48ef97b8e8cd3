"""The dual players, by hand and on a plant that answers slowly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairboost.algorithm.multipliers import (
    FASTER,
    MOST_PACE,
    SLOWER,
    STALLED,
    Ascent,
    Control,
    at_rate,
    resume,
    start,
)


def steps(player, violations, units=None):
    """Multipliers after each of some rounds; violations by round and inequality."""
    violations = np.asarray(violations, float)
    units = np.ones(violations.shape[1]) if units is None else np.asarray(units)
    state, out = start(violations.shape[1]), []
    for row in violations:
        state = player.step(state, row, units)
        out.append(state)
    return out


def test_three_steps_of_control_by_hand():
    """Gain 1, damping 2, memory 1/2, on two inequalities of unit 1 and one of unit 1/2::

        violation    integral    smoothed       integral + 2 smoothed      (unit 1)
         .4          .4          .2             .8
         .2          .6          .2             1.0
        -.3          .45        -.05            .4       at half the pace: it has overshot

        -.4          0          -.2             0, projected
         .2          .2          0              .2       no multiplier was at work
         .3          .5          .15            .8

    The third has the violations of the first, and by its unit half the answers.
    """
    player = Control(gain=1.0, damping=2.0, memory=0.5, most=1.0)
    violations = [[0.4, -0.4, 0.4], [0.2, 0.2, 0.2], [-0.3, 0.3, -0.3]]
    first, second, third = steps(player, violations, [1.0, 1.0, 0.5])
    np.testing.assert_allclose(first.multipliers, [0.8, 0.0, 0.4])
    np.testing.assert_allclose(first.integral, [0.4, 0.0, 0.2])
    np.testing.assert_allclose(first.smoothed, [0.2, -0.2, 0.2])
    np.testing.assert_allclose(second.multipliers, [1.0, 0.2, 0.5])
    np.testing.assert_allclose(second.integral, [0.6, 0.2, 0.3])
    np.testing.assert_allclose(second.smoothed, [0.2, 0.0, 0.2], atol=1e-15)
    np.testing.assert_allclose(third.multipliers, [0.4, 0.8, 0.2])
    np.testing.assert_allclose(third.integral, [0.45, 0.5, 0.225])
    np.testing.assert_array_equal(third.pace, [0.5, 1.0, 0.5])
    np.testing.assert_allclose(third.smoothed, [-0.05, 0.15, -0.05])


def test_the_pace_is_halved_by_an_overshoot_and_grows_else():
    player = Control(gain=1.0, damping=0.0, most=4.0)
    states = steps(player, np.array([[0.2]] * 2 + [[0.1]] + [[-0.1]] * 2 + [[0.1]] * 200))
    paces = np.array([state.pace[0] for state in states])
    factors = [STALLED, STALLED, FASTER, SLOWER, FASTER, SLOWER]  # it stalls, falls, overshoots
    np.testing.assert_allclose(paces[:6], np.cumprod(factors))
    assert paces[-1] == 4.0


def test_a_multiplier_at_rest_keeps_its_pace():
    states = steps(Control(most=8.0), np.full((100, 1), -0.1))
    assert states[-1].pace[0] == 1.0


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=60), st.floats(1, 10), st.floats(0, 20)
)  # fmt: skip
def test_the_pace_lies_between_0_and_the_most(violations, most, damping):
    states = steps(Control(1.0, damping, most=most), np.array(violations)[:, None])
    assert all(0 < state.pace[0] <= most for state in states)


def test_control_without_damping_is_ascent_while_nothing_overshoots():
    violations = np.abs(np.random.default_rng(0).normal(size=(20, 5)))
    pairs = zip(
        steps(Control(gain=0.3, damping=0.0), violations), steps(Ascent(0.3), violations),
        strict=True,
    )  # fmt: skip
    for control, ascent in pairs:
        np.testing.assert_array_equal(control.multipliers, ascent.multipliers)


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=30),
    st.floats(0, 10), st.floats(0, 20), st.floats(0, 0.99), st.floats(0, 10),
)  # fmt: skip
def test_multipliers_of_control_are_never_negative(violations, gain, damping, memory, unit):
    player = Control(gain, damping, memory)
    states = steps(player, np.array(violations)[:, None], [unit])
    for state in states:
        assert state.multipliers.min() >= 0 and state.integral.min() >= 0
        assert abs(state.smoothed).max() <= max(map(abs, violations)) + 1e-12


@given(st.lists(st.floats(-1, 0), min_size=1, max_size=30))
def test_while_nothing_is_violated_nothing_is_weighed(violations):
    states = steps(Control(), np.array(violations)[:, None])
    assert all(state.multipliers[0] == 0 for state in states)


def test_a_long_time_within_the_limit_is_no_credit():
    """The integral stops at zero, so that the first violation after it is answered at once."""
    calm = np.full((200, 1), -0.1)
    after = steps(Control(damping=0.0), np.concatenate([calm, [[0.1]]]))[-1]
    np.testing.assert_allclose(after.multipliers, [0.1])


def test_a_step_changes_nothing_that_it_was_given():
    state, violations, units = start(3), np.array([0.1, -0.2, 0.3]), np.ones(3)
    for player in (Control(), Ascent(1.0)):
        player.step(state, violations, units)
        assert not state.multipliers.any() and not state.integral.any()
        np.testing.assert_array_equal(violations, [0.1, -0.2, 0.3])
        np.testing.assert_array_equal(units, 1)


def test_to_resume_is_to_go_on_from_the_multipliers():
    resumed = resume(np.array([0.5, 2.0]))
    np.testing.assert_array_equal(resumed.multipliers, resumed.integral)
    kept = Control().step(resumed, np.zeros(2), np.ones(2))
    np.testing.assert_array_equal(kept.multipliers, [0.5, 2.0])


# A plant that answers slowly, as boosting with shrinkage does


def errors_of_a_slow_plant(player, lag, slope, rounds=400):
    """Distance of a rate from its limit while it follows a multiplier with a first-order lag.

    The rate stands at 0.5, may be 0.1, and goes a share ``lag`` of the way to
    ``0.5 - slope * multiplier`` in each round.
    """
    state, rate, out = start(1), 0.5, []
    for _ in range(rounds):
        state = player.step(state, np.array([rate - 0.1]), np.ones(1))
        rate += lag * (0.5 - slope * state.multipliers[0] - rate)
        out.append(rate - 0.1)
    return np.array(out)


def test_listening_ends_the_swing_of_a_steep_plant():
    """A rate that answers up to a hundred times as much as units suppose."""
    for slope in (30.0, 100.0):
        deaf, listening = (
            errors_of_a_slow_plant(c, 0.1, slope) for c in (Control(), Control(most=1.0))
        )
        assert np.abs(deaf[-50:]).max() > 0.3
        assert np.abs(listening[-50:]).max() < 1e-3


def test_listening_reaches_a_rate_that_hardly_answers():
    """In a fifth of the rounds: it answers a tenth as much as the slowest that units suppose."""
    deaf, listening = (
        errors_of_a_slow_plant(c, 0.1, 0.01, 2_000) for c in (Control(), Control(most=MOST_PACE))
    )
    assert rounds_to_settle(listening) < rounds_to_settle(deaf) / 3


def overshoot(errors):
    return max(-errors.min(), 0) / 0.4


def rounds_to_settle(errors):
    return int(np.flatnonzero(np.abs(errors) > 0.01)[-1]) + 1


@pytest.mark.parametrize("lag", [0.05, 0.1])
@pytest.mark.parametrize("slope", [0.1, 0.3, 1.0])
def test_control_settles_without_the_overshoot_of_integration(lag, slope):
    control = errors_of_a_slow_plant(Control(), lag, slope)
    integration = errors_of_a_slow_plant(Control(damping=0.0), lag, slope)
    assert overshoot(integration) > 0.15  # by the time the violation is gone, it has gone too far
    assert overshoot(control) < 0.5 * overshoot(integration)
    assert rounds_to_settle(control) < 0.5 * rounds_to_settle(integration)
    assert abs(control[-1]) < 1e-6  # and no error is left


# A mean that goes a share of its way in each round, and is answered one round later


def gaps_of_means(rate, answer, rounds=300, tolerance=0.0, start_gap=2.0):
    """The gap of two groups under the multipliers of its two sides.

    It goes a share ``rate`` of the way to ``start_gap - (above - below)``; a unit is ``answer``.
    """
    player, state, gap, pull, out = at_rate(rate, rounds), start(2), 0.0, 0.0, []
    for _ in range(rounds):
        violations = np.array([gap, -gap]) - tolerance
        after = player.step(state, violations, np.full(2, answer))
        gap += rate * (start_gap - pull - gap)
        pull, state = after.multipliers[0] - after.multipliers[1], after
        out.append(gap)
    return np.array(out)


@given(st.floats(0.05, 1.0), st.floats(0.1, 0.25), st.sampled_from([0.0, 0.1]))
@settings(max_examples=60)
def test_means_settle_at_every_learning_rate(rate, answer, tolerance):
    gaps = gaps_of_means(rate, answer, tolerance=tolerance)
    assert np.abs(gaps).max() <= 2.0 * 1.05  # never further apart than without a constraint
    assert np.abs(gaps[-20:]).max() <= tolerance + 0.02


def test_a_damping_that_does_not_know_the_rate_swings():
    """What :func:`at_rate` is for."""
    state, gap, pull, gaps = start(2), 0.0, 0.0, []
    for _ in range(100):
        after = Control().step(state, np.array([gap, -gap]), np.ones(2))
        gap += 0.3 * (2.0 - pull - gap)
        pull, state = after.multipliers[0] - after.multipliers[1], after
        gaps.append(gap)
    assert np.abs(gaps[-20:]).max() > 100


@pytest.mark.parametrize("rounds", [1, 3, 10, 20, 40, 80, 400])
@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3, 1.0, 1.5])
def test_few_rounds_leave_no_larger_gap_than_there_was(rate, rounds):
    gaps = gaps_of_means(min(rate, 1.0), 0.25, rounds)
    assert np.abs(gaps).max() <= 2.0 * 1.05
    assert at_rate(rate, rounds).damping >= 0
