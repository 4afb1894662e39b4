"""Pretrained weights that are kept: what decides them, and how far a chain of stages is there already."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path

import torch
from torch import Tensor

from newfound.core.code import digest_of_code, modules_of
from newfound.core.config import Recipe
from newfound.core.errors import CheckpointError
from newfound.core.learner import Learner
from newfound.core.records import Say
from newfound.data.augment.recipes import recipe_named
from newfound.data.images import Split
from newfound.engine.checkpoint import Checkpoint

Stage = tuple[str, Learner, Path]
"""A pretraining stage: its name, its learner, and where its weights are kept."""


def digest_of(weights: Mapping[str, Tensor]) -> str:
    """Given weights in one word, as if they were a stage before the first; none have none."""
    digest = blake2b(digest_size=8)
    for key in sorted(weights):
        digest.update(key.encode() + weights[key].contiguous().numpy().tobytes())
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
    """What decides the weights of a stage that follows the one with the key `before`, in one word."""
    train, look = recipe.train[stage], split.look
    what = {
        "before": before,
        "images": split.labelled.fingerprint(),
        "labels": split.labels.tolist(),
        "pile": "" if learner.uses == "labelled" else split.unlabelled.fingerprint(),
        "train": asdict(train),
        "augmentation": repr(recipe_named(train.augmentation, look.kind, look.size)),
        "network": repr(learner),
        "code": digest_of_code(
            name for each in (learner, learner.encoder) for name in modules_of(type(each))
        ),
        "shapes": {key: list(value.shape) for key, value in learner.state_dict().items()},
        "seed": recipe.run.seed,
        "device": device.type,
        "precision": str(precision),
    }
    return f"{stage}-{blake2b(json.dumps(what).encode(), digest_size=8).hexdigest()}"


def last_cached(stages: Sequence[Stage], say: Say) -> tuple[Checkpoint | None, Sequence[Stage]]:
    """The last stage that was trained before, and the stages after it."""
    for number in range(len(stages), 0, -1):
        stage, _, path = stages[number - 1]
        if (cached := _cached(stage, path, say)) is not None:
            return cached, stages[number:]
    return None, stages


def _cached(stage: str, path: Path, say: Say) -> Checkpoint | None:
    """What is in `path`, if it is there and whole: one that is not is trained again."""
    if not path.exists():
        return None
    try:
        found = Checkpoint.load(path)
    except CheckpointError:
        say(f"{stage}: {path} is damaged, so it is trained again")
        return None
    say(f"{stage}: reusing {path}")
    return found
