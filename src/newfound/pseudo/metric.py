"""The metric learnt from labelled classes: whitened within the classes, averaged with the neighbours.

Shapes: n points, D features, P principal components.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 1000
"""Vectors whose neighbours are searched for at once."""


def principal_components(centred: Tensor, number: int) -> Tensor:
    """Centred points (n, D) → the directions of the largest variance (D, number)."""
    vectors: Tensor = torch.linalg.eigh((centred.T @ centred).double())[1]
    return vectors[:, -number:].flip(1).to(centred)


def whitening(points: Tensor, labels: Tensor, shrinkage: float) -> Tensor:
    """Points (n, P) and their classes (n,) → (S + shrinkage * mean-eigenvalue(S) I)^(-1/2), (P, P).

    S is the covariance within the classes.
    """
    return shrunk_root(spectrum(points, labels), shrinkage)


def spectrum(points: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Points (n, P) and their classes (n,) → eigenvalues (P,) and eigenvectors (P, P) of S, in float64."""
    position = positions(labels)
    counts = position.bincount()
    sums = points.new_zeros(len(counts), points.shape[1]).index_add_(0, position, points)
    rest = points - (sums / counts[:, None])[position]
    within = (rest.T @ rest).double() / max(len(points) - len(counts), 1)
    values, vectors = torch.linalg.eigh(within)
    return values, vectors


def shrunk_root(eigen: tuple[Tensor, Tensor], shrinkage: float) -> Tensor:
    """The spectrum of S → (S + shrinkage * mean-eigenvalue(S) I)^(-1/2), (P, P) in float32."""
    values, vectors = eigen
    if shrinkage == math.inf or values.mean() <= 0:
        return torch.eye(len(values), device=values.device)
    scale = (values.clamp(min=0) + shrinkage * values.mean()).rsqrt()
    return (vectors * scale @ vectors.T).float()


def average(x: Tensor, pile: Tensor, k: int) -> Tensor:
    """Unit vectors (B, P) → their sums with the k nearest of the pile (n, P), at unit length.

    A member of the pile is its own nearest neighbour, so it counts twice.
    """
    k = min(k, len(pile))
    sums = [part + pile[(part @ pile.T).topk(k, dim=1).indices].sum(1) for part in torch.split(x, CHUNK)]
    return F.normalize(torch.cat(sums), dim=-1)


def positions(labels: Tensor) -> Tensor:
    """Classes (n,) → their positions (n,) among the classes that occur."""
    return torch.searchsorted(labels.bincount().nonzero().flatten(), labels)
