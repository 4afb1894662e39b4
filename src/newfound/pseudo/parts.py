"""Parts of images as words of a dictionary: what the cells of a feature map look most like, no gradient.

Shapes: B images, L cells of a map, D features, S words.
"""

import torch
from torch import Tensor

DECAY = 0.99
"""How much of the mean distance to the nearest word is kept from step to step."""


def inner_cells(maps: Tensor) -> Tensor:
    """(B, D, h, w) → (B, L, D) without the border, one cell wide, of maps that have an inside."""
    h, w = maps.shape[-2:]
    inside = maps[..., 1:-1, 1:-1] if min(h, w) > 2 else maps
    return inside.detach().flatten(2).mT.float()


@torch.no_grad()
def random_cell(cells: Tensor) -> Tensor:
    """(B, L, D) → (B, D): of each image one cell, drawn at random."""
    B, L, D = cells.shape
    place = torch.randint(L, (B, 1, 1), device=cells.device)
    return cells.gather(1, place.expand(B, 1, D)).squeeze(1)


@torch.no_grad()
def part_codes(cells: Tensor, words: Tensor, nearest: Tensor, sharpness: float) -> tuple[Tensor, Tensor]:
    """Cells (B, L, D), words (S, D) → the share of each word in each image (B, S), rows that sum to 1.

    A cell is shared among the words by softmax(- sharpness distance² / nearest). `nearest` () is a running
    mean of the squared distance to the nearest word; it comes back updated.
    """
    with torch.autocast(cells.device.type, enabled=False):
        lengths = cells.square().sum(-1, keepdim=True) + words.square().sum(-1)
        distances = (lengths - 2 * cells @ words.mT).clamp(min=0)
    nearest = torch.lerp(distances.amin(-1).mean(), nearest, DECAY)
    # Of exact copies the nearest distance is 0.
    shares = (distances * (-sharpness / nearest.clamp(min=1e-6))).softmax(-1)
    return shares.mean(1), nearest
