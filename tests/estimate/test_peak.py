"""Our estimate: the soft peak, its range from hidden classes, and classes that are counted."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from newfound.estimate.peak import Curve, is_novel, peak_estimate, peak_grid, peak_trials, soft_peak
from newfound.estimate.trial import EstimateConfig, Features, Trial, Verdict

CONFIG = EstimateConfig(max_novel=20, restarts=3, iterations=30)


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def features(num_known: int, num_novel: int, spread: float = 1.0, each: int = 30) -> Features:
    """Classes that differ in 16 features; 8 others vary far more than these, and say nothing."""
    number = num_known + num_novel
    classes = torch.arange(number).repeat_interleave(each)
    points = 3 * torch.randn(number, 24, generator=random())[classes]
    points[:, 16:] = 6 * torch.randn(len(classes), 8, generator=random(1))
    points[:, :16] += spread * torch.randn(len(classes), 16, generator=random(2))
    known = classes < num_known
    return Features(points[known], classes[known], points[~known])


def estimate(given: Features) -> Verdict:
    return peak_estimate(list(peak_trials(given, CONFIG, random(), {})))


@pytest.mark.parametrize("num_novel", [3, 10])
def test_classes_are_counted_in_the_metric_of_the_known_ones(num_novel: int) -> None:
    found = estimate(features(8, num_novel))
    assert found.num_novel == num_novel
    assert found.low <= num_novel <= found.high <= 2 * num_novel


def test_the_less_hidden_classes_are_found_the_wider_the_range() -> None:
    clear, vague = (estimate(features(8, 8, spread)) for spread in (1.0, 4.0))
    assert vague.high / vague.low > clear.high / clear.low


def test_the_grid_is_geometric_and_ends_at_the_most() -> None:
    assert peak_grid(12) == [2, 3, 4, 5, 6, 7, 8, 9, 11, 12]
    assert peak_grid(99)[-3:] == [76, 87, 99]
    assert (peak_grid(1), peak_grid(2)) == ([1], [2])


def test_the_soft_peak_lies_between_equals() -> None:
    assert soft_peak({2: 0.1, 4: 0.5, 9: 0.5, 12: 0.1}) == pytest.approx(6)
    one, two = math.exp(0.51 / 0.01 - 50), math.exp(0.50 / 0.01 - 50)
    wanted = math.exp((one * math.log(5) + two * math.log(6)) / (one + two))
    assert soft_peak({5: 0.51, 6: 0.50}) == pytest.approx(wanted)


def curve(best: int, missed_by: float | None) -> list[Trial]:
    return [Trial(k, k, None, 0.9 if k == best else 0.1, missed_by) for k in peak_grid(20)]


@pytest.mark.parametrize(
    ("best", "missed_by", "low", "high"),
    [(8, 1.5, 5, 12), (2, 1.5, 1, 3), (20, 1.5, 13, 20), (16, 1.5, 10, 20), (8, None, 1, 20)],
)
def test_the_range_is_as_wide_as_hidden_classes_demand(
    best: int, missed_by: float | None, low: int, high: int
) -> None:
    found = peak_estimate(curve(best, missed_by))
    assert (found.num_novel, found.low, found.high) == (best, low, high)


def test_without_classes_to_hide_the_range_is_the_widest() -> None:
    found = estimate(features(3, 5))
    assert (found.low, found.high) == (1, 20)


def test_a_large_pile_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newfound.estimate.peak.SAMPLE", 40)
    found = Curve(features(4, 5), CONFIG, random())
    assert [len(draw.points) for draw in found.draws] == [40] * 2


def test_small_classes_count_as_much_as_large_ones() -> None:
    given, sizes = features(8, 5, each=400), (400, 200, 100, 60, 40)
    rows = torch.cat([place * 400 + torch.arange(size) for place, size in enumerate(sizes)])
    uneven = replace(given, pile=given.pile[rows])
    assert estimate(uneven).num_novel == 5
    drawn = Curve(uneven, CONFIG, random()).draws[0](5).labels.bincount()
    assert drawn.max() < 5 * drawn.min()


def test_vectors_with_labelled_neighbours_are_left_out_of_a_mixed_pile() -> None:
    """Eight known classes, each with 30 labelled vectors and 30 in the pile, and five novel ones."""
    given = features(8, 5, each=60)
    joining = torch.arange(len(given.labelled)) % 2 == 0
    mixed = Features(
        given.labelled[~joining],
        given.classes[~joining],
        torch.cat([given.pile, given.labelled[joining]]),
        mixed=True,
    )
    unit = [F.normalize(each[:, :16], dim=-1) for each in (mixed.pile, mixed.labelled)]
    novel = is_novel(*unit)
    assert novel[:300].all()
    assert novel[300:].float().mean() < 0.15
    assert is_novel(unit[0], unit[1][:0]).all()
    found = estimate(mixed)
    assert found.num_novel == 5
    assert found.low <= 5 <= found.high
