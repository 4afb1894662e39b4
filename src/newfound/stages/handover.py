"""What a method must be given by the stage before it."""

from collections.abc import Mapping

from torch import Tensor

from newfound.core.errors import CheckpointError


def must_hold(weights: Mapping[str, Tensor], part: str, stage: str) -> None:
    """Refuse weights without `part`: it would stay as it was drawn at random, and nobody would notice."""
    if not any(key.startswith(f"{part}.") for key in weights):
        raise CheckpointError(
            f"the pretrained weights must come from the stage {stage}, with tensors {part}.*; got none of "
            "these; leave pretrained out"
        )
