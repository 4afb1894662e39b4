"""Checkpoints: one safetensors file with its state as JSON in the header, so one rename replaces both."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from newfound.core.errors import CheckpointError
from newfound.engine.files import atomic

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
        """Read a file that `save` wrote."""
        if not path.is_file():
            raise CheckpointError(f"a checkpoint must be at {path}; found none; check the path")
        if not os.access(path, os.R_OK):
            raise CheckpointError(f"{path} must be readable; permission is denied; mend its permissions")
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a mapping)
            state = json.loads(metadata["state"])
        except KeyError:
            raise CheckpointError(
                f"{path} must be a checkpoint of newfound; got a safetensors file of others; "
                "weights=FILE takes a network of torchvision or timm"
            ) from None
        except (SafetensorError, OSError, ValueError) as error:
            raise CheckpointError(
                f"{path} must be a checkpoint of newfound; got a file that does not read as one ({error}); "
                "take another copy or train again"
            ) from None
        return cls(_part(tensors, WEIGHT), _part(tensors, MOMENTS), state)


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def load_strictly(module: nn.Module, weights: Mapping[str, Tensor], where: Path) -> None:
    """Load weights that must fit exactly; the one error lists every key that does not."""
    own = module.state_dict()
    problems = [f"missing {key}" for key in own if key not in weights]
    problems += [f"unexpected {key}" for key in weights if key not in own]
    problems += [
        f"{key} is {tuple(weights[key].shape)}, must be {tuple(own[key].shape)}"
        for key in own
        if key in weights and weights[key].shape != own[key].shape
    ]
    if problems:
        raise CheckpointError(
            f"{where} must hold the weights of this method, encoder and task; got: {'; '.join(problems)}; "
            "use the settings it was trained with"
        )
    module.load_state_dict(dict(weights))


def moments_of(module: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimiser remembers of each parameter, as `moment/parameter`."""
    return {
        f"{moment}/{name}": value
        for name, parameter in module.named_parameters()
        for moment, value in optimiser.state.get(parameter, {}).items()
        if value is not None
    }


def restore_moments(
    module: nn.Module, optimiser: torch.optim.Optimizer, moments: Mapping[str, Tensor]
) -> None:
    """Put back what `moments_of` read, in the memory layout of the parameter, as a fused update asks."""
    parameters = dict(module.named_parameters())
    for key, value in moments.items():
        moment, name = key.split("/", 1)
        like = parameters[name]
        fits = value.shape == like.shape
        buffer = torch.empty_like(like, requires_grad=False).copy_(value) if fits else value.to(like.device)
        optimiser.state[like][moment] = buffer
