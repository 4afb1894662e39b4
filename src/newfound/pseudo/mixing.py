"""Mixtures of two samples, images and targets alike, and how much of each goes into them."""

import torch
from torch import Tensor


@torch.no_grad()
def larger_shares(count: int, beta: float, device: torch.device) -> Tensor:
    """max(eta, 1 - eta) for `count` draws of eta from Beta(beta, beta) → (count,), each at least one half."""
    if beta == 1:
        eta = torch.rand(count, device=device)
    else:
        # What Beta is made of; torch.distributions would check its arguments on the host.
        first, second = torch._standard_gamma(torch.full((2, count), float(beta), device=device))
        eta = first / (first + second)
    return torch.maximum(eta, 1 - eta)


def mixed_partners(N: int, M: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of a batch, N labelled ones first, that are mixed with each other: (2 M,) and (2 M,).

    Every unlabelled sample is twice in a mixture of two: the lesser part beside a labelled sample, then the
    larger one beside the next unlabelled sample. Batches are shuffled, so neighbours are random partners.
    """
    rows = torch.arange(M, device=device)
    unlabelled, following = N + rows, N + (rows + 1) % M
    return torch.cat([rows % N, unlabelled]), torch.cat([unlabelled, following])


def mix(first: Tensor, second: Tensor, shares: Tensor) -> Tensor:
    """(n, ...), (n, ...), shares (n,) → shares of the first and the rest of the second (n, ...)."""
    return torch.lerp(second, first, shares.view(-1, *[1] * (first.ndim - 1)))
