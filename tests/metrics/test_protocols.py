"""The protocols against their words written as loops, and on cases made by hand."""

from itertools import permutations
from math import isnan

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newfound.core.records import Task
from newfound.metrics.protocols import Shares, clustering, generalised, task_agnostic, task_aware

TASK = Task(num_known=3, num_novel=2)
seeds = st.integers(0, 10_000)


def votes(predicted: list[int], num_classes: int) -> Tensor:
    """Scores of one head whose argmax is `predicted`: (1, n, C)."""
    return torch.eye(num_classes)[torch.tensor(predicted)][None]


def drawn(seed: int, num_heads: int, num: int, task: Task, lowest: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(num_heads, num, task.num_classes, generator=generator)
    return scores, torch.randint(lowest, task.num_classes, (num,), generator=generator)


def best_renaming(predicted: list[int], true: list[int], ids: list[int], classes: list[int]) -> int:
    """Most samples right over all ways to give each of `classes` its own id among `ids`."""
    return max(
        sum(p == names[classes.index(t)] for p, t in zip(predicted, true, strict=True))
        for names in permutations(ids, len(classes))
    )


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_task_aware_is_the_best_renaming_among_novel_ids(seed: int) -> None:
    scores, labels = drawn(seed, 2, 15, TASK, lowest=3)
    for head, record in zip(scores, task_aware(scores[..., 3:], labels, TASK), strict=True):
        predicted = [3 if a >= b else 4 for a, b in head[:, 3:].tolist()]
        hits = best_renaming(predicted, labels.tolist(), [3, 4], [3, 4])
        assert record.acc == hits / 15
        assert record.cluster_sizes == [predicted.count(3), predicted.count(4)]


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 6), st.integers(1, 40))
def test_task_aware_does_not_depend_on_the_order_of_the_clusters(seed: int, num_novel: int, num: int) -> None:
    task = Task(2, num_novel)
    scores, labels = drawn(seed, 1, num, task, lowest=2)
    order = torch.randperm(num_novel, generator=torch.Generator().manual_seed(seed))
    novel = scores[..., 2:]
    (one,), (other,) = task_aware(novel, labels, task), task_aware(novel[..., order], labels, task)
    assert (one.acc, one.nmi, one.ari) == pytest.approx((other.acc, other.nmi, other.ari))
    assert 1 / num_novel - 1e-9 <= one.acc <= 1
    assert sum(one.cluster_sizes) == num


def test_task_aware_leaves_out_images_of_known_classes() -> None:
    scores, labels = drawn(0, 2, 20, TASK, lowest=0)
    novel = labels >= 3
    assert task_aware(scores[..., 3:], labels, TASK) == task_aware(scores[:, novel, 3:], labels[novel], TASK)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_generalised_is_one_renaming_of_all_ids(seed: int) -> None:
    """GCD's version 2: the permutation that gets most of all images right, then Old, New and All under it."""
    scores, labels = drawn(seed, 2, 20, TASK, lowest=0)
    labels[:5] = torch.arange(5)
    true = labels.tolist()
    for head, record in zip(scores, generalised(scores, labels, TASK), strict=True):
        predicted = head.argmax(-1).tolist()
        renamings = list(permutations(range(5)))
        right = [[new[p] == t for p, t in zip(predicted, true, strict=True)] for new in renamings]
        most = max(sum(each) for each in right)
        found = {
            (
                sum(hit for hit, t in zip(each, true, strict=True) if t < 3),
                sum(hit for hit, t in zip(each, true, strict=True) if t >= 3),
            )
            for each in right
            if sum(each) == most
        }
        known, novel = sum(t < 3 for t in true), sum(t >= 3 for t in true)
        assert (round(record.known * known), round(record.novel * novel)) in found
        assert record.all == most / 20
        as_known = [p < 3 for p in predicted]
        assert record.recognised == sum(k for k, t in zip(as_known, true, strict=True) if t < 3) / known
        assert record.mistaken == sum(k for k, t in zip(as_known, true, strict=True) if t >= 3) / novel


def test_generalised_of_one_kind_of_images_only() -> None:
    (record,) = generalised(votes([3, 4, 1], 5), torch.tensor([3, 4, 4]), TASK)
    assert isnan(record.recognised)
    assert record.mistaken == 1 / 3
    assert record.all == record.novel == 2 / 3


def test_task_aware_takes_any_names() -> None:
    scores = torch.tensor([[[1.0, 0], [0, 1], [0, 1]]])
    (record,) = task_aware(scores, torch.tensor([4, 3, 3]), TASK)
    assert record.acc == record.nmi == record.ari == 1
    assert record.per_class_accuracy == [1, 1]
    assert record.cluster_sizes == [1, 2]
    assert record.class_sizes == [2, 1]


def test_per_class_accuracy_follows_the_true_classes() -> None:
    record = clustering(torch.tensor([1, 1, 1, 0, 1]), torch.tensor([0, 0, 0, 1, 1]), 2)
    assert record.per_class_accuracy == [1, 0.5]
    assert record.acc == 0.8


def test_an_absent_class_has_no_accuracy_and_an_estimate_may_be_too_small_or_too_large() -> None:
    larger = clustering(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 1]), num_clusters=3)
    assert larger.acc == pytest.approx(2 / 3)
    assert isnan(larger.per_class_accuracy[2])
    smaller = clustering(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 2]), num_clusters=2)
    assert smaller.acc == pytest.approx(2 / 3)
    assert len(smaller.per_class_accuracy) == 3


def test_a_single_novel_class_is_always_right() -> None:
    scores, labels = torch.randn(3, 4, 1), torch.full((4,), 2)
    assert [record.acc for record in task_aware(scores, labels, Task(2, 1))] == [1, 1, 1]


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_the_three_matchings_are_what_they_say(seed: int) -> None:
    scores, labels = drawn(seed, 2, 20, TASK, lowest=0)
    labels[:5] = torch.arange(5)
    for head, record in zip(scores, task_agnostic(scores, labels, TASK), strict=True):
        predicted, true = head.argmax(-1).tolist(), labels.tolist()
        novel = [(p, t) for p, t in zip(predicted, true, strict=True) if t >= 3]
        known = [(p, t) for p, t in zip(predicted, true, strict=True) if t < 3]
        p_u, t_u = [p for p, _ in novel], [t for _, t in novel]
        known_hits = sum(p == t for p, t in known)
        legacy = best_renaming(p_u, t_u, [0, 1, 2, 3, 4], [3, 4])
        strict = best_renaming(p_u, t_u, [3, 4], [3, 4])
        assert record["legacy"] == Shares(
            known_hits / len(known), legacy / len(novel), (known_hits + legacy) / 20
        )
        assert record["novel-ids"] == Shares(
            known_hits / len(known), strict / len(novel), (known_hits + strict) / 20
        )
        joint = best_renaming(predicted, true, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
        assert record["joint"].all == joint / 20
        parts = record["joint"].known * len(known) + record["joint"].novel * len(novel)
        assert parts == pytest.approx(joint)


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 5), st.integers(1, 5), st.integers(1, 30))
def test_the_matchings_are_ordered(seed: int, num_known: int, num_novel: int, num: int) -> None:
    task = Task(num_known, num_novel)
    (record,) = task_agnostic(*drawn(seed, 1, num, task, lowest=0), task)
    assert record["joint"].all >= record["novel-ids"].all
    assert record["legacy"].all >= record["novel-ids"].all


def test_a_novel_class_swallowed_by_a_known_id_is_found_only_by_legacy() -> None:
    labels = torch.tensor([0, 1, 2, 3, 3, 4, 4])
    (record,) = task_agnostic(votes([0, 1, 2, 1, 1, 4, 4], 5), labels, TASK)
    assert record["legacy"] == Shares(1, 1, 1)
    assert record["novel-ids"] == Shares(1, 0.5, 5 / 7)
    # Two novel images outweigh the one known image for id 1.
    assert record["joint"] == Shares(2 / 3, 1, 6 / 7)


def test_known_classes_are_not_renamed_except_jointly() -> None:
    labels = torch.tensor([0, 0, 1, 1, 2, 3, 4])
    (record,) = task_agnostic(votes([1, 1, 0, 0, 2, 4, 3], 5), labels, TASK)
    assert record["legacy"] == record["novel-ids"] == Shares(1 / 5, 1, 3 / 7)
    assert record["joint"] == Shares(1, 1, 1)


def test_a_joint_match_takes_an_id_from_one_of_the_parts() -> None:
    labels = torch.tensor([0, 3, 3, 3, 4])
    (record,) = task_agnostic(votes([0, 0, 0, 0, 4], 5), labels, TASK)
    assert record["legacy"].novel == 1
    assert record["novel-ids"].novel == 1 / 4
    assert record["joint"] == Shares(0, 1, 4 / 5)


def test_all_is_weighted_by_samples() -> None:
    labels = torch.tensor([0] * 8 + [3] * 2)
    (record,) = task_agnostic(votes([0] * 4 + [1] * 4 + [3] * 2, 5), labels, TASK)
    assert record["legacy"] == Shares(0.5, 1, 0.6)


def test_a_part_without_images_has_no_accuracy() -> None:
    (record,) = task_agnostic(votes([3, 4], 5), torch.tensor([3, 4]), TASK)
    assert isnan(record["legacy"].known)
    assert record["legacy"].novel == record["legacy"].all == 1


def test_more_true_classes_than_ids() -> None:
    (record,) = task_agnostic(votes([0, 3, 4, 4], 5), torch.tensor([0, 3, 4, 5]), TASK)
    assert record["novel-ids"] == Shares(1, 2 / 3, 3 / 4)
