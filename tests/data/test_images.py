"""Image sets: the same pixels, resident or streamed, on whichever device; work done ahead of its use."""

import pickle
import shutil
import threading
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from newfound.core import dist
from newfound.core.errors import DataError
from newfound.data import folders, images, workers
from newfound.data.decode import decode_all
from newfound.data.folders import open_images
from newfound.data.images import PREFETCHED, Paths, ResidentImages, StreamedImages, prefetch
from newfound.data.workers import read_each
from tests.data.conftest import Paint, random_images


def test_rows_are_taken_and_selected(tmp_path: Path) -> None:
    whole, rows = random_images(12), torch.tensor([7, 3, 7])
    some = whole.select(rows)
    assert (len(some), some.size, some.names) == (3, (4, 4), ["image-7", "image-3", "image-7"])
    assert torch.equal(whole.take(rows), whole.pixels[rows])
    assert torch.equal(some.pixels, whole.pixels[rows])
    assert some.pixels.untyped_storage().nbytes() == 3 * 3 * 4 * 4  # nothing of the others
    streamed = StreamedImages([str(tmp_path / f"{row}.png") for row in range(12)], (4, 4)).select(rows)
    assert [Path(name).stem for name in streamed.names] == ["7", "3", "7"]


def test_images_stay_on_the_host_if_the_device_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_fits", lambda num_bytes, device: False)
    moved = random_images(5).to(torch.device("meta"))
    for found in (moved, moved.select(torch.tensor([2, 0]))):
        assert isinstance(found, ResidentImages)
        assert (found.pixels.device.type, found.device.type) == ("cpu", "meta")
        assert found.take(torch.tensor([1, 0])).device.type == "meta"


def test_files_that_cannot_be_read_have_no_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    for file in files:
        file.write_text(file.name)
    set_of = StreamedImages([str(file) for file in files], (4, 4))
    assert len({*set_of.contents()}) == 2
    monkeypatch.setattr(images, "digests_of", lambda names, strict: (["0f", ""], ["b.png: denied"]))
    assert set_of.contents() == []


def test_a_device_under_another_name_is_the_same_device() -> None:
    """A GPU's images are on cuda:0 if cuda was requested; missing that would cost the fast step."""
    found = ResidentImages(torch.zeros(2, 3, 4, 4, dtype=torch.uint8), ["a", "b"], torch.device("cpu:0"))
    assert found.pixels.device != found.device
    assert found.resident
    assert found.to(torch.device("cpu:0")).resident


def test_streamed_is_the_same_as_resident(tmp_path: Path, paint: Paint) -> None:
    paths = [paint(tmp_path / f"{n}.png", (n, 2 * n, 3 * n), (20 + n, 30)) for n in range(12)]
    streamed = StreamedImages(paths, (16, 16))
    resident, _, _ = open_images(paths, (16, 16), strict=True)
    index = torch.tensor([7, 7, 0, 11])
    assert torch.equal(streamed.take(index), resident.take(index))
    for one, other in zip(streamed.take_each([index] * 4), resident.take_each([index] * 4), strict=True):
        assert torch.equal(one, other)
    assert list(streamed.names) == paths == list(resident.names)
    assert streamed.to(torch.device("meta")).take(index).shape == (4, 3, 16, 16)
    Path(paths[7]).write_text("no image")
    with pytest.raises(DataError, match=r"7\.png: not an image"):
        streamed.take(index)


def test_workers_decode_batches_around_the_end_of_their_memory(
    tmp_path: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [paint(tmp_path / f"{n}.png", (n, 2 * n, 3 * n), (8, 8)) for n in range(12)]
    for name in ("FEWEST", "AHEAD"):
        monkeypatch.setattr(workers, name, 1)
    monkeypatch.setattr(images, "FILES", 2)
    monkeypatch.setattr(images, "read_each", partial(read_each, size=2))
    monkeypatch.setattr("newfound.data.workers.os.sched_getaffinity", lambda pid: {0, 1}, raising=False)
    batches = torch.randint(12, (9, 5), generator=torch.Generator().manual_seed(0)).unbind()
    found = list(StreamedImages(paths, (8, 8)).take_each(batches))
    assert [each[:, 0, 0, 0].tolist() for each in found] == [each.tolist() for each in batches]


def test_images_that_were_decoded_are_kept_while_there_is_room(tmp_path: Path) -> None:
    paths = [tmp_path / f"{row}.png" for row in range(6)]
    for row, path in enumerate(paths):
        Image.new("RGB", (4, 4), (row, 2 * row, 3 * row)).save(path)
    streamed, every = StreamedImages([str(path) for path in paths], (4, 4)), torch.arange(6)
    first = streamed.fetch(every)
    streamed.keep(4.5 * first[0].nbytes)
    assert streamed.fetch(every).equal(first)
    sent = pickle.dumps(streamed)  # another process keeps images of its own
    assert len(sent) < 2000
    assert len(pickle.loads(sent)._kept) == len(streamed._kept) == 4
    assert pickle.loads(sent).fetch(every).equal(first)
    for path in paths[:4]:
        path.unlink()
    assert streamed.fetch(every.flip(0)).equal(first.flip(0))
    paths[5].unlink()
    with pytest.raises(DataError, match="changed while it was in use"):
        streamed.fetch(every)


def test_paths_are_a_sequence() -> None:
    given = ["a/é.png", "", "b\udcff.png", "c"]
    paths = Paths.of(given)
    assert list(paths) == given
    assert (paths[-1], list(paths[1:3]), "c" in paths, "d" in paths) == ("c", given[1:3], True, False)
    assert list(paths.select(np.array([3, 0])) + paths[2:]) == ["c", given[0], *given[2:]]
    with pytest.raises(IndexError):
        paths[4]


def test_a_set_beyond_the_budget_is_streamed(
    tmp_path: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [paint(tmp_path / f"{n}.png") for n in range(3)]
    monkeypatch.setattr(folders, "RESIDENT_BYTES", 4 * 3 * 8 * 8 - 1)
    found, kept, skipped = open_images([paths[0], "gone.png", *paths[1:]], (8, 8), strict=False)
    assert isinstance(found, StreamedImages)
    assert (kept, list(found.names)) == ([0, 2, 3], paths)
    assert "gone.png" in skipped[0]
    monkeypatch.setattr(folders, "RESIDENT_BYTES", 3 * 3 * 8 * 8)
    assert isinstance(open_images(paths, (8, 8), strict=False)[0], ResidentImages)
    monkeypatch.setattr(folders, "free_memory", lambda: 3 * 3 * 8 * 8 / folders.RESIDENT_SHARE)
    assert isinstance(open_images(paths, (8, 8), strict=False)[0], ResidentImages)
    with dist.expecting(2):
        assert isinstance(open_images(paths, (8, 8), strict=False)[0], StreamedImages)


def test_files_beyond_the_budget_are_checked_once(
    tmp_path: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [paint(tmp_path / f"{n}.png") for n in range(3)]
    damaged = tmp_path / "damaged.png"
    damaged.write_bytes(b"no image")
    paths[1] = str(damaged)
    monkeypatch.setattr(folders, "RESIDENT_BYTES", 0)
    decoded = list[list[str]]()

    def counting(some: list[str], *args: Any, **more: Any) -> Any:
        decoded.append(some)
        return decode_all(some, *args, **more)

    def opened(cache: Path, strict: bool = False) -> tuple[list[int], list[str], list[list[str]]]:
        decoded.clear()
        images, kept, failed = open_images(paths, (8, 8), strict, cache=cache)
        assert list(images.names) == [paths[row] for row in kept]
        return kept, failed, [*decoded]

    monkeypatch.setattr(folders, "decode_all", counting)
    cache = tmp_path / "cache"
    kept, failed, tried = opened(cache)
    assert (kept, len(failed), tried) == ([0, 2], 1, [paths])
    assert opened(cache) == (kept, failed, [[paths[1]]])  # in case it failed for a passing reason
    with pytest.raises(DataError, match=r"damaged\.png"):
        opened(cache, strict=True)
    (record,) = cache.iterdir()
    record.write_text("")
    assert opened(cache) == (kept, failed, [paths])
    assert "checked again" in caplog.text
    shutil.copy(paths[0], damaged)
    assert opened(cache) == ([0, 1, 2], [], [paths])
    unwritable = tmp_path / "0.png" / "cache"
    assert opened(unwritable) == ([0, 1, 2], [], [paths])


def test_unchecked_files_may_be_damaged(tmp_path: Path, paint: Paint) -> None:
    (tmp_path / "damaged.png").write_bytes(b"no image")
    paths = [paint(tmp_path / "0.png"), str(tmp_path / "damaged.png")]
    unchecked, rows, left_out = open_images(paths, (8, 8), strict=False, unread=True)
    assert (rows, left_out) == ([0, 1], [])
    for found in (unchecked, unchecked.to(torch.device("cpu")), unchecked.select(torch.tensor([0, 1]))):
        first, second = found.take(torch.tensor([0, 1]))
        assert first.any()
        assert not second.any()


def test_fingerprints_follow_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = random_images(3)
    assert images.fingerprint() == random_images(3).fingerprint() != random_images(3, 1).fingerprint()
    monkeypatch.setattr(ResidentImages, "_digest", lambda images: "again")
    moved_images = images.to(torch.device("cpu"))
    assert moved_images.fingerprint() == images.fingerprint() != random_images(3).fingerprint()
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


def test_images_in_files_and_in_memory_are_known_to_be_the_same(tmp_path: Path, paint: Paint) -> None:
    paths = [paint(tmp_path / f"{n}.png") for n in range(3)]
    resident, streamed = open_images(paths, (8, 8), strict=False)[0], StreamedImages(paths, (8, 8))
    assert isinstance(resident, ResidentImages)
    assert [*resident.fingerprints()] == [*streamed.fingerprints()][::-1]
    assert len({*resident.fingerprints()}) == 2
    assert [*random_images(3).fingerprints()] == [random_images(3).fingerprint()]


@pytest.mark.parametrize("number", [0, 1, PREFETCHED, PREFETCHED + 1, 20])
def test_prefetch_is_map(number: int) -> None:
    assert list(prefetch(lambda n: n * n, range(number))) == [n * n for n in range(number)]


def test_the_next_items_are_begun_while_one_is_used() -> None:
    begun = [threading.Event() for _ in range(10)]
    results = prefetch(lambda n: begun[n].set(), range(10))
    next(results)
    assert all(event.wait(10) for event in begun[: 1 + PREFETCHED])
    assert not begun[1 + PREFETCHED].is_set()
    results.close()  # type: ignore[attr-defined]


def test_pending_work_is_cancelled() -> None:
    begun, second, go_on = [], threading.Event(), threading.Event()

    def work(number: int) -> None:
        begun.append(number)
        if number:
            second.set()
            go_on.wait(10)

    results = prefetch(work, range(10))
    next(results)
    assert second.wait(10)
    threading.Timer(0.5, go_on.set).start()
    results.close()  # type: ignore[attr-defined]
    assert begun == [0, 1]


def test_an_error_comes_where_its_item_does() -> None:
    results = prefetch(lambda n: 1 / (2 - n), range(5))
    assert list(islice(results, 2)) == [0.5, 1.0]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]
