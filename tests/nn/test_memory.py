"""The memory against a Python deque."""

from collections import deque

import pytest
import torch
from torch import Tensor

from newfound.nn.memory import Memory
from tests.marks import NEEDS_COMPILER


@pytest.mark.parametrize("batch", [1, 3, 5, 8])
def test_it_is_first_in_first_out(batch: int) -> None:
    memory, expected = Memory(5, 2), deque[list[float]](maxlen=5)
    for step in range(4):
        rows = torch.arange(2.0 * batch).view(batch, 2) + 100 * step
        memory.put(rows)
        expected.extend(rows.tolist())
        held = memory.rows[: int(memory.filled)].tolist()
        assert sorted(held) == sorted(expected)
        assert bool(memory.is_full) == (len(expected) == 5)


def test_a_saved_memory_goes_on_where_it_was() -> None:
    first, second = Memory(4, 2, 3), Memory(4, 2, 3)
    first.put(torch.ones(3, 2, 3))
    second.load_state_dict(first.state_dict())
    for memory in (first, second):
        memory.put(torch.full((2, 2, 3), 2.0))
    assert torch.equal(first.rows, second.rows)
    assert first.rows[0].eq(2).all()


@pytest.mark.slow
@NEEDS_COMPILER
def test_gradients_see_the_memory_as_it_was_also_where_it_is_compiled() -> None:
    """A clone of the rows instead of `snapshot` fails here: the compiler drops it."""
    gradients = []
    for compiled in (False, True):
        torch.manual_seed(0)
        memory, labels, q = Memory(4, 3), Memory(4), torch.randn(2, 3, requires_grad=True)
        labels.rows.fill_(-1)

        def loss(q: Tensor, memory: Memory = memory, labels: Memory = labels) -> Tensor:
            remembered, classes, full = memory.snapshot, labels.snapshot, memory.is_full
            memory.put(q)
            labels.put(torch.zeros(2))
            alike = torch.where(full, 0.5, (classes == -1).float())
            return ((q @ remembered.mT).exp() * alike).sum()

        (torch.compile(loss) if compiled else loss)(q).backward()  # type: ignore[no-untyped-call]
        gradients.append(q.grad)
    assert gradients[0] is not None
    torch.testing.assert_close(*gradients)
