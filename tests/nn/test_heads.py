"""The heads against plain modules and loops with the same weights."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.nn.heads import CosineHead, LinearHead, MultiHead, joint_logits

V, B, D, C, K, HIDDEN, OUT = 3, 7, 10, 4, 2, 12, 6


@pytest.mark.parametrize("shape", [(D,), (B, D), (V, B, D)])
def test_cosine_head_is_the_definition(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    head = CosineHead(D, C)
    features = torch.randn(shape)
    cosines = head(features)
    assert cosines.shape == (*shape[:-1], C)
    for row, out in zip(features.view(-1, D), cosines.view(-1, C), strict=True):
        for c in range(C):
            expected = F.cosine_similarity(row.double(), head.prototypes[c].double(), dim=0)
            assert out[c].item() == pytest.approx(expected.item(), abs=1e-6)


def test_cosine_head_has_the_gradients_of_a_linear_layer() -> None:
    torch.manual_seed(0)
    head, features = CosineHead(D, C), torch.randn(B, D)
    nn.init.normal_(head.prototypes)  # off unit length: forward must leave it so
    linear = nn.Linear(D, C, bias=False)
    linear.load_state_dict({"weight": head.prototypes.detach()})
    expected = linear(features / features.norm(dim=1, keepdim=True))
    torch.testing.assert_close(head(features), expected)
    (grad,) = torch.autograd.grad(head(features).square().sum(), head.prototypes)
    (expected_grad,) = torch.autograd.grad(expected.square().sum(), linear.weight)
    torch.testing.assert_close(grad, expected_grad)


@pytest.mark.parametrize("head", [CosineHead(D, C), MultiHead(D, C, K, HIDDEN, OUT)])
def test_prototypes_have_unit_length(head: CosineHead | MultiHead) -> None:
    lengths = torch.ones(head.prototypes.shape[:-1])
    torch.testing.assert_close(head.prototypes.detach().norm(dim=-1), lengths)
    nn.init.normal_(head.prototypes, 0, 3)
    before = head.prototypes.detach().clone()
    head.normalise_()
    torch.testing.assert_close(head.prototypes.detach().norm(dim=-1), lengths)
    torch.testing.assert_close(F.cosine_similarity(head.prototypes, before, dim=-1), lengths)
    assert head.prototypes.requires_grad


class Separate(nn.Module):
    """One head of a `MultiHead` as the papers describe it, in float64."""

    def __init__(self, heads: MultiHead, k: int) -> None:
        super().__init__()
        self.first = nn.Linear(D, HIDDEN, bias=False)
        self.norm = nn.BatchNorm1d(HIDDEN)
        self.second = nn.Linear(HIDDEN, OUT)
        self.prototypes = nn.Linear(OUT, C, bias=False)
        own = slice(k * HIDDEN, (k + 1) * HIDDEN)
        self.load_state_dict(
            {
                "first.weight": heads.hidden_weight[k],
                "norm.weight": heads.norm.weight[own],
                "norm.bias": heads.norm.bias[own],
                "norm.running_mean": heads.norm.running_mean[own],
                "norm.running_var": heads.norm.running_var[own],
                "norm.num_batches_tracked": torch.tensor(0),
                "second.weight": heads.out_weight[k],
                "second.bias": heads.out_bias[k, 0],
                "prototypes.weight": heads.prototypes[k],
            }
        )
        self.double()

    def forward(self, view: Tensor) -> Tensor:
        projected = self.second(self.norm(self.first(view.double())).relu())
        out: Tensor = self.prototypes(F.normalize(projected, dim=-1))
        return out


def multi_head() -> MultiHead:
    torch.manual_seed(0)
    heads = MultiHead(D, C, K, HIDDEN, OUT)
    nn.init.uniform_(heads.norm.weight, 0.5, 1.5)
    nn.init.normal_(heads.norm.bias)
    heads.norm.running_mean.normal_()
    heads.norm.running_var.uniform_(0.5, 2)
    return heads


@pytest.mark.parametrize("training", [True, False])
def test_multi_head_is_separate_heads(training: bool) -> None:
    heads = multi_head().train(training)
    features = torch.randn(V, B, D, requires_grad=True)
    # For each view a fresh copy, so that all start from the same running statistics.
    separate = [[Separate(heads, k).train(training) for k in range(K)] for _ in range(V)]
    copy = features.detach().double().requires_grad_()
    expected = torch.stack([torch.stack([separate[v][k](copy[v]) for k in range(K)]) for v in range(V)])

    logits = heads(features)
    assert logits.shape == (V, K, B, C)
    torch.testing.assert_close(logits.double(), expected, atol=1e-5, rtol=0)

    weight = torch.randn_like(expected)
    torch.autograd.backward((logits * weight).sum())
    torch.autograd.backward((expected * weight).sum())

    def close(actual: Tensor | None, wanted: Tensor | None) -> None:
        assert actual is not None
        assert wanted is not None
        torch.testing.assert_close(actual.double(), wanted, atol=1e-5, rtol=1e-4)

    def gathered(name: str) -> Tensor:
        """The gradients of one parameter, summed over the copies, by head."""
        grads = [[dict(s.named_parameters())[name].grad for s in row] for row in separate]
        return torch.stack([torch.stack([g for g in row if g is not None]) for row in grads]).sum(0)

    close(features.grad, copy.grad)
    close(heads.hidden_weight.grad, gathered("first.weight"))
    close(heads.norm.weight.grad, gathered("norm.weight").flatten())
    close(heads.norm.bias.grad, gathered("norm.bias").flatten())
    close(heads.out_weight.grad, gathered("second.weight"))
    close(heads.out_bias.grad, gathered("second.bias")[:, None])
    close(heads.prototypes.grad, gathered("prototypes.weight"))

    for name in ("running_mean", "running_var"):
        by_view = [torch.cat([getattr(s.norm, name) for s in row]) for row in separate]
        close(getattr(heads.norm, name), torch.stack(by_view).mean(0))


def test_initial_values_are_those_of_linear_layers() -> None:
    torch.manual_seed(0)
    heads = MultiHead(64, 20, 3, 128, 32)
    for weight, fan_in in ((heads.hidden_weight, 64), (heads.out_weight, 128), (heads.out_bias, 128)):
        bound = fan_in**-0.5
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.15)
    assert heads.norm.weight.eq(1).all()
    assert heads.norm.bias.eq(0).all()


@pytest.mark.parametrize("head", [LinearHead(D, C), CosineHead(D, C), MultiHead(D, C, K, HIDDEN, OUT)])
def test_outputs_are_float32_under_autocast(head: nn.Module) -> None:
    features = torch.randn(V, B, D)
    plain = head(features)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = head(features.bfloat16())
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, plain, atol=0.1, rtol=0)
    assert (mixed - mixed.bfloat16()).abs().max() > 0  # more digits than bf16 has


def test_one_view_in_evaluation_does_not_depend_on_the_batch() -> None:
    heads = multi_head().eval()
    features = torch.randn(1, B, D)
    torch.testing.assert_close(heads(features)[:, :, :1], heads(features[:, :1]))


def test_a_batch_of_one_image_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        multi_head()(torch.randn(V, 1, D))


def test_same_input_same_bits() -> None:
    features = torch.randn(V, B, D)
    assert torch.equal(multi_head()(features), multi_head()(features))


def test_heads_say_where_they_see_what_they_judge() -> None:
    torch.manual_seed(0)
    head = MultiHead(6, 3, heads=2, hidden=8, out=4).eval()
    features = torch.randn(2, 5, 6)
    cosines, unit = head.located(features)
    assert torch.equal(cosines, head(features))
    assert unit.shape == (2, 2, 5, 4)
    torch.testing.assert_close(unit.norm(dim=-1), torch.ones(2, 2, 5))
    torch.testing.assert_close(cosines, torch.einsum("vkbd,kcd->vkbc", unit, head.prototypes))


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
