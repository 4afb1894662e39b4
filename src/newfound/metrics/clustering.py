"""How well clusters agree with classes, and how well they are separated.

The first is a table of counts, its best one-to-one assignment, NMI and ARI, the second the silhouette
(Rousseeuw, 1987):

    s_i = (b_i - a_i) / max(a_i, b_i)

where a_i is the mean distance to the other points of i's cluster, and b_i the mean distance to the points of
the nearest other cluster.

Shapes: n samples or points, P predicted ids, T true ids, D features, k clusters.
"""

import torch
from torch import Tensor

MOST_DISTANCES = 2**25
"""Distances held at once; they take 128 MiB."""


def confusion(predicted: Tensor, true: Tensor, num_predicted: int, num_true: int) -> Tensor:
    """The counts of each pair of ids: (n,), (n,) → (P, T) int64."""
    pairs = predicted.long() * num_true + true.long()
    return pairs.bincount(minlength=num_predicted * num_true).view(num_predicted, num_true)


def match(table: Tensor) -> Tensor:
    """The one-to-one assignment that explains most samples: counts (P, T) → true ids of the predicted (P,).

    A predicted id without a partner gets -1.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import, and most verbs do not need it

    rows, columns = linear_sum_assignment(table.numpy(), maximize=True)
    assignment = torch.full((len(table),), -1)
    assignment[torch.as_tensor(rows)] = torch.as_tensor(columns)
    return assignment


def matched_hits(table: Tensor) -> Tensor:
    """The samples of each true id that the best assignment gets right: counts (P, T) → (T,)."""
    assignment = match(table)
    predicted = torch.nonzero(assignment >= 0).flatten()
    true = assignment[predicted]
    hits = torch.zeros(table.shape[1], dtype=torch.int64)
    hits[true] = table[predicted, true]
    return hits


def hungarian_accuracy(predicted: Tensor, true: Tensor) -> float:
    """The share of samples that the best assignment gets right: (n,), (n,) → [0, 1]."""
    predicted, true = predicted.cpu(), true.cpu()
    table = confusion(predicted, true, int(predicted.max()) + 1, int(true.max()) + 1)
    return int(matched_hits(table).sum()) / len(true)


def nmi(predicted: Tensor, true: Tensor) -> float:
    """Mutual information over the arithmetic mean of the two entropies: (n,), (n,) → [0, 1]."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(
        normalized_mutual_info_score(true.cpu().numpy(), predicted.cpu().numpy(), average_method="arithmetic")
    )


def ari(predicted: Tensor, true: Tensor) -> float:
    """The Rand index adjusted for chance: (n,), (n,) → at most 1, about 0 by chance."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(true.cpu().numpy(), predicted.cpu().numpy()))


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
