"""Work ahead of its use: the same results in the same order, errors where they belong, no thread left."""

import threading
from itertools import islice

import pytest

from newfound.data.ahead import STEPS, ahead


@pytest.mark.parametrize("number", [0, 1, STEPS, STEPS + 1, 20])
def test_it_is_map(number: int) -> None:
    assert list(ahead(lambda n: n * n, range(number))) == [n * n for n in range(number)]


def test_the_next_items_are_begun_while_one_is_used() -> None:
    begun = [threading.Event() for _ in range(10)]
    results = ahead(lambda n: begun[n].set(), range(10))
    next(results)
    assert all(event.wait(10) for event in begun[: 1 + STEPS])
    assert not begun[1 + STEPS].is_set()
    results.close()  # type: ignore[attr-defined]


def test_what_nobody_wants_any_more_is_not_begun() -> None:
    begun, second, go_on = [], threading.Event(), threading.Event()

    def work(number: int) -> None:
        begun.append(number)
        if number:
            second.set()
            go_on.wait(10)

    results = ahead(work, range(10))
    next(results)
    assert second.wait(10)
    threading.Timer(0.5, go_on.set).start()
    results.close()  # type: ignore[attr-defined]
    assert begun == [0, 1]


def test_an_error_comes_where_its_item_does() -> None:
    results = ahead(lambda n: 1 / (2 - n), range(5))
    assert list(islice(results, 2)) == [0.5, 1.0]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]
