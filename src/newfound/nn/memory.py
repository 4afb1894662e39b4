"""What a method remembers of earlier batches."""

import torch
from torch import Tensor, nn

from newfound.nn.kept import kept


class Memory(nn.Module):
    """The last `size` rows that were put in, oldest first out; its shapes never change.

    It starts with random rows of unit length; `filled` counts those that were put in since. All of it is
    buffers, so checkpoints keep it and captured steps can move it.
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
        """Replace the oldest rows by these (n, *shape); of more than `size`, the last remain."""
        size = len(self.rows)
        rows = rows.detach()[-size:].to(self.rows.dtype)
        places = (self.place + torch.arange(len(rows), device=self.place.device)) % size
        self.rows.index_copy_(0, places, rows)
        self.place.copy_((self.place + len(rows)) % size)
        self.filled.copy_((self.filled + len(rows)).clamp(max=size))

    @property
    def snapshot(self) -> Tensor:
        """The rows as they are now, which backward may use while the memory moves on."""
        return kept(self.rows)

    @property
    def is_full(self) -> Tensor:
        """() whether every row was put in."""
        return kept(self.filled == len(self.rows))
