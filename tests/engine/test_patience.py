"""A long first epoch says how long all will take, more and more seldom."""

from newfound.engine.patience import Patience


def told(seconds_a_step: float, steps: int, of: int) -> list[str]:
    lines: list[str] = []
    now = [0.0]
    patience = Patience("pretrain", of, lines.append, lambda: now[0])
    now[0] = 100.0  # the first step compiles
    for done in range(1, steps + 1):
        patience(done)
        now[0] += seconds_a_step
    return lines


def test_it_speaks_after_ten_seconds_twenty_and_forty() -> None:
    assert told(5.0, 10, of=1_000) == [
        "pretrain: step 3 of 1,000, 4985 s left at this rate",
        "pretrain: step 5 of 1,000, 4975 s left at this rate",
        "pretrain: step 9 of 1,000, 4955 s left at this rate",
    ]


def test_a_quick_epoch_ends_without_a_word() -> None:
    assert told(0.1, 90, of=1_000) == []
