"""OpenMix: mixtures of known and novel images (Zhong et al., CVPR 2021).

    L = CE(h, y) + BCE(<g(x_i), g(x_j')>, s_ij) + w(t) [MSE(h(x), h(x')) + MSE(g(x), g(x'))]
        + m [ |p(x_lu) - y_lu|² + |p(x_au) - y_au|² ]

The first line is RS's. x_lu = e x_l + (1 - e) x_u mixes a labelled image with an unlabelled one, x_au an
anchor (an unlabelled image with a confident prediction of g) with another unlabelled one; y mixes labels and
predictions of g in the same way; p = softmax([h, g]); e = max(eta, 1 - eta), eta ~ Beta(b, b).

Shapes: V = 2 views, B = N + M samples (N labelled first), D features, C = C_l + C_u classes.

Deviation: the paper has no code, and only its idea could be checked here. Every constant of the second line
is from memory, as is the use of RS's objective for the first; those for digits are calibrated on known
digits, see docs/lab-notes.md. Every unlabelled image is mixed as if it were an anchor but only anchors count,
so that shapes stay static. BatchNorm sees the mixtures as a separate batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Count, NonNegative, Positive, PositiveFloat, Share, setting
from newfound.losses.pairs import equal_top_k, joint_training
from newfound.losses.prediction import ramp_up
from newfound.methods._recipes import (
    RS_CIFAR,
    RS_CIFAR100,
    RS_DIGITS,
    RS_IMAGENET_VIEWS,
    RS_OWN,
    RS_SCHEDULES,
    RS_VECTORS,
)
from newfound.nn.heads import LinearHead
from newfound.pseudo.sinkhorn import joint_targets


@register(
    "openmix",
    # RS's values; docs/lab-notes.md says how those for digits were chosen.
    ours={
        "cifar10": RS_CIFAR,
        "cifar100": RS_CIFAR100,
        "imagenet-30": RS_IMAGENET_VIEWS,
        "digits": RS_DIGITS | {"top": 1, "mixing": 0.3},
        "own": RS_OWN,
        "vectors": RS_VECTORS | {"rampup": 10},
    },
)
class OpenMix(Method):
    """RS, and predictions of mixed images that match their mixed targets."""

    joint = True
    views = Views(large=2)
    schedules = RS_SCHEDULES

    @dataclass(frozen=True)
    class Config:
        beta: PositiveFloat = setting(1.0, "b of Beta(b, b) for the mixing ratios; 1: uniform (from memory)")
        threshold: Share = setting(0.9, "minimum confidence of g in an anchor (from memory)")
        mixing: NonNegative = setting(1.0, "weight of the mixtures (from memory)")
        top: Positive = setting(5, "number of largest features that the images of a pair share (from memory)")
        consistency: NonNegative = setting(5.0, "consistency weight after the ramp")
        rampup: Count = setting(50, "epochs of the consistency ramp")

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.h = LinearHead(encoder.dim, task.num_known)
        self.g = LinearHead(encoder.dim, task.num_novel)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        z = self.encode(batch.views)
        logits = self.logits(z)
        q = logits[0, batch.num_labelled :, self.task.num_known :].detach().softmax(-1)
        mixed, targets = self.mixtures(batch, q)
        return {
            "features": z,
            "both": logits,
            "mixed": self.logits(self.whole(self.encoder(self.part(mixed)), 0, len(mixed))),
            "targets": targets,
            "sure": q.amax(-1) > self.config.threshold,
        }

    def logits(self, z: Tensor) -> Tensor:
        """(..., D) → (..., C), the known classes first."""
        return torch.cat([self.h(z), self.g(z)], dim=-1)

    def mixtures(self, batch: Batch, q: Tensor) -> tuple[Tensor, Tensor]:
        """Pseudo-labels (M, C_u) → images (2 M, 3, H, W), targets (2 M, C); those with labels first."""
        images = self.whole(batch.views[0][0])
        targets = joint_targets(batch.labels, q[None, None], self.task.num_known)[0, 0]
        first, second = mixed_partners(batch.num_labelled, len(q), images.device)
        shares = larger_shares(len(first), self.config.beta, images.device)
        return mix(images[first], images[second], shares), mix(targets[first], targets[second], shares)

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        c, N, M = self.config, batch.num_labelled, len(out["sure"])
        logits, C_l = out["both"], self.task.num_known
        known, novel = logits[..., :C_l], logits[..., C_l:]
        same = equal_top_k(out["features"][0, N:], c.top)
        agreement = ramp_up(clock, c.rampup) * c.consistency
        mixed, targets, sure = out["mixed"], out["targets"], out["sure"]
        return {
            **joint_training(known, novel, batch.labels, same, agreement),
            "mixed": c.mixing * squared_error(mixed[:M], targets[:M]),
            "anchored": c.mixing * squared_error(mixed[M:], targets[M:], sure),
        }

    def scores(self, images: Tensor) -> Tensor:
        return self.logits(self.encoder(images))[None]


@torch.no_grad()
def larger_shares(count: int, beta: float, device: torch.device) -> Tensor:
    """max(eta, 1 - eta) for `count` draws of eta from Beta(beta, beta) → (count,), each at least one half."""
    if beta == 1:
        eta = torch.rand(count, device=device)
    else:
        # Beta as a ratio of gammas; torch.distributions would check its arguments on the host.
        first, second = torch._standard_gamma(torch.full((2, count), float(beta), device=device))
        eta = first / (first + second)
    return torch.maximum(eta, 1 - eta)


def mixed_partners(N: int, M: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of a batch, N labelled ones first, that are mixed with each other: (2 M,) and (2 M,).

    Every unlabelled sample is the smaller part of a mixture with a labelled sample, then the larger part of
    one with the next unlabelled sample. Batches are shuffled, so neighbours are random partners.
    """
    rows = torch.arange(M, device=device)
    unlabelled, following = N + rows, N + (rows + 1) % M
    return torch.cat([rows % N, unlabelled]), torch.cat([unlabelled, following])


def mix(first: Tensor, second: Tensor, shares: Tensor) -> Tensor:
    """(n, ...), (n, ...), shares (n,) → shares of the first plus the rest of the second (n, ...)."""
    return torch.lerp(second, first, shares.view(-1, *[1] * (first.ndim - 1)))


def squared_error(logits: Tensor, targets: Tensor, counted: Tensor | None = None) -> Tensor:
    """Logits and targets (n, C) → mean of |softmax - target|² over the `counted` (n,) rows, 0 if none."""
    errors = (logits.float().softmax(-1) - targets).square().sum(-1)
    if counted is None:
        return errors.mean()
    counts = counted.to(errors.dtype)
    return (counts * errors).sum() / counts.sum().clamp(min=1)
