"""Places within a class, against a count by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newfound.core.errors import UsageError
from newfound.data.subsets import check_subset, rank_in_class


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=20))
def test_rank_is_the_count_of_earlier_rows_of_the_class(labels: list[int]) -> None:
    expected = [labels[:row].count(label) for row, label in enumerate(labels)]
    assert rank_in_class(np.array(labels, dtype=np.int64)).tolist() == expected


def test_an_empty_subset_is_refused() -> None:
    check_subset(None)
    check_subset(1)
    with pytest.raises(UsageError, match="subset must be at least 1 image of each class; got 0"):
        check_subset(0)
