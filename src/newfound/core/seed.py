"""Random streams, each derived from the run's seed and the name of its purpose.

A stream does not depend on what was drawn before, so resuming needs no saved generator state.
"""

from hashlib import blake2b

import torch


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed for the stream called `names`."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(device: torch.device, seed: int, *names: str | int) -> torch.Generator:
    """A generator on `device` for the stream called `names`."""
    return torch.Generator(device).manual_seed(derive(seed, *names))
