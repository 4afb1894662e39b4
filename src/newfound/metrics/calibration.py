"""Whether confidence means what it says: the temperature that makes it so, and how far it is off.

    T = argmin_T  mean_i  - <q_i, log softmax(l_i / T)>,  q_i = (1 - e) one-hot(y_i) + e / C,  e = 1 / (n + 2)
    ECE = sum_b  n_b / n  | mean confidence - share of right answers |,   15 bins b of equal width

(Guo et al., ICML 2017). The smoothed targets are Platt's: without them n right answers would ask for T = 0.

Shapes: n samples, C classes.
"""

import torch
from torch import Tensor

from newfound.metrics.clustering import confusion, match

BINS = 15
COLDEST, HOTTEST, HALVINGS = 1e-3, 1e3, 60
"""Where T is looked for, and how often that range is halved."""


def temperature(logits: Tensor, labels: Tensor) -> float:
    """Logits (n, C) of samples whose classes (n,) are known → T."""
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
    """The ECE of confidences (n,) in answers, right or wrong (n,)."""
    bins = (confidence * BINS).long().clamp(max=BINS - 1)
    gaps = torch.zeros(BINS, dtype=torch.float64).index_add_(0, bins, confidence.double() - right.double())
    return float(gaps.abs().sum() / len(right))


def told_right(ids: Tensor, true: Tensor, num_known: int) -> Tensor:
    """Which of the classes told (n,) are the true ones (n,); ids are joint, known classes first.

    Novel ids are matched with novel classes one to one, known ones are what they are.
    """
    number = int(torch.cat([ids, true]).max()) + 1
    matched = match(confusion(ids, true, number, number)[num_known:, num_known:])
    meaning = torch.cat([torch.arange(num_known), torch.where(matched < 0, -1, matched + num_known)])
    return meaning[ids] == true
