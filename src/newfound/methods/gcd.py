"""GCD: generalised category discovery (Vaze et al., CVPR 2022).

    L = (1 - w) InfoNCE(g(z)) + w SupCon(g(z), y)

g is an MLP with outputs of unit length; InfoNCE is over both views of all images, with temperature 1, SupCon
over those of the labelled ones, with 0.07. Then semi-supervised k-means on the unit features x, before g:

    minimise  sum_i min_c || x_i - mu_c ||²  +  sum_j || x_j - mu_(y_j) ||²   over the centres mu

i runs over the unlabelled images, j over the labelled ones, which stay in their classes. Known centres start
at the means of their classes, novel ones at points that k-means++ adds to those. Of many starts the one with
the lowest inertia is kept.

Shapes: V = 2 views, B = N + M samples (N labelled first), D features, C = C_l + C_u classes.

Deviation: any encoder can be used, where the authors train the last block of DINO's ViT-B/16; one that is not
pretrained is first trained on the labelled images. The authors' g has one more linear layer, with 65,536
outputs. The network of the last epoch is used, not the one that is best on test images of known classes.
k-means++ is greedy. If all unlabelled images are novel, they are clustered without the known centres. Before
the last epoch, k-means has a single start.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.learner import Bank, Method
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, Views
from newfound.core.registry import register
from newfound.core.settings import Positive, PositiveFloat, Share, setting
from newfound.losses.pairs import contrast_terms
from newfound.methods._recipes import GCD_DIGITS, GCD_OWN, GCD_SCHEDULES, GCD_VECTORS
from newfound.nn.heads import Projector
from newfound.pseudo.kmeans import Anchors, KMeans


@register(
    "gcd",
    ours={"digits": GCD_DIGITS, "own": GCD_OWN, "vectors": GCD_VECTORS | {"epochs": 20, "restarts": 20}},
)
class GCD(Method):
    """Contrastive features, then k-means in which labelled images keep their class."""

    joint = True
    made_for = "mixed"
    mixed = True
    views = Views(large=2)
    schedules = GCD_SCHEDULES

    @dataclass(frozen=True)
    class Config:
        supervised: Share = setting(0.35, "weight w of the supervised contrast")
        contrast_tau: PositiveFloat = setting(1.0, "temperature of InfoNCE")
        known_tau: PositiveFloat = setting(0.07, "temperature of the supervised contrast")
        hidden: Positive = setting(2048, "hidden width of the projector")
        projection: Positive = setting(256, "output dimensions of the projector")
        restarts: Positive = setting(100, "runs of k-means; the one with the lowest inertia is kept")
        iterations: Positive = setting(200, "maximum number of iterations of k-means")
        tau: PositiveFloat = setting(0.1, "softmax temperature of the scores; does not change the classes")

    centres: Tensor

    def __init__(self, encoder: Encoder, task: Task, config: Config) -> None:
        super().__init__(encoder, task, config)
        self.g = Projector(encoder.dim, config.hidden, config.projection)
        self.register_buffer("centres", torch.zeros(task.num_classes, encoder.dim))

    def after_epoch(self, bank: Bank, clock: Clock) -> None:
        self.cluster(bank, restarts=1)

    def end(self, bank: Bank) -> None:
        self.cluster(bank, self.config.restarts)

    def cluster(self, bank: Bank, restarts: int) -> None:
        """Set the centres of all classes from the current features."""
        known, pile = (F.normalize(each(self.encoder), dim=-1) for each in (bank.labelled, bank.unlabelled))
        random = torch.Generator(known.device).manual_seed(int(torch.randint(2**31, ()).item()))
        settings = {"restarts": restarts, "iterations": self.config.iterations}
        if self.task.pile == "mixed":
            k = self.task.num_classes
            self.centres.copy_(KMeans(pile, k, random, anchors=(known, bank.labels), **settings)(k).centres)
        else:
            k, means = self.task.num_novel, Anchors.of(known, bank.labels, self.task.num_known).means
            self.centres.copy_(torch.cat([means, KMeans(pile, k, random, **settings)(k).centres]))

    def forward(self, batch: Batch, clock: Clock) -> Outputs:
        return {"projected": self.g(self.encode(batch.views))}

    def loss(self, out: Outputs, batch: Batch, clock: Clock) -> Losses:
        c = self.config
        return contrast_terms(out["projected"], batch.labels, c.supervised, c.contrast_tau, c.known_tau)

    def scores(self, images: Tensor) -> Tensor:
        x = F.normalize(self.encoder(images).float(), dim=-1)
        return -torch.cdist(x, self.centres).square().div(2 * self.config.tau)[None]
