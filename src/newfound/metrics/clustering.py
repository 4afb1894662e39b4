"""How well clusters agree with classes: a table of counts, its best one-to-one assignment, NMI and ARI.

Shapes: n samples, P predicted ids, T true ids.
"""

import torch
from torch import Tensor


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
