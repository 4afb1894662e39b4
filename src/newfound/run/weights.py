"""Weights that a run starts from: from a file, ours or another code's, or cached by earlier runs."""

import json
import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors.torch import load
from torch import Tensor

from newfound.core.errors import CheckpointError, shortened
from newfound.core.files import open_plain, reading
from newfound.core.learner import Learner
from newfound.core.settings import Recipe
from newfound.data.augment.recipes import recipe_named
from newfound.data.dataset import Split
from newfound.engine.checkpoint import Checkpoint
from newfound.nn.encoders import encoders_with

log = logging.getLogger(__name__)
Stage = tuple[str, Learner, Path]
"""A pretraining stage: its name, its learner, and the file that caches its weights."""
KNOWN_HEAD = "head_lab.prototypes.weight"
"""The known-class head in the official UNO and IIC codes."""


def load_pretrained(path: Path) -> tuple[dict[str, Tensor], list[str]]:
    """Load a pretrained checkpoint, ours or from the official UNO and IIC codes: weights and unused keys."""
    if path.suffix == ".safetensors":
        return Checkpoint.load(path).weights, []
    found = _state_dict(path)
    named = {"h.prototypes" if key == KNOWN_HEAD else key: value for key, value in found.items()}
    weights = {key: value for key, value in named.items() if key.startswith(("encoder.", "h."))}
    unused = [key for key in named if key not in weights]
    if "h.prototypes" not in weights or len(weights) == 1:
        raise CheckpointError(
            f"{path} is not a pretrained checkpoint of UNO or IIC, with encoder.* and {KNOWN_HEAD}; it has "
            f"{shortened(list(found), 5)}. For a torchvision network, use weights=FILE."
        )
    return weights, unused


def load_encoder(path: Path, encoder: str) -> dict[str, Tensor]:
    """Load a ResNet with torchvision's parameter names, which timm uses too, as weights of our encoder.

    `fc` is dropped. Old files lack num_batches_tracked of BatchNorm, which is then zero.
    """
    found = _state_dict(path)
    if "conv1.weight" not in found:
        raise CheckpointError(
            f"{path} is not a ResNet with torchvision's names, such as conv1.weight; it has "
            f"{shortened(list(found), 5)}. For a checkpoint of newfound, UNO or IIC, use pretrained=FILE."
        )
    own = {key: value for key, value in found.items() if not key.startswith("fc.")}
    norms = [key.removesuffix("running_var") for key in own if key.endswith("running_var")]
    weights = {f"{norm}num_batches_tracked": torch.tensor(0) for norm in norms} | own
    fitting = encoders_with(weights)
    if encoder not in fitting:
        use = f"Use encoder={fitting[0]}." if fitting else "It fits none of our encoders."
        raise CheckpointError(f"The weights in {path} do not fit the encoder {encoder}. {use}")
    return {f"encoder.{key}": value for key, value in weights.items()}


def _state_dict(path: Path) -> dict[str, Tensor]:
    """Load the tensors of a safetensors or torch file, without wrappers' prefixes; no code is executed."""
    plain = "a plain torch state dict, which loads without executing code"
    with reading(path, plain, CheckpointError), open_plain(path) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of pickles that it did not write; our error says it
        try:
            safe = path.suffix == ".safetensors"
            content: Any = load(file.read()) if safe else torch.load(file, "cpu", weights_only=True)
        except UnpicklingError:  # torch's message would explain how to load the file unsafely
            raise ValueError("it holds other objects, or is damaged") from None
        found = {str(key): value for key, value in content.get("state_dict", content).items()}
        return {
            key.removeprefix("module.").removeprefix("model."): value.float()
            if value.is_floating_point()
            else value
            for key, value in found.items()
            if isinstance(value, Tensor)
        }


def digest_of(weights: Mapping[str, Tensor]) -> str:
    """A digest of the weights; empty if there are none."""
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
    """A name for the weights of a stage: a digest of everything that decides them.

    `before` is the key of the stage before it. The `learner` is as it was built; if its encoder is
    pretrained, it still has those weights.
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
    """The weights of the last stage that is cached, and the stages that remain to be trained."""
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
