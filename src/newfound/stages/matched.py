"""The matched track: one encoder, one pretraining and one schedule for every method; only objectives differ.

What remains of a method's own: its heads, losses and their weights; how many crops it compares (DTC with a
past, KCL and MCL take one, all others two); and for DTC, KCL and MCL the stages that prepare their clusters
or their similarity network, after `known`, which gives them the head that two-stage methods are scored with.
"""

from dataclasses import asdict

from newfound.core.config import Overrides, TrainConfig
from newfound.core.registry import register_matched
from newfound.stages.presets import DIGITS, IMAGENET, OWN

_SAME: Overrides = {
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


def _with(preset: Overrides, **more: int) -> Overrides:
    """The same with the lengths, sizes and rates of a kind of data."""
    return {
        **_SAME,
        **{key: value for key, value in preset.items() if key in _SAME},
        "small_crops": 0,
        **more,
    }


register_matched(
    {
        "": _SAME,
        "digits": _with(DIGITS, rampup=15),
        "own": _with(OWN),
        "imagenet-30": _with(IMAGENET, rampup=15),
    }
)
