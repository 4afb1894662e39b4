"""Settings of an estimate."""

import pytest

from newfound.core.errors import UsageError
from newfound.estimate.config import EstimateConfig, estimate_config, split_settings


def test_defaults_are_dtcs_for_cifar100() -> None:
    assert estimate_config("cifar100-20", {}) == EstimateConfig()
    config = EstimateConfig()
    assert (config.anchor_share, config.theta, config.max_novel) == (0.6, 0.01, 99)
    assert (config.restarts, config.iterations) == (10, 100)


def test_published_values_and_overrides() -> None:
    config = estimate_config("imagenet-30-a", {"theta": "0.2"})
    assert (config.probe_classes, config.anchor_share, config.theta) == (82, 0.9, 0.2)


def test_settings_are_told_apart_by_their_prefix() -> None:
    own, others = split_settings({"estimate.theta": "0.1", "epochs": "3", "pretrain.epochs": "2"})
    assert own == {"theta": "0.1"}
    assert others == {"epochs": "3", "pretrain.epochs": "2"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"thta": "1"}, ("unknown setting 'estimate.thta'", "did you mean 'estimate.theta'", "--help")),
        ({"theta": "1"}, ("estimate.theta", "less than 1", "'1'", "newfound estimate --help")),
        ({"anchor_share": "0"}, ("estimate.anchor_share", "greater than 0")),
        ({"max_novel": "0"}, ("estimate.max_novel", "greater than or equal to 1")),
        ({"algorithm": "elbow"}, ("estimate.algorithm", "'dtc' or 'gcd'", "'elbow'")),
    ],
)
def test_mistakes(settings: dict[str, str], words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as error:
        estimate_config("digits", settings)
    assert all(word in str(error.value) for word in words), error.value
