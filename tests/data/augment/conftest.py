"""Pictures to augment and Pillow to compare with."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

Edit = Callable[[Image.Image], Image.Image]


@pytest.fixture
def pictures() -> Callable[[int, int, int], Tensor]:
    """(count, height, width) → float32 whole levels (count, 3, height, width)."""

    def make(count: int, height: int, width: int) -> Tensor:
        generator = torch.Generator().manual_seed(count * height + width)
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        waves = torch.rand(count, 3, 3, 1, 1, generator=generator)
        smooth = 128 + 127 * torch.sin(waves[:, :, 0] * x / 2 + waves[:, :, 1] * y / 2 + 6 * waves[:, :, 2])
        noise = torch.randint(0, 256, (count, 3, height, width), generator=generator).float()
        extreme = 255 * (noise > 128)
        faint = 100 + (noise / 16).floor()
        flat = noise[:, :, :1, :1].expand_as(noise)
        looks = torch.stack([noise, smooth.floor(), extreme, faint, flat])
        return looks[torch.arange(count) % len(looks), torch.arange(count)]

    return make


@pytest.fixture
def pillow() -> Callable[[Tensor, Iterable[Edit]], Tensor]:
    """Each image through its own Pillow function: (B, 3, H, W), B functions → (B, 3, h, w)."""

    def through(images: Tensor, edits: Iterable[Edit]) -> Tensor:
        arrays = images.to(torch.uint8).permute(0, 2, 3, 1).numpy()
        edited = [np.asarray(edit(Image.fromarray(array))) for array, edit in zip(arrays, edits, strict=True)]
        return torch.from_numpy(np.stack(edited)).permute(0, 3, 1, 2).float()

    return through
