"""What operations have in common."""

import pytest
import torch
from torch import Tensor

from newfound.data.augment.op import per_image, where


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


def test_static_shapes_change_all_of_them() -> None:
    """On a device whose values nobody may look at."""
    images, mask = torch.rand(20, 3, 4, 4, device="meta"), torch.ones(20, dtype=torch.bool, device="meta")
    assert where(mask, lambda images: images + 1, images).shape == images.shape
