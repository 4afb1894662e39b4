"""Build learners and loaders from a recipe, and read, compare and name recipes."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch

from newfound.core.errors import UsageError
from newfound.core.learner import Learner, Method
from newfound.core.records import Batch, Losses, Outputs, Task
from newfound.core.registry import method_entry, recipe_for, stage_class
from newfound.core.seed import derive
from newfound.core.settings import ConstraintConfig, Overrides, Recipe
from newfound.core.source import Source
from newfound.data.dataset import Look, Split
from newfound.data.loader import Loader
from newfound.engine.step import Extra
from newfound.estimate.trial import PREFIX
from newfound.losses.divergence import inter_class, intra_class
from newfound.nn.encoders import build_encoder, encoder_for
from newfound.run.models import Request, Settings

DEFAULT_METHOD = "iic"
"""The default method for images."""
VECTOR_METHOD = "centroids"
"""The default method for vectors."""
MIXED_METHOD = "simgcd"
"""The default method for mixed piles of images."""
NETWORK_STAGES = ("rotnet", "pretrain", "known")
"""Pretraining stages that train the encoder; they do not need the number of novel classes."""


def build_stage(
    stage: str, recipe: Recipe, task: Task, look: Look, device: torch.device, pretrained: bool = True
) -> Learner:
    """The learner of a stage, initialised from the run's seed and the pretrained weights of its encoder.

    `pretrained=False` skips these weights, if those of a run will replace them anyway.
    """
    torch.manual_seed(derive(recipe.run.seed, stage, "initialise"))
    kind = method_entry(recipe.method).method if stage == "discover" else stage_class(stage)
    config = recipe.config if stage == "discover" else kind.Config()
    name, train = encoder_name(recipe, look), recipe.train[stage]
    encoder = build_encoder(name, pretrained)
    if encoder.of_vectors != (look.kind == "vectors"):
        raise UsageError(f"The encoder {name} does not take {'images' if encoder.of_vectors else 'vectors'}.")
    needs_maps = kind.needs_maps or method_entry(recipe.method).method.needs_maps
    if needs_maps and not encoder.has_maps:
        raise UsageError(f"{recipe.method} needs feature maps, which the encoder {name} does not have.")
    if train.trains == "last-block" and not encoder.last_parameters:
        prefix = "" if stage == "discover" else f"{stage}."
        raise UsageError(f"{prefix}trains=last-block needs a last block, which {name} does not have.")
    learner = kind(encoder, task, config)
    if train.trains == "last-block":
        learner.encoder.freeze_trunk()
    elif train.trains == "heads":
        learner.encoder.freeze()
    learner.encodes_crop_by_crop = train.norm_over == "crop"
    layout = torch.channels_last if device.type == "cuda" else torch.contiguous_format
    for parameter in learner.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=layout)
    return learner.to(device)


def build_method(
    recipe: Recipe, task: Task, look: Look, device: torch.device, pretrained: bool = True
) -> Method:
    """The learner of the discovery stage."""
    method = build_stage("discover", recipe, task, look, device, pretrained)
    assert isinstance(method, Method)
    return method


def encoder_name(recipe: Recipe, look: Look) -> str:
    """The name of the encoder: `auto` is resolved, and encoders of vectors get the number of features."""
    name = recipe.run.encoder
    if name == "auto":
        return encoder_for(look.kind, look.size)
    return f"{name}:{look.size}" if look.kind == "vectors" and name in ("mlp", "identity") else name


def stage_loader(stage: str, learner: Learner, recipe: Recipe, split: Split, device: torch.device) -> Loader:
    """The loader of the batches that a stage is trained on."""
    train, seed = recipe.train[stage], recipe.run.seed
    return Loader(split, learner.views, train, uses=learner.uses, seed=seed, stage=stage, device=device)


def extra_loss(constraints: ConstraintConfig, task: Task) -> Extra | None:
    """IIC's constraints as extra terms on a method's joint `logits` (V, K, B, C); None if they are off."""
    return partial(_constrained, constraints, task) if constraints.alpha or constraints.beta else None


def _constrained(c: ConstraintConfig, task: Task, out: Outputs, batch: Batch) -> Losses:
    logits, N, losses = out["logits"], batch.num_labelled, {}
    mixed = task.pile == "mixed"
    if c.alpha:
        weighted = task.num_known if mixed else None
        losses["constraints.inter"] = -c.alpha * inter_class(logits, N, c.tau, c.form, weighted)
    if c.beta:
        losses["constraints.intra"] = c.beta * intra_class(logits, N, task.num_known, c.tau, mixed=mixed)
    return losses


def split_settings(settings: Overrides) -> tuple[Overrides, Overrides]:
    """The settings of the estimate (without their prefix), and all other settings."""
    search = {key.removeprefix(PREFIX): value for key, value in settings.items() if key.startswith(PREFIX)}
    return search, {key: value for key, value in settings.items() if not key.startswith(PREFIX)}


def stored_recipe(request: Request) -> Recipe:
    """The recipe of a stored run."""
    return recipe_for(request.method, "", request.settings)


def changed_settings(recipe: Recipe, benchmark: str) -> Settings:
    """The settings that differ from the method's own on this benchmark."""
    base = recipe_for(recipe.method, benchmark, {"track": recipe.run.track}).flat()
    changed = {key: value for key, value in recipe.flat().items() if value != base[key]}
    return changed | ({"track": recipe.run.track} if recipe.run.track != "published" else {})


def probe_recipe(recipe: Recipe, benchmark: str) -> Recipe:
    """The recipe of an estimate's network: k-means after the pretraining of `recipe`, or else of IIC."""
    usual, plain = (recipe_for(name, benchmark) for name in (DEFAULT_METHOD, "kmeans"))
    stages = {stage: train for stage, train in recipe.train.items() if stage in NETWORK_STAGES}
    train = (stages or {"pretrain": usual.train["pretrain"]}) | {"discover": plain.train["discover"]}
    # Weights from a file may have seen the classes that the estimate hides.
    return replace(plain, train=train, run=replace(recipe.run, pretrained=""))


def recipe_name(recipe: Recipe, source: Source, look: Look) -> str:
    """Whose settings these are: `published`, `newfound`, `default`, `matched`, a variation or `custom`."""
    changed = source.benchmark and (source.pile or source.size or source.estimated)
    if source.subset or source.held_out or changed:
        return "custom"
    entry = method_entry(recipe.method)
    named = {entry.values_for(source.name)[0]: {}, **entry.variations_for(source.name)}
    for name, overrides in named.items():
        if _deciding(recipe_for(recipe.method, source.name, overrides), look) == _deciding(recipe, look):
            return name
    return "custom"


def _deciding(recipe: Recipe, look: Look) -> tuple[Any, ...]:
    """The settings that decide what a result means, unlike those that only decide how it is computed."""
    run = recipe.run.track, recipe.run.weights, recipe.run.pretrained, encoder_name(recipe, look)
    return recipe.config, recipe.train, recipe.constraints, run
