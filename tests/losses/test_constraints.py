"""IIC's constraints against their definitions as float64 loops."""

from typing import Literal

import pytest
import torch
from torch import Tensor

from newfound.losses.constraints import inter_class, intra_class
from tests.methods import definitions
from tests.methods.definitions import SIZES, Sizes, assert_same, assert_same_gradients, random_case

TAU = 0.1


def cross_definition(logits: Tensor, N: int) -> Tensor:
    """The mean over views, heads and pairs of 1/2 [H(p_i, p_j) + H(p_j, p_i)]."""
    V, K, B, _ = logits.shape
    terms = []
    for v in range(V):
        for k in range(K):
            p = (logits[v, k] / TAU).softmax(-1)
            for i in range(N):
                for j in range(N, B):
                    terms.append(-((p[i] * p[j].log()).sum() + (p[j] * p[i].log()).sum()) / 2)
    return definitions.sum_of(terms) / len(terms)


@pytest.mark.parametrize("sizes", SIZES)
def test_inter_class_in_both_forms(sizes: Sizes) -> None:
    single, double, _ = random_case(sizes, seed=0)
    logits, exact = single.outputs()["logits"], double.outputs()["logits"]
    assert_same(inter_class(logits, sizes.N, TAU), definitions.inter(exact, sizes.N, TAU))
    assert_same(inter_class(logits, sizes.N, TAU, "cross"), cross_definition(exact, sizes.N))


def test_gradient_of_the_cross_form() -> None:
    sizes = Sizes()
    single, double, _ = random_case(sizes, seed=1)
    loss = inter_class(single.outputs()["logits"], sizes.N, TAU, "cross") + zero(single.over)
    expected = cross_definition(double.outputs()["logits"], sizes.N) + zero(double.over)
    assert_same_gradients(loss, single, expected, double)


def zero(unused: Tensor) -> Tensor:
    return 0 * unused.sum()


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("divergence", "norm"), [("skld", "code"), ("skld", "paper"), ("mse", "code")])
def test_intra_class(
    sizes: Sizes, divergence: Literal["skld", "mse"], norm: Literal["code", "paper"]
) -> None:
    single, double, _ = random_case(sizes, seed=2)
    value = intra_class(single.outputs()["logits"], sizes.N, sizes.C_l, TAU, divergence, norm)
    expected = definitions.intra(double.outputs()["logits"], sizes.N, sizes.C_l, TAU, norm, divergence)
    assert_same(value, expected)


def test_where_both_sets_predict_alike_the_cross_form_alone_sees_how_sure_they_are() -> None:
    flat, steep = torch.zeros(1, 1, 4, 3), torch.tensor([1.0, 0, 0]).expand(1, 1, 4, 3)
    assert inter_class(flat, 2, TAU).item() == inter_class(steep, 2, TAU).item() == 0
    assert inter_class(flat, 2, TAU, "cross") > inter_class(steep, 2, TAU, "cross")
