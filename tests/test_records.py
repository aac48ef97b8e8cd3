"""Options that travel together."""

import pytest

from fairboost import SearchOptions
from fairboost._records import with_fields
from fairboost.exceptions import InvalidInputError


def test_fields_are_given_by_name_or_in_the_record():
    record = with_fields(SearchOptions(n_trials=5), {"models": 3}, "tune")
    assert (record.n_trials, record.models) == (5, 3)


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(TypeError, match=r"tune\(\) got an unexpected .* 'trials'; .* n_trials"):
        with_fields(SearchOptions(), {"trials": 5}, "tune")


def test_values_are_checked_either_way():
    with pytest.raises(InvalidInputError, match="n_trials must be a whole number from 1"):
        with_fields(SearchOptions(), {"n_trials": 0}, "tune")
