"""The size of a run's images."""

import pytest

from newfound.core.errors import UsageError
from newfound.data.sizes import check_side, choose_side


@pytest.mark.parametrize(
    ("sizes", "side"),
    [
        ([(28, 28)] * 3, 28),
        ([(64, 64)] * 3, 64),
        ([(65, 65)] * 3, 64),
        ([(28, 28), (28, 30)], 32),
        ([(5, 5)] * 2, 32),
        ([(480, 640), (1200, 800), (100, 100)], 224),
        ([(100, 300)] * 2, 96),
        ([(80, 80)] * 2, 96),
        ([(48, 40)] * 2, 32),
    ],
)
def test_choice(sizes: list[tuple[int, int]], side: int) -> None:
    assert choose_side(sizes)[0] == side


def test_the_reason_is_told() -> None:
    reason = choose_side([(100, 300)] * 2)[1]
    assert reason == "of 32, 64, 96, 128, 224 the nearest to the median of the shorter sides, 100"
    assert choose_side([(28, 28)])[1] == "the size of every image"


def test_a_side_that_is_too_small_or_too_large() -> None:
    assert check_side(8) == 8
    with pytest.raises(UsageError, match="at least 8 pixels and at most 1024; got 7"):
        check_side(7)
    with pytest.raises(UsageError, match="at most 1024; got 20000"):
        check_side(20000)
