"""Codes over a dictionary of parts against their definition as loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newfound.pseudo.parts import DECAY, inner_cells, part_codes, random_cell


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.sampled_from([0.5, 0.7]))
def test_codes_are_their_definition(B: int, L: int, S: int, before: float) -> None:
    torch.manual_seed(B + 10 * L + 100 * S)
    cells, words = torch.rand(B, L, 3, dtype=torch.float64), torch.rand(S, 3, dtype=torch.float64)
    codes, nearest = part_codes(cells, words, torch.tensor(before, dtype=torch.float64), 15.0)
    distances = [
        [
            [sum((a - b) ** 2 for a, b in zip(cell, word, strict=True)) for word in words.tolist()]
            for cell in image
        ]
        for image in cells.tolist()
    ]
    now = sum(min(row) for image in distances for row in image) / (B * L)
    expected = DECAY * before + (1 - DECAY) * now
    assert nearest.item() == pytest.approx(expected, rel=1e-9)
    for image, code in zip(distances, codes.tolist(), strict=True):
        share = [0.0] * S
        for row in image:
            weights = [math.exp(-15 / expected * d) for d in row]
            share = [s + w / sum(weights) / L for s, w in zip(share, weights, strict=True)]
        assert code == pytest.approx(share, rel=1e-6, abs=1e-12)
        assert sum(code) == pytest.approx(1)


def test_a_part_that_is_a_word_gets_its_code() -> None:
    words = torch.eye(4)
    codes, nearest = part_codes(words[2].expand(1, 3, 4), words, torch.zeros(()), 15.0)
    assert nearest == 0
    torch.testing.assert_close(codes, words[2:3])


def test_codes_are_exact_under_autocast() -> None:
    torch.manual_seed(0)
    cells, words, nearest = torch.rand(2, 4, 8), torch.rand(16, 8), torch.ones(())
    exact, _ = part_codes(cells, words, nearest, 15.0)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(part_codes(cells, words, nearest, 15.0)[0], exact)


@pytest.mark.parametrize(("side", "left"), [(1, 1), (2, 2), (3, 1), (4, 2), (7, 5)])
def test_the_border_goes_where_something_is_left(side: int, left: int) -> None:
    maps = torch.rand(2, 3, side, side, requires_grad=True)
    cells = inner_cells(maps)
    assert cells.shape == (2, left * left, 3)
    assert not cells.requires_grad
    start = (side - left) // 2
    assert cells[1, 0].tolist() == maps[1, :, start, start].tolist()
    if left > 1:
        assert cells[1, 1].tolist() == maps[1, :, start, start + 1].tolist()


def test_a_random_cell_is_one_of_the_image() -> None:
    torch.manual_seed(0)
    cells = torch.arange(600.0).view(100, 3, 2)
    drawn = random_cell(cells)
    places = (drawn[:, 0] - cells[:, 0, 0]) / 2
    assert set(places.tolist()) == {0.0, 1.0, 2.0}
    assert torch.equal(drawn[:, 1], drawn[:, 0] + 1)
