"""Parts of IIC's step on a batch of full size, ours against the straightforward way, both eager."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from newfound.bench.baseline import losses as plain
from newfound.bench.baseline.loading import loading_ms
from newfound.bench.baseline.network import Logits
from newfound.bench.baseline.training import loss_weights
from newfound.bench.clock import milliseconds
from newfound.bench.machine import Machine
from newfound.core.config import Recipe
from newfound.core.learner import Method
from newfound.core.records import Batch, Clock, total
from newfound.core.seed import generator
from newfound.data.images import Split
from newfound.experiment.model import build_method
from newfound.experiment.run import stage_loader
from newfound.nn.joint import joint_logits
from newfound.pseudo.sinkhorn import sinkhorn

Terms = dict[str, dict[str, float]]


def term_comparison(recipe: Recipe, split: Split, machine: Machine) -> Terms:
    """Augmentation, Sinkhorn and losses (forward and backward) of one batch: milliseconds and ratios."""
    device, scale = machine.device, machine.scale
    method = build_method(recipe, split.task, split.look, device)
    loader = stage_loader("discover", method, recipe, split, device)
    draw = next(loader.draws(0))
    case = random_case(method, loader.batch(draw))

    def compared(ours: Callable[[], object], theirs: Callable[[], object]) -> dict[str, float]:
        return _ratio(*(milliseconds(call, device, scale.seconds) for call in (ours, theirs)))

    batch_ms = milliseconds(lambda: loader.batch(draw), device, scale.seconds)
    return {
        "augmentation": _ratio(batch_ms, loading_ms(split, loader.batch_size, scale.worker_rounds)),
        "sinkhorn": compared(case.our_sinkhorn, case.plain_sinkhorn),
        "losses": compared(case.our_gradient, case.plain_gradient),
    }


def _ratio(ours: float, theirs: float) -> dict[str, float]:
    return {"ours_ms": ours, "straightforward_ms": theirs, "times_as_long": theirs / ours}


@dataclass(frozen=True)
class Case:
    """The same cosines for both: as one tensor (V, K, B, C) for each kind of heads, and one by one."""

    method: Method
    batch: Batch
    joint: tuple[Tensor, Tensor]
    single: tuple[Logits, Logits]

    def our_loss(self) -> Tensor:
        out = dict(zip(("logits", "over"), self.joint, strict=True))
        return total(self.method.loss(out, self.batch, Clock(self.batch.index.new_zeros(()))))

    def plain_loss(self) -> Tensor:
        labels = self.batch.labels
        unlabelled = labels.new_full((len(self.batch.index) - len(labels),), -1)
        weights = loss_weights(self.method.config, self.method.task.num_known)
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
    """Cosines drawn at random for a batch; every head shares the known ones."""
    config, task, device = method.config, method.task, batch.index.device
    V, K, B = method.views.count, config.heads, len(batch.index)
    random = generator(device, 0, "terms")

    def cosines(*shape: int) -> Tensor:
        return 2 * torch.rand(shape, device=device, generator=random) - 1

    known = cosines(V, B, task.num_known)
    logits = joint_logits(known, cosines(V, K, B, task.num_novel)).requires_grad_()
    over = joint_logits(known, cosines(V, K, B, task.num_novel * config.overcluster)).requires_grad_()
    return Case(method, batch, (logits, over), (_one_by_one(logits), _one_by_one(over)))


def _one_by_one(joint: Tensor) -> Logits:
    return [[head.clone().requires_grad_() for head in view] for view in joint.detach()]
