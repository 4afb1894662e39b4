"""Heads, pseudo-labels and losses can be traced as one graph, without a break and with the same values."""

import pytest
import torch
from torch import Tensor

from newfound.losses.divergence import mean_symmetric_kl, view_symmetric_kl
from newfound.losses.prediction import swapped_cross_entropy, view_mse
from newfound.nn.heads import CosineHead, MultiHead
from newfound.pseudo.sinkhorn import joint_targets, sinkhorn

pytestmark = pytest.mark.slow

N, M, C_l, C_u = 4, 6, 3, 2


def test_one_graph() -> None:
    torch.manual_seed(0)
    known, novel = CosineHead(8, C_l), MultiHead(8, C_u, 2, 16, 4)
    features, labels = torch.randn(3, N + M, 8), torch.randint(C_l, (N,))

    def step(features: Tensor, labels: Tensor) -> Tensor:
        l_g = novel(features)
        logits = torch.cat([known(features).unsqueeze(1).expand(-1, 2, -1, -1), l_g], dim=-1)
        targets = joint_targets(labels, sinkhorn(l_g[:2, :, N:], 0.05), C_l)
        log_p = (logits / 0.1).log_softmax(-1)
        terms = (
            swapped_cross_entropy(logits, targets, 0.1).mean(),
            swapped_cross_entropy(logits, targets, 0.1, "batch").mean(),
            mean_symmetric_kl(log_p[..., :N, :], log_p[..., N:, :]).mean(),
            view_symmetric_kl(log_p).mean(),
            view_mse(log_p.exp()).mean(),
        )
        return torch.stack(terms).sum()

    def loss_and_gradients(function: object) -> list[Tensor]:
        assert callable(function)
        novel.zero_grad()
        known.zero_grad()
        novel.norm.running_mean.zero_()
        loss: Tensor = function(features, labels)
        torch.autograd.backward(loss)
        parameters = [*known.parameters(), *novel.parameters()]
        grads = [p.grad.clone() for p in parameters if p.grad is not None]
        assert len(grads) == len(parameters)
        return [loss.detach(), *grads, novel.norm.running_mean.clone()]

    traced = torch.compile(step, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(loss_and_gradients(traced), loss_and_gradients(step))
