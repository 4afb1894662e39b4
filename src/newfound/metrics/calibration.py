"""Calibration of confidence: the temperature that fits it, and its error.

    T = argmin_T  mean_i  - <q_i, log softmax(l_i / T)>,  q_i = (1 - e) one-hot(y_i) + e / C,  e = 1 / (n + 2)
    ECE = sum_b  n_b / n  | mean confidence - share of right answers |,   15 bins b of equal width

(Guo et al., ICML 2017). The smoothed targets are Platt's; without them, n right answers would give T = 0.

Shapes: n samples, C classes.
"""

import torch
from torch import Tensor

from newfound.metrics.clustering import confusion, match

BINS = 15
"""Bins of the calibration error."""
COLDEST = 1e-3
"""Lowest T."""
HOTTEST = 1e3
"""Highest T."""
HALVINGS = 60
"""How often the range of T is halved in the search."""


def temperature(logits: Tensor, labels: Tensor) -> float:
    """Logits (n, C) of samples with known classes (n,) → T."""
    logits, smoothing = logits.double(), 1 / (len(labels) + 2)
    own = logits.gather(1, labels[:, None]).squeeze(1)
    wanted = ((1 - smoothing) * own + smoothing * logits.mean(1)).mean()
    low, high = COLDEST, HOTTEST
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        expected = ((logits / middle).softmax(1) * logits).sum(1).mean()
        low, high = (middle, high) if expected > wanted else (low, middle)  # the loss is convex in 1 / T
    return float(middle)


def calibration_error(confidence: Tensor, right: Tensor) -> float:
    """The ECE of confidences (n,) in answers that are `right` or not (n,)."""
    bins = (confidence * BINS).long().clamp(max=BINS - 1)
    gaps = torch.zeros(BINS, dtype=torch.float64).index_add_(0, bins, confidence.double() - right.double())
    return float(gaps.abs().sum() / len(right))


def told_right(ids: Tensor, true: Tensor, num_known: int) -> Tensor:
    """Whether each predicted class (n,) is the true one (n,); ids are joint, known classes first.

    Novel ids are matched one to one with novel classes; known ids are not matched.
    """
    number = int(torch.cat([ids, true]).max()) + 1
    matched = match(confusion(ids, true, number, number)[num_known:, num_known:])
    meaning = torch.cat([torch.arange(num_known), torch.where(matched < 0, -1, matched + num_known)])
    return meaning[ids] == true
