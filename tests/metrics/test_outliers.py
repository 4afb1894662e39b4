"""How far classes reach, against the definition written as loops."""

import math

import numpy as np
import pytest

from newfound.metrics import outliers
from newfound.metrics.outliers import KEPT, Extent, share_known


def test_far_from_the_centre_of_the_others() -> None:
    random = np.random.default_rng(0)
    classes = np.concatenate([np.repeat([0, 1], 60), random.integers(0, 4, 200)])
    vectors = np.eye(8)[classes] * (2 + classes[:, None]) + random.normal(size=(320, 8))
    vectors[-1] *= -1
    extent, outside = Extent.of(vectors, classes, 120, 5)

    def distance(row: int) -> float:
        own = vectors[row] / np.linalg.norm(vectors[row])
        others = [i for i in range(320) if classes[i] == classes[row] and i != row]
        centre = np.sum([vectors[i] / np.linalg.norm(vectors[i]) for i in others], axis=0)
        return float(1 - own @ centre / np.linalg.norm(centre))

    distances = np.array([distance(row) for row in range(320)])
    relative = distances / [np.median(distances[classes == own]) for own in classes]
    limit = sorted(relative[:120])[math.ceil(KEPT * 121) - 1]
    assert outside.tolist() == (relative > limit).tolist()
    assert outside[-1]
    widths = [np.median(distances[classes == own]) for own in range(4)]
    np.testing.assert_allclose(extent.radii[:4], np.array(widths) * limit, rtol=1e-6)
    assert not extent.centres[4].any()
    assert extent.outside(-extent.centres[:4], np.arange(4)).all()
    assert not extent.outside(extent.centres[:4], np.arange(4)).any()


def test_nothing_is_outside_where_nothing_can_be_learnt() -> None:
    vectors = np.random.default_rng(0).normal(size=(32, 4))
    assert not Extent.of(vectors, np.zeros(32, np.int64), 32, 1)[1].any()
    assert not Extent.of(vectors, np.arange(32), 32, 32)[1].any()
    assert not len(Extent.of(vectors[:0], np.arange(0), 0, 3)[1])


@pytest.mark.parametrize(("num_known", "m", "k"), [(2, 30, 5), (20, 30, 1), (1, 30, 10), (1, 5, 4)])
def test_the_share_of_known_samples_is_its_definition(
    num_known: int, m: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, tried = np.random.default_rng(0), 25
    monkeypatch.setattr(outliers, "TRIED", tried)
    labelled, pile = random.normal(size=(40, 6)) + 1, random.normal(size=(m, 6))
    pile[: m // 3] = labelled[: m // 3] + 0.3 * random.normal(size=(m // 3, 6))
    order = np.random.default_rng(0)
    known, others = (each[order.permutation(len(each))] for each in (labelled, pile))
    mean = np.concatenate([labelled, pile]).mean(0)
    units = [[row / np.linalg.norm(row) for row in each - mean] for each in (known, others)]

    def nearness(kind: int, row: int, among: int) -> float:
        cosines = [
            units[kind][row] @ other
            for place, other in enumerate(units[among])
            if (kind, row) != (among, place)  # none is its own neighbour
        ]
        return float(np.mean(sorted(cosines)[-k:]))

    looks = [
        [nearness(kind, row, 0) - nearness(kind, row, 1) for row in range(min(tried, len(units[kind])))]
        for kind in (0, 1)
    ]
    expected = 2 * np.mean([each > np.median(looks[0]) for each in looks[1]])
    assert share_known(labelled, pile, num_known) == pytest.approx(min(expected, 1))
