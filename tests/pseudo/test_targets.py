"""Joint targets against their definition as loops."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newfound.pseudo.targets import joint_targets


@settings(max_examples=20, deadline=None)
@given(
    N=st.integers(0, 4),
    M=st.integers(0, 4),
    C_l=st.integers(1, 4),
    C_u=st.integers(1, 4),
    L=st.integers(1, 2),
    K=st.integers(1, 3),
)
def test_is_the_definition(N: int, M: int, C_l: int, C_u: int, L: int, K: int) -> None:
    labels = torch.randint(C_l, (N,))
    q = torch.rand(L, K, M, C_u)
    targets = joint_targets(labels, q, C_l)
    expected = torch.zeros(L, K, N + M, C_l + C_u)
    for v in range(L):
        for k in range(K):
            for i in range(N):
                expected[v, k, i, int(labels[i])] = 1
            for j in range(M):
                for c in range(C_u):
                    expected[v, k, N + j, C_l + c] = q[v, k, j, c]
    assert torch.equal(targets, expected)
