"""Two calls are compared name by name."""

from newfound.experiment.asked import differences

FIRST = {"method": "iic", "data": {"benchmark": "digits"}, "settings": {"lr": 0.1, "seed": 0}, "images": "a"}


def test_what_differs_is_named() -> None:
    assert differences(FIRST, FIRST) == []
    other = {"method": "rs", "data": {"subset": 3}, "settings": {"lr": 0.1, "seed": 1}, "images": "b"}
    assert differences(FIRST, other) == ["benchmark", "images", "method", "seed", "subset"]


def test_what_only_one_of_them_says_differs_unless_it_is_none() -> None:
    more = FIRST | {"settings": {"lr": 0.1, "seed": 0, "tau": 1.0, "weights": None}}
    assert differences(FIRST, more) == differences(more, FIRST) == ["tau"]
