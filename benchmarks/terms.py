"""The speed of parts of IIC's step on a batch of full size, ours and the straightforward ones, both eager."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.baseline import iic as plain
from benchmarks.baseline.loading import loading_ms
from benchmarks.measure import Machine, milliseconds
from benchmarks.record import Ratio, Terms
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, total
from newfound.core.seed import generator
from newfound.core.settings import Recipe
from newfound.data.dataset import Split
from newfound.nn.heads import joint_logits
from newfound.pseudo.sinkhorn import sinkhorn
from newfound.run.recipe import build_method, stage_loader


def term_ratios(recipe: Recipe, split: Split, machine: Machine) -> Terms:
    """Augmentation, Sinkhorn and losses (forward and backward) of one batch."""
    device, scale = machine.device, machine.scale
    method = build_method(recipe, split.task, split.look, device)
    loader = stage_loader("discover", method, recipe, split, device)
    draw = next(loader.draws(0))
    case = random_case(method, loader.batch(draw))

    def ms(call: Callable[[], object]) -> float:
        return milliseconds(call, device, scale.seconds)

    batch_ms = ms(lambda: loader.batch(draw))
    return Terms(
        batch_size=loader.batch_size,
        augmentation=_ratio(batch_ms, loading_ms(split, loader.batch_size, scale.worker_rounds)),
        sinkhorn=_ratio(ms(case.our_sinkhorn), ms(case.plain_sinkhorn)),
        losses=_ratio(ms(case.our_gradient), ms(case.plain_gradient)),
    )


def _ratio(ours: float, theirs: float) -> Ratio:
    return Ratio(ours_ms=ours, straightforward_ms=theirs, times_as_long=theirs / ours)


@dataclass(frozen=True)
class Case:
    """The same cosines twice: as one tensor (V, K, B, C) for each kind of head, and as separate tensors."""

    method: Method
    batch: Batch
    joint: tuple[Tensor, Tensor]
    single: tuple[plain.Logits, plain.Logits]

    def our_loss(self) -> Tensor:
        out = dict(zip(("logits", "over"), self.joint, strict=True))
        return total(self.method.loss(out, self.batch, Clock(self.batch.index.new_zeros(()))))

    def plain_loss(self) -> Tensor:
        labels = self.batch.labels
        unlabelled = labels.new_full((len(self.batch.index) - len(labels),), -1)
        weights = plain.Weights.of(self.method.config, self.method.task.num_known)
        return plain.iic_loss(*self.single, torch.cat([labels, unlabelled]), weights)

    def our_gradient(self) -> tuple[Tensor, ...]:
        return torch.autograd.grad(self.our_loss(), self.joint)

    def plain_gradient(self) -> tuple[Tensor, ...]:
        leaves = [head for kind in self.single for view in kind for head in view]
        return torch.autograd.grad(self.plain_loss(), leaves)

    def our_sinkhorn(self) -> list[Tensor]:
        L, N, C_l = self.method.views.large, self.batch.num_labelled, self.method.task.num_known
        return [sinkhorn(kind[:L, :, N:, C_l:], self.method.config.sinkhorn_eps) for kind in self.joint]

    def plain_sinkhorn(self) -> list[Tensor]:
        L, N, C_l = self.method.views.large, self.batch.num_labelled, self.method.task.num_known
        heads = [head for kind in self.single for view in kind[:L] for head in view]
        return [plain.sinkhorn(head[N:, C_l:], self.method.config.sinkhorn_eps) for head in heads]


def random_case(method: Method, batch: Batch) -> Case:
    """A case of random cosines for a batch; all heads share those of the known classes."""
    config, task, device = method.config, method.task, batch.index.device
    V, K, B = method.views.count, config.heads, len(batch.index)
    random = generator(device, 0, "terms")

    def cosines(*shape: int) -> Tensor:
        return 2 * torch.rand(shape, device=device, generator=random) - 1

    known = cosines(V, B, task.num_known)
    logits = joint_logits(known, cosines(V, K, B, task.num_novel)).requires_grad_()
    over = joint_logits(known, cosines(V, K, B, task.num_novel * config.overcluster)).requires_grad_()
    return Case(method, batch, (logits, over), (_separate(logits), _separate(over)))


def _separate(joint: Tensor) -> plain.Logits:
    return [[head.clone().requires_grad_() for head in view] for view in joint.detach()]
