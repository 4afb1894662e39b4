"""The page of a run: one file that needs nothing else, and what it shows, against its definition."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from newfound.core.errors import UsageError
from newfound.core.files import write_record
from newfound.metrics.report import Clusters, Score, TaskAware
from newfound.review.edits import Edit, Merge, Rename, write_edits
from newfound.review.page import SHOWN, Snapshot, check_page, write_page
from newfound.review.review import Review
from newfound.run.folder import Folder
from newfound.run.models import Calibration, EstimatedNumber, Trust
from newfound.run.pile import softmax
from tests.review.runs import RESULTS, write_run

Floats = NDArray[np.floating]
KNOWN = ["ant", "<i>bee</i>"]


class Grey:
    """Images of one grey each, their row."""

    size = 24

    def __call__(self, rows: NDArray[np.integer], /) -> list[NDArray[np.uint8]]:
        return [np.full((3, 20, 24), row, np.uint8) for row in rows]


def some_logits(count: int = 40, classes: int = 4) -> Floats:
    return np.random.default_rng(0).normal(size=(count, classes))


def some_run(path: Path, count: int = 40, **facts: Any) -> Folder:
    """Two known and two novel classes."""
    return write_run(
        path, some_logits(count), KNOWN, [f"pile/<b>&{row}.png" for row in range(count)], **facts
    )


def drawn(folder: Folder) -> str:
    write_page(Review(folder), Grey())
    return folder.report.read_text(encoding="utf-8")


@pytest.fixture
def page(tmp_path: Path) -> str:
    return drawn(some_run(tmp_path, command="newfound discover iic 'my run'"))


def test_it_loads_nothing_from_elsewhere(page: str) -> None:
    assert "http" not in page
    assert all(source.startswith("data:image/") for source in re.findall(r'src="([^"]+)"', page))
    assert not re.findall(r"<link|@import|url\(", page)


def test_it_tells_what_was_found(page: str) -> None:
    assert "<h1>2 new classes in 40 images</h1>" in page
    assert "the number was set by the user." in page
    assert "so there is no accuracy" in page
    assert "newfound discover iic &#39;my run&#39;" in page
    assert re.findall(r'<input data-class="([^"]*)"', page) == ["novel-1", "novel-2"]


def test_names_and_files_are_text_and_never_markup(page: str) -> None:
    assert "<i>bee" not in page
    assert "pile/<b>" not in page
    assert re.findall(r'<option value="([^"]*)">', page) == ["ant", "&lt;i&gt;bee&lt;/i&gt;", "unsorted"]
    assert "one &lt;is&gt; odd" in page


@pytest.mark.skipif(not shutil.which("node"), reason="node, which reads JavaScript, is not installed")
def test_the_script_can_be_read(page: str, tmp_path: Path) -> None:
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (tmp_path / "page.js").write_text(script, encoding="utf-8")
    done = subprocess.run(["node", "--check", str(tmp_path / "page.js")], capture_output=True, text=True)
    assert done.stderr == ""


def test_every_image_is_on_the_map(page: str) -> None:
    (found,) = re.findall(r"const points = (\[.*\]);", page)
    points = json.loads(found)
    assert [point["file"] for point in points] == [f"pile/<b>&{row}.png" for row in range(40)]
    assert {0.0, 1.0} <= {point["x"] for point in points} | {point["y"] for point in points}
    assert all(0 <= point[axis] <= 1 for point in points for axis in "xy")
    assert {point["name"] for point in points} == {"novel-1", "novel-2"}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_very_few_images(tmp_path: Path, count: int) -> None:
    assert f"in {count} image{'s' * (count > 1)}</h1>" in drawn(some_run(tmp_path, count))


@pytest.mark.parametrize("comparable", [True, False])
def test_known_classes_only_where_scores_can_be_compared(tmp_path: Path, comparable: bool) -> None:
    page = drawn(some_run(tmp_path, comparable=comparable))
    assert ("Most similar known class: " in page) == comparable
    assert "of known classes" not in page


def test_known_classes_of_a_mixed_pile_are_shown_until_they_are_accepted(tmp_path: Path) -> None:
    logits = some_logits(40, 4)
    folder = write_run(tmp_path, logits, kind="mixed")
    known = np.flatnonzero(softmax(logits).argmax(1) < 2)
    page, now = drawn(folder), Snapshot(Review(folder), Review(folder).pile)
    assert f"{len(known)} images are of known classes" in page
    assert f"{len(known)} images are to be accepted" in page
    assert sum(each.size for each in now.known) == now.open_known == len(known)
    np.testing.assert_allclose(now.confidence, softmax(logits).max(1), rtol=1e-5)
    assert len(now.queue) == 40
    Review(folder).accept()
    after = Snapshot(Review(folder), Review(folder).pile)
    assert (after.open_known, sorted(after.queue.tolist())) == (0, sorted({*range(40)} - {*known.tolist()}))
    assert "to be accepted" not in drawn(folder)


def test_classes_without_images_do_not_count(tmp_path: Path) -> None:
    page = drawn(write_run(tmp_path, np.tile([0.0, 0.0, 2.0, -2.0], (40, 1))))
    assert "<h1>1 new class in 40 images</h1>" in page
    assert "given 2 classes to find" in page
    assert "No images." in page
    assert "The command of this run" not in page


def test_accuracy_estimate_and_trust_where_there_are_any(tmp_path: Path) -> None:
    none, acc = Score(), Score(mean=0.9, best_head=0.9571)
    found = Clusters(acc=acc, nmi=none, ari=none, per_class_accuracy=[], cluster_sizes=[])
    facts = {
        "task_aware": TaskAware(train=found, test=found),
        "estimate": EstimatedNumber(num_novel=4, algorithm="gcd", low=3, high=5),
    }
    run = some_run(tmp_path, results=RESULTS.model_copy(update=facts))
    trust = Trust(hidden=["ant", "bee"], images=1234, accuracy=0.876, mean_accuracy=0.876, largest_class=0.5)
    write_record(run.trust, trust)
    text = drawn(run)
    assert "95.7 %" in text
    assert "an estimate (gcd); 3 to 5 are plausible." in text
    assert "in the same way (ant, bee).</p>" in text
    assert "<li>Hidden classes found: 87.6 % of their 1,234" in text
    assert "one class for all images would give 50.0 %" in text


def test_it_says_what_confidence_means(tmp_path: Path) -> None:
    assert "it is not calibrated." in drawn(some_run(tmp_path / "raw"))
    calibration = Calibration(temperature=0.5, images=1234)
    run = some_run(tmp_path / "fitted", results=RESULTS.model_copy(update={"calibration": calibration}))
    assert "was fitted to 1,234 images of known classes that training did not see." in drawn(run)
    write_record(run.trust, Trust(hidden=[], images=1, accuracy=1, mean_accuracy=1, calibration_error=0.0432))
    assert "In the trial with hidden classes it was off by 4.3 points on average" in drawn(run)


def test_only_our_pages_are_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    check_page(path)
    write_page(Review(some_run(tmp_path / "run")), Grey(), path)
    check_page(path)
    path.write_text("<html>mine</html>")
    for other in (path, tmp_path):
        with pytest.raises(UsageError, match="not written by newfound"):
            check_page(other)


def seen(path: Path, logits: Floats, *edits: Edit) -> Snapshot:
    """What the page shows of a run with two known classes after some edits."""
    review = Review(write_run(path, logits))
    write_edits(review.folder.edits, review.digest, edits)
    return Snapshot(Review(review.folder), review.pile)


def test_every_class_by_definition(tmp_path: Path) -> None:
    logits = some_logits(100, 5)
    logits[:, 4] = -9  # no image is ever novel-3
    now = seen(tmp_path, logits)
    novel, joint, names = softmax(logits[:, 2:]), softmax(logits), now.names
    for index, each in enumerate(now.classes):
        rows = [row for row in range(100) if novel[row].argmax() == index]
        assert (each.name, each.size) == (names[2 + index], len(rows))
        if not rows:
            continue
        ranked = sorted(rows, key=lambda row: -novel[row, index])
        assert each.central.tolist() == ranked[:SHOWN]
        assert each.doubtful.tolist() == ranked[::-1][:SHOWN]
        assert each.confidence == pytest.approx(np.mean([novel[row, index] for row in rows]))
        known = [np.mean([joint[row, k] for row in rows]) for k in range(2)]
        assert each.known.name == names[int(np.argmax(known))]
        assert each.known.share == pytest.approx(max(known))
        others = {names[2 + k]: np.mean([novel[row, k] for row in rows]) for k in range(3) if k != index}
        assert each.novel
        assert each.novel.name == max(others, key=lambda name: others[name])
        assert each.novel.share == pytest.approx(others[each.novel.name])
    assert now.classes[2].size == 0
    assert now.least_confident.tolist() == sorted(range(100), key=lambda row: novel[row].max())


def test_a_copy_of_a_labelled_image_is_certain(tmp_path: Path) -> None:
    logits = np.random.default_rng(0).normal(size=(3, 4))
    review = Review(write_run(tmp_path, logits, digests=["a", "b", "c"], labelled={"b": 1}))
    found = Snapshot(review, review.pile).confidence
    np.testing.assert_allclose(found, review.assignments.confidence, atol=1e-4)
    assert found[1] == 1


def test_no_image_of_a_small_class_is_both_central_and_doubtful(tmp_path: Path) -> None:
    (only,) = seen(tmp_path, np.arange(15.0).reshape(5, 3)).classes
    assert (len(only.central), len(only.doubtful)) == (3, 2)
    assert not set(only.central.tolist()) & set(only.doubtful.tolist())
    assert only.novel is None


def test_a_merged_class_has_the_shares_of_both(tmp_path: Path) -> None:
    logits = some_logits(30, 6)
    renamed, merged = Rename(ids=[4], names=["zebra"]), [Merge(into=4, ids=[2]), Merge(into=1, ids=[5])]
    now = seen(tmp_path, logits, renamed, *merged)
    novel, joint = softmax(logits[:, 2:]), softmax(logits)
    assert (now.names, now.ids) == (["ant", "bee", "novel-2", "zebra", "unsorted"], [0, 1, 3, 4, -1])
    np.testing.assert_allclose(now.joint[:, 3], joint[:, 4] + joint[:, 2], rtol=1e-5)
    np.testing.assert_allclose(now.joint[:, 1], joint[:, 1] + joint[:, 5], rtol=1e-5)
    np.testing.assert_allclose(now.novel[:, 1], novel[:, 2] + novel[:, 0], rtol=1e-5)
    places = {0: 3, 1: 2, 2: 3, 3: 1}
    assert now.assigned.tolist() == [places[cluster] for cluster in novel.argmax(1)]
    (known,) = now.known
    assert (known.name, known.size) == ("bee", (novel.argmax(1) == 3).sum())
    assert sum(each.size for each in now.classes) == 30 - known.size
