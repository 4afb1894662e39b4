"""RotNet: predict the rotation of an image, labelled or not (Gidaris et al., ICLR 2018).

    L = mean over the four rotations of CE(rotation | image)

Shapes: B samples, D features.

Deviation: the last epoch is kept, where the published code keeps the one with the highest test accuracy;
images are normalised as in all other stages; 200 epochs, not 201.
"""

import torch
import torch.nn.functional as F

from newfound.core.encoder import Encoder
from newfound.core.learner import Learner, NoSettings
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register_stage
from newfound.core.settings import TrainConfig
from newfound.data.augment import rotate4
from newfound.nn.heads import LinearHead

ROTNET = TrainConfig(
    epochs=200,
    batch_size=128,
    augmentation="weak",
    optimiser="nesterov",
    lr=0.1,
    warmup=0,
    lr_falls="0.3,0.6,0.8",
    lr_factor=0.2,
    weight_decay=5e-4,
)


@register_stage("rotnet")
class RotNet(Learner):
    """The encoder and a head for the four rotations, which later stages drop."""

    views = Views(large=1)

    def __init__(self, encoder: Encoder, task: Task, config: NoSettings) -> None:
        super().__init__(encoder, task, config)
        self.turn = LinearHead(encoder.dim, 4)

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        turned = rotate4(batch.views[0][0])
        return {"turns": self.turn(self.encode((turned,)))}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        logits = out["turns"].float()
        truth = torch.arange(4, device=logits.device).repeat_interleave(logits.shape[1])
        return {"turn": F.cross_entropy(logits.flatten(0, 1), truth)}
