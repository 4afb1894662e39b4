"""Mistakes in settings and images: one line, the right exit code, nothing written, nothing lost."""

import shutil
from pathlib import Path

import pytest
import torch

from tests.cli.calls import DIGITS, TINY, UNTRAINED, changed, contents, newfound, refused
from tests.cli.conftest import Finished, OwnImages


def untouched(code: int, arguments: tuple[str | Path, ...], *words: str) -> None:
    """Refused, without a trace of the run."""
    refused(code, (*arguments, "--out", "out/run"), *words)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("method", "setting", "words"),
    [
        (
            "icc",
            "epochs=1",
            ("Unknown method 'icc'. Did you mean 'iic'? `newfound methods` lists the methods.",),
        ),
        ("iic", "alfa=1", ("Unknown setting 'alfa'. Did you mean 'alpha'?", "newfound methods")),
        ("iic", "pretrain.alpha=1", ("Unknown setting 'pretrain.alpha'",)),
        ("iic", "heads=two", ("heads", "whole number", "'two'")),
        ("iic", "lr=nan", ("lr", "finite number", "'nan'")),
        ("iic", "epochs=-1", ("epochs", "at least 0", "'-1'")),
        ("iic", "pretrain.epochs=1.5", ("pretrain.epochs", "whole number", "'1.5'")),
        ("iic", "intra=kl", ("intra", "'skld'", "'mse'", "'kl'")),
        ("iic", "device=toaster", ("device", "'toaster'")),
        ("iic", "device=cuda:999999999999999999999", ("device", "'cuda:999999999999999999999'")),
        ("iic", "hidden=9223372036854775808", ("hidden", "at most 2147483647")),
        ("iic", "weight_decay=1e308", ("weight_decay", "at most 1000000000000000000000000000000")),
        ("iic", "mode=graph", ("graph", "GPU")),
        ("iic", "lr_falls=0.75,0.5", ("lr_falls", "'0.75,0.5'")),
        ("iic", "precision=fp16", ("fp16", "GPU")),
        ("iic", "encoder=smal", ("Unknown encoder 'smal'. Did you mean 'small'?",)),
        ("iic", "augmentation=v3", ("Unknown augmentation recipe 'v3'",)),
        ("iic", "batch_size=1", ("batch_size", "1")),
    ],
)
def test_settings(method: str, setting: str, words: tuple[str, ...]) -> None:
    untouched(2, ("discover", method, *DIGITS, *changed(TINY, setting)), *words)


def test_a_method_that_trains_nothing_has_no_epochs() -> None:
    untouched(2, ("discover", "kmeans", *DIGITS, *UNTRAINED, "epochs=5"), "epochs", "kmeans")


def test_a_run_to_follow_is_reviewed_and_the_only_source() -> None:
    untouched(2, ("discover", "--from", "nowhere"), "There is no run in nowhere.")
    refused(2, ("discover", "--from", "runs/mine"), "--from needs --out")
    untouched(2, ("discover", "--only", "unsorted", *DIGITS), "--only needs --from")
    untouched(2, ("discover", "--from", "runs/mine", *DIGITS), "no data options except --unlabelled")


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    untouched(2, ("discover", "iic", *DIGITS, *changed(TINY, "device=cuda:7")), "cuda:7", "0 GPUs")


def test_benchmarks() -> None:
    Path("empty").mkdir()
    unknown = ("Unknown benchmark 'digit'. Did you mean 'digits'?", "`newfound data` lists the benchmarks.")
    untouched(2, ("discover", "iic", "--data", "digit", *TINY), *unknown)
    for folder in (("--data-dir", "empty"), ("--data-dir", "nowhere"), ()):
        call = ("discover", "iic", "--data", "cifar10", *folder, *TINY)
        untouched(1, call, "cifar-10-binary.tar.gz", "Use --data-dir")


def test_a_benchmark_and_own_images(images: OwnImages) -> None:
    both = "cannot be combined with a benchmark"
    untouched(2, ("discover", "iic", *DIGITS, *images.options, *TINY), "labelled, unlabelled", both)
    untouched(2, ("discover", "iic", *DIGITS, "--size", "16", *TINY), "has a fixed size")
    untouched(2, ("discover", "iic", *images.options, "--data-dir", ".", *TINY), "data_dir")


def own(labelled: object, unlabelled: object, num_novel: object = 2) -> tuple[str, ...]:
    paths = ("--labelled", str(labelled), "--unlabelled", str(unlabelled))
    return ("discover", "iic", *paths, "--num-novel", str(num_novel), *TINY, "encoder=small")


def test_numbers_of_novel_classes(images: OwnImages) -> None:
    untouched(2, own(images.labelled, images.pile, 0), "0")
    untouched(1, own(images.labelled, images.pile, 21), "20", "21")


def test_images_that_are_not_what_they_should_be(images: OwnImages) -> None:
    Path("empty").mkdir()
    Path("hollow/class").mkdir(parents=True)
    Path("words.png").write_text("no image")
    Path("known.csv").write_text(f"file,kind\n{images.labelled / 'ants' / '00.png'},ant\n")
    known, pile = images.labelled, images.pile
    untouched(1, own("empty", pile), "empty")
    untouched(1, own("hollow", pile), "hollow")
    untouched(1, own(known / "ants", pile), "ants")
    untouched(1, own("nowhere", pile), "nowhere", "does not exist")
    untouched(1, own(known, "empty"), "empty")
    untouched(1, own(known, "words.png", 1), "words.png")
    untouched(1, own("known.csv", pile), "known.csv")
    untouched(1, own(known, known / "ants"), "8")
    untouched(2, (*own(known, pile), "--size", "3"), "3")


def test_a_class_both_known_and_novel(images: OwnImages) -> None:
    known, pile = sorted(images.labelled.glob("ants/*")), sorted(images.pile.glob("monday/*"))
    Path("known.csv").write_text("path,label\n" + "".join(f"{path},ant\n" for path in known))
    Path("pile.csv").write_text("path,label\n" + "".join(f"{path},ant\n" for path in pile))
    untouched(1, own("known.csv", "pile.csv"), "'ant'")


def test_damaged_files_of_a_run(run: Finished, images: OwnImages, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run.path, tmp_path / "copy"))
    checkpoint = copy / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1000])
    refused(1, ("discover", "iic", *DIGITS, *TINY, "--out", copy, "--resume"), str(checkpoint))
    refused(1, ("predict", copy, images.pile), str(checkpoint))
    shutil.copy(run.path / "checkpoint.safetensors", checkpoint)
    for name in ("results.json", "config.json"):
        (copy / name).write_text('{"x": 1}')
        refused(1, ("report", copy, "--figures", "out"), str(copy / name))
    assert not Path("out").exists()


def test_pretrained_weights(run: Finished, own_run: Finished, images: OwnImages) -> None:
    (other_classes,) = (own_run.path.parent / "pretrained").glob("*.safetensors")
    call = ("discover", "iic", *DIGITS, *TINY)
    untouched(1, (*call, "--pretrained", other_classes), "h.prototypes")
    Path("garbage.safetensors").write_bytes(b"\x07" * 500)
    Path("garbage.pth").write_bytes(b"\x07" * 500)
    torch.save({"state_dict": {"something.weight": torch.zeros(2)}}, "stranger.pth")
    for name in ("garbage.safetensors", "garbage.pth", "stranger.pth", "nowhere.pth", "nowhere.safetensors"):
        untouched(1, (*call, "--pretrained", name), name)
    untouched(1, (*call, "--pretrained", images.pile), str(images.pile))


def test_a_file_where_the_run_should_be(images: OwnImages, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before an image is read."""
    Path("file").write_text("precious")
    for module in ("discover", "research"):
        monkeypatch.delattr(f"newfound.cli.{module}.load", raising=False)
    for call in (
        ("discover", *images.options),
        ("estimate", *images.options[:4]),
        ("calibrate", "iic", "alpha=0.1,0.2", *images.options[:4]),
        ("compare", "iic", "--data", "digits"),
    ):
        refused(1, (*call, "--out", "file/run"), "file is a file", "Choose another")
    assert Path("file").read_text() == "precious"


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("run-\udcff", "is not valid UTF-8"),
        ("d/" * 2000, "Cannot write"),
        ("d" * 5000, "File name too long"),
    ],
)
def test_a_folder_that_cannot_be(out: str, words: str) -> None:
    done = newfound("discover", "iic", *DIGITS, *TINY, "--out", out)
    assert done.code in (1, 2)
    assert done.err.startswith("error: ")
    assert words in done.err
    assert done.err.count("\n") == 1


def test_a_folder_that_holds_something_else(run: Finished) -> None:
    Path("mine").mkdir()
    Path("mine/report.html").write_text("precious")
    refused(2, ("discover", "iic", *DIGITS, *TINY, "--out", "mine"), "report.html", "Choose another --out.")
    assert Path("mine/report.html").read_text() == "precious"
    Path("empty").mkdir()
    for path in ("empty", "nowhere"):
        for call in (
            ("report", path),
            ("predict", path, "."),
            ("report", run.path, "--figures", "o", "--compare", path),
        ):
            refused(2, call, f"There is no run in {path}.")
    assert contents(Path("empty")) == {}
    refused(1, ("predict", run.path, "empty"), "empty")
    refused(1, ("predict", run.path, "nothing"), "nothing", "does not exist")
