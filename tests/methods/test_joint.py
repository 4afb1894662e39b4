"""Joint against its objective as loops, its hashes and what decides how many must agree."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newfound.core.errors import UsageError
from newfound.core.learner import Bank
from newfound.core.records import Batch, Clock, Task
from newfound.core.registry import recipe_for
from newfound.methods.joint import Joint, best_agreement, group_contrast, wta_agreement
from newfound.nn.encoders.small import SmallEncoder

TASK = Task(3, 2)
N, M = 4, 5


def joint(seed: int = 0, **settings: Any) -> Joint:
    torch.manual_seed(seed)
    return Joint(SmallEncoder(), TASK, Joint.Config(**{"hidden": 16, "projection": 8} | settings))


def batch() -> Batch:
    torch.manual_seed(1)
    return Batch((torch.rand(2, N + M, 3, 8, 8),), torch.arange(N) % 3, torch.arange(N + M))


def positives(i: int, v: int, labels: list[int]) -> set[tuple[int, int]]:
    """The other view, and both views of all others of a labelled image's class."""
    mates = [j for j in range(N) if i < N and labels[j] == labels[i]] or [i]
    return {(w, j) for w in range(2) for j in mates} - {(v, i)}


def contrast(projected: list[list[list[float]]], labels: list[int], tau: float) -> float:
    places = [(v, i) for v in range(2) for i in range(N + M)]
    loss = 0.0
    for v, i in places:
        similar = {
            (w, j): sum(a * b for a, b in zip(projected[v][i], projected[w][j], strict=True)) / tau
            for w, j in places
            if (w, j) != (v, i)
        }
        everything = math.log(sum(math.exp(s) for s in similar.values()))
        own = positives(i, v, labels)
        loss += sum(everything - similar[place] for place in own) / len(own) / len(places)
    return loss


def test_no_more_than_there_is_can_be_compared_or_shared() -> None:
    joint(hashes=16, window=128, agreement=16)
    with pytest.raises(UsageError, match=r"'window' must be at most 128, .* got 129"):
        joint(window=129)
    with pytest.raises(UsageError, match=r"'agreement' must be at most 16, .* got 17"):
        joint(hashes=16, agreement=17)


def test_the_objective_is_its_definition() -> None:
    method, images, clock = joint(hashes=16, agreement=5), batch(), Clock(torch.tensor(10.0))
    out = method(images, clock) | {"features": torch.rand(2, N + M, 128)}
    torch.testing.assert_close(out["projected"].norm(dim=-1), torch.ones(2, N + M))
    losses = {name: value.item() for name, value in method.loss(out, images, clock).items()}
    known, novel = (out[key].softmax(-1).double().tolist() for key in ("known", "novel"))
    z, labels = out["features"][0].tolist(), images.labels.tolist()
    codes = [[max(window, key=row.__getitem__) for window in method.windows.tolist()] for row in z]
    ce = -sum(math.log(known[0][i][labels[i]]) for i in range(N)) / N
    bce, mse, shared = 0.0, 0.0, set()
    for i in range(N, N + M):
        for j in range(N, N + M):
            alike = sum(a * b for a, b in zip(novel[0][i], novel[1][j], strict=True))
            shared.add(number := sum(a == b for a, b in zip(codes[i], codes[j], strict=True)))
            bce -= math.log((alike if number >= 5 else 1 - alike) + 1e-7) / M**2
    assert {4, 5, 6} <= shared  # just enough is enough
    for p in (known, novel):
        C = len(p[0][0])
        mse += sum((p[0][i][c] - p[1][i][c]) ** 2 for i in range(N + M) for c in range(C)) / ((N + M) * C)
    expected = {
        "ce": ce,
        "bce": bce,
        "contrast": contrast(out["projected"].double().tolist(), labels, 0.1),
        "consistency": math.exp(-5 * (1 - 10 / 50) ** 2) * 5 * mse,
    }
    assert losses == pytest.approx(expected, rel=1e-3)


def test_windows_are_drawn_once_by_the_seed_and_saved() -> None:
    windows = joint().windows
    assert windows.shape == (512, 4)
    assert all(len(set(window)) == 4 for window in windows.tolist())
    assert torch.equal(windows, joint().windows)
    assert not torch.equal(windows, joint(seed=1).windows)
    assert {"windows", "mu"} <= joint().state_dict().keys()


class Images:
    """A bank of labelled images."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    def labelled(self, function: Any, rows: Tensor | None = None) -> Tensor:
        with torch.no_grad():
            found: Tensor = function(self.images if rows is None else self.images[rows])
        return found

    def unlabelled(self, function: Any) -> Tensor:
        raise AssertionError("the number of hashes must not depend on unlabelled images")


def bank() -> Bank:
    """Three images, ten noisy copies of each."""
    torch.manual_seed(2)
    labels = torch.arange(30) % 3
    return Images(torch.rand(3, 3, 8, 8)[labels] + 0.1 * torch.rand(30, 3, 8, 8), labels)


def test_the_agreement_of_a_pair_is_chosen_on_labelled_images() -> None:
    method, images = joint().eval(), bank()
    assert method.mu.item() == 512  # nothing but an image itself, before anything is known
    method.begin(images)
    assert 512 / 4 < method.mu.item() < 512
    z = method.encoder(images.labelled(lambda x: x))
    winners = z[:, method.windows].argmax(-1)
    agreement = (winners[:, None] == winners).sum(-1)
    same = images.labels[:, None] == images.labels
    assert torch.equal(agreement >= method.mu, same)
    before = method.mu.item()
    torch.nn.init.normal_(method.encoder.last_block[0].weight)  # type: ignore[index]
    method.after_epoch(images, Clock(torch.tensor(0.0)))
    assert method.mu.item() != before


class Chance(Images):
    """A bank of one class whose features have nothing in common."""

    def __init__(self) -> None:
        super().__init__(torch.rand(40, 128), torch.zeros(40, dtype=torch.int64))

    def labelled(self, function: Any, rows: Tensor | None = None) -> Tensor:
        return self.images if rows is None else self.images[rows]


def test_more_hashes_must_agree_than_do_by_chance() -> None:
    method = joint()
    method.begin(Chance())  # every pair is of one class, so F1 alone would ask for no agreement
    assert method.mu.item() == 512 // 4 + 1


def test_a_given_agreement_stays() -> None:
    method = joint(agreement=240)
    method.begin(bank())
    method.after_epoch(bank(), Clock(torch.tensor(0.0)))
    assert method.mu.item() == 240


def test_scores_are_those_of_both_heads_side_by_side() -> None:
    method, images = joint().eval(), torch.rand(4, 3, 8, 8)
    z = method.encoder(images)
    assert torch.equal(method.scores(images), torch.cat([method.h(z), method.g(z)], -1)[None])
    assert torch.equal(method.both_scores(images)[1], method.g(z)[None])


@pytest.mark.parametrize(
    ("benchmark", "values"),
    [
        ("cifar10", {"consistency": 5, "rampup": 50, "epochs": 200}),
        ("cifar100-20", {"consistency": 50, "rampup": 150, "epochs": 200}),
        ("imagenet-30-a", {"consistency": 10, "rampup": 50, "epochs": 90, "batch_size": 512}),
    ],
)
def test_one_stage_from_scratch(benchmark: str, values: dict[str, Any]) -> None:
    recipe = recipe_for("joint", benchmark)
    assert list(recipe.train) == ["discover"]
    assert recipe.train["discover"].trains == "all"
    flat = recipe.flat()
    values |= {"hashes": 512, "window": 4, "agreement": 0}
    assert {key: flat[key] for key in values} == values


def unit(*shape: int, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(shape, generator=random, dtype=torch.float64), dim=-1)


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def soft_cross_entropy(logits: list[float], targets: list[float]) -> float:
    assert sum(targets) == pytest.approx(1)
    everything = math.log(sum(math.exp(logit) for logit in logits))
    return sum(t * (everything - logit) for t, logit in zip(targets, logits, strict=True))


def test_a_group_is_contrasted_with_all_other_rows() -> None:
    z, groups = unit(7, 4), [0, 1, 0, 2, 1, 2, 0]
    rows, expected = z.tolist(), 0.0
    for i in range(7):
        others = [j for j in range(7) if j != i]
        mates = [j for j in others if groups[j] == groups[i]]
        targets = [1 / len(mates) if j in mates else 0.0 for j in others]
        expected += soft_cross_entropy([dot(rows[i], rows[j]) / 0.2 for j in others], targets) / 7
    assert group_contrast(z, torch.tensor(groups), 0.2).item() == pytest.approx(expected)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 6))
def test_hashes_agree_where_the_same_feature_wins(seed: int, M: int, hashes: int) -> None:
    random = torch.Generator().manual_seed(seed)
    features = torch.rand(M, 5, generator=random)
    windows = torch.rand(hashes, 5, generator=random).argsort(1)[:, :3]
    codes = [[max(window, key=lambda d, row=row: row[d]) for window in windows.tolist()] for row in features]  # type: ignore[misc]
    expected = [[sum(x == y for x, y in zip(a, b, strict=True)) for b in codes] for a in codes]
    assert wta_agreement(features, windows).tolist() == expected


def f1(agreement: list[list[float]], labels: list[int], threshold: int) -> float:
    pairs = [(i, j) for i in range(len(labels)) for j in range(i)]
    found = {(i, j) for i, j in pairs if agreement[i][j] >= threshold}
    right = {(i, j) for i, j in pairs if labels[i] == labels[j]}
    return 2 * len(found & right) / max(len(found) + len(right), 1)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(0, 4))
def test_the_best_agreement_has_the_highest_f1(seed: int, n: int, least: int) -> None:
    random = torch.Generator().manual_seed(seed)
    agreement = torch.randint(6, (n, n), generator=random).float()
    agreement = torch.maximum(agreement, agreement.T).fill_diagonal_(6)
    labels = torch.randint(3, (n,), generator=random)
    scores = {t: f1(agreement.tolist(), labels.tolist(), t) for t in range(least, 7)}
    best = max(t for t in scores if scores[t] == pytest.approx(max(scores.values())))
    assert best_agreement(agreement, labels, least).item() == best


def test_without_a_pair_of_one_class_only_equal_codes_are_believed() -> None:
    agreement = torch.tensor([[8.0, 3.0], [3.0, 8.0]])
    assert best_agreement(agreement, torch.tensor([0, 1]), least=2).item() == 8
