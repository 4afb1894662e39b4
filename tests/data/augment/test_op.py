"""What operations have in common."""

import pytest
import torch
from torch import Tensor

from newfound.data.augment.colour import Jitter, Solarise
from newfound.data.augment.geometry import Blur
from newfound.data.augment.op import Op, per_image, where


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_only_the_chosen_samples_change(share: float) -> None:
    """An eager CPU, which changes no others, gives the bits of the definition."""
    seen = []

    def change(images: Tensor, factor: Tensor, shift: Tensor) -> Tensor:
        seen.append(len(images))
        return images * per_image(factor) + per_image(shift)

    images, factor, shift, draws = torch.rand(20, 3, 4, 4), *torch.rand(3, 20)
    mask = draws < share
    wanted = torch.where(per_image(mask), images * per_image(factor) + per_image(shift), images)
    assert torch.equal(where(mask, change, images, factor, shift), wanted)
    assert seen == [int(mask.sum())]


@pytest.mark.parametrize("op", [Jitter(0.4, 0.4, 0.2, 0.1, p=0.5), Solarise(0.5), Blur(0.5)], ids=str)
@pytest.mark.parametrize("count", [1, 40])
def test_operations_have_the_bits_of_static_shapes(
    op: Op, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = torch.Generator().manual_seed(count)
    images = torch.randint(0, 256, (count, 3, 12, 12), generator=random).float()
    u = torch.rand(count, op.noise, generator=random)
    eager = op(images, u)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert torch.equal(op(images, u), eager)


def test_static_shapes_change_all_of_them() -> None:
    """On a device whose values nobody may look at."""
    images, mask = torch.rand(20, 3, 4, 4, device="meta"), torch.ones(20, dtype=torch.bool, device="meta")
    assert where(mask, lambda images: images + 1, images).shape == images.shape
