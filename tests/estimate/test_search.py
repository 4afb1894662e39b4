"""All estimates: right on classes that lie apart; how trials become a number; when not to trust it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

from newfound.core.errors import DataError, UsageError
from newfound.estimate.dtc import dtc_estimate, num_probes
from newfound.estimate.gcd import gcd_estimate
from newfound.estimate.trial import (
    EstimateConfig,
    Features,
    Trial,
    Verdict,
    best_of,
    estimate_config,
    most_extra,
)
from newfound.pseudo.kmeans import KMeans
from newfound.run.estimation import ALGORITHMS, resolved, warnings_for

CONFIG = EstimateConfig(max_novel=12, restarts=6)


def random() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def features(num_labelled: int, num_novel: int, each: int = 15) -> Features:
    """Classes that lie apart, some of them labelled."""
    classes = torch.arange(num_labelled + num_novel).repeat_interleave(each)
    means = 10 * torch.randn(num_labelled + num_novel, 16, generator=random())
    points = means[classes] + torch.randn(len(classes), 16, generator=random())
    known = classes < num_labelled
    return Features(points[known], classes[known], points[~known])


def trials(algorithm: str, given: Features, done: Mapping[int, Trial] | None = None) -> list[Trial]:
    return list(ALGORITHMS[algorithm].trials(given, CONFIG, random(), done or {}))


@pytest.mark.parametrize("num_novel", [1, 4, 9])
@pytest.mark.parametrize("algorithm", ["dtc", "gcd"])
def test_classes_that_lie_apart_are_counted(algorithm: str, num_novel: int) -> None:
    found = trials(algorithm, features(5, num_novel))
    estimate = ALGORITHMS[algorithm].verdict(found)
    assert estimate.num_novel == num_novel
    assert estimate.low <= num_novel <= estimate.high


def most_trials(algorithm: str, most: int) -> int:
    found = ALGORITHMS[algorithm].most_trials
    assert found
    return found(most)


def test_dtc_sweeps_from_none_to_the_most() -> None:
    found = trials("dtc", features(5, 4))
    assert [trial.extra for trial in found] == list(range(13))
    assert len(found) == most_trials("dtc", 12)
    assert all(trial.accuracy is not None and 0 <= trial.accuracy <= 1 for trial in found)
    assert all(trial.silhouette is not None and -1 <= trial.silhouette <= 1 for trial in found)


@pytest.mark.parametrize("algorithm", ["dtc", "gcd"])
def test_what_is_done_is_not_made_again(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = features(4, 3)
    made = trials(algorithm, given)
    assert len(made) <= most_trials(algorithm, 12)
    some = {trial.extra: trial for trial in made[: len(made) // 2]}
    assert trials(algorithm, given, some) == made
    monkeypatch.setattr(KMeans, "__call__", lambda self, k: pytest.fail("clustered again"))
    assert trials(algorithm, given, {trial.extra: trial for trial in made}) == made


@pytest.mark.parametrize("most", [1, 2, 7, 8, 12, 50, 99])
def test_gcds_search_refines_its_grid(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With accuracy a single peak the search finds it, wherever it is."""
    config = replace(CONFIG, max_novel=most, restarts=1)
    given = features(2, 100, each=2)
    for peak in range(1, most + 1, max(most // 5, 1)):
        scores = {e: Trial(e, e, 1 - abs(e - peak) / 200) for e in range(1, most + 1)}
        found = list(ALGORITHMS["gcd"].trials(given, config, random(), scores))
        assert gcd_estimate(found).num_novel == peak
        assert len({trial.extra for trial in found}) == len(found) <= most_trials("gcd", most)


def sweep(accuracies: list[float], silhouettes: list[float]) -> list[Trial]:
    values = zip(accuracies, silhouettes, strict=True)
    return [Trial(m, m, accuracy, silhouette) for m, (accuracy, silhouette) in enumerate(values)]


def test_dtc_meets_half_way_and_rounds_up() -> None:
    estimate = dtc_estimate(sweep([0.1, 0.9, 0.2, 0.3, 0.3], [0.1, 0.1, 0.3, 0.2, 0.4]))
    assert estimate.preferred == {"accuracy": 1, "silhouette": 4}
    assert (estimate.extra, estimate.num_novel, estimate.low, estimate.high) == (3, 3, 1, 4)


def test_dtc_counts_no_more_than_were_looked_for() -> None:
    """The pile fills the clusters of probe classes too."""
    found = [Trial(m, 3 + m, accuracy, 0.1 * m) for m, accuracy in enumerate((0.9, 0.5, 0.5))]
    estimate = dtc_estimate(found)
    assert (estimate.num_novel, estimate.low, estimate.high) == (2, 2, 2)
    fewest = dtc_estimate([replace(trial, silhouette=-trial.extra) for trial in found])
    assert (fewest.extra, fewest.num_novel) == (0, 2)
    assert "raise estimate.max_novel" in warnings_for(fewest, 80, 10, 2, 2)[-1]


def test_of_equal_values_the_largest_place_counts() -> None:
    assert best_of({0: 0.5, 1: 0.7, 2: 0.7, 3: 0.1}) == 2
    assert dtc_estimate(sweep([0.5, 0.5, 0.5], [-0.2, -0.1, -0.1])).extra == 2


def test_gcds_range_is_that_of_equal_trials() -> None:
    tried = ((1, 0.9), (2, 0.5), (3, 0.9), (4, 0.9), (6, 0.9), (8, 0.2))
    estimate = gcd_estimate([Trial(extra, extra, accuracy) for extra, accuracy in tried])
    assert (estimate.num_novel, estimate.low, estimate.high) == (4, 3, 6)


def test_gcd_never_says_what_was_worse() -> None:
    tried = ((3, 0.9), (4, 0.2), (5, 0.9))
    assert gcd_estimate([Trial(extra, extra, accuracy) for extra, accuracy in tried]).num_novel in (
        3,
        5,
    )


def test_small_clusters_do_not_count() -> None:
    """Two stray images far from everything are a cluster of their own, below theta."""
    given = features(5, 4, each=40)
    stray = torch.full((2, 16), 60.0)
    with_stray = replace(given, pile=torch.cat([given.pile, stray]))
    for theta, number in ((0.1, 4), (0.01, 5)):
        config = replace(CONFIG, theta=theta)
        made = list(ALGORITHMS["dtc"].trials(with_stray, config, random(), {}))
        assert made[5].num_novel == number


@pytest.mark.parametrize(("known", "hidden"), [(5, 3), (6, 3), (7, 4), (8, 4), (20, 4), (50, 7), (80, 10)])
def test_how_many_classes_are_hidden(known: int, hidden: int) -> None:
    assert num_probes(known, CONFIG) == hidden
    assert ALGORITHMS["gcd"].num_hidden(known, CONFIG) == 0


def test_too_few_classes_to_hide_some() -> None:
    with pytest.raises(DataError, match="at least 5 known classes"):
        num_probes(4, CONFIG)
    for wanted in (2, 9):
        with pytest.raises(UsageError, match=f"got {wanted}"):
            num_probes(10, replace(CONFIG, probe_classes=wanted))


def test_on_a_mixed_pile_of_images_the_algorithm_is_gcds() -> None:
    auto = EstimateConfig()
    assert [resolved(auto, 20, pile, False).algorithm for pile in ("novel", "mixed")] == ["dtc", "gcd"]
    assert [resolved(auto, 20, pile, True).algorithm for pile in ("novel", "mixed")] == [
        "silhouette",
        "silhouette",
    ]
    assert resolved(EstimateConfig(algorithm="dtc"), 20, "mixed", True).algorithm == "dtc"


def test_the_silhouette_is_for_vectors() -> None:
    with pytest.raises(UsageError, match="needs vectors"):
        resolved(EstimateConfig(algorithm="silhouette"), 20, "novel", False)


def test_a_class_has_two_images_or_more() -> None:
    assert most_extra(1000, CONFIG) == 12
    assert most_extra(9, CONFIG) == 4
    assert most_extra(1, CONFIG) == 1


def test_warnings() -> None:
    good = dtc_estimate(sweep([0.1, 0.2, 0.9, 0.3], [0.1, 0.2, 0.4, 0.2]))
    assert warnings_for(good, 80, 10, 12, 12) == []
    (few,) = warnings_for(good, 5, 3, 12, 12)
    assert "few for an estimate (2 of them" in few
    (one,) = warnings_for(good, 1, 0, 12, 12)
    assert "few for an estimate;" in one
    low = dtc_estimate(sweep([0.9, 0.2], [0.4, 0.2]))
    assert "smallest number" in warnings_for(low, 80, 10, 12, 12)[0]
    (wide,) = warnings_for(replace(good, low=2, high=9), 80, 10, 12, 12)
    assert "cannot tell" in wide
    high = dtc_estimate(sweep([0.1] * 13, [0.1] * 13))
    assert "estimate.max_novel" in warnings_for(high, 80, 10, 12, 12)[0]
    assert "there are too few images" in warnings_for(high, 80, 10, 12, 99)[0]
    assert warnings_for(Verdict(0, 0, 0, None, {"silhouette": 12}), 80, 0, 12, 99) == []


def test_defaults_are_dtcs_for_cifar100() -> None:
    assert estimate_config("cifar100-20", {}) == EstimateConfig()
    config = EstimateConfig()
    assert (config.anchor_share, config.theta, config.max_novel) == (0.6, 0.01, 99)
    assert (config.restarts, config.iterations) == (10, 100)


def test_published_values_and_overrides() -> None:
    config = estimate_config("imagenet-30-a", {"theta": "0.2"})
    assert (config.probe_classes, config.anchor_share, config.theta) == (82, 0.9, 0.2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"thta": "1"}, ("Unknown setting 'estimate.thta'", "Did you mean 'estimate.theta'")),
        ({"theta": "1"}, ("estimate.theta", "less than 1", "'1'")),
        ({"anchor_share": "0"}, ("estimate.anchor_share", "greater than 0")),
        ({"max_novel": "0"}, ("estimate.max_novel", "at least 1")),
        ({"algorithm": "elbow"}, ("estimate.algorithm", "'gcd' or 'silhouette'", "'elbow'")),
    ],
)
def test_mistakes(settings: dict[str, str], words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as error:
        estimate_config("digits", settings)
    assert all(word in str(error.value) for word in words), error.value
