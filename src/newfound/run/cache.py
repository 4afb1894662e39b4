"""Pretrained weights shared between runs: what decides them, and how much of a chain of stages is there."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path

import torch
from torch import Tensor

from newfound.core.errors import CheckpointError
from newfound.core.learner import Learner
from newfound.core.settings import Recipe
from newfound.data.augment.recipes import recipe_named
from newfound.data.dataset import Split
from newfound.engine.checkpoint import Checkpoint

log = logging.getLogger(__name__)
Stage = tuple[str, Learner, Path]
"""A pretraining stage: its name, its learner, and where its weights are kept."""


def digest_of(weights: Mapping[str, Tensor]) -> str:
    """A digest of given weights; empty for none."""
    digest = blake2b(digest_size=8)
    for key in sorted(weights):
        digest.update(key.encode() + weights[key].contiguous().cpu().numpy().tobytes())
    return digest.hexdigest() if weights else ""


def key_of(
    stage: str,
    learner: Learner,
    before: str,
    recipe: Recipe,
    split: Split,
    device: torch.device,
    precision: torch.dtype,
) -> str:
    """Everything that decides the weights of a stage which follows the one with key `before`, as one name.

    `learner` is as it was built: an encoder that comes pretrained has those weights.
    """
    train, look = recipe.train[stage], split.look
    what = {
        "before": before,
        "images": split.labelled.fingerprint(),
        "labels": split.labels.tolist(),
        "pile": "" if learner.uses == "labelled" else split.unlabelled.fingerprint(),
        "train": asdict(train),
        "augmentation": repr(recipe_named(train.augmentation, look.kind, look.size)),
        "network": repr(learner),
        "versions": [learner.cache_version, learner.encoder.cache_version],
        "shapes": {key: list(value.shape) for key, value in learner.state_dict().items()},
        "seed": recipe.run.seed,
        "device": device.type,
        "precision": str(precision),
    }
    if learner.encoder.pretrained:
        what["encoder"] = digest_of(learner.encoder.state_dict())
    return f"{stage}-{blake2b(json.dumps(what).encode(), digest_size=8).hexdigest()}"


def last_cached(stages: Sequence[Stage]) -> tuple[Checkpoint | None, Sequence[Stage]]:
    """The weights of the last stage that was trained before, and the stages still to train."""
    for number in range(len(stages), 0, -1):
        stage, _, path = stages[number - 1]
        if not path.exists():
            continue
        try:
            found = Checkpoint.load(path)
        except CheckpointError:
            log.warning("%s: %s is damaged; training it again", stage, path)
            continue
        if found.state.get("trained"):
            log.info("%s: reusing %s", stage, path)
        return found, stages[number:]
    return None, stages
