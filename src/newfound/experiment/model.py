"""Learners built from settings alone, and the weights they start from."""

from pathlib import Path

import torch
from torch import Tensor

from newfound.core.config import Recipe, TrainConfig
from newfound.core.errors import CheckpointError
from newfound.core.learner import Learner, Method
from newfound.core.records import Task
from newfound.core.registry import method_entry, stage_class
from newfound.core.seed import derive
from newfound.data.images import Look
from newfound.engine.checkpoint import Checkpoint
from newfound.engine.official import load_official, load_torchvision
from newfound.nn.encoders import build_encoder, encoder_for, encoders_with


def build_stage(stage: str, recipe: Recipe, task: Task, look: Look, device: torch.device) -> Learner:
    """A pretraining stage, initialised from the run's seed alone."""
    torch.manual_seed(derive(recipe.run.seed, stage, "initialise"))
    learner = stage_class(stage)
    encoder = build_encoder(encoder_name(recipe, look))
    return _placed(learner(encoder, task, learner.Config()), recipe.train[stage], device)


def build_method(recipe: Recipe, task: Task, look: Look, device: torch.device) -> Method:
    """The recipe's method, initialised from the run's seed alone."""
    torch.manual_seed(derive(recipe.run.seed, "discover", "initialise"))
    method = method_entry(recipe.method).method(
        build_encoder(encoder_name(recipe, look)), task, recipe.config
    )
    _placed(method, recipe.train["discover"], device)
    return method


def encoder_name(recipe: Recipe, look: Look) -> str:
    """The encoder that `encoder=auto` stands for."""
    return encoder_for(look.kind, look.size) if recipe.run.encoder == "auto" else recipe.run.encoder


def _placed(learner: Learner, train: TrainConfig, device: torch.device) -> Learner:
    if train.trains == "last-block":
        learner.encoder.freeze_trunk()
    learner.encodes_crop_by_crop = train.norm_over == "crop"
    layout = torch.channels_last if device.type == "cuda" else torch.contiguous_format
    for parameter in learner.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=layout)
    return learner.to(device)


def load_pretrained(path: Path) -> tuple[dict[str, Tensor], list[str]]:
    """Weights given by hand, ours or of the official UNO and IIC codes, and the keys left out."""
    if path.suffix == ".safetensors":
        return Checkpoint.load(path).weights, []
    return load_official(path)


def starting_weights(recipe: Recipe, look: Look) -> dict[str, Tensor]:
    """The encoder's weights that the first stage starts from: those of a file, or none."""
    if not recipe.run.weights:
        return {}
    weights = load_torchvision(Path(recipe.run.weights))
    fitting = encoders_with({key.removeprefix("encoder."): value for key, value in weights.items()})
    if (name := encoder_name(recipe, look)) not in fitting:
        raise CheckpointError(
            f"weights must fit the encoder, {name}; those of {recipe.run.weights} fit "
            f"{', '.join(fitting) or 'none that newfound has'}; "
            f"{f'give encoder={fitting[0]}' if fitting else 'give another file'}"
        )
    return weights
