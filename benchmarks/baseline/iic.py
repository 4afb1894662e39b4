"""IIC's network, loss and training step, with a module for each head and many loops.

Shapes: B samples in any order, of which a (B,) mask says which are labelled; C = C_l + C_u classes.
"""

from dataclasses import dataclass
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core.encoder import Encoder
from newfound.core.records import Task
from newfound.core.settings import TrainConfig
from newfound.methods.iic import IIC

Logits = list[list[Tensor]]
"""Logits (B, C) for each view and each head."""


class Head(nn.Module):
    """Features (B, D) → cosines (B, C)."""

    def __init__(self, dim: int, hidden: int, out: int, num_classes: int) -> None:
        super().__init__()
        self.projector = nn.Sequential(
            nn.Linear(dim, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True), nn.Linear(hidden, out)
        )
        self.prototypes = nn.Linear(out, num_classes, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        cosines: Tensor = self.prototypes(F.normalize(self.projector(features), dim=1))
        return cosines


class Network(nn.Module):
    """The encoder, the known-class head, and the clustering and over-clustering heads."""

    def __init__(
        self, encoder: Encoder, task: Task, heads: int, overcluster: int, hidden: int, projection: int
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.known = nn.Linear(encoder.dim, task.num_known, bias=False)
        width = (encoder.dim, hidden, projection)
        self.novel = nn.ModuleList(Head(*width, task.num_novel) for _ in range(heads))
        self.over = nn.ModuleList(Head(*width, task.num_novel * overcluster) for _ in range(heads))

    def forward(self, crops: list[Tensor]) -> tuple[Logits, Logits]:
        logits, over = [], []
        for crop in crops:
            features = self.encoder(crop)
            known = self.known(F.normalize(features, dim=1))
            logits.append([torch.cat([known, head(features)], 1) for head in self.novel])
            over.append([torch.cat([known, head(features)], 1) for head in self.over])
        return logits, over

    @torch.no_grad()
    def normalise_prototypes(self) -> None:
        """Scale every prototype to unit length."""
        for name, parameter in self.named_parameters():
            if "prototypes" in name or name.startswith("known"):
                parameter.copy_(F.normalize(parameter, dim=1))


@dataclass(frozen=True)
class Weights:
    """The settings of the loss."""

    num_known: int
    num_large: int
    alpha: float
    beta: float
    tau: float
    eps: float

    @classmethod
    def of(cls, config: IIC.Config, num_known: int) -> "Weights":
        return cls(num_known, config.large_crops, config.alpha, config.beta, config.tau, config.sinkhorn_eps)


def iic_loss(logits: Logits, over: Logits, labels: Tensor, w: Weights) -> Tensor:
    """(L_CE + L_over) / 2 - alpha L_inter + beta L_intra; labels (B,) are -1 for unlabelled samples."""
    base = (swapped(logits, labels, w) + swapped(over, labels, w)) / 2
    labelled = labels >= 0
    return base - w.alpha * inter(logits, labelled, w) + w.beta * intra(logits, labelled, w)


@torch.no_grad()
def sinkhorn(logits: Tensor, eps: float) -> Tensor:
    """Textbook Sinkhorn-Knopp: (M, K) → soft targets (M, K)."""
    Q = torch.exp(logits / eps).t()
    Q /= Q.sum()
    K, M = Q.shape
    for _ in range(3):
        Q /= Q.sum(dim=1, keepdim=True) * K
        Q /= Q.sum(dim=0, keepdim=True) * M
    return (Q * M).t()


@torch.no_grad()
def targets(logits: Tensor, labels: Tensor, w: Weights) -> Tensor:
    """(B, C), (B,) → (B, C): [onehot, 0] for labelled samples, [0, q] for the others."""
    labelled = labels >= 0
    out = torch.zeros_like(logits, dtype=torch.float32)
    out[labelled] = F.one_hot(labels[labelled], logits.shape[1]).float()
    out[~labelled, w.num_known :] = sinkhorn(logits[~labelled, w.num_known :], w.eps).float()
    return out


def swapped(logits: Logits, labels: Tensor, w: Weights) -> Tensor:
    """The cross-entropy of predicting the target of each large view from every other view."""
    losses = []
    for v in range(w.num_large):
        for k in range(len(logits[v])):
            target = targets(logits[v][k], labels, w)
            for other in range(len(logits)):
                if other != v:
                    log_p = F.log_softmax(logits[other][k] / w.tau, dim=1)
                    losses.append(-(target * log_p).sum(dim=1).mean())
    return torch.stack(losses).mean()


def inter(logits: Logits, labelled: Tensor, w: Weights) -> Tensor:
    """Eq. 4, averaged over all views and heads."""
    losses = []
    for view in logits:
        for head in view:
            log_p = F.log_softmax(head / w.tau, dim=1)
            losses.append(inter_by_matrix_product(log_p[labelled], log_p[~labelled]))
    return torch.stack(losses).mean()


def inter_by_matrix_product(log_p: Tensor, log_q: Tensor) -> Tensor:
    """(N, C), (M, C) → mean symmetric KL, as in the paper from two N x M matrices of cross terms."""
    p, q = log_p.exp(), log_q.exp()
    p_to_q = (p * log_p).sum(dim=1)[:, None] - p @ log_q.t()
    q_to_p = (q * log_q).sum(dim=1)[None, :] - log_p @ q.t()
    return (0.5 * (p_to_q + q_to_p)).mean()


def intra(logits: Logits, labelled: Tensor, w: Weights) -> Tensor:
    """Eq. 7, the mean over pairs of views and heads; each set has its own logits, divided by their number."""
    losses = []
    for one, other in combinations(logits, 2):
        for a, b in zip(one, other, strict=True):
            known = symmetric_kl(a[labelled, : w.num_known], b[labelled, : w.num_known], w.tau)
            novel = symmetric_kl(a[~labelled, w.num_known :], b[~labelled, w.num_known :], w.tau)
            losses.append(known + novel)
    return torch.stack(losses).mean()


def symmetric_kl(a: Tensor, b: Tensor, tau: float) -> Tensor:
    """Logits (n, C) twice → symmetric KL, averaged over the rows and divided by C."""
    log_p, log_q = F.log_softmax(a / tau, dim=1), F.log_softmax(b / tau, dim=1)
    forth = F.kl_div(log_q, log_p, log_target=True, reduction="batchmean")
    back = F.kl_div(log_p, log_q, log_target=True, reduction="batchmean")
    return (forth + back) / 2 / a.shape[1]


def baseline_precision(device: torch.device) -> torch.dtype:
    """fp16 on a GPU, as in the published code; float32 on a CPU."""
    return torch.float16 if device.type == "cuda" else torch.float32


class TrainingStep:
    """An eager training step with autocast, a gradient scaler and plain SGD."""

    def __init__(self, network: Network, weights: Weights, train: TrainConfig, device: torch.device) -> None:
        self.network, self.weights, self.device = network, weights, device
        self.half = baseline_precision(device) == torch.float16
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.half)
        self.optimiser = torch.optim.SGD(
            network.parameters(), train.min_lr, train.momentum, weight_decay=train.weight_decay
        )

    def __call__(self, crops: list[Tensor], labels: Tensor) -> None:
        self.backward(self.forward(crops, labels))
        self.update()

    def forward(self, crops: list[Tensor], labels: Tensor) -> Tensor:
        """Copy a batch to the device and compute its loss."""
        crops = [crop.to(self.device, non_blocking=True) for crop in crops]
        labels = labels.to(self.device, non_blocking=True)
        self.network.normalise_prototypes()
        with torch.autocast(self.device.type, torch.float16, enabled=self.half):
            logits, over = self.network(crops)
            return iic_loss(logits, over, labels, self.weights)

    def backward(self, loss: Tensor) -> None:
        self.optimiser.zero_grad()
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def update(self) -> None:
        self.scaler.step(self.optimiser)
        self.scaler.update()
