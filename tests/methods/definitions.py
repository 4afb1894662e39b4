"""The losses of IIC and UNO as they were published: loops over views, heads, samples and pairs.

In float64, slow on purpose, and independent of `losses/`, `pseudo/` and `nn/`: what those must agree with.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor

from newfound.core.records import Batch

Axis = Literal["class", "batch"]


@dataclass(frozen=True)
class Sizes:
    """N, M, C_l, C_u, K heads, F over-clusters for each novel class, large and small crops."""

    N: int = 3
    M: int = 5
    C_l: int = 3
    C_u: int = 2
    K: int = 2
    F: int = 2
    large: int = 2
    small: int = 2

    @property
    def views(self) -> int:
        return self.large + self.small


SIZES = [
    Sizes(),
    Sizes(N=5, M=3, C_l=2, C_u=4, K=3, F=3),
    Sizes(N=1, M=1, K=1, F=1),
    Sizes(N=2, M=4, C_l=1, C_u=1),
    Sizes(large=2, small=0),
    Sizes(large=3, small=1),
]


@dataclass(frozen=True)
class Cosines:
    """What the heads of one network say; every clustering head shares the known cosines."""

    known: Tensor
    """(V, B, C_l)"""
    novel: Tensor
    """(V, K, B, C_u)"""
    over: Tensor
    """(V, K, B, C_u F)"""

    @property
    def leaves(self) -> list[Tensor]:
        return [self.known, self.novel, self.over]

    def outputs(self) -> dict[str, Tensor]:
        """What a method's forward makes of them: [known, novel] and [known, over] for each head."""
        K = self.novel.shape[1]
        shared = torch.stack([self.known] * K, dim=1)
        return {"logits": torch.cat([shared, self.novel], -1), "over": torch.cat([shared, self.over], -1)}


def random_case(sizes: Sizes, seed: int) -> tuple[Cosines, Cosines, Batch]:
    """Random cosines in float32, the same in float64, and a batch with labels but without images."""
    random = torch.Generator().manual_seed(seed)
    B, V = sizes.N + sizes.M, sizes.views
    shapes = [
        (V, B, sizes.C_l),
        (V, sizes.K, B, sizes.C_u),
        (V, sizes.K, B, sizes.C_u * sizes.F),
    ]
    values = [torch.rand(shape, generator=random) * 2 - 1 for shape in shapes]
    labels = torch.randint(sizes.C_l, (sizes.N,), generator=random)
    single, double = (
        [value.to(kind).requires_grad_() for value in values] for kind in (torch.float32, torch.float64)
    )
    index = torch.cat([torch.arange(sizes.N), torch.arange(sizes.M)])
    return Cosines(*single), Cosines(*double), Batch((torch.zeros(V, B, 3, 1, 1),), labels, index)


def sinkhorn(logits: Tensor, eps: float) -> Tensor:
    """The textbook form on one matrix (M, K) → soft targets (M, K): rows and columns in turn, three times."""
    Q = (logits.detach().double() / eps).exp().T.clone()
    K, B = Q.shape
    Q /= Q.sum()
    for _ in range(3):
        for row in range(K):
            Q[row] /= Q[row].sum() * K
        for column in range(B):
            Q[:, column] /= Q[:, column].sum() * B
    return (Q * B).T


def targets(logits: Tensor, labels: Tensor, num_known: int, large: int, eps: float) -> Tensor:
    """(V, K, B, C) → (L, K, B, C): [onehot, 0] for the labelled, [0, q] for the others."""
    _, K, B, C = logits.shape
    N = len(labels)
    out = torch.zeros(large, K, B, C, dtype=torch.float64)
    for v in range(large):
        for k in range(K):
            for i in range(N):
                out[v, k, i, int(labels[i])] = 1
            out[v, k, N:, num_known:] = sinkhorn(logits[v, k, N:, num_known:], eps)
    return out


def swapped(logits: Tensor, t: Tensor, tau: float, axis: Axis = "class") -> Tensor:
    """CE of each head: (V, K, B, C), (L, K, B, C) → (K,).

    Over all pairs of a large crop's target and another crop's prediction; with axis="batch" softmax and sum
    run over the batch and the mean over the classes, as in UNO v1.
    """
    V, K, B, C = logits.shape
    heads = []
    for k in range(K):
        pairs = [(v, w) for v in range(len(t)) for w in range(V) if w != v]
        terms = []
        for v, w in pairs:
            scaled = logits[w, k] / tau
            if axis == "class":
                rows = [-(t[v, k, i] * (scaled[i] - scaled[i].logsumexp(0))).sum() for i in range(B)]
            else:
                rows = [-(t[v, k, :, c] * (scaled[:, c] - scaled[:, c].logsumexp(0))).sum() for c in range(C)]
            terms.append(sum_of(rows) / len(rows))
        heads.append(sum_of(terms) / len(pairs))
    return torch.stack(heads)


def kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) of two vectors."""
    return (p * (p.log() - q.log())).sum()


def inter(logits: Tensor, N: int, tau: float) -> Tensor:
    """L_inter: every labelled with every unlabelled sample, within a crop and a head."""
    V, K, B, _ = logits.shape
    M = B - N
    value = logits.new_zeros(())
    for v in range(V):
        for k in range(K):
            p = (logits[v, k] / tau).softmax(-1)
            for i in range(N):
                for j in range(N, B):
                    value = value + (kl(p[i], p[j]) + kl(p[j], p[i])) / 2 / (N * M)
    return value / (V * K)


def intra(logits: Tensor, N: int, num_known: int, tau: float, norm: str, divergence: str = "skld") -> Tensor:
    """L_intra: all pairs of crops, each set through its own head, renormalised."""
    V, K, B, C = logits.shape
    M, C_l, C_u = B - N, num_known, C - num_known
    value, pairs = logits.new_zeros(()), list(combinations(range(V), 2))
    for a, b in pairs:
        for k in range(K):
            for i in range(B):
                own = slice(0, C_l) if i < N else slice(C_l, C)
                p, q = ((logits[v, k, i, own] / tau).softmax(-1) for v in (a, b))
                classes = C_l if i < N else C_u
                if divergence == "mse":
                    term = ((p - q) ** 2).sum() / classes
                else:
                    term = (kl(p, q) + kl(q, p)) / 2 / (classes if norm == "code" else 1)
                value = value + term / ((N if i < N else M) * K * len(pairs))
    return value


def sum_of(values: list[Tensor]) -> Tensor:
    return torch.stack(values).sum()


def assert_same(value: Tensor, expected: Tensor) -> None:
    """A float32 loss against a float64 one.

    Logits / tau reach 10 and logits / eps 20, so float32 knows a logarithm to 20 * 2^-23 = 2e-6.
    """
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), expected, rtol=2e-5, atol=1e-6)


def assert_same_gradients(loss: Tensor, single: Cosines, expected: Tensor, double: Cosines) -> None:
    """Of both losses, by the cosines; 1 / tau and 1 / beta enlarge the error of `assert_same`."""
    gradients = torch.autograd.grad(loss, single.leaves)
    for gradient, wanted in zip(gradients, torch.autograd.grad(expected, double.leaves), strict=True):
        torch.testing.assert_close(gradient.double(), wanted, rtol=1e-3, atol=1e-5)
