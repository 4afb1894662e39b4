"""The memory against a Python deque."""

from collections import deque

import pytest
import torch

from newfound.nn.memory import Memory


@pytest.mark.parametrize("batch", [1, 3, 5, 8])
def test_it_is_first_in_first_out(batch: int) -> None:
    memory, expected = Memory(5, 2), deque[list[float]](maxlen=5)
    assert not memory.is_real.any()
    for step in range(4):
        rows = torch.arange(2.0 * batch).view(batch, 2) + 100 * step
        memory.put(rows)
        expected.extend(rows.tolist())
        held = memory.rows[memory.is_real].tolist()
        assert sorted(held) == sorted(expected)


def test_a_saved_memory_goes_on_where_it_was() -> None:
    first, second = Memory(4, 2, 3), Memory(4, 2, 3)
    first.put(torch.ones(3, 2, 3))
    second.load_state_dict(first.state_dict())
    for memory in (first, second):
        memory.put(torch.full((2, 2, 3), 2.0))
    assert torch.equal(first.rows, second.rows)
    assert first.rows[0].eq(2).all()
