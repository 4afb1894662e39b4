"""Temperature and calibration error against straightforward definitions."""

import math

import pytest
import torch

from newfound.metrics.calibration import calibration_error, temperature, told_right


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0])
def test_the_temperature_has_the_lowest_loss(scale: float) -> None:
    random = torch.Generator().manual_seed(0)
    true = 2 * torch.randn(400, 6, generator=random, dtype=torch.float64)
    labels = torch.multinomial(true.softmax(1), 1, generator=random).squeeze(1)
    found, e = temperature(scale * true, labels), 1 / 402

    def loss(t: float) -> float:
        total = 0.0
        for logits, label in zip((scale * true / t).tolist(), labels.tolist(), strict=True):
            norm = math.log(sum(map(math.exp, logits)))
            total -= (1 - e) * (logits[label] - norm) + e / 6 * sum(each - norm for each in logits)
        return total

    assert found == pytest.approx(scale, rel=0.2)
    assert loss(found) <= min(loss(found * 1.01), loss(found / 1.01))


def test_answers_that_are_all_right_are_not_certain() -> None:
    logits = torch.eye(3)[torch.tensor([0, 1, 2, 0])]
    assert 0.8 < float((logits / temperature(logits, logits.argmax(1))).softmax(1).max()) < 1


def test_the_error_is_the_mean_gap_of_the_bins() -> None:
    random = torch.Generator().manual_seed(0)
    confidence = torch.rand(500, generator=random)
    confidence[0] = 1.0
    right = torch.rand(500, generator=random) < confidence**2
    total = 0.0
    for index in range(15):
        inside = [row for row, each in enumerate(confidence.tolist()) if min(int(each * 15), 14) == index]
        told = sum(float(confidence[row]) for row in inside) / len(inside)
        hits = sum(bool(right[row]) for row in inside) / len(inside)
        total += len(inside) / 500 * abs(told - hits)
    assert calibration_error(confidence, right) == pytest.approx(total, abs=1e-6)
    assert calibration_error(torch.ones(4), torch.ones(4, dtype=torch.bool)) == 0


def test_novel_ids_have_no_names_but_known_ones_have() -> None:
    true = torch.tensor([0, 1, 2, 2, 3, 3, 3])
    ids = torch.tensor([1, 1, 3, 3, 2, 2, 3])
    assert told_right(ids, true, 2).tolist() == [False, True, True, True, True, True, False]
    # A novel id that is left without a partner is wrong, even for the last known class.
    assert told_right(torch.tensor([2, 2, 3]), torch.tensor([2, 2, 1]), 2).tolist() == [True, True, False]
