"""A queue of features from earlier batches."""

import torch
from torch import Tensor, nn

from newfound.nn.norm import kept


class Memory(nn.Module):
    """The last `size` rows, first in, first out; its shapes are static.

    It starts with random unit rows; `filled` counts the rows added since. All state is in buffers, so that
    checkpoints store it and captured steps can update it.

    Deviation: NCL's memories start with uniform numbers, in rows of about unit length, and DualRank's
    dictionary with Gaussian ones cut off at zero. On the benchmarks the first epoch replaces them all.
    """

    rows: Tensor
    place: Tensor
    filled: Tensor

    def __init__(self, size: int, *shape: int) -> None:
        super().__init__()
        self.register_buffer("rows", nn.functional.normalize(torch.randn(size, *shape), dim=-1))
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def put(self, rows: Tensor) -> None:
        """Replace the oldest rows with these (n, *shape); if n > `size`, the last `size` are kept."""
        size = len(self.rows)
        rows = rows.detach()[-size:].to(self.rows.dtype)
        places = (self.place + torch.arange(len(rows), device=self.place.device)) % size
        self.rows.index_copy_(0, places, rows)
        self.place.copy_((self.place + len(rows)) % size)
        self.filled.copy_((self.filled + len(rows)).clamp(max=size))

    @property
    def snapshot(self) -> Tensor:
        """A copy of the rows for the backward pass, which the next `put` does not change."""
        return kept(self.rows)

    @property
    def is_full(self) -> Tensor:
        """Whether all initial rows have been replaced, ()."""
        return kept(self.filled == len(self.rows))
