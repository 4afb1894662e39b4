"""Our estimate: the soft peak, its range from hidden classes, and classes that are counted."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from newfound.estimate.peak import (
    FITTED,
    Draw,
    Look,
    corrected,
    deviation,
    in_components,
    judged,
    peak_estimate,
    peak_grid,
    peak_trials,
    soft_peak,
)
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


@pytest.mark.slow
@pytest.mark.parametrize("num_novel", [3, 10])
def test_classes_are_counted_in_the_metric_of_the_known_ones(num_novel: int) -> None:
    """They lie apart, so the peak itself is right, and its correction hardly off."""
    found = estimate(features(8, num_novel))
    assert found.preferred["silhouette"] == num_novel
    assert found.num_novel == pytest.approx(num_novel, rel=0.2)
    assert found.low <= num_novel <= found.high


@pytest.mark.parametrize(
    "errors", [[(0.0, 0.0)] * 4, [(1.5, -1.4), (0.0, 2.0)], [(1.0, 2.0), (1.0, -3.0)], []]
)
def test_the_less_hidden_classes_are_found_the_wider_the_range(
    errors: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = in_components(features(8, 8))
    look = Look.of(given, CONFIG, random())
    monkeypatch.setattr("newfound.estimate.peak._errors", lambda *_: iter(errors))
    peak, number = (sum(each[place] ** 2 for each in errors) for place in (0, 1))
    better, squares = (look.signs["peak"], peak) if 1.44 * peak < number else (corrected(look), number)
    more = math.sqrt((squares + 12) / (len(errors) + 12))
    found, factor = judged(look, given, CONFIG, random())
    assert found == pytest.approx(math.exp(better))
    assert factor == pytest.approx(math.exp(1.28 * deviation(look) * more))


def test_the_grid_is_geometric_and_ends_at_the_most() -> None:
    assert peak_grid(12) == [*range(2, 11), 12]
    assert peak_grid(99)[-4:] == [62, 74, 89, 99]
    assert (peak_grid(1), peak_grid(2)) == ([1], [2])


def test_the_soft_peak_lies_between_equals() -> None:
    assert math.exp(soft_peak({2: 0.1, 4: 0.5, 9: 0.5, 12: 0.1})) == pytest.approx(6)
    one, two = math.exp(0.51 / 0.01 - 50), math.exp(0.50 / 0.01 - 50)
    wanted = (one * math.log(5) + two * math.log(6)) / (one + two)
    assert soft_peak({5: 0.51, 6: 0.50}) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("counted", "missed_by", "wanted"),
    [
        (8.3, 1.5, (8, 6, 12)),
        (1.4, 1.5, (1, 1, 2)),
        (19.0, 1.5, (19, 13, 20)),
        (30.0, 1.1, (20, 20, 20)),
        (5.0, None, (5, 1, 20)),
        (4.45, 1.01, (4, 4, 4)),
        (0.0, None, (0, 0, 0)),
    ],
)
def test_the_range_is_as_wide_as_hidden_classes_demand(
    counted: float, missed_by: float | None, wanted: tuple[int, int, int]
) -> None:
    trials = [Trial(k, k, silhouette=0.1, counted=counted, missed_by=missed_by) for k in peak_grid(20)]
    found = peak_estimate(trials)
    assert (found.num_novel, found.low, found.high) == wanted


@pytest.mark.parametrize(("counted", "decided"), [(7.0, 7), (6.0, None), (0.0, None)])
def test_one_trial_decides_only_if_the_number_is_its_own(counted: float, decided: int | None) -> None:
    trials = [Trial(k, k, silhouette=-abs(k - 7), counted=counted) for k in peak_grid(20)]
    assert peak_estimate(trials).extra == decided


def test_without_classes_to_hide_the_range_is_that_of_the_cuts_behind_the_weights() -> None:
    given = features(3, 5)
    trials, look = (
        list(peak_trials(given, CONFIG, random(), {})),
        Look.of(in_components(given), CONFIG, random()),
    )
    weights = FITTED["deviation"]
    logarithm = weights[""] + sum(weights[name] * value for name, value in look.signs.items())
    assert deviation(look) == pytest.approx(math.exp(logarithm))
    assert trials[0].missed_by == pytest.approx(math.exp(1.28 * deviation(look)))


def test_a_few_images_could_be_of_any_number_of_classes() -> None:
    found = estimate(features(4, 3, each=3))
    assert (found.low, found.high) == (1, 4)


def test_small_classes_count_as_much_as_large_ones() -> None:
    given, sizes = features(8, 5, each=400), (400, 200, 100, 60, 40)
    rows = torch.cat([place * 400 + torch.arange(size) for place, size in enumerate(sizes)])
    pile = F.normalize(given.pile[rows][:, :16], dim=-1)
    draw = Draw(pile, 25, 400, [2, 5, 8], random())
    drawn = draw.kmeans(5).labels.bincount()
    assert drawn.max() < 5 * drawn.min()
    assert soft_peak(draw.by_cluster) == pytest.approx(math.log(5), abs=0.05)
    assert draw.unevenness(5) == pytest.approx(float(torch.tensor(sizes).log().std()), abs=0.05)


def mixed(num_novel: int) -> Features:
    """Eight known classes, each with 30 labelled vectors and 30 in the pile, and some novel ones."""
    given = features(8, num_novel, each=60)
    joining = torch.arange(len(given.labelled)) % 2 == 0
    return Features(
        given.labelled[~joining],
        given.classes[~joining],
        torch.cat([given.pile, given.labelled[joining]]),
        mixed=True,
    )


@pytest.mark.slow
def test_known_classes_of_a_mixed_pile_do_not_count() -> None:
    found = estimate(mixed(5))
    assert found.num_novel == pytest.approx(5, abs=1)
    assert found.low <= 5 <= found.high
    assert found.preferred == {"silhouette": 5}
    assert Look.of(mixed(5), CONFIG, random()).share == pytest.approx(240 / 540, abs=0.1)


def test_a_pile_without_known_classes_is_counted_alike_if_it_may_be_mixed() -> None:
    told = features(8, 5)
    assert estimate(replace(told, mixed=True)) == estimate(told)


def test_a_mixed_pile_of_known_classes_holds_no_novel_one() -> None:
    found = estimate(mixed(0))
    assert (found.num_novel, found.low, found.high) == (0, 0, 0)
    assert estimate(mixed(1)).num_novel > 0


@pytest.mark.parametrize(("number", "found"), [(4, 0), (5, 1)])
def test_a_few_strange_images_are_no_class(number: int, found: int) -> None:
    given = mixed(1)
    few = replace(given, pile=given.pile[:number])  # novel ones come first
    assert min(estimate(few).num_novel, 1) == found
