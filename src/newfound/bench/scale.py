"""How much is measured: all of it on a GPU, within a minute on two cores of a CPU."""

from dataclasses import dataclass, field

import torch

from newfound.core.config import Overrides


@dataclass(frozen=True)
class Scale:
    """The sizes of a benchmark."""

    seconds: float
    """Spent on timing one thing."""
    worker_rounds: int
    """Batches that every loader worker makes while it is timed."""
    evaluation_images: int
    inter_samples: tuple[int, ...]
    """N = M of the inter-class term."""
    inter_classes: tuple[int, ...]
    loops_up_to: int
    """The largest N = M at which the inter-class term runs as nested loops, too."""
    matrix_side: int
    """Of the matrix product that the step's arithmetic is compared with."""
    kmeans: tuple[int, int, tuple[int, ...]]
    """Samples, features and numbers of clusters that are clustered."""
    step: Overrides = field(default_factory=dict)
    """Settings that make the step small enough; those of the call come before them."""


FULL = Scale(
    2.0,
    3,
    50_000,
    (64, 256, 1024, 4096),
    (10, 100, 1000),
    256,
    8192,
    (15_000, 512, (20, 30, 40, 50, 60)),
)
SMALL = Scale(
    0.2,
    2,
    400,
    (32, 256, 1024),
    (10, 100, 1000),
    32,
    1024,
    (2_000, 128, (20, 30, 40, 50, 60)),
    {"encoder": "small", "batch_size": 16},
)


def scale_for(device: torch.device) -> Scale:
    return FULL if device.type == "cuda" else SMALL
