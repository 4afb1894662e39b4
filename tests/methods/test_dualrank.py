"""DualRank against its objective as loops, what its branches see, remember and start from, and its values."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newfound.core.records import Batch, Clock, Outputs, Task
from newfound.core.registry import recipe_for
from newfound.methods.dualrank import DECAY, DualRank, inner_cells, mutual_divergence, part_codes, random_cell
from newfound.nn.encoders.small import SmallEncoder
from newfound.stages.supervised import Known

TASK = Task(3, 2)
N, M, D = 4, 5, 128
CLOCK = Clock(torch.tensor(10.0))


def dualrank(**settings: Any) -> DualRank:
    torch.manual_seed(0)
    return DualRank(
        SmallEncoder(), TASK, DualRank.Config(**{"words": 16, "memory": 12, "top": 2, **settings})
    )


def batch() -> Batch:
    torch.manual_seed(1)
    return Batch((torch.rand(2, N + M, 3, 8, 8),), torch.arange(N) % 3, torch.arange(N + M))


def losses_of(method: DualRank, out: Outputs) -> dict[str, float]:
    return {name: value.item() for name, value in method.loss(out, batch(), CLOCK).items()}


def test_the_objective_is_its_definition() -> None:
    method, images = dualrank(), batch()
    out = method(images, CLOCK)
    losses = losses_of(method, out)
    known, novel = (out[key].softmax(-1).double().tolist() for key in ("known", "novel"))
    ce, mse, bce = 0.0, 0.0, [0.0, 0.0]
    ranked = [out["features"][0, 0, N:].tolist(), out["codes"].tolist()]
    for b in range(2):
        ce -= sum(math.log(known[0][b][i][int(images.labels[i])]) for i in range(N)) / N
        for p in (known, novel):
            C = len(p[0][0][0])
            mse += sum((p[0][b][i][c] - p[1][b][i][c]) ** 2 for i in range(9) for c in range(C)) / (9 * C)
        top = [set(sorted(range(len(row)), key=lambda d, row=row: -row[d])[:2]) for row in ranked[b]]  # type: ignore[misc]
        for i in range(M):
            for j in range(M):
                alike = sum(x * y for x, y in zip(novel[0][b][N + i], novel[1][b][N + j], strict=True))
                bce[b] -= math.log((alike if top[i] == top[j] else 1 - alike) + 1e-7) / M**2
    assert losses["ce"] + losses["ce_local"] == pytest.approx(ce, rel=1e-4)
    assert [losses["bce"], losses["bce_local"]] == pytest.approx(bce, rel=1e-4)
    agreement = losses["consistency"] + losses["consistency_local"]
    assert agreement == pytest.approx(math.exp(-5 * (1 - 10 / 50) ** 2) * 5 * mse, rel=1e-3)
    unit = F.normalize(out["features"].double(), dim=-1)
    mutual = 0.0
    for i in range(N, N + M):
        s = []
        for b in range(2):
            others = torch.stack([unit[1, b, i], *out["remembered"][b].double()])
            weights = [math.exp(x / 0.07) for x in (others @ unit[0, b, i]).tolist()]
            s.append([w / sum(weights) for w in weights])
        mutual += sum((x - y) * (math.log(x) - math.log(y)) for x, y in zip(*s, strict=True)) / 2 / M
    assert losses["mutual"] == pytest.approx(mutual, rel=1e-4)


def test_a_step_remembers_unlabelled_samples_in_both_branches_and_a_word_of_every_image() -> None:
    method = dualrank()
    before, words = method.memory.rows.clone(), method.words.rows.clone()
    nearest = method.nearest.clone()
    out = method(batch(), CLOCK)
    torch.testing.assert_close(out["remembered"], before.transpose(0, 1))
    other_view = F.normalize(out["features"][1, :, N:], dim=-1).transpose(0, 1)
    torch.testing.assert_close(method.memory.rows[:M], other_view)
    assert torch.equal(method.memory.rows[M:], before[M:])
    assert method.words.filled == N + M
    assert torch.equal(method.words.rows[N + M :], words[N + M :])
    assert 0 < method.nearest != nearest
    assert not out["codes"].requires_grad
    torch.autograd.backward(method.loss(out, batch(), CLOCK)["mutual"])


def parted() -> DualRank:
    """One whose branches no longer see the same, at test time."""
    method = dualrank()
    for parameter in method.local.parameters():
        torch.nn.init.uniform_(parameter, -0.1, 0.1)
    return method.eval()


def test_local_heads_see_local_features() -> None:
    method, images = parted(), batch()
    out = method(images, CLOCK)
    maps = method.encoder.trunk(images.views[0].flatten(0, 1))
    z = method.encoder.last_block(maps).mean((2, 3)), method.local(maps).mean((2, 3))
    heads = (method.h, method.g), (method.local_h, method.local_g)
    for b in range(2):
        for head, said in zip(heads[b], (out["known"], out["novel"]), strict=True):
            torch.testing.assert_close(said[:, b].flatten(0, 1), head(z[b]))


def test_the_global_branch_alone_is_scored() -> None:
    method, images = parted(), torch.rand(6, 3, 8, 8)
    maps = method.encoder.trunk(images)
    z = method.encoder.last_block(maps).mean((2, 3)), method.local(maps).mean((2, 3))
    whole = torch.cat([method.h(z[0]), method.g(z[0])], -1)
    parts = torch.cat([method.local_h(z[1]), method.local_g(z[1])], -1)
    scores = method.scores(images)
    assert scores.shape == (1, 6, 5)
    assert torch.equal(scores[0], whole)
    for other in (parts, (whole + parts) / 2, (whole.softmax(-1) + parts.softmax(-1)) / 2):
        assert not torch.allclose(scores[0], other)


@pytest.mark.parametrize(("branch", "name"), [(0, ""), (1, "_local")])
def test_pairs_of_a_branch_compare_its_two_views(branch: int, name: str) -> None:
    method = dualrank()
    out = method(batch(), CLOCK)
    before = losses_of(method, out)
    out["novel"] = out["novel"].detach().clone()
    out["novel"][1, branch, N:, 0] += 3
    changed = {term for term, value in losses_of(method, out).items() if value != before[term]}
    assert changed == {f"bce{name}", f"consistency{name}"}


def test_both_branches_start_from_the_one_that_was_trained() -> None:
    torch.manual_seed(3)
    trained = Known(SmallEncoder(), TASK, Known.Config()).state_dict()
    method = dualrank()
    assert "h.weight" in method.adopt(trained)
    known = method.eval()(batch(), CLOCK)["known"]
    assert torch.equal(known[:, 0], known[:, 1])
    assert not torch.equal(method.g.weight, method.local_g.weight)


def test_branches_that_have_parted_stay_so() -> None:
    other = dualrank()
    torch.nn.init.zeros_(other.local_h.weight)
    method = dualrank()
    method.adopt(other.state_dict())
    assert not method.local_h.weight.any()


def test_a_frozen_trunk_leaves_both_last_blocks_to_be_trained() -> None:
    method = dualrank()
    method.encoder.freeze_trunk()
    trained = {name.split(".")[0] for name, p in method.named_parameters() if p.requires_grad}
    assert trained == {"encoder", "local", "h", "local_h", "g", "local_g"}


RS_STAGES = {
    "encoder": "rs-resnet18",
    "rotnet.epochs": 200,
    "known.epochs": 100,
    "known.trains": "last-block",
}
PARTS = {"top": 5, "words": 2048, "sharpness": 15, "memory": 2048, "tau": 0.07, "trains": "last-block"}


@pytest.mark.parametrize(
    ("benchmark", "published"),
    [
        ("cifar10", RS_STAGES | PARTS | {"consistency": 5, "rampup": 50, "epochs": 200, "batch_size": 128}),
        ("cifar100-20", RS_STAGES | PARTS | {"consistency": 50, "rampup": 150, "augmentation": "twice"}),
        ("imagenet-30-c", PARTS | {"consistency": 10, "rampup": 50, "epochs": 90, "rotnet.epochs": 0}),
    ],
)
def test_published_values(benchmark: str, published: dict[str, Any]) -> None:
    flat = recipe_for("dualrank", benchmark).flat()
    assert {key: flat[key] for key in published} == published


def unit(*shape: int) -> Tensor:
    return F.normalize(torch.randn(*shape), dim=-1)


def test_it_is_the_mean_of_both_directions_over_the_samples() -> None:
    torch.manual_seed(0)
    M, S, D, tau = 3, 4, 5, 0.2
    q, k, memory = unit(2, M, D), unit(2, M, D), unit(2, S, D)

    def distribution(branch: int, i: int) -> list[float]:
        own = q[branch, i].double().tolist()
        others = [k[branch, i].double().tolist(), *memory[branch].double().tolist()]
        weights = [math.exp(sum(a * b for a, b in zip(own, row, strict=True)) / tau) for row in others]
        return [w / sum(weights) for w in weights]

    total = 0.0
    for i in range(M):
        a, b = distribution(0, i), distribution(1, i)
        for one, other in ((a, b), (b, a)):
            total += sum(x * math.log(x / y) for x, y in zip(one, other, strict=True)) / 2 / M
    assert mutual_divergence(q, k, memory, tau).item() == pytest.approx(total, rel=1e-5)


def test_branches_that_agree_have_nothing_to_learn() -> None:
    torch.manual_seed(0)
    q, k, memory = (unit(1, 3, 5).expand(2, -1, -1) for _ in range(3))
    assert mutual_divergence(q, k, memory, 0.07).item() == pytest.approx(0, abs=1e-6)


def test_both_branches_learn_in_both_views_and_what_they_remember_does_not() -> None:
    torch.manual_seed(0)
    q, k, memory = (unit(2, 3, 5).requires_grad_() for _ in range(3))
    torch.autograd.backward(mutual_divergence(q, k, memory, 0.07))
    for views in (q, k):
        assert views.grad is not None
        assert all(views.grad[branch].any() for branch in range(2))
    assert memory.grad is None


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
