"""A few commands, killed; ``make fuzz`` kills as many as are asked for."""

from tests.fuzz import kills


def test_nothing_half_written_is_left():
    for name, what, detail in kills.run(4, seed=1):
        assert what in kills.FINE, (name, what, detail)
