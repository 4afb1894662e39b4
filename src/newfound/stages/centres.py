"""DTC's initial cluster centres and its warm-up (Han et al., ICCV 2019).

    mu, p from k-means in the principal components of the features;  L = KL(p || q(z, mu)), mean over elements

The embedding z = g(features) is new, with one dimension per novel class; q is Student's t. Soft assignments
to centres are trained towards their own sharpened targets (deep embedded clustering).

Shapes: n unlabelled samples, M of them in a batch, D features, K = C_u novel classes.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from newfound.core.encoder import Encoder
from newfound.core.errors import UsageError
from newfound.core.learner import Bank, Learner, NoSettings, Uses
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register_stage
from newfound.core.settings import TrainConfig
from newfound.nn.heads import FrozenClassifier, LinearHead, with_frozen_copy

CENTRES = TrainConfig(
    epochs=10, batch_size=128, augmentation="twice-reflect", warmup=0, lr=0.1, lr_falls="0.5", lr_factor=1.0
)
"""A decay by the factor 1: the learning rate is constant."""
RESTARTS = 20
"""Runs of k-means; the one with the lowest inertia is kept."""


class ClusterHead(nn.Module):
    """Features (..., D) → log-probabilities of the K clusters (..., K)."""

    def __init__(self, dim: int, clusters: int) -> None:
        super().__init__()
        if clusters > dim:
            raise UsageError(
                f"dtc needs an encoder with at least {clusters} features, one per novel class, got {dim}."
            )
        self.embed = LinearHead(dim, clusters)
        self.centres = nn.Parameter(torch.randn(clusters, clusters))

    def forward(self, features: Tensor) -> Tensor:
        return log_student_t(self.embed(features), self.centres)


@register_stage("centres")
class Centres(Learner):
    """The encoder, its clusters, and a frozen copy of the classifier of the known classes."""

    uses: ClassVar[Uses] = "unlabelled"
    views = Views(large=1)
    targets: Tensor

    def __init__(self, encoder: Encoder, task: Task, config: NoSettings) -> None:
        super().__init__(encoder, task, config)
        self.known = FrozenClassifier(encoder, LinearHead(encoder.dim, task.num_known))
        self.clusters = ClusterHead(encoder.dim, task.num_novel)
        self.register_buffer("targets", torch.zeros(task.num_unlabelled, task.num_novel))

    def adopt(self, weights: Mapping[str, Tensor]) -> list[str]:
        return super().adopt(with_frozen_copy(weights, "known"))

    def begin(self, bank: Bank) -> None:
        from sklearn.cluster import KMeans  # slow to import
        from sklearn.decomposition import PCA

        features = bank.unlabelled(self.encoder)
        seed = int(torch.randint(2**31, ()).item())
        K = self.task.num_novel
        components = PCA(K, random_state=seed).fit_transform(features.cpu().numpy())
        found = KMeans(K, n_init=RESTARTS, random_state=seed).fit(components)
        z, centres = (torch.from_numpy(a).to(features) for a in (components, found.cluster_centers_))
        self.clusters.centres.data.copy_(centres)
        self.targets.copy_(target_distribution(log_student_t(z, centres).exp()))

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        return {"log_q": self.clusters(self.encode(batch.views)[0]), "p": self.targets[batch.index]}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        return {"kl": kl_element_mean(out["log_q"], out["p"])}


def log_student_t(z: Tensor, centres: Tensor) -> Tensor:
    """Embeddings (..., d) and centres (K, d) → log q (..., K), q_ik ∝ 1 / (1 + ||z_i - mu_k||²).

    Computed from differences, not products, so that a sample on its centre is at distance zero and has a
    finite gradient.
    """
    gaps = z.float().unsqueeze(-2) - centres.float()
    return (-gaps.square().sum(-1).log1p()).log_softmax(-1)


def target_distribution(q: Tensor) -> Tensor:
    """Assignments q (n, K) of a whole set → targets p (n, K), p_ik ∝ q_ik² / sum_i q_ik.

    The square sharpens the assignments; the division keeps large clusters from absorbing the others.
    """
    weight = q.square() / q.sum(0)
    return weight / weight.sum(-1, keepdim=True)


def kl_element_mean(log_q: Tensor, p: Tensor) -> Tensor:
    """KL(p || q) of log q and p, both (..., K), averaged over samples and clusters.

    Published learning rates are tuned to this mean, whose gradient is K times smaller than that of the mean
    over samples.
    """
    return (torch.xlogy(p, p) - p * log_q).mean()
