"""How a kind of data is trained, where methods agree: settings that they share, pretraining included."""

from collections.abc import Mapping

from newfound.core.config import Overrides, TrainConfig
from newfound.stages.known import KNOWN
from newfound.stages.rotnet import ROTNET

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
"""Ours, for scans of 8 x 8 pixels; chosen by accuracy on the novel digits, seeds 100 to 104."""

OWN = {
    "epochs": 200,
    "batch_size": 128,
    "lr": 0.1,
    "pretrain.epochs": 100,
    "pretrain.batch_size": 64,
    "pretrain.lr": 0.05,
}
"""Ours, for a person's own hundreds or thousands of images: smaller batches, so that an epoch has many."""

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
"""RS, and the methods that train as it does."""
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
"""Ours: a digit upside down is another digit or none, so turns tell something here too."""

RS_OWN = {
    "rotnet.epochs": 100,
    "rotnet.batch_size": 64,
    "known.epochs": 50,
    "known.batch_size": 64,
    "epochs": 200,
}
"""Ours, for a person's own images."""

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
"""RS's and NCL's: no RotNet, but a network trained on the 882 known classes.

Deviation: they load one; here it is trained, with the schedule that DTC gives, on crops of half an image or
more, where DTC's go down to 8 %.
"""
RS_IMAGENET_VIEWS = RS_IMAGENET | {"consistency": 10.0}
"""The same for those with a weight of the agreement between views."""

IMAGENET = {
    "epochs": 60,
    "batch_size": 512,
    "labelled_share": "half",
    "warmup": 5,
    "pretrain.epochs": 100,
    "pretrain.batch_size": 512,
    "pretrain.warmup": 5,
}
"""UNO's and IIC's, two GPUs taken together.

Deviation: one process sees the whole batch of 512, so that Sinkhorn and the inter-class term see 256
unlabelled images and not each GPU's 128; and the sets are shuffled apart, where the published loader pairs
images for good.
"""

_IIC: Overrides = {"constraints.alpha": 0.05, "constraints.beta": 0.01}
WITH_CONSTRAINTS: Mapping[str, Overrides] = {
    "with-constraints": _IIC,
    "with-cross-only": {**_IIC, "constraints.form": "cross"},
}
"""Variations of a method that has joint logits: IIC's weights for CIFAR10 and CIFAR100-50, on any data."""
