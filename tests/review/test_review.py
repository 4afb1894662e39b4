"""A reviewer's edits: what they change, what is refused, and that everything is on disk."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newfound.core.errors import RunError, UsageError
from newfound.review.edits import Accept, Merge, Move, Rename, Split, read_edits, write_edits
from newfound.review.review import Review
from newfound.run.folder import Folder
from newfound.run.trained import Prediction
from tests.review.runs import logits_of, write_run

CLUSTERS = [0, 0, 1, 1, 1, 1, 2]
FEATURES = np.array([[1.0, row] if 3 <= row <= 5 else [row + 1.0, 0.0] for row in range(7)])
"""Images 3 to 5 look alike, and so do all others."""
INVALID = ["", " zebra", "ze\nbra", "zebra\t", "a=b", "-x", "x" * 101]
OFTEN = 20


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    """Two known classes, and three novel ones of 2, 4 and 1 images."""
    return write_run(tmp_path / "run", logits_of(CLUSTERS), features=FEATURES)


@pytest.fixture
def mine(run: Folder) -> Review:
    return Review.open(run.path)


def sizes(of: Review) -> dict[str, int]:
    return {each.name: len(each.rows) for each in of.classes}


def test_edits_are_there_when_the_run_is_opened_again(mine: Review, run: Folder) -> None:
    mine.rename({"novel-1": "zebra", "novel-2": "novel-1"})
    mine.merge("zebra", "novel-3")
    mine.split("novel-1")
    assert sizes(mine) == sizes(Review.open(str(run.path))) == {"zebra": 3, "novel-1": 3, "novel-1-2": 1}
    assert mine.names == {0: "ant", 1: "bee", 2: "zebra", 3: "novel-1", 5: "novel-1-2", -1: "unsorted"}
    assert mine.ids.tolist() == [2, 2, 5, 3, 3, 3, 2]


def test_every_edit_can_be_undone_and_no_id_is_used_twice(mine: Review, run: Folder) -> None:
    found = [(2, "novel-1", [0, 1]), (3, "novel-2", [2, 3, 4, 5]), (4, "novel-3", [6])]
    assert [(each.id, each.name, each.rows.tolist()) for each in mine.classes] == found
    mine.rename({"novel-1": "zebra"})
    mine.merge("bee", "zebra")
    mine.split("novel-2", 3)
    assert list(mine.names) == [0, 1, 3, 4, 5, 6, -1]
    for _ in range(2):
        mine.undo()
    assert mine.undo() == Rename(ids=[2], names=["zebra"])
    assert [(each.id, each.name, each.rows.tolist()) for each in Review(run).classes] == found
    mine.split("novel-2")
    assert max(mine.names) == 7
    assert len(read_edits(run.edits)[1]) == 7


def test_known_images_of_a_mixed_pile_are_accepted_at_once(tmp_path: Path) -> None:
    logits = logits_of([0, 1, 0, 1])
    logits[:3, 1] = 9
    folder = write_run(tmp_path / "mixed", logits, kind="mixed")
    mine = Review(folder)
    assert [(each.name, each.kind, each.rows.tolist()) for each in mine.classes] == [
        ("bee", "known", [0, 1, 2]),
        ("novel-2", "novel", [3]),
    ]
    mine.move("novel-2", "0.png")
    mine.accept()
    mine.accept()  # nothing is left
    assert mine.log == [Move(into=3, rows=[0]), Accept(rows=[1, 2])]
    assert mine.accepted.tolist() == Review(folder).accepted.tolist() == [True, True, True, False]
    mine.accept("novel-2")
    assert mine.accepted.all()
    assert mine.undo() == Accept(rows=[3])
    write_edits(folder.edits, mine.digest, [Accept(rows=[4])])
    with pytest.raises(RunError, match="does not match"):
        Review(folder)


def test_classes_are_merged_into_a_known_one(mine: Review) -> None:
    mine.merge("bee", "novel-1", "novel-3", "novel-1")
    found = [(each.name, each.kind, len(each.rows)) for each in mine.classes]
    assert found == [("bee", "known", 3), ("novel-2", "novel", 4)]
    assert mine.classes[0].confidence == pytest.approx(0.9, abs=1e-3)


REFUSED: list[tuple[Callable[[Review], object], str]] = [
    *((lambda mine, name=name: mine.rename({"novel-1": name}), "not a class name") for name in INVALID),
    (lambda mine: mine.rename({"novel-1": "ant"}), "already a class"),
    (lambda mine: mine.rename({"novel-1": "x", "novel-2": "x"}), "already a class"),
    (lambda mine: mine.merge("novel-1", "novel-11"), r"Unknown class 'novel-11'\. Review\.names"),
    (lambda mine: mine.merge("novel-1", "ant"), "'ant' is not a novel class"),
    (lambda mine: mine.split("novel-3"), "Cannot split"),
    *((lambda mine, number=number: mine.split("novel-2", number), "Cannot split") for number in (0, 1, 5)),
    (lambda mine: mine.undo(), "no edit to undo"),
]


@pytest.mark.parametrize(("edit", "said"), REFUSED)
def test_refused_edits(mine: Review, edit: Callable[[Review], object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        edit(mine)
    assert not mine.folder.edits.exists()


def test_names_can_be_swapped_are_composed_and_may_hold_joiners(mine: Review) -> None:
    mine.rename({"novel-1": "novel-2", "novel-2": "novel-1"})
    assert sizes(mine) == {"novel-2": 2, "novel-1": 4, "novel-3": 1}
    mine.undo()
    mine.rename({"novel-1": "cafe\u0301", "novel-2": "👨‍👩‍👧"})
    assert [each.name for each in mine.classes] == ["café", "👨‍👩‍👧", "novel-3"]
    with pytest.raises(UsageError, match="already a class"):
        mine.rename({"novel-3": "café"})


def test_what_changes_nothing_is_not_stored(mine: Review) -> None:
    mine.rename({"novel-1": "novel-1"})
    mine.merge("novel-1", "novel-1")
    mine.move("novel-1", "0.png")
    mine.move_rows("novel-1", [-1, 7])
    assert not mine.folder.edits.exists()


def test_identical_images_are_not_split(tmp_path: Path) -> None:
    run = write_run(tmp_path, logits_of(CLUSTERS), features=np.ones((7, 3)))
    with pytest.raises(UsageError, match="Cannot split 'novel-2' into 2 parts"):
        Review(run).split("novel-2")


def test_images_are_moved_and_moved_back(mine: Review, run: Folder) -> None:
    mine.move("novel-3", "0.png", "4.png", "0.png")
    assert len(mine.log[-1].rows) == 2  # type: ignore[union-attr]
    mine.move("ant", "5.png")
    assert sizes(mine) == sizes(Review(run)) == {"ant": 1, "novel-1": 1, "novel-2": 2, "novel-3": 3}
    mine.merge("novel-1", "novel-3")
    assert mine.ids.tolist() == [2, 2, 3, 3, 2, 0, 2]
    for _ in range(3):
        mine.undo()
    assert sizes(mine) == {"novel-1": 2, "novel-2": 4, "novel-3": 1}


def test_images_are_found_by_the_end_of_their_paths(mine: Review) -> None:
    paths = [f"/pile/{name}/1.png" for name in ("a", "b", "ba", "c/d", "e/d", "f", "g")]
    mine.assignments = replace(mine.assignments, images=paths)
    mine.move("ant", "a/1.png", "c/d/1.png", "pile/g/1.png")
    assert mine.log[-1].rows == [0, 3, 6]  # type: ignore[union-attr]
    for image, number in (("1.png", "7"), ("d/1.png", "2"), ("/a/1.png", "No"), ("x/a/1.png", "No")):
        with pytest.raises(UsageError, match=f"{number} images match '{image}'"):
            mine.move("ant", image)


def test_changed_files_are_refused(mine: Review, run: Folder) -> None:
    write_edits(run.edits, mine.digest, [Merge(into=9, ids=[2])])
    with pytest.raises(RunError, match=r"edits\.jsonl"):
        Review(run)
    write_edits(run.edits, mine.digest, [Merge(into=1, ids=[2])])
    text = run.assignments.read_text()
    changed = text.replace("0.png,novel-1", "0.png,novel-2")
    swapped = changed.replace("2.png,novel-2", "2.png,novel-1")
    for content, other in ((changed, "results"), (swapped, "edits")):
        run.assignments.write_text(content)
        with pytest.raises(RunError, match=f"does not match {other}"):
            Review(run)


def test_of_two_reviews_at_once_the_second_is_refused(mine: Review, run: Folder) -> None:
    Review(run).rename({"novel-1": "zebra"})
    with pytest.raises(UsageError, match="edited in the meantime"):
        mine.merge("novel-1", "novel-2")
    assert sizes(Review(run)) == {"zebra": 2, "novel-2": 4, "novel-3": 1}


def rename_often(run: Folder, key: int) -> None:
    """Give a class `OFTEN` names, each as soon as no other process edits."""
    done = 0
    while done < OFTEN:
        mine = Review(run)
        with suppress(UsageError, RunError):
            mine.rename({mine.names[key]: f"{key}-{done}"})
            done += 1


def test_two_processes_lose_no_edit(run: Folder) -> None:
    others = [get_context("fork").Process(target=rename_often, args=(run, key)) for key in (2, 3)]
    for other in others:
        other.start()
    for other in others:
        other.join(timeout=60)
        assert other.exitcode == 0
    mine = Review(run)
    assert len(mine.log) == 2 * OFTEN
    assert [mine.names[2], mine.names[3]] == [f"2-{OFTEN - 1}", f"3-{OFTEN - 1}"]


def test_new_images_get_the_classes_of_the_review(mine: Review, tmp_path: Path) -> None:
    mine.rename({"novel-3": "zebra"})
    mine.merge("bee", "novel-1")
    mine.split("novel-2")
    (alike, other) = (part.centre for edit in mine.edits if isinstance(edit, Split) for part in edit.parts)
    shares = np.array(
        [[0.1, 0.3, 0.3, 0.2, 0.1], [0, 0, 0, 0.7, 0.3], [0, 0, 0, 0.7, 0.3], [0, 0, 0.1, 0, 0.9]]
    )
    features, far = np.array([alike, alike, other, other]), np.array([False, False, False, True])
    given = Prediction(["a", "b", "c", "d"], shares, features, ["e: broken"], far, [])
    found = mine.sorted(given, mine.copies())
    assert found.classes == ["bee", "novel-2", "novel-2-2", "unsorted"]
    assert found.kinds == ["known", "novel", "novel", "unsorted"]
    assert found.confidence == pytest.approx([0.6, 0.7, 0.7, 0.9])
    assert found.nearest == ["bee", "novel-2", "novel-2-2", "zebra"]
    mine.merge("unsorted", "novel-2")
    again = mine.sorted(given, mine.copies())
    assert again.classes == ["bee", "unsorted", "novel-2-2", "unsorted"]
    assert again.nearest == ["bee", "zebra", "novel-2-2", "zebra"]
    assert again.confidence == pytest.approx([0.6, 0.3, 0.7, 0.9])
    found.write(tmp_path / "found.csv")
    lines = (tmp_path / "found.csv").read_text().splitlines()
    assert lines[:2] == ["image,class,kind,confidence,nearest", "a,bee,known,0.6000,bee"]
    assert lines[4] == "d,unsorted,unsorted,0.9000,zebra"


def test_copies_of_an_image_have_its_class(tmp_path: Path) -> None:
    copies: dict[str, Any] = {"digests": ["a", "b", "a", "c"], "labelled": {"c": 1}}
    mine = Review(write_run(tmp_path, logits_of([0, 1, 0, 1]), **copies))
    assert mine.ids.tolist() == [2, 3, 2, 1]
    assert mine.assignments.confidence[3] == 1
    mine.move("unsorted", "0.png")
    assert mine.ids.tolist() == [-1, 3, -1, 1]
    given = Prediction(list("wxyz"), np.eye(4)[[0, 0, 0, 0]], None, [], np.ones(4, bool), list("abcd"))
    found = mine.sorted(given, mine.copies())
    assert found.classes == ["unsorted", "novel-2", "bee", "unsorted"]
    assert found.nearest == ["ant", "novel-2", "bee", "ant"]
    assert found.confidence == pytest.approx([*mine.assignments.confidence[:2], 1, 1])
    mine.accept("novel-2")
    assert mine.sorted(given, mine.copies()).confidence[1] == 1


def test_ids_of_an_earlier_run_stay(tmp_path: Path) -> None:
    mine = Review(write_run(tmp_path, logits_of([0, 1, 1]), ids=[0, 7, 9, 10], features=np.eye(3)))
    assert mine.names == {0: "ant", 7: "bee", 9: "novel-1", 10: "novel-2", -1: "unsorted"}
    assert [(each.id, each.kind) for each in mine.classes] == [(9, "novel"), (10, "novel")]
    mine.split("novel-2")
    mine.merge("bee", "novel-1")
    assert sorted(mine.ids.tolist()) == [7, 10, 11]


def test_a_novel_class_without_images_is_left_out(tmp_path: Path) -> None:
    logits = np.eye(5)[[2, 4, 4]]
    mine = Review(write_run(tmp_path, logits, features=np.eye(3)))
    assert sizes(mine) == {"novel-1": 1, "novel-3": 2}
    given = Prediction(["x"], np.array([[0, 0.1, 0.2, 0.4, 0.3]]), None, [], np.zeros(1, bool), [])
    assert mine.sorted(given, {}).classes == ["novel-3"]
    mine.move("ant", "0.png")
    assert sizes(mine) == {"ant": 1, "novel-1": 0, "novel-3": 2}  # emptied by a person, it stays
    mine.rename({"novel-2": "wasp"})
    assert sizes(mine) == {"ant": 1, "novel-1": 0, "wasp": 0, "novel-3": 2}
    assert mine.sorted(given, {}).classes == ["wasp"]


def test_unsorted_images_are_a_group_of_their_own(tmp_path: Path) -> None:
    mine = Review(write_run(tmp_path, logits_of([0, 1, 1]), unsorted=[False, False, True]))
    assert sizes(mine) == {"novel-1": 1, "novel-2": 1, "unsorted": 1}
    with pytest.raises(UsageError, match="'unsorted' is not a novel class"):
        mine.rename({"unsorted": "x"})
    with pytest.raises(UsageError, match="'unsorted' is not a novel class"):
        mine.merge("novel-1", "unsorted")
    with pytest.raises(UsageError, match="already a class"):
        mine.rename({"novel-1": "unsorted"})
    mine.move("novel-1", "2.png")
    mine.merge("unsorted", "novel-2")
    assert sizes(Review(mine.folder)) == {"novel-1": 2, "unsorted": 1}


def test_reviewing_and_exporting_need_no_torch(run: Folder) -> None:
    code = (
        "import sys; from pathlib import Path; from newfound.review.review import Review\n"
        "from newfound.review.export import write_export\n"
        "review = Review.open(sys.argv[1])\n"
        "review.merge('ant', 'novel-1'); review.split('novel-2'); review.undo()\n"
        "write_export(review, Path(sys.argv[1], 'table.csv')); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(run.path)], check=True)


def test_an_edit_takes_no_longer_the_more_there_are(run: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is read once; what follows from it is what a new review of the same log finds."""
    mine = Review(run)
    monkeypatch.setattr("newfound.review.review.read_edits", None)
    for name in ("wasp", "hornet", "bee-eater"):
        mine.rename({mine.names[max(mine.found)]: name})
        mine.move_rows(name, [0, 1])
    mine.undo()
    mine.undo()
    mine.accept(mine.names[max(mine.found)])
    monkeypatch.undo()
    again = Review(run)
    assert (mine.names, mine.edits, mine.log) == (again.names, again.edits, again.log)
    assert mine.ids.tolist() == again.ids.tolist()
    assert mine.accepted.tolist() == again.accepted.tolist()
