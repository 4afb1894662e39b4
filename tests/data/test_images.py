"""Image sets: the same pixels, resident or streamed, on whichever device."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from newfound.core.errors import DataError
from newfound.core.records import Task
from newfound.data import files, images
from newfound.data.files import open_images
from newfound.data.images import Dataset, Look, ResidentImages, Split, StreamedImages, Truth

LOOK = Look(4, "cifar", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), stored=4)


def _resident(count: int, seed: int = 0) -> ResidentImages:
    random = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 3, 4, 4), generator=random, dtype=torch.uint8)
    return ResidentImages(pixels, [f"image-{row}" for row in range(count)])


def _dataset(labels: list[int], test_seed: int = 2) -> Dataset:
    split = Split(_resident(4), torch.tensor(labels), _resident(3, 1), Task(2, 2), LOOK)
    truth = Truth(torch.tensor([2, 3, 2]), _resident(2, test_seed), torch.tensor([0, 3]))
    return Dataset("toy", split, truth, ("a", "b", "c", "d"), (), "toy")


def test_resident_takes_rows() -> None:
    images = _resident(5)
    taken = images.take(torch.tensor([3, 0, 3]))
    assert taken.dtype == torch.uint8
    assert torch.equal(taken, images.pixels[[3, 0, 3]])
    assert (len(images), images.size) == (5, (4, 4))


def test_some_images_are_those_of_their_rows_and_hold_no_others(tmp_path: Path) -> None:
    whole, rows = _resident(12), torch.tensor([7, 3, 11])
    some = whole.some(rows)
    assert some.names == [f"image-{row}" for row in (7, 3, 11)]
    assert torch.equal(some.pixels, whole.pixels[rows])
    assert some.pixels.untyped_storage().nbytes() == 3 * 3 * 4 * 4
    assert some.fingerprint() != whole.some(rows.flip(0)).fingerprint()
    streamed = StreamedImages([str(tmp_path / f"{row}.png") for row in range(12)], (4, 4)).some(rows)
    assert [Path(name).stem for name in streamed.names] == ["7", "3", "11"]


def test_some_of_images_that_are_too_many_stay_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_fits", lambda num_bytes, device: False)
    some = _resident(5).to(torch.device("meta")).some(torch.tensor([2, 0]))
    assert isinstance(some, ResidentImages)
    assert (some.pixels.device.type, some.device.type) == ("cpu", "meta")


def test_resident_stays_on_the_host_when_the_device_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_fits", lambda num_bytes, device: False)
    moved = _resident(5).to(torch.device("meta"))
    assert isinstance(moved, ResidentImages)
    assert moved.pixels.device.type == "cpu"
    assert moved.take(torch.tensor([1, 2])).device.type == "meta"


def test_both_sets_stay_on_the_host_when_one_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_fits", lambda num_bytes, device: num_bytes < 4 * 3 * 4 * 4)
    moved = _dataset([0, 1, 0, 1]).split.to(torch.device("meta"))
    assert not moved.labelled.resident
    assert not moved.unlabelled.resident
    assert moved.unlabelled.fetch(torch.tensor([1])).device.type == "cpu"


def test_streamed_is_the_same_as_resident(tmp_path: Path, paint: Callable[..., str]) -> None:
    paths = [paint(tmp_path / f"{n}.png", (n, 2 * n, 3 * n), (20 + n, 30)) for n in range(12)]
    streamed = StreamedImages(paths, (16, 16))
    resident, _, _ = open_images(paths, (16, 16), strict=True)
    index = torch.tensor([7, 7, 0, 11])
    assert torch.equal(streamed.take(index), resident.take(index))
    assert all(
        torch.equal(*taken)
        for taken in zip(streamed.take_each([index] * 4), resident.take_each([index] * 4), strict=True)
    )
    assert list(streamed.names) == paths == list(resident.names)
    assert streamed.to(torch.device("meta")).take(index).shape == (4, 3, 16, 16)


def test_a_set_beyond_the_budget_is_streamed(
    tmp_path: Path, paint: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [paint(tmp_path / f"{n}.png") for n in range(3)]
    broken = tmp_path / "broken.png"
    broken.write_text("no image")
    monkeypatch.setattr(files, "RESIDENT_BYTES", 4 * 3 * 8 * 8 - 1)
    found, kept, skipped = open_images([paths[0], str(broken), *paths[1:]], (8, 8), strict=False)
    assert isinstance(found, StreamedImages)
    assert kept == [0, 2, 3]
    assert list(found.names) == paths
    assert "broken.png" in skipped[0]
    monkeypatch.setattr(files, "RESIDENT_BYTES", 3 * 3 * 8 * 8)
    assert isinstance(open_images(paths, (8, 8), strict=False)[0], ResidentImages)


def test_a_streamed_file_that_breaks_later_is_named(tmp_path: Path, paint: Callable[..., str]) -> None:
    paths = [paint(tmp_path / "a.png")]
    streamed = StreamedImages(paths, (8, 8))
    Path(paths[0]).write_text("no image")
    with pytest.raises(DataError, match=r"a\.png: .*must stay as they are while it lasts; bring it back"):
        streamed.take(torch.tensor([0]))


def test_fingerprints_follow_the_content(tmp_path: Path) -> None:
    assert _resident(3).fingerprint() == _resident(3).fingerprint()
    assert _resident(3).fingerprint() != _resident(3, 1).fingerprint()
    path = tmp_path / "a.bmp"
    Image.new("RGB", (5, 5)).save(path)
    before = StreamedImages([str(path)], (8, 8)).fingerprint()
    assert before == StreamedImages([str(path)], (8, 8)).fingerprint()
    assert before != StreamedImages([str(path)], (9, 9)).fingerprint()
    moved = tmp_path / "elsewhere" / path.name
    moved.parent.mkdir()
    shutil.copy(path, moved)
    assert before == StreamedImages([str(moved)], (8, 8)).fingerprint()
    Image.new("RGB", (6, 6)).save(path)
    assert before != StreamedImages([str(path)], (8, 8)).fingerprint()


def test_images_are_digested_once_wherever_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, digests = torch.device("cpu"), iter(["first", "second", "third"])
    monkeypatch.setattr(ResidentImages, "digest", lambda images: next(digests))
    images = _resident(3)
    assert images.fingerprint() == images.to(cpu).to(cpu).fingerprint() == "first"
    assert _resident(3).fingerprint() == "second"


def test_the_fingerprint_of_a_data_set_covers_labels_and_test() -> None:
    original = _dataset([0, 1, 0, 1]).fingerprint()
    assert original == _dataset([0, 1, 0, 1]).fingerprint()
    assert original != _dataset([0, 1, 1, 0]).fingerprint()
    assert original != _dataset([0, 1, 0, 1], test_seed=3).fingerprint()


def test_a_data_set_moves_as_a_whole() -> None:
    moved = _dataset([0, 1, 0, 1]).to(torch.device("meta"))
    assert moved.truth is not None
    for tensor in (
        moved.split.labels,
        moved.split.labelled.take(torch.tensor([0], device="meta")),
        moved.split.unlabelled.take(torch.tensor([0], device="meta")),
        moved.truth.labels,
        moved.truth.test_labels,
        moved.truth.test.take(torch.tensor([0], device="meta")),
    ):
        assert tensor.device.type == "meta"


@pytest.mark.parametrize(
    ("labelled", "unlabelled", "task", "text"),
    [
        (4, 3, Task(2, 0), "a novel class to discover; got num_novel=0"),
        (0, 3, Task(0, 2), "labelled images of known classes; got 0 images"),
        (4, 3, Task(2, 4), "as many unlabelled images as novel classes; got 3 images for 4"),
    ],
)
def test_an_impossible_split(labelled: int, unlabelled: int, task: Task, text: str) -> None:
    with pytest.raises(DataError, match=text):
        Split(_resident(labelled), torch.zeros(labelled), _resident(unlabelled), task, LOOK)


def test_a_device_under_another_name_is_the_same_device() -> None:
    """A GPU's images are on cuda:0 when cuda was asked for; not to see it would cost the fast step."""
    images = ResidentImages(torch.zeros(2, 3, 4, 4, dtype=torch.uint8), ["a", "b"], torch.device("cpu:0"))
    assert images.pixels.device != images.device
    assert images.resident
    assert images.to(torch.device("cpu:0")).resident
