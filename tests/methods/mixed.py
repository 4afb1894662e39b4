"""A mixed pile of vectors: classes are directions, some of which are known."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from newfound.data.dataset import Dataset, Truth
from newfound.data.vectors import from_embeddings
from newfound.metrics.protocols import Shares, generalised

KNOWN, NOVEL, DIM = 8, 4, 32


def mixed_vectors(each: int = 40, noise: float = 1.0, nuisance: float = 0.0, seed: int = 0) -> Dataset:
    """`each` vectors of every class; every second known one is labelled. The pile is its own test set.

    Classes differ in the first half of the features; `nuisance` is how much the others vary, in all classes.
    """
    random, C = np.random.default_rng(seed), KNOWN + NOVEL
    classes, rank = np.tile(np.arange(C), each), np.repeat(np.arange(each), C)
    centres = random.normal(size=(C, DIM))
    centres[:, DIM // 2 :] = 0
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    spread = np.repeat([noise, nuisance], DIM // 2) / np.sqrt(DIM // 2)
    vectors = centres[classes] + spread * random.normal(size=(len(classes), DIM))
    labels = np.where((classes < KNOWN) & (rank % 2 == 0), classes, -1)
    data = from_embeddings(vectors, labels, NOVEL, pile="mixed")
    hidden = torch.from_numpy(classes[labels < 0])
    return replace(data, truth=Truth(hidden, data.split.unlabelled, hidden))


def score(scores: Tensor, data: Dataset) -> Shares:
    """Scores (1, n, C) of its unlabelled vectors by the generalised protocol."""
    assert data.truth is not None
    return generalised(scores, data.truth.labels, data.split.task)[0]
