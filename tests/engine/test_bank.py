"""Functions over whole sets of images, in evaluation mode."""

import pytest
import torch
from torch import Tensor

from newfound.core.errors import RunError
from newfound.core.learner import Learner
from newfound.core.records import Task
from newfound.data.augment import evaluation_view
from newfound.data.images import Dataset
from newfound.engine import bank
from newfound.engine.bank import TrainingBank, Viewer
from newfound.nn.small import SmallEncoder
from newfound.stages.pretrain import Supervised
from tests.tiny import CPU


@pytest.fixture
def learner() -> Learner:
    torch.manual_seed(0)
    return Supervised(SmallEncoder(), Task(5, 5), Supervised.Config())


def viewer(learner: Learner, data: Dataset, precision: torch.dtype = torch.float32) -> Viewer:
    return Viewer(learner, data.split.look, CPU, precision)


def plain(data: Dataset) -> Tensor:
    """All unlabelled images as evaluation sees them."""
    look, images = data.split.look, data.split.unlabelled
    pixels = images.take(torch.arange(len(images)))
    return evaluation_view(pixels, look.size, look.kind, look.mean, look.std)


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_mode_inside_and_the_old_mode_after(
    learner: Learner, digits: Dataset, training: bool
) -> None:
    learner.train(training)
    seen = []

    def look_at_it(images: Tensor) -> Tensor:
        seen.append((learner.training, learner.encoder.training, torch.is_grad_enabled()))
        return images

    viewer(learner, digits).over(digits.split.unlabelled, look_at_it)
    assert set(seen) == {(False, False, False)}
    assert (learner.training, learner.encoder.training, torch.is_grad_enabled()) == (training, training, True)


def test_running_statistics_and_weights_stay(learner: Learner, digits: Dataset) -> None:
    before = {key: value.clone() for key, value in learner.state_dict().items()}
    viewer(learner, digits).over(digits.split.unlabelled, learner.encoder)
    assert all(torch.equal(value, before[key]) for key, value in learner.state_dict().items())


@pytest.mark.parametrize("chunk", [7, 1000])
def test_over_is_one_big_call(
    learner: Learner, digits: Dataset, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To 1e-5, since a convolution may add up in another order for another number of images."""
    monkeypatch.setattr(bank, "CHUNK", chunk)
    out = viewer(learner, digits).over(digits.split.unlabelled, learner.encoder)
    with torch.no_grad():
        expected = learner.eval().encoder(plain(digits))
    assert not out.requires_grad
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_parts_are_joined_along_the_axis_in_the_order_of_the_rows(
    learner: Learner, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank, "CHUNK", 10)
    images = digits.split.unlabelled

    def three_heads(view: Tensor) -> Tensor:
        return torch.stack([view.flatten(1) + head for head in range(3)])

    out = viewer(learner, digits).over(images, three_heads, axis=1)
    assert out.shape == (3, len(images), 3 * 8 * 8)
    assert torch.equal(out, three_heads(plain(digits)))


def test_half_precision_comes_back_as_float32(learner: Learner, digits: Dataset) -> None:
    """bf16 keeps 8 bits, and three layers lose a little more."""
    full, half = (
        viewer(learner, digits, precision).over(digits.split.unlabelled, learner.encoder)
        for precision in (torch.float32, torch.bfloat16)
    )
    assert half.dtype == torch.float32
    assert not torch.equal(full, half)
    torch.testing.assert_close(full, half, rtol=0.05, atol=0.05 * full.abs().max().item())


@pytest.mark.parametrize(
    ("precision", "advice"),
    [(torch.float32, "with a lower lr$"), (torch.bfloat16, "with a lower lr or precision=float32$")],
)
def test_what_is_no_number_is_refused(
    learner: Learner, digits: Dataset, precision: torch.dtype, advice: str
) -> None:
    with pytest.raises(RunError, match=f"its training has diverged; start again in a new folder {advice}"):
        viewer(learner, digits, precision).over(digits.split.unlabelled, lambda view: view * torch.nan)


def test_the_training_bank_is_the_two_sets_and_their_labels(learner: Learner, digits: Dataset) -> None:
    split = digits.split
    view = viewer(learner, digits)
    whole = TrainingBank(view, split)
    assert torch.equal(whole.labels, split.labels)
    assert torch.equal(whole.labelled(learner.encoder), view.over(split.labelled, learner.encoder))
    assert torch.equal(whole.unlabelled(learner.encoder), view.over(split.unlabelled, learner.encoder))
    assert len(whole.labelled(learner.encoder)) == len(whole.labels)
