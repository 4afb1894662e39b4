"""k-means on the features of the pretrained network: RotNet, then the known classes.

    minimise  sum_j min_k || z_j - mu_k ||²   over the centres mu; the network is frozen

Shapes: n unlabelled samples, D features, C = C_l + C_u classes.

Deviation: the papers report no task-agnostic accuracy of k-means; here an image belongs to the nearest of the
known classes' means and the novel centres.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Bank, Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Overrides, Positive, TrainConfig, setting
from newfound.methods._recipes import RS_CIFAR, RS_DIGITS, RS_IMAGENET, RS_OWN
from newfound.stages.rotnet import ROTNET
from newfound.stages.supervised import KNOWN


def _pretraining(values: Overrides) -> Overrides:
    """The settings of the pretraining stages only."""
    return {key: value for key, value in values.items() if "." in key}


@register(
    "kmeans",
    published={
        **dict.fromkeys(("cifar10", "cifar100"), RS_CIFAR),
        "imagenet-30": _pretraining(RS_IMAGENET),
    },
    ours={
        "digits": _pretraining(RS_DIGITS),
        "own": _pretraining(RS_OWN),
        "vectors": {"encoder": "identity", "rotnet.epochs": 0, "known.epochs": 0, "known.trains": "all"},
    },
)
class FeatureKMeans(Method):
    """k-means centres of the unlabelled images and means of the known classes."""

    joint = True
    views = Views()
    schedules = {"rotnet": ROTNET, "known": KNOWN, "discover": TrainConfig(epochs=0)}

    @dataclass(frozen=True)
    class Config:
        restarts: Positive = setting(20, "runs of k-means; the one with the lowest inertia is kept")

    centres: Tensor

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.requires_grad_(False)
        self.register_buffer("centres", torch.zeros(task.num_classes, encoder.dim))

    def begin(self, bank: Bank) -> None:
        from sklearn.cluster import KMeans  # slow to import

        novel = bank.unlabelled(self.encoder).cpu().numpy()
        known = bank.labelled(self.encoder)
        seed = int(torch.randint(2**31, ()).item())
        model = KMeans(self.task.num_novel, n_init=self.config.restarts, random_state=seed).fit(novel)
        means = [known[bank.labels == c].mean(0) for c in range(self.task.num_known)]
        self.centres.copy_(
            torch.cat([torch.stack(means), torch.from_numpy(model.cluster_centers_).to(known)])
        )

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        return {"distances": torch.cdist(self.encode(batch.views).float(), self.centres) ** 2}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        novel = out["distances"][:, batch.num_labelled :, self.task.num_known :]
        return {"inertia": novel.amin(-1).mean()}

    def scores(self, images: Tensor) -> Tensor:
        return -(torch.cdist(self.encoder(images).float(), self.centres) ** 2)[None]
