"""newfound: find the classes nobody has named in a pile of unlabelled images.

data = newfound.from_arrays(images, labels, num_novel=7)      # -1 marks the unlabelled
results = newfound.discover(data=data, out="runs/mine")
newfound.Review.open("runs/mine").rename({"novel-1": "zebra"})
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "NovelClassDiscovery": "newfound.estimator",
    "discover": "newfound.api",
    "estimate_num_novel": "newfound.api",
    "embed": "newfound.api",
    "predict": "newfound.api",
    "predict_parts": "newfound.api",
    "export": "newfound.api",
    "hungarian_accuracy": "newfound.api",
    "Review": "newfound.review.review",
    "from_arrays": "newfound.data.arrays",
    "from_embeddings": "newfound.data.vectors",
    "from_folders": "newfound.data.folders",
    "from_run": "newfound.api",
    "load_benchmark": "newfound.data.benchmarks",
    "benchmark_names": "newfound.data.benchmarks",
    "method_names": "newfound.core.registry",
    "NewfoundError": "newfound.core.errors",
}
"""Public name → its module, which is imported when the name is first used."""

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'newfound' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
