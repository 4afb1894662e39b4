"""Joint logits, one by one."""

import torch

from newfound.nn.joint import joint_logits


def test_every_head_sees_the_known_logits_first() -> None:
    V, K, B, C_l, C_u = 2, 3, 4, 5, 2
    known, novel = torch.randn(V, B, C_l), torch.randn(V, K, B, C_u)
    logits = joint_logits(known, novel)
    assert logits.shape == (V, K, B, C_l + C_u)
    for v in range(V):
        for k in range(K):
            for i in range(B):
                assert logits[v, k, i].tolist() == known[v, i].tolist() + novel[v, k, i].tolist()


def test_known_logits_gather_the_gradients_of_all_heads() -> None:
    known, novel = torch.randn(1, 2, 3, requires_grad=True), torch.randn(1, 4, 2, 1)
    (gradient,) = torch.autograd.grad(joint_logits(known, novel).sum(), known)
    assert torch.equal(gradient, torch.full((1, 2, 3), 4.0))
