"""Checkpoints: one safetensors file with its state as JSON in the header, so one rename replaces both."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim import Optimizer

from newfound.core.errors import CheckpointError, reason_of
from newfound.core.files import atomic

WEIGHT, MOMENTS = "weight.", "optimiser."


@dataclass(frozen=True)
class Checkpoint:
    """A learner's weights, its optimiser's moments and a JSON state."""

    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    state: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        tensors = {WEIGHT + key: value for key, value in self.weights.items()}
        tensors |= {MOMENTS + key: value for key, value in self.moments.items()}
        tensors = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        with atomic(path) as temporary:
            temporary.write_bytes(save(tensors, metadata={"state": json.dumps(self.state)}))

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """Read a file that `save` wrote; nothing in it can execute code."""
        try:
            path.open("rb").close()  # says best why a file cannot be opened
            with safe_open(path, framework="pt") as file:
                state = json.loads(file.metadata()["state"])
                tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118 (not a mapping)
        except (KeyError, TypeError):
            raise CheckpointError(
                f"{path} is not a newfound checkpoint. For a torchvision or timm network use weights=FILE."
            ) from None
        except (SafetensorError, OSError, ValueError) as error:
            raise CheckpointError(f"Cannot read the checkpoint {path}: {reason_of(error)}.") from None
        weights, moments = (
            {key.removeprefix(part): tensors[key] for key in tensors if key.startswith(part)}
            for part in (WEIGHT, MOMENTS)
        )
        return cls(weights, moments, state)


def load_strictly(module: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Load weights that must fit exactly."""
    try:
        module.load_state_dict(dict(weights))
    except RuntimeError as error:
        misfit = f"{path} does not fit this method, encoder and task"
        raise CheckpointError(f"{misfit}: {reason_of(error)}") from None


def moments_of(module: nn.Module, optimiser: Optimizer) -> dict[str, Tensor]:
    """What the optimiser remembers of each parameter, as `moment/parameter`."""
    return {
        f"{moment}/{name}": value
        for name, parameter in module.named_parameters()
        for moment, value in optimiser.state.get(parameter, {}).items()
        if value is not None
    }


def restore_moments(module: nn.Module, optimiser: Optimizer, moments: Mapping[str, Tensor]) -> None:
    """Put back what `moments_of` read, in the memory layout of the parameter, which a fused update needs."""
    parameters = dict(module.named_parameters())
    for key, value in moments.items():
        moment, _, name = key.partition("/")
        like = parameters[name]
        fits = value.shape == like.shape
        buffer = torch.empty_like(like, requires_grad=False).copy_(value) if fits else value.to(like.device)
        optimiser.state[like][moment] = buffer
