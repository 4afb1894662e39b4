"""The matched track: one pretraining and one schedule for every method, so that only objectives differ."""

from newfound.core.registry import register_matched
from newfound.stages.presets import DIGITS

CIFAR = {
    "encoder": "auto",
    "large_crops": 2,
    "small_crops": 0,
    "epochs": 200,
    "batch_size": 256,
    "augmentation": "v2",
    "labelled_share": "proportional",
    "optimiser": "sgd",
    "lr": 0.1,
    "lr_falls": "",
    "warmup": 10,
    "weight_decay": 1e-4,
    "trains": "all",
}
"""UNO's ResNet-18 and pretraining; 200 epochs of two large crops."""

_TRAINING = ("epochs", "batch_size", "lr", "warmup")
DIGIT_SCANS = CIFAR | {k: v for k, v in DIGITS.items() if k in _TRAINING or k.startswith("pretrain.")}

register_matched({"": CIFAR, "digits": DIGIT_SCANS})
