"""k-means on raw pixels: what the images themselves give away, before any learning."""

from typing import Any

import torch
from sklearn.cluster import KMeans

from newfound.core.errors import DataError
from newfound.data.images import Dataset, ImageSet
from newfound.metrics.protocols import clustering
from newfound.metrics.report import summarise


def pixel_kmeans(dataset: Dataset, seed: int, restarts: int = 20) -> dict[str, Any]:
    """Both splits by the task-aware protocol."""
    truth, task = dataset.truth, dataset.split.task
    if truth is None:
        raise DataError(
            "k-means on pixels is scored against the true classes; got images without; use a benchmark"
        )
    pile = _pixels(dataset.split.unlabelled)
    model = KMeans(task.num_novel, n_init=restarts, random_state=seed).fit(pile.numpy())
    novel = truth.test_labels >= task.num_known
    parts = {
        "train": (model.labels_, truth.labels),
        "test": (model.predict(_pixels(truth.test)[novel].numpy()), truth.test_labels[novel]),
    }
    return summarise(
        0,
        {
            split: [clustering(torch.from_numpy(ids).long(), classes - task.num_known, task.num_novel)]
            for split, (ids, classes) in parts.items()
        },
    ).as_dict()


def _pixels(images: ImageSet) -> torch.Tensor:
    return images.take(torch.arange(len(images))).flatten(1).float()
