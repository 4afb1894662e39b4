"""k-means on the features of the pretrained network: RotNet, then the known classes.

    minimise  sum_j min_k || z_j - mu_k ||²   over the centres mu; the network is frozen

Shapes: n unlabelled samples, D features, C = C_l + C_u classes.

Deviation: the papers report no task-agnostic accuracy of k-means; here an image belongs to the nearest of the
known classes' means and the novel centres. A mixed pile has C centres, and each known class takes the one
that holds most of its labelled images.
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
from newfound.metrics.clustering import confusion, match
from newfound.stages.rotnet import ROTNET
from newfound.stages.supervised import KNOWN


def _pretraining(values: Overrides) -> Overrides:
    """The settings of the pretraining stages only."""
    return {key: value for key, value in values.items() if "." in key}


@register(
    "kmeans",
    published={**dict.fromkeys(("cifar10", "cifar100"), RS_CIFAR), "imagenet-30": _pretraining(RS_IMAGENET)},
    ours={
        "digits": _pretraining(RS_DIGITS),
        "own": _pretraining(RS_OWN),
        "vectors": {
            **{"encoder": "identity", "rotnet.epochs": 0, "known.epochs": 0, "known.trains": "all"},
            "sample": 200_000,
        },
    },
)
class FeatureKMeans(Method):
    """k-means centres of the unlabelled images and means of the known classes."""

    joint = True
    mixed = True
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
        task, mixed = self.task, self.task.pile == "mixed"
        number, seed = task.num_classes if mixed else task.num_novel, int(torch.randint(2**31, ()).item())
        model = KMeans(number, n_init=self.config.restarts, random_state=seed).fit(novel)
        centres = torch.from_numpy(model.cluster_centers_).to(known)
        if mixed:
            self.centres.copy_(centres[known_first(torch.cdist(known, centres), bank.labels, task)])
            return
        means = [known[bank.labels == c].mean(0) for c in range(task.num_known)]
        self.centres.copy_(torch.cat([torch.stack(means), centres]))

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        return {"distances": torch.cdist(self.encode(batch.views).float(), self.centres) ** 2}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        novel = out["distances"][:, batch.num_labelled :, self.task.num_known :]
        return {"inertia": novel.amin(-1).mean()}

    def scores(self, images: Tensor) -> Tensor:
        return -(torch.cdist(self.encoder(images).float(), self.centres) ** 2)[None]


def known_first(distances: Tensor, labels: Tensor, task: Task) -> Tensor:
    """Distances (N, C) of labelled images of classes (N,) → an order (C,) of the centres.

    The first C_l are matched to the known classes, so that they hold as many of their images as possible.
    """
    nearest = distances.argmin(1).cpu()
    classes = match(confusion(nearest, labels.cpu(), task.num_classes, task.num_known))
    return torch.where(classes < 0, task.num_known, classes).argsort(stable=True).to(labels.device)
