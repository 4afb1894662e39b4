"""Checkpoints: one safetensors file with the state as JSON in its header, so one rename replaces both."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.optim import Optimizer

from newfound.core.errors import CheckpointError
from newfound.core.files import UNSEALED, read_tensors, reading, write_tensors

WEIGHT, MOMENTS, PAUSED = "weight.", "optimiser.", "paused."
"""Prefixes of the names of tensors."""
State = dict[str, Any]
"""JSON that the caller defines."""
STATE: TypeAdapter[State] = TypeAdapter(State)


@dataclass(frozen=True)
class Checkpoint:
    """A learner's weights, its optimiser's moments, a JSON state, and the tensors of a paused epoch."""

    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    state: State
    paused: dict[str, Tensor] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        tensors = {WEIGHT + key: value for key, value in self.weights.items()}
        tensors |= {MOMENTS + key: value for key, value in self.moments.items()}
        tensors |= {PAUSED + key: value for key, value in self.paused.items()}
        tensors = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        write_tensors(path, save(tensors, {"state": json.dumps(self.state), **UNSEALED}))

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """Read a file that `save` wrote; nothing in it can execute code."""
        with reading(
            path, "a newfound checkpoint (for torchvision's and timm's use weights=FILE)", CheckpointError
        ):
            tensors, facts = read_tensors(path, load)
            state = STATE.validate_json(facts.get("state", ""))
        weights, moments, paused = (
            {key.removeprefix(part): tensors[key] for key in tensors if key.startswith(part)}
            for part in (WEIGHT, MOMENTS, PAUSED)
        )
        return cls(weights, moments, state, paused)


def load_strictly(module: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Load weights that must fit exactly, in number, shape and type."""
    with reading(path, "a fit for this method, encoder and task", CheckpointError):
        module.load_state_dict(dict(weights))
        for key, value in module.state_dict().items():
            check_type(key, weights[key], value)


def check_type(name: str, found: Tensor, like: Tensor) -> None:
    """Refuse a tensor of another type, which torch would convert silently, or of another shape."""
    if found.dtype != like.dtype or found.shape not in (like.shape, ()):
        raise ValueError(
            f"{name} is {found.dtype} {tuple(found.shape)}, not {like.dtype} {tuple(like.shape)}"
        )


def moments_of(module: nn.Module, optimiser: Optimizer) -> dict[str, Tensor]:
    """The optimiser's state of each parameter, named `moment/parameter`."""
    return {
        f"{moment}/{name}": value
        for name, parameter in module.named_parameters()
        for moment, value in optimiser.state.get(parameter, {}).items()
        if value is not None
    }


def restore_moments(module: nn.Module, optimiser: Optimizer, moments: Mapping[str, Tensor]) -> None:
    """Restore what `moments_of` returned, in the memory layout of the parameter, as a fused update needs."""
    parameters = dict(module.named_parameters())
    for key, value in moments.items():
        moment, _, name = key.partition("/")
        like = parameters[name]
        check_type(key, value, like)
        fits = value.shape == like.shape
        buffer = torch.empty_like(like, requires_grad=False).copy_(value) if fits else value.to(like.device)
        optimiser.state[like][moment] = buffer
