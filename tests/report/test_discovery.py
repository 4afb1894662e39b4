"""What a page says of each class, against its definition."""

import numpy as np
import pytest
from numpy.typing import NDArray

from newfound.report.discovery import QUEUE, SHOWN, discovery
from newfound.report.shown import Shown

NAMES = ["ant", "bee", "novel-1", "novel-2", "novel-3"]


Floats = NDArray[np.float64]


def softmax(logits: Floats) -> Floats:
    powers: Floats = np.exp(logits)
    shares: Floats = powers / powers.sum(1, keepdims=True)
    return shares


def shown(logits: Floats) -> Shown:
    """With nothing edited."""
    novel = softmax(logits[:, 2:])
    names = NAMES[: logits.shape[1]]
    ids = range(len(names))
    joint = softmax(logits)
    looks_known = joint.argmax(1) < 2
    return Shown(names, ids, 2, novel, joint, 2 + novel.argmax(1), novel.max(1), looks_known)


@pytest.fixture
def logits() -> Floats:
    """100 images, two known and three novel classes; nothing is ever novel-3."""
    logits = np.random.default_rng(0).normal(size=(100, 5))
    logits[:, 4] = -9
    return logits


def test_every_class_by_definition(logits: Floats) -> None:
    novel, joint = softmax(logits[:, 2:]), softmax(logits)
    found = discovery(shown(logits))
    for index, each in enumerate(found.classes):
        rows = [row for row in range(100) if novel[row].argmax() == index]
        assert (each.name, each.size) == (NAMES[2 + index], len(rows))
        if not rows:
            continue
        surest = sorted(rows, key=lambda row: -novel[row, index])
        assert each.central.tolist() == surest[:SHOWN]
        assert each.doubtful.tolist() == surest[::-1][:SHOWN]
        assert each.confidence == pytest.approx(np.mean([novel[row, index] for row in rows]))
        known = [np.mean([joint[row, k] for row in rows]) for k in range(2)]
        assert each.known.name == NAMES[np.argmax(known)]
        assert each.known.share == pytest.approx(max(known))
        others = {NAMES[2 + k]: np.mean([novel[row, k] for row in rows]) for k in range(3) if k != index}
        assert each.novel is not None
        assert each.novel.name == max(others, key=lambda name: others[name])
        assert each.novel.share == pytest.approx(others[each.novel.name])
    assert [each.size for each in found.classes][2] == 0


def test_what_to_look_at_first(logits: Floats) -> None:
    novel, joint = softmax(logits[:, 2:]), softmax(logits)
    found = discovery(shown(logits))
    assert found.least_sure.tolist() == sorted(range(100), key=lambda row: novel[row].max())[:QUEUE]
    known = [row for row in range(100) if joint[row].argmax() < 2]
    assert found.looks_known.tolist() == sorted(
        known, key=lambda row: joint[row, 2:].max() - joint[row, :2].max()
    )


def test_no_image_of_a_small_class_is_both_sure_and_doubtful() -> None:
    logits = np.zeros((5, 3))
    logits[:, 2] = np.arange(5)
    (only,) = discovery(shown(logits)).classes
    assert (len(only.central), len(only.doubtful)) == (3, 2)
    assert not set(only.central.tolist()) & set(only.doubtful.tolist())
    assert only.novel is None
