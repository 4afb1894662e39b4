"""How far classes reach, against the definition written as loops."""

import math

import numpy as np

from newfound.metrics.outliers import KEPT, Extent


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
    assert not extent.centres[4].any()
    assert extent.outside(-extent.centres[:4], np.arange(4)).all()
    assert not extent.outside(extent.centres[:4], np.arange(4)).any()


def test_nothing_is_outside_where_nothing_can_be_learnt() -> None:
    vectors = np.random.default_rng(0).normal(size=(32, 4))
    assert not Extent.of(vectors, np.zeros(32, np.int64), 32, 1)[1].any()
    assert not Extent.of(vectors, np.arange(32), 32, 32)[1].any()
    assert not len(Extent.of(vectors[:0], np.arange(0), 0, 3)[1])
