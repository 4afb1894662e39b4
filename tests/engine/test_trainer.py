"""The training loop: epochs in order, resumable, stopping at what is not finite."""

import logging
import math
from collections.abc import Iterator
from dataclasses import replace
from math import cos, nan, pi

import pytest
import torch
from torch import Tensor

from newfound.core.errors import RunError
from newfound.core.learner import Bank, Learner
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.settings import TrainConfig
from newfound.data.dataset import Dataset
from newfound.data.loader import Loader
from newfound.engine.checkpoint import moments_of, restore_moments
from newfound.engine.evaluate import TrainingBank, Viewer
from newfound.engine.step import random_states, set_random_states
from newfound.engine.trainer import EpochRecord, Notices, Trainer, learning_rate
from newfound.nn.encoders.small import SmallEncoder
from tests.tiny import CPU

TRAIN = TrainConfig(epochs=5, batch_size=60, lr=0.2, min_lr=0.01, warmup=2, augmentation="weak")
STEPS = 4


class Toy(Learner):
    """Three heads, of which the second is the best, a loss with chance in it, and a diary."""

    views = Views(1)

    def __init__(self) -> None:
        super().__init__(SmallEncoder(), Task(5, 5), None)
        self.head = torch.nn.Linear(self.encoder.dim, 3)
        self.diary: list[str] = []
        self.spoil_in = -1

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        return {"heads": self.head(self.encode(batch.views))}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        self.diary.append(f"step {clock.epoch.item():.0f}, training={self.training}")
        squares = (out["heads"] + torch.rand(3)).square().mean((0, 1))
        spoiled = torch.where(clock.epoch == self.spoil_in, nan, 0.0)
        return {
            "ce": squares + torch.tensor([2.0, 0.0, 1.0]),
            "more": squares * 0 + torch.tensor([0.5, 0.0, 3.0]),
            "plain": squares.mean() + spoiled,
        }

    def begin(self, bank: Bank) -> None:
        self.diary.append(f"begin {len(bank.labels)}")

    def end(self, bank: Bank) -> None:
        self.diary.append("end")

    def after_step(self) -> None:
        self.diary.append("after step")

    def after_epoch(self, bank: Bank, clock: Clock) -> None:
        self.diary.append(f"after epoch {clock.epoch:.0f}")


def trainer(data: Dataset, train: TrainConfig = TRAIN) -> tuple[Toy, Trainer]:
    torch.manual_seed(0)
    learner = Toy()
    loader = Loader(
        data.split,
        learner.views,
        train,
        uses="both",
        seed=0,
        stage="discover",
        device=CPU,
    )
    assert loader.steps == STEPS
    bank = TrainingBank(Viewer(learner, data.split.look, CPU, torch.float32), data.split)
    return learner, Trainer(learner, loader, train, bank)


def timeless(records: list[EpochRecord] | Iterator[EpochRecord]) -> list[EpochRecord]:
    return [replace(record, seconds=0, images_per_second=0) for record in records]


def test_records_come_in_order_with_the_learning_rate_of_each_epoch(digits: Dataset) -> None:
    _, train = trainer(digits)
    used = []
    records = []
    for record in train.run():
        records.append(record)
        used.append(train.optimiser.param_groups[0]["lr"])
    assert [(r.stage, r.epoch, r.epochs) for r in records] == [("discover", e, 5) for e in range(5)]
    falling = [0.01 + 0.19 * (1 + cos(pi * done / 3)) / 2 for done in range(3)]
    assert [r.lr for r in records] == pytest.approx([0.01, 0.2, *falling])
    assert used == [r.lr for r in records]
    assert all(r.seconds > 0 for r in records)
    assert [r.images_per_second * r.seconds for r in records] == pytest.approx([STEPS * 60] * 5)


def test_nothing_happens_before_it_is_asked_for(digits: Dataset) -> None:
    learner, train = trainer(digits)
    epochs = train.run()
    assert learner.diary == []
    next(epochs)
    epoch = ["step 0, training=True", "after step"] * STEPS + ["after epoch 0"]
    assert learner.diary == ["begin 120", "after step", *epoch]


def test_training_mode_comes_back_whatever_the_caller_did(digits: Dataset) -> None:
    learner, train = trainer(digits)
    for _ in train.run():
        learner.eval()
    assert not any("training=False" in line for line in learner.diary)


@pytest.mark.parametrize("first_epoch", [1, 3])
def test_a_resumed_run_repeats_every_record_and_bit(digits: Dataset, first_epoch: int) -> None:
    whole, train = trainer(digits)
    expected = timeless(train.run())
    before, interrupted = trainer(digits)
    epochs = interrupted.run()
    for _ in range(first_epoch):
        next(epochs)
    after, resumed = trainer(digits)
    after.load_state_dict(before.state_dict())
    restore_moments(after, resumed.optimiser, moments_of(before, interrupted.optimiser))
    torch.rand(11)
    assert timeless(resumed.run(first_epoch)) == expected[first_epoch:]
    assert all(torch.equal(value, after.state_dict()[key]) for key, value in whole.state_dict().items())
    assert not any(line.startswith("begin") for line in after.diary)
    assert [line for line in after.diary if line == "end"] == after.diary[-1:]


def test_random_numbers_of_a_gpu_go_on_too(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, there = torch.device("cuda", 0), torch.Generator()
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: there.get_state())
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: there.set_state(state))
    paused = random_states(gpu)
    expected = torch.rand(3), torch.rand(3, generator=there)
    set_random_states(paused, gpu)
    assert torch.equal(torch.stack(expected), torch.stack([torch.rand(3), torch.rand(3, generator=there)]))
    set_random_states(random_states(CPU), gpu)
    assert random_states(CPU).keys() < paused.keys()


@pytest.mark.parametrize("first_epoch", [0, 3])
def test_the_time_left_counts_all_epochs_to_come(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, first_epoch: int
) -> None:
    monkeypatch.setattr("newfound.engine.trainer.FIRST_NOTICE", 0.0)
    caplog.set_level(logging.INFO, "newfound")
    list(trainer(digits)[1].run(first_epoch))
    steps = f"of {(5 - first_epoch) * STEPS},"
    assert [line.partition(steps)[0] for line in caplog.messages] == [
        f"discover: step {done} " for done in (2, 3, 4)
    ]


def test_losses_are_means_over_the_epoch(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    _, train = trainer(digits)
    seen: list[Losses] = []
    original = Toy.loss

    def noted(self: Toy, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        seen.append(original(self, out, batch, clock))
        return seen[-1]

    monkeypatch.setattr(Toy, "loss", noted)
    record = next(train.run())
    assert len(seen) == STEPS
    for name, value in record.losses.items():
        assert value == pytest.approx(sum(losses[name].mean().item() for losses in seen) / STEPS, rel=1e-5)
    by_head: Tensor = torch.stack([losses["ce"] + losses["more"] for losses in seen]).mean(0)
    assert record.head_losses == pytest.approx(by_head.tolist(), rel=1e-5)
    assert record.best_head == int(by_head.argmin()) == 1


def test_compilation_is_no_part_of_an_epochs_seconds(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, train = trainer(digits)
    monkeypatch.setattr(train.step, "take_compile_seconds", lambda: 80.0)
    readings = iter([1000.0, 1084.0])
    monkeypatch.setattr("newfound.engine.trainer.time.perf_counter", lambda: next(readings))
    record = next(train.run())
    assert (record.seconds, record.compile_seconds) == (4.0, 80.0)
    assert record.images_per_second == (STEPS - 1) * TRAIN.batch_size / 4  # the first step compiled


def test_best_head_is_the_lowest() -> None:
    record = EpochRecord("discover", 0, 1, 0.1, {}, [3.0, 2.0, 2.5], 1.0, 1.0)
    assert record.best_head == 1
    assert replace(record, head_losses=[]).best_head == 0
    assert replace(record, head_losses=[1.0, 1.0]).best_head == 0


def test_what_is_not_finite_stops_the_run_before_its_epoch_counts(digits: Dataset) -> None:
    learner, train = trainer(digits)
    learner.spoil_in = 2
    records: list[EpochRecord] = []
    with pytest.raises(RunError, match="epoch 3 of discover: plain = nan"):
        records.extend(train.run())
    assert [record.epoch for record in records] == [0, 1]
    assert [line for line in learner.diary if line.startswith("after epoch")] == [
        "after epoch 0",
        "after epoch 1",
    ]


def test_no_epochs_still_begin(digits: Dataset) -> None:
    learner, train = trainer(digits, replace(TRAIN, epochs=0))
    assert list(train.run()) == []
    assert learner.diary == ["begin 120", "after step", "end"]


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


@pytest.mark.parametrize("epochs", range(1, 24))
def test_a_warm_up_takes_half_of_the_epochs_at_most(epochs: int) -> None:
    """A shorter run than that has the schedule of a warm-up that is its first half."""
    given = TrainConfig(epochs=epochs, lr=0.4, warmup=10)
    rates = [learning_rate(epoch, given) for epoch in range(epochs)]
    fitting = max(warmup for warmup in range(11) if 2 * warmup <= epochs)
    assert rates == pytest.approx([defined(epoch, 0.4, 0.001, fitting, epochs) for epoch in range(epochs)])
    assert max(rates) == pytest.approx(0.4)


@pytest.mark.parametrize("warmup", [0, 1])
def test_short_warm_ups(warmup: int) -> None:
    train = TrainConfig(epochs=4, lr=0.4, warmup=warmup)
    assert learning_rate(warmup, train) == pytest.approx(0.4)


def test_falls_multiply_the_rate_from_their_epoch_on() -> None:
    train = TrainConfig(epochs=200, lr=0.1, warmup=0, lr_falls="0.5,.85", lr_factor=0.2)
    rates = [learning_rate(epoch, train) for epoch in range(200)]
    assert rates == pytest.approx([0.1] * 100 + [0.02] * 70 + [0.004] * 30)


def test_a_long_first_epoch_logs_the_time_left(caplog: pytest.LogCaptureFixture) -> None:
    """After ten seconds, twenty and forty; the first step, which may compile, does not count."""
    caplog.set_level(logging.INFO, "newfound")
    now = [0.0]
    notices = Notices("pretrain", 1_000, lambda: now[0])
    now[0] = 100.0
    for done in range(1, 11):
        notices(done)
        now[0] += 5.0
    assert caplog.messages == [
        f"pretrain: step {done} of 1,000, {(1_000 - done) * 5} s left" for done in (3, 5, 9)
    ]
