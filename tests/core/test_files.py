"""Files that are never half written, records that name the field at fault, and where images come from."""

import errno
import json
import mmap
import os
import secrets
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from newfound.core.errors import RunError, UsageError
from newfound.core.files import (
    atomic,
    atomic_folder,
    check_apart,
    check_new,
    check_writable,
    cores,
    free_memory,
    read_record,
    read_text,
    used_memory,
    write_json,
    write_record,
    write_text,
)
from newfound.core.source import Source

NOT_ROOT = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read and write everything"
)


class Box(BaseModel):
    sides: list[int]
    label: str | None = None


def test_a_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    write_json(path, {"old": 1})

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="No space left on device"):
        write_text(path, "new")
    assert json.loads(path.read_text()) == {"old": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def copy(target: Path, fail: bool) -> None:
        with atomic_folder(target) as part:
            (part / "one").write_text("1")
            assert not target.exists()
            if fail:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy(tmp_path / "run", fail=True)
    assert list(tmp_path.iterdir()) == []
    copy(tmp_path / "run", fail=False)
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "one"]


def test_temporary_names_are_not_foreseeable_and_links_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers have equal process ids, and whoever may write to the folder may plant a link."""
    names = set()
    for _ in range(9):
        with atomic(tmp_path / "a.txt") as temporary:
            names.add(temporary.name)
            assert temporary.parent == tmp_path
            assert str(os.getpid()) not in temporary.name.split(".")
    assert len(names) == 9
    victim, target = tmp_path / "victim", tmp_path / "b.txt"
    victim.write_text("precious")
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0" * 2 * size)
    (tmp_path / f".b.txt.{'0' * 16}.tmp").symlink_to(victim)
    with pytest.raises(RunError, match="File exists"):
        write_text(target, "new")
    assert victim.read_text() == "precious"
    assert not target.exists()


@pytest.mark.parametrize("name", ["out.csv", "out", "[a]*"])
def test_what_a_killed_process_left_is_removed_by_the_next(name: str, tmp_path: Path) -> None:
    (tmp_path / f".{name}.0123456789abcdef.tmp" / "inner").mkdir(parents=True)
    others = [tmp_path / f".other.{'0' * 16}.tmp", tmp_path / f".{name}.mine.tmp", tmp_path / "a.tmp"]
    for each in others:
        each.write_text("")
    check_new(tmp_path / name)
    assert sorted(tmp_path.iterdir()) == sorted(others)
    with pytest.raises(UsageError, match="already exists"):
        check_new(tmp_path / "a.tmp")


def test_a_record_comes_back_and_leaves_out_what_is_none(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "box.json"
    write_record(path, Box(sides=[1, 2]))
    assert json.loads(path.read_text()) == {"sides": [1, 2]}
    assert read_record(path, Box) == Box(sides=[1, 2])


@pytest.mark.parametrize(("text", "words"), [('{"sides": [1, "x"]}', r"Box: sides\.1: "), ("{", "Box: ")])
def test_a_record_of_another_shape_names_the_field(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "box.json").write_text(text)
    with pytest.raises(RunError, match=words):
        read_record(tmp_path / "box.json", Box)


def test_text_is_read_as_it_is_but_for_the_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\xc3\xa9\n")
    assert read_text(path) == "a\r\nbé\n"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RunError, match="UTF-8"):
        read_text(path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for other in (tmp_path, tmp_path / "none", tmp_path / "pipe", tmp_path / "loop", Path("/dev/zero")):
        with pytest.raises(RunError, match=f"Cannot read {other}: "):
            read_text(other)


@NOT_ROOT
def test_permissions_are_checked_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0)
    with pytest.raises(RunError, match="Permission denied"):
        read_text(tmp_path / "file")
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(RunError, match="Permission denied"):
            check_writable(tmp_path / "new" / "results.json")
    finally:
        tmp_path.chmod(0o755)


def test_a_file_is_no_folder_to_write_in(tmp_path: Path) -> None:
    check_writable(tmp_path / "run" / "results.json")
    assert list(tmp_path.iterdir()) == [], "nothing is created"
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file"):
        check_writable(tmp_path / "file" / "results.json")


def test_no_output_among_the_images(tmp_path: Path) -> None:
    (tmp_path / "pile").mkdir()
    check_apart(tmp_path / "pile-2", str(tmp_path / "pile"), None)
    with pytest.raises(UsageError, match="inside the image folder"):
        check_apart(tmp_path / "pile" / "run", None, str(tmp_path / "pile"))


def test_a_source_has_absolute_paths_and_no_other_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = Source(labelled="known", unlabelled="pile", num_novel=3)
    assert (own.labelled, own.unlabelled) == (str(tmp_path / "known"), str(tmp_path / "pile"))
    assert (own.name, own.has_truth) == ("own", False)
    assert own.model_copy(update={"held_out": 2}).has_truth
    benchmark = Source(benchmark="digits", subset=9)
    assert (benchmark.name, benchmark.has_truth) == ("digits", True)
    assert Source.model_validate_json(benchmark.model_dump_json()) == benchmark
    with pytest.raises(ValueError, match="extra"):
        Source.model_validate({"benchmark": "digits", "colour": 1})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            Source(unlabelled="/a/pile", labelled="/a/known"),
            {"/a/pile/x/1.png": "x/1.png", "/a/known/2": "2"},
        ),
        (Source(unlabelled="/a/list.csv"), {"/a/x/1.png": "x/1.png", "/a/2.png": "2.png"}),
        (
            Source(unlabelled="/a/list.csv"),
            {"/a/1.png": "1.png", "/b/x/2.png": "x/2.png", "/b/3.png": "3.png"},
        ),
        (Source(benchmark="digits"), {"train/1": "train/1"}),
    ],
    ids=["folders", "a list", "files elsewhere", "no files"],
)
def test_paths_without_the_folder_they_were_given_in(source: Source, expected: dict[str, str]) -> None:
    assert source.relative(list(expected)) == list(expected.values())


def system(root: Path, files: dict[str, str]) -> None:
    """Write what Linux says about its memory below `root`."""
    for name, text in {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 8 kB\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


NEW, OLD = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
"""Files of control groups of version 2 and 1."""
V1 = {"quota": "300000\n", "period": "100000\n"}


@pytest.mark.parametrize(
    ("cgroup", "files", "groups", "free"),
    [
        ("0::/", NEW, {}, 8192),
        ("0::/", NEW, {"": ("max\n", "9999", "inactive_file 0")}, 8192),
        ("0::/", NEW, {"": ("5000\n", "4000\n", "anon 1000\ninactive_file 3000\n")}, 4000),
        (
            "1:cpu:/\n0::/job_1/step_0/task_0",
            NEW,
            {
                "job_1": ("5000", "4500", "inactive_file 0"),
                "job_1/step_0": ("6000", "4500", "inactive_file 0"),
                "job_1/step_0/task_0": ("max", "4500", "inactive_file 0"),
            },
            500,
        ),
        (
            "4:memory:/slurm/job_1\n0::/",
            OLD,
            {"memory/slurm/job_1": ("5000", "4500", "inactive_file 1\ntotal_inactive_file 200")},
            700,
        ),
        ("4:memory:/job_1", OLD, {"memory/job_1": ("5000", "4500", "total_inactive_file 200")}, 700),
        # What a container of version 1 sees: its own group in place of the root.
        ("4:memory:/docker/7", OLD, {"memory": ("5000", "4500", "inactive_file 0")}, 500),
        (None, NEW, {"": ("5000", "4500", "inactive_file 0")}, 8192),
        ("0::/", NEW, {"": ("5000", "4500", "anon 1000")}, 8192),
        ("4:memory:/", OLD, {"memory": ("5000", "4500")}, 8192),
    ],
    ids=[
        "no limits",
        "an infinite one",
        "a container",
        "Slurm",
        "version 1",
        "version 1, totals alone",
        "a container of version 1",
        "no groups",
        "no pages",
        "version 1, no pages",
    ],
)
def test_memory_that_a_control_group_may_still_allocate(
    cgroup: str | None,
    files: tuple[str, str],
    groups: dict[str, tuple[str, ...]],
    free: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("newfound.core.files.SYSTEM", tmp_path)
    assert free_memory() == float("inf")
    system(tmp_path, {"proc/self/cgroup": f"{cgroup}\n"} if cgroup else {})
    for group, texts in groups.items():
        names = (f"sys/fs/cgroup/{group}/{name}" for name in (*files, "memory.stat"))
        system(tmp_path, dict(zip(names, texts, strict=False)))
    assert free_memory() == free


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
@pytest.mark.parametrize(
    ("cgroup", "files", "number"),
    [
        (None, {}, 4),
        ("0::/", {"cpu.max": "max 100000\n"}, 4),
        ("0::/", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/", {"cpu.max": "900000 100000\n"}, 4),
        ("0::/job/step", {"job/cpu.max": "20000 100000", "job/step/cpu.max": "300000 100000"}, 1),
        ("3:cpu,cpuacct:/", {f"cpu,cpuacct/cpu.cfs_{name}_us": each for name, each in V1.items()}, 3),
        ("3:cpu:/", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ("0::/", {"cpu.max": "none"}, 4),
    ],
    ids=[
        "no groups",
        "no quota",
        "a quota",
        "a large one",
        "nested",
        "version 1",
        "version 1, none",
        "unreadable",
    ],
)
def test_cores_that_a_control_group_leaves(
    cgroup: str | None, files: dict[str, str], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newfound.core.files.SYSTEM", tmp_path)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3})
    system(tmp_path, {"proc/self/cgroup": f"{cgroup}\n"} if cgroup else {})
    system(tmp_path, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    assert cores() == number


def test_memory_that_this_process_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newfound.core.files.SYSTEM", tmp_path)
    assert used_memory() == 0
    system(tmp_path, {"proc/self/statm": "900 7 5 1 0 300 0\n"})
    assert used_memory() == 7 * mmap.PAGESIZE
