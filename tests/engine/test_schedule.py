"""The learning rate against its definition, epoch by epoch."""

import math

import pytest

from newfound.core.config import TrainConfig
from newfound.engine.schedule import learning_rate


def defined(epoch: int, lr: float, low: float, warmup: int, epochs: int) -> float:
    """The card's words as a recursion: equal steps up to `lr`, then the cosine."""
    if epoch < warmup:
        value = low
        for _ in range(epoch):
            value += (lr - low) / (warmup - 1)
        return value
    return low + (lr - low) * 0.5 * (1 + math.cos(math.pi * (epoch - warmup) / (epochs - warmup)))


@pytest.mark.parametrize(("lr", "warmup", "epochs"), [(0.4, 10, 500), (0.1, 10, 200), (0.2, 5, 60)])
def test_every_epoch_of_the_published_schedules(lr: float, warmup: int, epochs: int) -> None:
    train = TrainConfig(epochs=epochs, lr=lr, warmup=warmup)
    for epoch in range(epochs):
        assert learning_rate(epoch, train) == pytest.approx(defined(epoch, lr, 0.001, warmup, epochs))
    assert learning_rate(0, train) == pytest.approx(0.001)
    assert learning_rate(warmup - 1, train) == pytest.approx(lr)
    assert learning_rate(epochs - 1, train) > 0.001
    assert learning_rate(epochs, train) == pytest.approx(0.001)


@pytest.mark.parametrize("warmup", [0, 1])
def test_short_warm_ups(warmup: int) -> None:
    train = TrainConfig(epochs=4, lr=0.4, warmup=warmup)
    assert learning_rate(warmup, train) == pytest.approx(0.4)


def test_falls_multiply_the_rate_from_their_epoch_on() -> None:
    train = TrainConfig(epochs=200, lr=0.1, warmup=0, lr_falls="0.5,.85", lr_factor=0.2)
    rates = [learning_rate(epoch, train) for epoch in range(200)]
    assert rates == pytest.approx([0.1] * 100 + [0.02] * 70 + [0.004] * 30)
