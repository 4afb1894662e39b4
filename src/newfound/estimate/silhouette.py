"""How well clusters are separated, without labels (Rousseeuw, 1987).

    s_i = (b_i - a_i) / max(a_i, b_i)

where a_i is the mean distance to the other points of i's cluster, and b_i the mean distance to the points of
the nearest other cluster. Shapes: n points, D features, k clusters.
"""

import torch
from torch import Tensor

MOST_DISTANCES = 2**25
"""Distances held at once; they take 128 MiB."""


def silhouettes(points: Tensor, clusters: Tensor, k: int) -> Tensor:
    """s of all points: (n, D), (n,) → (n,) in [-1, 1]; 0 if there are fewer than two clusters.

    Exact: every distance counts; rows are processed in slices. A point alone in its cluster has s = 0.
    """
    every, slice_ = torch.arange(len(points), device=points.device), max(MOST_DISTANCES // len(points), 1)
    slices = torch.split(every, slice_)
    return torch.cat([silhouettes_of(distances(points, rows), rows, clusters, k) for rows in slices])


def distances(points: Tensor, rows: Tensor) -> Tensor:
    """Distances from some rows (m,) of the points (n, D) to all points: (m, n)."""
    return torch.cdist(points[rows], points).scatter_(1, rows[:, None], 0.0)


def silhouettes_of(between: Tensor, rows: Tensor, clusters: Tensor, k: int) -> Tensor:
    """s of some rows (m,), from their distances to all points (m, n): (m,)."""
    members = (clusters[:, None] == torch.arange(k, device=clusters.device)).to(between)
    sizes = members.sum(0)
    if int((sizes > 0).sum()) < 2:
        return torch.zeros(len(rows), dtype=torch.float64, device=between.device)
    sums, own = between @ members, clusters[rows][:, None]
    peers = sizes[own] - 1
    a = sums.gather(1, own) / peers.clamp(min=1)
    b = (sums / sizes).masked_fill(sizes == 0, torch.inf).scatter(1, own, torch.inf).amin(1, keepdim=True)
    apart = torch.maximum(a, b)
    return torch.where((peers > 0) & (apart > 0), (b - a) / apart, 0.0).double().flatten()
