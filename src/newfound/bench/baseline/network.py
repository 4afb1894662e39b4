"""IIC's network (card 1.2) with a module for each head."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core.encoder import Encoder
from newfound.core.records import Task

Logits = list[list[Tensor]]
"""For each view and each head (B, C)."""


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
    """Encoder, labelled head, clustering and over-clustering heads."""

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
        """Every prototype to unit length."""
        for name, parameter in self.named_parameters():
            if "prototypes" in name or name.startswith("known"):
                parameter.copy_(F.normalize(parameter, dim=1))
