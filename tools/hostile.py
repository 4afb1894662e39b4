"""Stress tests with broken runs, kills, full disks, and hostile names, files, requests and arguments.

    python -m tools.hostile --seed 0 --share 1 --folder /tmp/hostile

Each trial runs in a process of its own. It must end with a result or a one-line error: anything else counts
as a traceback, and a trial that does not end as a hang. A file counts as lost if a command that fails, is
killed or only reads removes it, or changes an image, an edit, an assignment or a checkpoint. Code has been
executed if a marker file appears.
"""

import argparse
import io
import json
import os
import pickle
import random
import resource
import shutil
import signal
import socket
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save

from newfound.cli import main as command_line
from newfound.core.errors import NewfoundError
from newfound.core.registry import recipe_for
from newfound.data.benchmarks.cifar import read_cifar
from newfound.data.folders import from_folders
from newfound.data.parquet import KEY, import_pyarrow
from newfound.data.vectors import read_embeddings
from newfound.engine.checkpoint import Checkpoint
from newfound.review.review import Review
from newfound.review.server import HOST, Live, Server
from newfound.run.folder import Folder
from newfound.run.trained import Pictures
from newfound.run.weights import load_encoder, load_pretrained

LIMIT = 60.0
"""Seconds after which a trial counts as hung."""
TINY = (
    *("epochs=1", "warmup=0", "pretrain.epochs=1", "pretrain.warmup=0", "device=cpu", "encoder=small"),
    *("batch_size=48", "pretrain.batch_size=24", "hidden=32", "projection=16", "checkpoint_seconds=0"),
)
SEARCH = ("--num-novel", "auto", "estimate.max_novel=3", "estimate.restarts=1")
COLOURS = {"ants": (160, 0, 0), "bees": (0, 160, 0), "crabs": (0, 0, 160), "dogs": (160, 0, 160)}
TOOLS = ("label-studio", "fiftyone", "imagefolder")
"""Export formats of other tools; each writes a folder."""
KEPT = ("edits.jsonl", "assignments.csv", "checkpoint.safetensors")
"""Files that a failing command must not change; it may rewrite any other."""


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it said."""

    code: int | None
    """None if it had to be killed."""
    said: str


@dataclass
class Tally:
    """What a part of the campaign found."""

    part: str
    trials: int = 0
    tracebacks: int = 0
    hangs: int = 0
    lost: int = 0
    executions: int = 0
    notes: list[str] = field(default_factory=list)

    def judge(self, trial: str, ended: Ended, lost: bool = False, executed: bool = False) -> None:
        """Count a trial, and note what is wrong with it."""
        said = ended.said
        line = ended.code in (0, 130) or said[said.rfind("error: ") :].count("\n") == 1
        torn = "Traceback" in said or "Unexpected error" in said or (ended.code is not None and not line)
        wrong = {"tracebacks": torn, "hangs": ended.code is None, "lost": lost, "executions": executed}
        self.trials += 1
        for name, found in wrong.items():
            setattr(self, name, getattr(self, name) + found)
        if any(wrong.values()):
            self.notes.append(f"{trial}: {said.strip().splitlines()[-1:]}")


def forked(act: Callable[[], object], kill_after: float | None = None) -> Ended:
    """Call a function in a process of its own; kill it after `kill_after` seconds, or `LIMIT` if it hangs."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os._exit(_exit_code(act))
    os.close(writer)
    said, code, end = b"", None, time.monotonic() + (kill_after or LIMIT)
    with open(reader, "rb", buffering=0) as pipe:
        os.set_blocking(reader, False)
        while code is None and time.monotonic() < end:
            ended, status = os.waitpid(child, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if ended else None
            said += pipe.read() or b""
            time.sleep(0 if ended else 0.005)
        if code is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return Ended(0 if code is None and kill_after else code, said.decode(errors="replace"))


def _exit_code(act: Callable[[], object]) -> int:
    code: object = 0
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    try:
        act()
    except SystemExit as end:
        code = end.code or 0
    except NewfoundError as error:
        print(f"error: {error}")
        code = 1
    except BaseException:
        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else 1


def command(*words: object, kill_after: float | None = None, largest: int | None = None) -> Ended:
    """Run `newfound WORDS`; files cannot grow beyond `largest` bytes, as on a full disk."""

    def act() -> None:
        if largest is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        sys.argv = ["newfound", *map(str, words)]
        command_line()

    return forked(act, kill_after)


def textures(folder: Path, colour: tuple[int, int, int], number: int) -> None:
    """Write images of noise around a colour."""
    folder.mkdir(parents=True)
    noise = np.random.default_rng(sum(colour) + number)
    for row in range(number):
        pixels = noise.integers(0, 80, (16, 16, 3)) + np.array(colour)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{row:02}.png")


class Base:
    """Images and a finished, edited run on them, for trials to copy and break."""

    def __init__(self, root: Path) -> None:
        self.root, self.known, self.pile, self.new = root, root / "known", root / "pile", root / "new"
        for name, colour in COLOURS.items():
            textures(self.known / name, colour, 8)
        textures(self.pile / "monday", (160, 160, 0), 10)
        textures(self.pile / "tuesday", (0, 160, 160), 10)
        textures(self.new, (0, 160, 160), 3)
        self.images = ("--labelled", str(self.known), "--unlabelled", str(self.pile))
        self.run = root / "base" / "run"
        made = [command("discover", "iic", *self.images, *SEARCH, *TINY, "--out", self.run)]
        novel = [name for key, name in Review.open(self.run).found.items() if key >= len(COLOURS)]
        made.append(command("classes", self.run, "rename", f"{novel[-1]}=wasp"))
        made.append(command("classes", self.run, "move", "wasp", self.pile / "monday" / "00.png"))
        made.append(command("trust", self.run))
        assert all(each.code == 0 for each in made), made

    def copied(self, place: Path) -> Path:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.run.parent, place, ignore=shutil.ignore_patterns("tensorboard"))
        return place / "run"

    def verbs(self, run: Path, out: Path) -> dict[str, tuple[object, ...]]:
        """The commands that use a run, as words of the command line; none for the live page."""
        return {
            "classes": ("classes", run),
            "rename": ("classes", run, "rename", "wasp=hornet"),
            "csv": ("export", run, out / "out.csv"),
            "folders": ("export", run, out / "out"),
            "coco": ("export", run, out / "out.json", "--format", "coco"),
            **{name: ("export", run, out / name, "--format", name) for name in TOOLS},
            "report": ("report", run),
            "predict": ("predict", run, self.new),
            "resume": ("discover", "iic", *self.images, *SEARCH, *TINY, "--resume", "--out", run),
            "trust": ("trust", run),
            "next": ("discover", "iic", "--from", run, "--num-novel", "1", *TINY, "--out", out / "next"),
            "relocate": ("relocate", run, "--labelled", self.known),
            "review": (),
        }


def _look(run: Path) -> None:
    folder = Folder(run)
    live = Live(folder, Pictures.load(folder))
    for path in ("", "image/0", "class/4"):
        live.get(path)


def contents(*folders: Path) -> dict[Path, bytes]:
    """Every plain file below the folders."""
    paths = (path for folder in folders for path in folder.rglob("*"))
    return {path: path.read_bytes() for path in paths if path.is_file()}


def changed(before: Mapping[Path, bytes]) -> bool:
    """Whether one of these files is gone, or an image or one of `KEPT` has changed."""
    gone = any(not path.is_file() for path in before)
    same = {path: text for path, text in before.items() if path.suffix == ".png" or path.name in KEPT}
    return gone or any(path.read_bytes() != text for path, text in same.items())


VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 3, 2**63, 1e308, -1e308, float("nan"), float("inf")),
    *("x", "", "\0", "../..", "é" * 999),
    *([], {}, [[[1]]], {"a": {"b": [1]}}, ["x"], [-1]),
)
DEEP, GONE, MORE = "deep", "gone", "more"


def _nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from _nodes(each, (*path, key))


def break_json(text: str, chance: random.Random) -> str:
    """The text with one node of another type, removed, repeated, or nested too deeply."""
    value = json.loads(text)
    *path, last = chance.choice([path for path in _nodes(value) if path] or [("",)])
    at = value
    for key in path:
        at = at[key]
    new = chance.choice((*VALUES, DEEP, GONE, MORE))
    if new == GONE:
        del at[last]
    elif new == MORE:
        at.append(at[last]) if isinstance(at, list) else at.update(surprise=1)
    else:
        at[last] = new
    return json.dumps(value).replace(f'"{DEEP}"', "[" * 100_000 + "]" * 100_000)


def break_tensors(path: Path, chance: random.Random) -> None:
    """Change one tensor's type, shape or values, remove it, or change the metadata; remove the digest."""
    with safe_open(path, framework="pt") as file:
        facts = {key: value for key, value in (file.metadata() or {}).items() if key != "digest"}
        tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118 (not a mapping)
    key = chance.choice(sorted(tensors))
    types = (torch.float64, torch.float16, torch.int64, torch.bool, torch.bfloat16)
    kind = chance.choice(("type", "shape", "gone", "more", "nan", "facts", "facts", "nothing"))
    if kind == "type":
        tensors[key] = tensors[key].to(chance.choice(types))
    elif kind == "shape":
        tensors[key] = chance.choice((tensors[key][None].clone(), torch.zeros(0), torch.zeros(3, 0)))
    elif kind == "gone":
        del tensors[key]
    elif kind == "more":
        tensors[f"{key}x"] = torch.zeros(2)
    elif kind == "nan":
        tensors[key] = torch.full(tensors[key].shape, torch.nan)
    elif kind == "nothing":
        tensors, facts = {}, {}
    elif facts:
        name = chance.choice(sorted(facts))
        try:
            facts[name] = break_json(facts[name], chance)
        except (ValueError, KeyError, TypeError):
            facts[name] = chance.choice(("", "{}", "[" * 100_000))
    path.write_bytes(save(tensors, facts))


def break_csv(text: str, chance: random.Random) -> str:
    lines = text.splitlines()
    row = chance.randrange(len(lines))
    cells = lines[row].split(",")
    cells[chance.randrange(len(cells))] = chance.choice(
        ("", "x", "-1", "nan", "\0", '"', "/etc/passwd", "\x1b[")
    )
    return "\n".join([*lines[:row], ",".join(cells), *lines[row + 1 :]]) + "\n"


def break_raw(path: Path, chance: random.Random) -> None:
    """Truncate a file, flip a bit, empty it, fill it with noise, or replace it by something else."""
    content, kind = (
        path.read_bytes(),
        chance.choice(("cut", "flip", "empty", "noise", "pipe", "folder", "loop")),
    )
    place = chance.randrange(len(content))
    kept = {"cut": content[:place], "empty": b"", "noise": chance.randbytes(300)}
    if kind in kept:
        path.write_bytes(kept[kind])
    elif kind == "flip":
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    else:
        path.unlink()
        {"pipe": os.mkfifo, "folder": os.mkdir, "loop": lambda path: path.symlink_to(path.name)}[kind](path)


def broken_folders(base: Base, chance: random.Random, number: int) -> Tally:
    """Damage one file of a run, then use the run with three verbs."""
    tally, place, out = Tally("broken run folders"), base.root / "broken", base.root / "out"
    filled = sorted(path for path, content in contents(base.run.parent).items() if content)
    files = [path.relative_to(base.run.parent) for path in filled]
    files = [path for path in files if path.suffix in (".json", ".jsonl", ".csv", ".safetensors")]
    weights = [1 if {"trust", "probe", "pretrained"} & {*path.parts} else 6 for path in files]
    for _ in range(number):
        run, name = base.copied(place), chance.choices(files, weights)[0]
        path = place / name
        if chance.random() < 0.2:
            break_raw(path, chance)
        elif path.suffix == ".safetensors":
            break_tensors(path, chance)
        elif path.suffix == ".csv":
            path.write_text(break_csv(path.read_text(), chance))
        else:
            lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
            row = chance.randrange(len(lines))
            lines[row] = break_json(lines[row], chance)
            path.write_text("\n".join(lines) + "\n")
        verbs = base.verbs(run, out)
        for verb in chance.sample(sorted(verbs), 3):
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            before = contents(run, base.known, base.pile)
            ended = command(*verbs[verb]) if verbs[verb] else forked(partial(_look, run))
            precious = {each: text for each, text in before.items() if ended.code or each.suffix == ".png"}
            tally.judge(f"{name}, {verb}", ended, changed(precious))
    return tally


def kills(base: Base, chance: random.Random, number: int) -> Tally:
    """Kill runs, edits, exports and predictions at random moments, and repeat them."""
    tally, place = Tally("kills"), base.root / "killed"
    short = (word for word in TINY if word != "epochs=1")
    words = ("discover", "iic", *base.images, "--num-novel", "2", *short, "epochs=3", "--resume", "--out")
    if not number:
        return tally
    start = time.monotonic()
    whole = command(*words, place / "a" / "run")
    life = time.monotonic() - start
    assert whole.code == 0, whole
    expected = Checkpoint.load(place / "a" / "run" / "checkpoint.safetensors")
    for trial in range(number):
        run = place / f"b{trial}" / "run"
        for _ in range(chance.randint(1, 3)):
            tally.judge("discover", command(*words, run, kill_after=chance.uniform(0.1, 1) * life))
        ended = command(*words, run)
        found = Checkpoint.load(run / "checkpoint.safetensors") if ended.code == 0 else expected
        same = all(torch.equal(value, found.weights[key]) for key, value in expected.weights.items())
        tally.judge("discover, resumed", ended, lost=not same)
        copy, out = base.copied(place / "copy"), place / "out"
        for verb in ("rename", "csv", "folders", "predict", "report"):
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            before = contents(copy, base.known, base.pile)
            before.pop(copy / "edits.jsonl")
            ended = command(*base.verbs(copy, out)[verb], kill_after=chance.uniform(0, 1))
            tally.judge(f"{verb}, killed", ended, changed(before))
            lost = changed(before) or not _is_whole(copy, out)
            tally.judge(f"{verb}, afterwards", command("classes", copy), lost)
    return tally


def _is_whole(run: Path, out: Path) -> bool:
    """Whether everything visible that a killed export has left is complete."""
    seen = [path for path in out.iterdir() if not path.name.startswith(".")]
    number = len(Review.open(run).assignments.images)
    return all(
        len(path.read_text().splitlines()) == number + 1
        if path.is_file()
        else len(list(path.glob("*/*"))) == number
        for path in seen
    )


def full_disks(base: Base, chance: random.Random, number: int) -> Tally:
    """Run commands whose files cannot grow beyond some size, as on a full disk."""
    tally, place = Tally("full disks"), base.root / "full"
    for _ in range(number):
        run, out = base.copied(place), base.root / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        size, before = int(10 ** chance.uniform(0, 4)), contents(run, base.known, base.pile)
        words = chance.choice(
            (
                ("classes", run, "rename", "wasp=hornet"),
                ("export", run, out / "out.csv"),
                ("predict", run, base.new),
                ("report", run),
                ("discover", "iic", *base.images, "--num-novel", "2", *TINY, "--out", out / "run"),
            )
        )
        ended = command(*words, largest=size)
        tally.judge(f"{words[0]}, {size} bytes", ended, bool(ended.code) and changed(before))
    return tally


NAMES = (
    *("=1+1", "+cmd", "@SUM(A1)", "-x", "a,b", 'a"b', "a'b", "a;b", "<script>alert(1)", "{{7*7}}"),
    *(
        "\x1b[31mred",
        "\x1b]0;title\x07",
        "a\nb",
        "a\rb",
        "\u202egnp",
        "nan",
        "None",
        "con",
        "é",
        "e\u0301",
        "猫",
    ),
    *("..a", "~", "$(touch executed)", "`touch executed`", "%s%n", "a" * 200, " a ", "\\", "novel-1", "-1"),
)


def hostile_names(base: Base, chance: random.Random, number: int) -> Tally:
    """Use names of classes and files that shells, terminals, browsers or spreadsheets take for commands."""
    tally, place = Tally("hostile names"), base.root / "names"
    for trial in range(number):
        root = place / str(trial)
        names = chance.sample(NAMES, 3)
        for name in names:
            shutil.copytree(base.known / "ants", root / "known" / name)
        shutil.copytree(base.pile, root / "pile")
        for path, name in zip(sorted((root / "pile").rglob("*.png")), chance.sample(NAMES, 8), strict=False):
            path.rename(path.with_name(f"{name}.png"))
        before, run = contents(root), root / "run"
        images = ("--labelled", root / "known", "--unlabelled", root / "pile", "--num-novel", "2")
        marker = Path("executed")
        for words in (
            ("discover", "iic", *images, *TINY, "--out", run),
            ("classes", run),
            ("export", run, root / "out"),
            ("export", run, root / "out.csv"),
            *(("export", run, root / name, "--format", name) for name in TOOLS),
            ("predict", run, root / "pile"),
        ):
            ended = command(*words)
            raw = "\x1b" in ended.said
            page = run / "report.html"
            script = page.is_file() and "<script>alert" in page.read_text(encoding="utf-8")
            tally.judge(f"{names}, {words[0]}", ended, changed(before), marker.exists() or raw or script)
    return tally


class Hostile:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch executed",)


def hostile_pickles(base: Base, chance: random.Random, number: int) -> Tally:
    """Read weights, CIFAR batches and vectors that hold code, other objects, or noise."""
    tally, place = Tally("pickles and weights"), base.root / "pickles"
    place.mkdir(exist_ok=True)
    marker = Path("executed")
    objects: tuple[Any, ...] = (
        Hostile(),
        {"state_dict": Hostile()},
        {"conv1.weight": Hostile()},
        5,
        [],
        None,
    )
    objects += ({"state_dict": 5}, {b"data": Hostile(), b"fine_labels": [1]}, {"encoder.x": 1})
    for trial in range(number):
        made = io.BytesIO()
        chosen = chance.choice(objects)
        torch.save(chosen, made) if chance.random() < 0.5 else pickle.dump(chosen, made)
        content = bytearray(made.getvalue() if chance.random() < 0.8 else chance.randbytes(500))
        for _ in range(chance.choice((0, 0, 1, 5))):
            content[chance.randrange(len(content))] = chance.randrange(256)
        names = ("w.pth", "w.safetensors", "train", "train.bin", "e.npy", "e.parquet", "e.csv", "a.png")
        name = chance.choice(names)
        path = place / name
        path.write_bytes(content)
        (place / "e.txt").write_text("a\n")
        reads: list[Callable[[], object]] = [partial(read_embeddings, path)]
        if name.startswith("w"):
            reads = [partial(load_encoder, path, "resnet18"), partial(load_pretrained, path)]
        elif name.startswith("train"):
            reads = [partial(read_cifar, "cifar100", place, "train")]
        elif name == "a.png":
            reads = [partial(from_folders, base.known, path, 1)]
        for read in reads:
            tally.judge(f"{name}, {trial}", forked(read), executed=marker.exists())
        path.unlink()
    return tally


def tar_of(path: Path, image: bytes, chance: random.Random) -> None:
    """Write a tar file with images, names that lead out of it, links and pipes."""
    names = (
        "a.png",
        "../escaped.png",
        "/tmp/../escaped.png",
        "..",
        "a\nb.png",
        "\x1b[31m.png",
        "é" * 90 + ".png",
    )
    kinds = (
        tarfile.REGTYPE,
        tarfile.REGTYPE,
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.FIFOTYPE,
        tarfile.CHRTYPE,
    )
    with tarfile.open(path, "w") as tar:
        for name in chance.sample(names, 4):
            member, content = tarfile.TarInfo(name), chance.choice((image, image, b"", chance.randbytes(90)))
            member.type, member.linkname, member.size = chance.choice(kinds), "/etc/passwd", len(content)
            member.size *= member.isreg()
            tar.addfile(member, io.BytesIO(content))


def parquet_of(path: Path, whole: Path, chance: random.Random) -> None:
    """Write the embeddings of `whole` with one column replaced and, in most cases, other metadata."""
    pa = import_pyarrow()
    table = pa.parquet.read_table(whole)
    name, number = chance.choice(table.column_names), len(table)
    new: Any = chance.choice(
        (None, "", "\0", "../../x", -1, 2.5, float("nan"), [], [1.0, None], [["x"]], {"a": 1})
    )
    columns = {each: table.column(each) for each in table.column_names} | {name: pa.array([new] * number)}
    says = chance.choice((table.schema.metadata, {KEY: b"[" * 100_000}, {KEY: b'{"views": -1}'}, {}))
    pa.parquet.write_table(pa.table(columns).replace_schema_metadata(says), path)


def hostile_archives(base: Base, chance: random.Random, number: int) -> Tally:
    """Use tar files and embeddings that are damaged or lead elsewhere."""
    tally, place = Tally("tar and Parquet files"), base.root / "archives"
    if not number:
        return tally
    place.mkdir()
    (place / "list.txt").write_text("\n".join(map(str, contents(base.known, base.pile))))
    made = command("embed", place / "list.txt", "--encoder", "lite0", "--out", place / "whole")
    assert made.code == 0, made
    (whole,) = (place / "whole").glob("*.parquet")
    image = (base.new / "00.png").read_bytes()
    for trial in range(number):
        folder = place / str(trial)
        folder.mkdir()
        path = folder / chance.choice(("a.tar", "a.parquet"))
        tar_of(path, image, chance) if path.suffix == ".tar" else parquet_of(path, whole, chance)
        if chance.random() < 0.3:
            break_raw(path, chance)
        before = contents(base.known, base.pile)
        words: tuple[object, ...] = ("embed", folder, "--encoder", "lite0", "--out", folder / "out")
        if path.suffix == ".parquet":
            words = ("discover", "--labelled", base.known, "--embeddings", folder, "--num-novel", "2")
            words = (*words, "--out", folder / "run")
        ended = command(*words)
        escaped = [*base.root.rglob("escaped*"), *Path("/tmp").glob("escaped*")]
        tally.judge(f"{path.name}, {trial}", ended, changed(before), bool(escaped) or "\x1b" in ended.said)
    return tally


def _ask(run: Path, method: str, path: str, host: str, origin: str, body: str) -> None:
    """Send a wrong request to a review: it must be refused, and the page must still work afterwards."""
    folder = Folder(run)
    server = Server(Live(folder, Pictures.load(folder)))
    Thread(target=server.serve_forever, daemon=True).start()

    def ask(*lines: str) -> bytes:
        with socket.create_connection((HOST, server.server_port), timeout=LIMIT / 2) as connection:
            connection.sendall("\r\n".join(lines).replace("SECRET", server.secret).encode())
            return connection.recv(99)

    head = f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body.encode())}"
    answer = ask(*head, *([f"Origin: {origin}"] if origin else []), "", body)
    assert b" 20" not in answer[:12], answer
    assert b" 200 " in ask("GET /SECRET/ HTTP/1.1", "Host: localhost", "", "")


def hostile_requests(base: Base, chance: random.Random, number: int) -> Tally:
    """Send a review requests from other pages, for other files, with other bodies."""
    tally, edit = Tally("requests"), '{"seen": 2, "verb": "undo"}'
    paths = (
        "/",
        "/x/",
        "/SECRET",
        "/SECRET/../",
        "/SECRET/image/../../../etc/passwd",
        "/SECRET/image/-1",
        "*",
        "/SECRET/thumbnail/99999999999",
        "/SECRET/image/%2e%2e",
        "//etc/passwd",
        "/SECRET/" + "a" * 9999,
    )
    bodies = (
        "",
        "{",
        "[" * 100_000,
        '{"seen": 2}',
        edit.replace("undo", "x"),
        edit.replace("2", "1e99"),
        "\0" * 99,
        edit.replace("}", ', "rows": [-1]}').replace("undo", "move"),
        "x" * 2**21,
    )
    for _ in range(number):
        run = base.copied(base.root / "asked")
        wrong = chance.choice(("path", "host", "origin", "body", "method"))
        words = ["POST", "/SECRET/edit", "127.0.0.1", "", edit]
        if wrong == "path":
            words = ["GET", chance.choice(paths), "127.0.0.1", "", ""]
        elif wrong == "host":
            words[2] = chance.choice(
                ("evil.example", "", "127.0.0.1.evil.example", "127.0.0.1:80:80", "[::2]")
            )
        elif wrong == "origin":
            words[3] = chance.choice(("null", "http://evil.example", "https://127.0.0.1", "file://"))
        elif wrong == "body":
            words[4] = chance.choice(bodies)
        else:
            words[0] = chance.choice(("PUT", "DELETE", "OPTIONS", "X" * 9999, "\0"))
        before = contents(run, base.known, base.pile)
        tally.judge(f"{words}", forked(partial(_ask, run, *words)), changed(before))
    return tally


def hostile_arguments(base: Base, chance: random.Random, number: int) -> Tally:
    """Pass settings and options values that nobody would give."""
    tally = Tally("arguments")
    values = (
        "",
        "-1",
        "0",
        "nan",
        "inf",
        "1e308",
        str(2**63),
        "9" * 400,
        "x",
        "\x1b[31m",
        "../..",
        "None",
        "a=b",
    )
    settings = sorted(recipe_for("iic", "own").flat())
    options = (
        "--num-novel",
        "--size",
        "--subset",
        "--out",
        "--pile",
        "--until",
        "--pretrained",
        "--stop-after",
    )
    for _ in range(number):
        setting = f"{chance.choice(settings)}={chance.choice(values)}"
        option = (chance.choice(options), chance.choice((*values, "d/" * 2000, "\udcff", "é" * 300)))
        some = chance.choice(((setting,), option, (setting, *option)))
        before = contents(base.known, base.pile)
        out = () if "--out" in some else ("--out", base.root / "arguments" / "run")
        words = ("discover", "iic", *base.images, *TINY[:6], *some, *out, "--stop-after", "1s")
        tally.judge(" ".join(map(repr, some)), command(*words), changed(before))
        shutil.rmtree(base.root / "arguments", ignore_errors=True)
    return tally


PARTS: Mapping[Callable[[Base, random.Random, int], Tally], int] = {
    broken_folders: 120,
    kills: 6,
    full_disks: 25,
    hostile_names: 10,
    hostile_pickles: 120,
    hostile_archives: 40,
    hostile_requests: 40,
    hostile_arguments: 80,
}
"""Each part, and its number of trials at a share of 1."""


def campaign(root: Path, seed: int, share: float) -> list[Tally]:
    """Run all parts in a new folder; a share of 1 takes a few minutes."""
    torch.set_num_threads(1)
    root.mkdir(parents=True)
    before = Path.cwd()
    os.chdir(root)
    try:
        base = Base(root)
        tallies = []
        for part, times in PARTS.items():
            tallies.append(part(base, random.Random(seed), round(times * share)))
            print(*tallies[-1].notes, f"{tallies[-1].part}: {tallies[-1].trials}", sep="\n", flush=True)
        return tallies
    finally:
        os.chdir(before)


def table(tallies: list[Tally]) -> str:
    """The tallies as Markdown, with the sum."""
    columns = ("trials", "tracebacks", "hangs", "lost", "executions")
    rows = [(each.part, *(getattr(each, name) for name in columns)) for each in tallies]
    rows.append(("all", *(sum(row[place] for row in rows) for place in range(1, 6))))
    lines = ["| | trials | tracebacks | hangs | lost files | code executions |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="share of the usual number of trials")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.mkdtemp()) / "hostile")
    given = parser.parse_args()
    tallies = campaign(given.folder.absolute(), given.seed, given.share)
    print(table(tallies))
    sys.exit(any(each.notes for each in tallies))


if __name__ == "__main__":
    main()
