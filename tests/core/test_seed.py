"""Random streams by name."""

import torch

from newfound.core.seed import derive, generator

CPU = torch.device("cpu")


def test_a_stream_has_the_same_seed_for_ever() -> None:
    """A changed value here would change every recorded run."""
    assert derive(0, "discover", 3) == int.from_bytes(bytes.fromhex(DIGEST), "big") >> 1


DIGEST = "200ee27405f9b69a"
"""blake2b with 8 bytes of the text `0/discover/3`."""


def test_other_names_or_seeds_have_other_streams() -> None:
    names: list[tuple[str | int, ...]] = [(), ("a",), ("b",), ("a", 0), ("a", 1), ("a", 1, "x"), (1, "a")]
    assert len({derive(seed, *name) for seed in (0, 1, 10) for name in names}) == 3 * len(names)


def test_seeds_fit_every_generator() -> None:
    assert all(0 <= derive(seed, "x") < 2**63 for seed in range(200))


def test_generators_of_one_name_draw_the_same_and_leave_the_global_one_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first, second, other = (generator(CPU, 0, "pretrain", epoch) for epoch in (1, 1, 2))
    draws = [torch.rand(5, generator=stream) for stream in (first, second, other)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(torch.rand(3), expected)
