"""k-means on raw pixels: what the images themselves give away, before any learning."""

import time
from typing import Any

import torch
from sklearn.cluster import KMeans

from newfound.core.errors import DataError
from newfound.data.images import Dataset, ImageSet
from newfound.experiment.provenance import peak_memory, provenance
from newfound.metrics.protocols import clustering
from newfound.metrics.summary import summarise


def pixel_kmeans(dataset: Dataset, seed: int, restarts: int = 20) -> dict[str, Any]:
    """A record in the format of results.json: both splits by the task-aware protocol."""
    truth, task = dataset.truth, dataset.split.task
    if truth is None:
        raise DataError("k-means on pixels needs the true classes to be scored; got none; use a benchmark")
    start = time.perf_counter()
    novel = truth.test_labels >= task.num_known
    model = KMeans(task.num_novel, n_init=restarts, random_state=seed).fit(_pixels(dataset.split.unlabelled))
    predicted = {"train": model.labels_, "test": model.predict(_pixels(truth.test)[novel.numpy()])}
    classes = {"train": truth.labels, "test": truth.test_labels[novel]}
    seconds = time.perf_counter() - start
    heads = {
        split: [clustering(torch.from_numpy(ids).long(), classes[split] - task.num_known, task.num_novel)]
        for split, ids in predicted.items()
    }
    return {
        "method": "kmeans-pixels",
        "recipe": "newfound",
        "benchmark": dataset.name,
        "seed": seed,
        "config": {"restarts": restarts},
        **provenance(torch.device("cpu")),
        "peak_memory_gib": round(peak_memory(torch.device("cpu")), 3),
        "timing": {"discover": {"seconds": seconds, "compile_seconds": 0.0}},
        **summarise(0, heads),
    }


def _pixels(images: ImageSet) -> Any:
    return images.take(torch.arange(len(images))).flatten(1).float().numpy()
