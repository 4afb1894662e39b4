"""Files are read in worker processes as in this one."""

import multiprocessing
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
import torch
from PIL import Image

from newfound.core.errors import DataError
from newfound.data import workers
from newfound.data.decode import decode_all, stored_sizes
from newfound.data.images import StreamedImages
from newfound.data.workers import check_alone, num_workers, read_each, shared

in_workers = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers, however few files there are and whatever the machine."""
    monkeypatch.setattr(workers, "FEWEST", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})


@in_workers
@pytest.mark.usefixtures("forked")
def test_workers_fill_arrays_part_by_part_in_order() -> None:
    here, filled = os.getpid(), shared(50)

    def read(row: int) -> int:
        if row % 7 == 3:
            raise ValueError("no")
        filled[row] = row
        return os.getpid()

    parts = list(read_each([f"{row}.png" for row in range(50)], read, size=4))
    expected = [row for row in range(50) if row % 7 != 3]
    assert [row for part in parts for row in part.rows] == list(range(50))
    assert [row for part in parts for row in part.kept] == expected
    assert filled[expected].tolist() == expected
    assert parts[0].failed == ["3.png: no"]
    assert here not in {each for part in parts for each in part.results}
    with pytest.raises(DataError, match=r"Cannot read 3\.png: no\."):
        list(read_each([f"{row}.png" for row in range(50)], read, strict=True, size=4))


@in_workers
@pytest.mark.usefixtures("forked")
def test_folders_are_read_by_workers_as_by_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(tmp_path / f"{row}.png") for row in range(70)]
    for row, path in enumerate(paths):
        Image.new("RGB", (8, 8 + row), (row, 2 * row, 3 * row)).save(path)
    Path(paths[11]).write_text("no image")
    calls: list[Callable[[], object]] = [
        lambda: decode_all(paths, (8, 8), strict=False)[1:],
        lambda: stored_sizes(paths),
    ]
    pixels, found = decode_all(paths, (8, 8), strict=False)[0], [call() for call in calls]
    monkeypatch.setattr(workers, "FEWEST", 1000)
    assert num_workers(len(paths), 1) == 0
    assert torch.equal(decode_all(paths, (8, 8), strict=False)[0], pixels)
    assert [call() for call in calls] == found


@in_workers
@pytest.mark.usefixtures("forked")
def test_streamed_batches_are_the_same_in_workers(tmp_path: Path) -> None:
    """Far more rows than the workers' shared array has places."""
    for row in range(20):
        Image.new("RGB", (4, 4), (row, 2 * row, 3 * row)).save(tmp_path / f"{row:02}.png")
    streamed = StreamedImages([str(path) for path in sorted(tmp_path.iterdir())], (4, 4))
    batches = torch.randint(20, (30, 50), generator=torch.Generator().manual_seed(0)).unbind()
    found = list(streamed.take_each(batches))
    expected = torch.arange(20, dtype=torch.uint8)[:, None] * torch.tensor([1, 2, 3], dtype=torch.uint8)
    assert all(torch.equal(got[:, :, 2, 3], expected[rows]) for got, rows in zip(found, batches, strict=True))
    (tmp_path / "07.png").write_text("no image")
    with pytest.raises(DataError, match=r"changed while it was in use: .*07\.png: not an image"):
        list(streamed.take_each(batches))


@in_workers
@pytest.mark.usefixtures("forked")
def test_ctrl_c_ends_the_workers_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    """Even while the error is being handled, and without a word of theirs."""

    def read(row: int) -> None:
        if row == 10:
            os.kill(os.getppid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt) as stopped:
        list(read_each([""] * 10_000, read, size=4))
    assert stopped
    assert not multiprocessing.active_children()
    assert capfd.readouterr() == ("", "")


@in_workers
@pytest.mark.usefixtures("forked")
def test_a_worker_ends_at_a_sigterm_of_its_parent_only() -> None:
    parts = read_each([""] * 100, lambda row: os.kill(os.getpid(), signal.SIGTERM), size=4)
    assert [part.failed for part in parts] == [[]] * 25

    parts = read_each([""] * 1000, lambda row: time.sleep(0.01), size=4)
    next(parts)
    first, *_ = multiprocessing.active_children()
    first.terminate()
    with pytest.raises(RuntimeError, match=r"worker .* exited"):
        list(parts)


@in_workers
@pytest.mark.usefixtures("forked")
def test_workers_do_not_tell_who_listens_to_our_signals() -> None:
    """Ctrl-C in a terminal reaches them too, and would count twice."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(writer)
    try:
        list(read_each([""] * 8, lambda row: os.kill(os.getpid(), signal.SIGINT), size=4))
        numbers = os.read(reader, 100) if select.select([reader], [], [], 0)[0] else b""
        assert signal.SIGINT not in numbers
        assert signal.set_wakeup_fd(writer) == writer
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


@in_workers
@pytest.mark.usefixtures("forked")
def test_no_fork_on_another_thread() -> None:
    found = [num_workers(1000, 1)]
    thread = Thread(target=lambda: found.append(num_workers(1000, 1)))
    thread.start()
    thread.join()
    assert found == [2, 0]


@pytest.mark.parametrize("number", [12, 400])
def test_files_that_take_much_memory_are_read_one_by_one(number: int) -> None:
    """In threads, and in processes; each in its place."""
    reading, most = shared(1), shared(1)

    def read(row: int) -> int:
        if row % 3 == 0:
            check_alone()
            reading[0] += 1
            most[0] = max(most[0], reading[0])
            time.sleep(0.001)
            reading[0] -= 1
        if row == 6:
            raise ValueError("broken")
        return row

    parts = list(read_each([f"{row}.png" for row in range(number)], read, size=4))
    assert most[0] == 1
    assert [row for part in parts for row in part.results] == [row for row in range(number) if row != 6]
    assert [line for part in parts for line in part.failed] == ["6.png: broken"]
