"""KCL's and MCL's similarity network: do two images share a class? (Hsu et al., ICLR 2018)

    L = mean over all ordered pairs of CE(pair, whether y_i = y_j)

The classifier of the known classes is frozen. The network has a last block of its own on that classifier's
trunk, and a head for pairs of features.

Shapes: N labelled samples, D features.

Deviation: the published code trains all blocks from scratch; its hidden layer has a bias, which BatchNorm
cancels.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.core.encoder import Encoder, pooled
from newfound.core.learner import Learner, NoSettings, Uses
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register_stage
from newfound.core.settings import TrainConfig
from newfound.nn.heads import LinearHead

SIMILARITY = TrainConfig(
    epochs=50,
    batch_size=100,
    augmentation="weak",
    optimiser="adam",
    lr=1e-3,
    lr_falls="0.6,0.8",
    warmup=0,
    weight_decay=0.0,
)


class SimilarityNetwork(nn.Module):
    """Features (B, D) of its own last block → logits of "different" and "same" class (B, B, 2)."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        D = encoder.dim
        self.block = deepcopy(encoder.last_block)
        self.hidden = nn.Linear(2 * D, 4 * D, bias=False)
        self.norm = nn.BatchNorm1d(4 * D)
        self.out = nn.Linear(4 * D, 2)

    def features(self, maps: Tensor) -> Tensor:
        """Maps of an encoder's trunk (B, d, h, w) → (B, D)."""
        return pooled(self.block(maps))

    def forward(self, z: Tensor) -> Tensor:
        """Compare all pairs, in float32 under any autocast."""
        with torch.autocast(z.device.type, enabled=False):
            # W [a; b] = W1 a + W2 b: two products per sample instead of one per pair.
            first, second = (F.linear(z, half) for half in self.hidden.weight.chunk(2, dim=1))
            pairs = (first[:, None] + second).flatten(0, 1)
            logits: Tensor = self.out(F.relu(self.norm(pairs)))
        return logits.view(len(z), len(z), 2)


@register_stage("similarity")
class Similarity(Learner):
    """The frozen classifier of the known classes and the network that compares pairs."""

    needs_maps = True
    uses: ClassVar[Uses] = "labelled"
    fewest = 2
    views = Views(large=1)

    def __init__(self, encoder: Encoder, task: Task, config: NoSettings) -> None:
        super().__init__(encoder, task, config)
        self.h = LinearHead(encoder.dim, task.num_known)
        self.similarity = SimilarityNetwork(encoder)
        self.encoder.requires_grad_(False)
        self.h.requires_grad_(False)

    def train(self, mode: bool = True) -> "Similarity":
        super().train(mode)
        self.encoder.eval()
        return self

    def adopt(self, weights: Mapping[str, Tensor]) -> list[str]:
        taken = super().adopt(weights)
        self.similarity.block.load_state_dict(self.encoder.last_block.state_dict())
        return taken

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        with torch.no_grad():
            maps = self.encoder.trunk(batch.views[0][0])
        return {"pairs": self.similarity(self.whole(self.similarity.features(maps)))}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        same = batch.labels[:, None] == batch.labels
        return {"ce": F.cross_entropy(out["pairs"].float().flatten(0, 1), same.flatten().long())}
