"""The page of a run: one file that needs nothing else, and what it shows, against its definition."""

import json
import re
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from newfound.core.errors import UsageError
from newfound.core.files import write_record
from newfound.core.source import Source
from newfound.metrics.report import Clusters, Score, TaskAware
from newfound.review.edits import Edit, Merge, Rename, write_edits
from newfound.review.page import QUEUE, SHOWN, THUMBNAIL, Snapshot, check_page, write_page
from newfound.review.review import Review
from newfound.run.folder import Folder
from newfound.run.models import Calibration, EstimatedNumber, Trust
from newfound.run.pile import softmax
from tests.review.runs import RESULTS, write_run

Floats = NDArray[np.floating]
KNOWN = ["ant", "<i>bee</i>"]


def grey(rows: Sequence[int], side: int) -> list[bytes]:
    """Images of one grey each, their row, as large as they may be."""
    files = [BytesIO() for _ in rows]
    for row, file in zip(rows, files, strict=True):
        Image.new("L", (side, side // 2), row).save(file, "JPEG")
    return [file.getvalue() for file in files]


def some_logits(count: int = 40, classes: int = 4) -> Floats:
    return np.random.default_rng(0).normal(size=(count, classes))


def some_run(path: Path, count: int = 40, **facts: Any) -> Folder:
    """Two known and two novel classes."""
    return write_run(
        path, some_logits(count), KNOWN, [f"pile/<b>&{row}.png" for row in range(count)], **facts
    )


def drawn(folder: Folder) -> str:
    write_page(Review(folder), grey)
    return folder.report.read_text(encoding="utf-8")


@pytest.fixture
def page(tmp_path: Path) -> str:
    return drawn(some_run(tmp_path, command="newfound discover iic 'my run'"))


def test_it_loads_nothing_from_elsewhere(page: str) -> None:
    assert "http" not in page
    assert not re.findall(r'src="', page)
    assert all(each.startswith("data:image/jpeg;base64,") for each in facts(page)["pictures"].values())
    assert not re.findall(r"<link|@import|url\(", page)


def test_it_tells_what_was_found(page: str) -> None:
    assert "<h1>2 new classes in 40 images</h1>" in page
    assert "so there is no accuracy" in page
    assert "newfound discover iic &#39;my run&#39;" in page
    assert re.findall(r'aria-label="Name of ([^"]*)"', page) == ["novel-1", "novel-2"]


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


def facts(page: str) -> dict[str, Any]:
    """What the scripts are told."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    told: dict[str, Any] = json.loads(found)
    return told


def test_every_image_is_on_the_map(page: str) -> None:
    told = facts(page)
    rows, *places = zip(*told["points"], strict=True)
    assert [told["images"][str(row)][0] for row in rows] == [f"pile/<b>&{row}.png" for row in range(40)]
    assert {0.0, 1.0} <= {value for axis in places for value in axis}
    assert all(0 <= value <= 1 for axis in places for value in axis)
    names = [each["name"] for each in told["classes"]]
    assert {names[place] for _, place, _ in told["images"].values()} == {"novel-1", "novel-2"}


def test_no_two_classes_look_alike(page: str) -> None:
    marks = [tuple(each["mark"]) for each in facts(page)["classes"]]
    assert len({path_and_colour[:2] for path_and_colour in marks}) == len(marks) == 5


def test_many_pictures_are_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sizes(page: str) -> set[tuple[int, int]]:
        files = [b64decode(each.partition(",")[2]) for each in facts(page)["pictures"].values()]
        return {Image.open(BytesIO(file)).size for file in files}

    assert sizes(drawn(some_run(tmp_path / "few"))) == {(THUMBNAIL, THUMBNAIL // 2)}
    monkeypatch.setattr("newfound.review.page.MOST_PIXELS", 40 * 100**2)
    assert sizes(drawn(some_run(tmp_path / "many"))) == {(100, 50)}


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
    page, now = drawn(folder), Snapshot(Review(folder))
    assert f"{len(known)} images are of known classes" in page
    assert f"{len(known)} images have not been accepted yet" in page
    assert sum(each.size for each in now.known) == now.open_known == len(known)
    np.testing.assert_allclose(now.confidence, softmax(logits).max(1), rtol=1e-5)
    assert len(now.queue) == QUEUE
    Review(folder).accept()
    after = Snapshot(Review(folder))
    assert (after.open_known, sorted(after.queue.tolist())) == (0, sorted({*range(40)} - {*known.tolist()}))
    assert "accepted yet" not in drawn(folder)


def test_unsorted_images_are_reviewed_apart_until_they_are_moved(tmp_path: Path) -> None:
    logits = some_logits()
    folder = write_run(tmp_path, logits, unsorted=[row < 5 for row in range(40)])
    now, sure = Snapshot(Review(folder)), softmax(logits[:, 2:]).max(1)
    assert now.left_over.tolist() == sorted(range(5), key=lambda row: -sure[row])
    assert not {*range(5)} & {*now.queue.tolist()}
    Review(folder).move_rows("ant", [2])
    assert 2 not in Snapshot(Review(folder)).left_over
    assert "Unsorted images, those most similar" in drawn(folder)
    assert f"newfound discover --from {folder.quoted} --only unsorted --out NEW" in drawn(folder)


def test_it_says_who_set_the_number(tmp_path: Path) -> None:
    assert "the number was set by the user." in drawn(some_run(tmp_path / "own"))
    demo = some_run(tmp_path / "demo", source=Source(benchmark="digits"))
    assert "the number is the true one, known from the data set." in drawn(demo)


def test_classes_without_images_do_not_count(tmp_path: Path) -> None:
    page = drawn(write_run(tmp_path, np.tile([0.0, 0.0, 2.0, -2.0], (40, 1))))
    assert "<h1>1 new class in 40 images</h1>" in page
    assert "given 2 classes to find" in page
    assert "novel-2" not in page
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


def test_a_vague_estimate_says_so(tmp_path: Path) -> None:
    vague = {"estimate": EstimatedNumber(num_novel=4, algorithm="gcd", low=1, high=5)}
    text = drawn(some_run(tmp_path, results=RESULTS.model_copy(update=vague)))
    assert "an estimate (gcd); these features cannot tell it: 1 to 5 are plausible." in text


def test_it_says_what_confidence_means(tmp_path: Path) -> None:
    assert "it is not calibrated." in drawn(some_run(tmp_path / "raw"))
    calibration = Calibration(temperature=0.5, images=1234)
    run = some_run(tmp_path / "fitted", results=RESULTS.model_copy(update={"calibration": calibration}))
    assert "calibrated on 1,234 images of known classes that training did not see:" in drawn(run)
    write_record(run.trust, Trust(hidden=[], images=1, accuracy=1, mean_accuracy=1, calibration_error=0.0432))
    assert "In the trial with hidden classes it was off by 4.3 points on average" in drawn(run)


def test_it_says_how_far_trials_differ(tmp_path: Path) -> None:
    run = some_run(tmp_path)
    trust = Trust(hidden=[], images=1, accuracy=0.9, mean_accuracy=0.9, calibration_error=0.01)
    write_record(run.trust, trust.model_copy(update={"accuracies": [0.8, 1.0]}))
    assert "in the right class, 80.0 % to 100.0 % in single trials" in drawn(run)
    assert "In the trials with hidden classes it was off by 1.0 points on average" in drawn(run)


def test_only_our_pages_are_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    check_page(path)
    write_page(Review(some_run(tmp_path / "run")), grey, path)
    check_page(path)
    path.write_text("<html>mine</html>")
    for other in (path, tmp_path):
        with pytest.raises(UsageError, match="not written by newfound"):
            check_page(other)


def seen(path: Path, logits: Floats, *edits: Edit) -> Snapshot:
    """What the page shows of a run with two known classes after some edits."""
    review = Review(write_run(path, logits))
    write_edits(review.folder.edits, review.digest, edits)
    return Snapshot(Review(review.folder))


def test_every_class_by_definition(tmp_path: Path) -> None:
    logits = some_logits(100, 5)
    logits[:, 4] = -9  # no image is ever novel-3
    now = seen(tmp_path, logits)
    novel, joint, names = softmax(logits[:, 2:]), softmax(logits), now.names
    assert names == ["ant", "bee", "novel-1", "novel-2", "unsorted"]  # novel-3 has no images
    for index, each in enumerate(now.classes):
        rows = [row for row in range(100) if novel[row].argmax() == index]
        assert (each.name, each.size) == (names[2 + index], len(rows))
        ranked = sorted(rows, key=lambda row: -novel[row, index])
        assert each.central.tolist() == ranked[:SHOWN]
        assert each.doubtful.tolist() == ranked[::-1][:SHOWN]
        assert each.confidence == pytest.approx(np.mean([novel[row, index] for row in rows]))
        known = [np.mean([joint[row, k] for row in rows]) for k in range(2)]
        assert each.known.name == names[int(np.argmax(known))]
        assert each.known.share == pytest.approx(max(known))
        others = {names[2 + k]: np.mean([novel[row, k] for row in rows]) for k in range(2) if k != index}
        assert each.novel
        assert each.novel.name == max(others, key=lambda name: others[name])
        assert each.novel.share == pytest.approx(others[each.novel.name])
    assert now.least_confident.tolist() == sorted(range(100), key=lambda row: novel[row].max())


def test_a_copy_of_a_labelled_image_is_certain(tmp_path: Path) -> None:
    logits = np.random.default_rng(0).normal(size=(3, 4))
    review = Review(write_run(tmp_path, logits, digests=["a", "b", "c"], labelled={"b": 1}))
    found = Snapshot(review).confidence
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
