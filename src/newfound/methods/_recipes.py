"""Schedules and settings that several methods share, and the matched track.

The matched track has one encoder, one pretraining and one schedule for every method, so that only objectives
differ. A method keeps its heads, its losses and their weights, and its number of crops: one for KCL, MCL and
DTC except for its variant pi, two for all others. DTC, KCL and MCL also keep the stages that prepare their
clusters or similarity network, after `known`, which provides the head that scores two-stage methods.
"""

from collections.abc import Mapping
from dataclasses import asdict

from torch import Tensor

from newfound.core.errors import CheckpointError
from newfound.core.registry import register_matched
from newfound.core.settings import Overrides, TrainConfig
from newfound.stages.rotnet import ROTNET
from newfound.stages.supervised import KNOWN

UNO_SCHEDULES = {
    "pretrain": TrainConfig(),
    "discover": TrainConfig(epochs=500, batch_size=512, lr=0.4, weight_decay=1.5e-4),
}
"""UNO v2, IIC and rKD on CIFAR."""

DIGITS_PRETRAINING = {"pretrain.epochs": 60, "pretrain.batch_size": 64, "pretrain.warmup": 2}
DIGITS = {
    "overcluster": 10,
    "hidden": 256,
    "projection": 64,
    "small_crops": 0,
    "epochs": 60,
    "batch_size": 64,
    "lr": 0.1,
    "warmup": 4,
    **DIGITS_PRETRAINING,
}
"""Ours, for 8 x 8 scans; chosen by accuracy on the novel digits with seeds 100 to 104."""

OWN = {
    "epochs": 200,
    "batch_size": 128,
    "lr": 0.1,
    "pretrain.epochs": 100,
    "pretrain.batch_size": 64,
    "pretrain.lr": 0.05,
}
"""Ours, for a user's own hundreds or thousands of images: small batches, so that an epoch has many steps."""

RS_SCHEDULES = {
    "rotnet": ROTNET,
    "known": KNOWN,
    "discover": TrainConfig(
        epochs=200,
        batch_size=128,
        augmentation="twice-reflect",
        warmup=0,
        lr_falls="0.85",
        trains="last-block",
    ),
}
"""RS and the methods that are trained like it."""
RS_CIFAR = {"encoder": "rs-resnet18"}
RS_CIFAR100 = RS_CIFAR | {"augmentation": "twice", "consistency": 50.0, "rampup": 150}

RS_DIGITS = {
    "rotnet.epochs": 30,
    "rotnet.batch_size": 64,
    "known.epochs": 30,
    "known.batch_size": 64,
    "epochs": 60,
    "batch_size": 64,
    "rampup": 15,
}
"""Ours. A rotated digit is another digit or none, so RotNet is useful here too."""

RS_OWN = {
    "rotnet.epochs": 100,
    "rotnet.batch_size": 64,
    "known.epochs": 50,
    "known.batch_size": 64,
    "epochs": 200,
}
"""Ours, for a user's own images."""

RS_IMAGENET = {
    "rotnet.epochs": 0,
    "known.epochs": 90,
    "known.batch_size": 256,
    "known.lr_falls": "0.3334,0.6667",
    "known.lr_factor": 0.1,
    "known.trains": "all",
    "epochs": 90,
    "batch_size": 512,
    "labelled_share": "three-quarters",
    "augmentation": "twice",
    "lr_falls": "0.3334,0.6667",
}
"""RS and NCL: no RotNet, but a network trained on the 882 known classes.

Deviation: they load that network; here it is trained with DTC's schedule on crops of at least half an image,
where DTC's crops go down to 8 %.
"""
RS_IMAGENET_VIEWS = RS_IMAGENET | {"consistency": 10.0}
"""The same for methods with a consistency weight."""

VECTORS_PRETRAINING = {
    "pretrain.epochs": 20,
    "pretrain.batch_size": 256,
    "pretrain.lr": 0.05,
    "pretrain.warmup": 2,
}
VECTORS = {
    "heads": 2,
    "hidden": 512,
    "small_crops": 0,
    "epochs": 60,
    "batch_size": 512,
    "labelled_share": "balanced",
    "lr": 0.2,
    "warmup": 4,
    **VECTORS_PRETRAINING,
}
"""Ours, for embeddings; half of a large batch is unlabelled, so it has several vectors of every class."""

RS_VECTORS = {
    "rotnet.epochs": 0,
    "known.epochs": 20,
    "known.batch_size": 256,
    "known.lr": 0.05,
    "known.trains": "all",
    "epochs": 40,
    "batch_size": 256,
    "lr": 0.05,
    "trains": "all",
}
"""Ours, for embeddings, which cannot be rotated."""

IMAGENET = {
    "epochs": 60,
    "batch_size": 512,
    "labelled_share": "half",
    "warmup": 5,
    "pretrain.epochs": 100,
    "pretrain.batch_size": 512,
    "pretrain.warmup": 5,
}
"""UNO and IIC, whose two GPUs count as one.

Deviation: one process sees the whole batch of 512, so Sinkhorn and the inter-class term see 256 unlabelled
images instead of 128 per GPU; and the two sets are shuffled independently, where the published loader pairs
their images permanently.
"""

GCD_SCHEDULES = {
    "pretrain": TrainConfig(),
    "discover": TrainConfig(
        epochs=200,
        batch_size=128,
        augmentation="weak",
        labelled_share="balanced",
        min_lr=1e-4,
        warmup=0,
        weight_decay=5e-5,
    ),
}
"""GCD and SimGCD."""
GCD_DIGITS = {
    "hidden": 256,
    "projection": 64,
    "epochs": 60,
    "batch_size": 64,
    "augmentation": "v2",
    **DIGITS_PRETRAINING,
}
"""Ours; the views must differ by more than a shift of one pixel."""
GCD_OWN = {"epochs": 100, "pretrain.epochs": 100, "pretrain.batch_size": 64, "pretrain.lr": 0.05}
"""Ours, for a user's own images."""
GCD_VECTORS = {"hidden": 512, "epochs": 60, "augmentation": "v2", "pretrain.epochs": 0}
"""Ours, for embeddings."""

_IIC: Overrides = {"constraints.alpha": 0.05, "constraints.beta": 0.01}
WITH_CONSTRAINTS: Mapping[str, Overrides] = {
    "with-constraints": _IIC,
    "with-cross-only": {**_IIC, "constraints.form": "cross"},
}
"""Variations of methods with joint logits, with IIC's weights for CIFAR10 and CIFAR100-50 on any data."""

_MATCHED: Overrides = {
    "encoder": "auto",
    "large_crops": 2,
    "small_crops": 0,
    "epochs": 200,
    "batch_size": 256,
    "rampup": 50,
    **{
        key: value
        for key, value in asdict(TrainConfig()).items()
        if key not in ("epochs", "batch_size", "trains")
    },
    **{f"pretrain.{key}": value for key, value in asdict(TrainConfig()).items()},
    "trains": "all",
}
"""UNO's ResNet-18 and pretraining; 200 epochs of two large crops."""


def _matched(preset: Overrides, **more: int) -> Overrides:
    """The matched track with the lengths, sizes and rates of a kind of data."""
    shared = {key: value for key, value in preset.items() if key in _MATCHED}
    return {**_MATCHED, **shared, "small_crops": 0, **more}


register_matched(
    {
        "": _MATCHED,
        "digits": _matched(DIGITS, rampup=15),
        "own": _matched(OWN),
        "vectors": _matched(VECTORS, rampup=10),
        "imagenet-30": _matched(IMAGENET, rampup=15),
    }
)


def must_hold(weights: Mapping[str, Tensor], part: str, stage: str) -> None:
    """Refuse weights without `part`, which would otherwise silently keep its random initial values."""
    if not any(key.startswith(f"{part}.") for key in weights):
        raise CheckpointError(
            f"The pretrained weights have no {part}.* tensors: they are not from the stage {stage!r}."
        )
