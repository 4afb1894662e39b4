"""Every mistake a person can make: one line, the right exit code, nothing written, nothing lost."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from newfound.engine.checkpoint import Checkpoint
from tests.cli.calls import DIGITS, TINY, UNTRAINED, changed, contents, newfound, refused, works
from tests.cli.conftest import Finished, OwnImages

OUT = ("--out", "out/run")


def untouched(code: int, arguments: tuple[str | Path, ...], *words: str) -> None:
    """Refused, and not a trace of the run that was asked for."""
    refused(code, (*arguments, *OUT), *words)
    assert not Path("out").exists()


@pytest.mark.parametrize("verb", ["pretrain", "discover"])
@pytest.mark.parametrize(
    ("method", "setting", "words"),
    [
        ("icc", "epochs=1", ("unknown method 'icc'", "'iic'", "newfound methods")),
        ("iic", "alfa=1", ("unknown setting 'alfa'", "'alpha'", "newfound methods iic")),
        ("iic", "pretrain.alpha=1", ("unknown setting 'pretrain.alpha'", "newfound methods iic")),
        ("iic", "heads=two", ("heads", "integer", "'two'", "newfound methods iic")),
        ("iic", "lr=0", ("lr", "greater than 0", "'0'")),
        ("iic", "lr=nan", ("lr", "finite number", "'nan'")),
        ("iic", "epochs=-1", ("epochs", "greater than or equal to 0", "'-1'")),
        ("iic", "pretrain.epochs=1.5", ("pretrain.epochs", "integer", "'1.5'")),
        ("iic", "batch_size=0", ("batch_size", "greater than or equal to 1", "'0'")),
        ("iic", "intra=kl", ("intra", "'skld'", "'mse'", "'kl'")),
        ("iic", "epochs", ("key=value", "'epochs'", "epochs=50")),
        ("iic", "=3", ("key=value", "'=3'")),
        ("iic", "device=toaster", ("device", "cpu", "'toaster'", "device=auto")),
        ("iic", "device=meta", ("device", "cpu", "'meta'", "device=auto")),
        ("iic", "mode=graph", ("mode graph", "GPU", "cpu", "leave it out")),
        ("iic", "momentum=1", ("momentum", "less than 1", "'1'")),
        ("iic", "min_lr=5", ("min_lr must be at most lr, 0.1", "got 5.0", "lower it")),
        ("iic", "pretrain.min_lr=5", ("pretrain.min_lr must be at most pretrain.lr", "got 5.0")),
        ("iic", "lr_falls=0.75,0.5", ("lr_falls: must be shares", "0.5,0.75", "got '0.75,0.5'")),
        ("iic", "lr_falls=1.0", ("lr_falls: must be shares", "got '1.0'")),
        ("iic", "lr_falls=0.5,nan", ("lr_falls: must be shares", "got '0.5,nan'")),
        ("iic", "lr_falls=often", ("lr_falls: must be shares", "got 'often'")),
        ("iic", "precision=fp16", ("fp16", "GPU", "precision=float32")),
        ("iic", "encoder=smal", ("unknown encoder 'smal'", "'small'", "resnet18")),
        ("iic", "augmentation=v3", ("unknown augmentation recipe 'v3'", "weak", "v2")),
        ("iic", "pretrain.augmentation=v3", ("unknown augmentation recipe 'v3'", "weak", "v2")),
        ("iic", "batch_size=1", ("batch_size", "at least 2", "got 1")),
    ],
)
def test_settings(verb: str, method: str, setting: str, words: tuple[str, ...]) -> None:
    untouched(2, (verb, method, *DIGITS, *changed(TINY, setting)), *words)


@pytest.mark.parametrize("arguments", [("--out", ""), ("--out=",), ("",)])
def test_an_empty_argument(arguments: tuple[str, ...]) -> None:
    """As of a variable that is not set: it must not stand for the present folder."""
    before = sorted(Path().iterdir())
    refused(2, ("discover", *DIGITS, *TINY, *arguments), "must not be empty", "variable of the shell")
    assert sorted(Path().iterdir()) == before


def test_small_crops_asked_for_by_name_too() -> None:
    call = ("discover", "iic", *DIGITS, *TINY, "small_crops=2", "augmentation=v1")
    untouched(2, call, "'v1'", "without small crops")


def test_a_method_that_trains_nothing_has_no_epochs() -> None:
    call = ("discover", "kmeans", *DIGITS, *UNTRAINED, "epochs=5")
    untouched(2, call, "epochs must be 0 for kmeans", "got 5", "leave it out")


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    untouched(
        2, ("discover", "iic", *DIGITS, *changed(TINY, "device=cuda")), "'cuda'", "0 GPUs", "device=cpu"
    )
    untouched(
        2, ("discover", "iic", *DIGITS, *changed(TINY, "device=cuda:7")), "'cuda:7'", "0 GPUs", "device=cpu"
    )


@pytest.mark.parametrize("time", ["soon", "9", "-1m", "1d"])
def test_stop_after(time: str) -> None:
    call = ("discover", "iic", *DIGITS, *TINY, f"--stop-after={time}")
    untouched(
        2, call, f"invalid value for '--stop-after': must be a time such as 90s, 9m or 1.5h; got {time!r}"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("digit", ("unknown benchmark 'digit'", "'digits'", "newfound data")),
        ("cifar100-100", ("unknown benchmark 'cifar100-100'", "K from 1 to 99")),
    ],
)
def test_an_unknown_benchmark(name: str, words: tuple[str, ...]) -> None:
    untouched(2, ("discover", "iic", "--data", name, *TINY), *words)


@pytest.mark.parametrize(
    "folder", [("--data-dir", "empty"), ("--data-dir", "nowhere"), ()], ids=["empty", "missing", "not given"]
)
def test_a_benchmark_without_its_files(folder: tuple[str, ...]) -> None:
    Path("empty").mkdir()
    where = folder[1:] or ("--data-dir",)
    untouched(1, ("discover", "iic", "--data", "cifar10", *folder, *TINY), "cifar-10-binary.tar.gz", *where)


def test_no_images_are_named() -> None:
    untouched(2, ("discover", "iic", *TINY), "--data NAME", "--labelled", "--unlabelled", "--num-novel")


def test_a_benchmark_and_own_images(images: OwnImages) -> None:
    untouched(2, ("discover", "iic", *DIGITS, *images.options, *TINY), "--data", "--labelled", "--num-novel")
    untouched(2, ("discover", "iic", *DIGITS, "--num-novel", "0", *TINY), "--data", "--num-novel")
    untouched(2, ("discover", "iic", *DIGITS, "--size", "16", *TINY), "--data", "--size")
    untouched(2, ("discover", "iic", *images.options, "--data-dir", ".", *TINY), "--data-dir", "own images")


def own(labelled: object, unlabelled: object, num_novel: object = 2) -> tuple[str, ...]:
    paths = ("--labelled", str(labelled), "--unlabelled", str(unlabelled))
    return ("discover", "iic", *paths, "--num-novel", str(num_novel), *TINY, "encoder=small")


@pytest.mark.parametrize("number", [0, -3])
def test_no_novel_class(images: OwnImages, number: int) -> None:
    untouched(2, own(images.labelled, images.pile, number), "at least 1", f"got {number}")


@pytest.mark.parametrize("number", [21, 10**9])
def test_more_novel_classes_than_unlabelled_images(images: OwnImages, number: int) -> None:
    call = own(images.labelled, images.pile, number)
    untouched(1, call, "unlabelled images", "novel classes", f"20 images for {number}", "fewer classes")


def test_the_same_images_labelled_and_unlabelled(images: OwnImages) -> None:
    both = ("labelled or unlabelled", "as both", "a place of their own")
    untouched(1, own(images.labelled, images.labelled), "24", *both)
    untouched(1, own(images.labelled, images.labelled / "ants"), "8", *both)
    Path("link").symlink_to(images.labelled / "ants")
    untouched(1, own(images.labelled, "link"), "8", *both)


def test_a_class_both_known_and_novel(images: OwnImages) -> None:
    known, pile = sorted(images.labelled.glob("ants/*")), sorted(images.pile.glob("monday/*"))
    Path("known.csv").write_text("path,label\n" + "".join(f"{path},ant\n" for path in known))
    Path("pile.csv").write_text("path,label\n" + "".join(f"{path},ant\n" for path in pile))
    untouched(1, own("known.csv", "pile.csv"), "known and novel classes must not overlap", "'ant'")


def test_folders_that_are_not_what_they_should_be(images: OwnImages) -> None:
    Path("empty").mkdir()
    Path("hollow/class").mkdir(parents=True)
    Path("words.png").write_text("no image")
    known, pile = images.labelled, images.pile
    untouched(1, own("empty", pile), "empty", "one folder of images for each known class")
    untouched(1, own("hollow", pile), "hollow", "1 folders without images")
    untouched(1, own(known / "ants", pile), "8 images outside", "sort the images into folders")
    untouched(1, own("nowhere", pile), "labelled", "nowhere", "does not exist")
    untouched(1, own(known / "ants" / "00.png", pile), "00.png", "got one image", "the folder above")
    untouched(1, own(known, "empty"), "empty", "must hold images", ".png")
    untouched(1, own(known, "nowhere"), "unlabelled", "nowhere", "does not exist")
    untouched(1, own(known, "words.png", 1), "words.png", "readable images")
    untouched(2, (*own(known, pile), "--size", "3"), "size", "at least 8", "got 3")


def test_an_existing_run_stays_as_it_is(run: Finished, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "copy")
    before = contents(copy)
    call = ("discover", "iic", *DIGITS, *TINY, "--out", copy)
    refused(2, call, str(copy), "holds a run already", "--resume", "another --out")
    refused(
        2, (*call, "--resume", "alpha=0.5", "seed=3"), "as it was started", "other values for alpha, seed"
    )
    refused(2, ("discover", "uno-v2", *call[2:], "--resume"), "other values for", "method")
    refused(2, (*call, "--resume", "--subset", "13"), "other values for subset")
    assert contents(copy) == before


def test_a_damaged_checkpoint(run: Finished, images: OwnImages, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "copy")
    checkpoint = copy / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1000])
    before = {path: data for path, data in contents(copy).items() if path.parent == copy}
    words = (str(checkpoint), "must be a checkpoint of newfound", "train again")
    refused(1, ("discover", "iic", *DIGITS, *TINY, "--out", copy, "--resume"), *words)
    refused(1, ("evaluate", copy), *words)
    refused(1, ("predict", copy, images.pile), *words)
    assert {path: data for path, data in contents(copy).items() if path.parent == copy} == before


def test_a_damaged_config(run: Finished, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "copy")
    config = copy / "config.json"
    for text in ("{", "[]", "{}", '{"method": "iic", "data": {"size_of_moon": 1}, "settings": {}}'):
        config.write_text(text)
        refused(1, ("evaluate", copy), str(config), "must be the JSON")


def test_pretrained_weights_that_do_not_fit(run: Finished, own_run: Finished) -> None:
    (other_classes,) = (own_run.path.parent / "pretrained").iterdir()
    call = ("discover", "iic", *DIGITS, *TINY)
    fit = ("do not fit this encoder and task", "of another shape")
    untouched(1, (*call, "--pretrained", other_classes), *fit, "h.prototypes (3, 128) (need (5, 128))")
    wide, mine = changed(call, "hidden=64"), run.path / "checkpoint.safetensors"
    untouched(1, (*wide, "--pretrained", mine), *fit, "g.hidden_weight")
    large = (*call, "encoder=resnet18-cifar")
    untouched(1, (*large, "--pretrained", other_classes), "do not fit", "missing: encoder.")


def test_pretrained_weights_that_are_none(images: OwnImages) -> None:
    Path("garbage.safetensors").write_bytes(b"\x07" * 500)
    Path("garbage.pth").write_bytes(b"\x07" * 500)
    torch.save({"state_dict": {"something.weight": torch.zeros(2)}}, "stranger.pth")
    call = ("discover", "iic", *DIGITS, *TINY, "--pretrained")
    untouched(1, (*call, "garbage.safetensors"), "garbage.safetensors", "must be a checkpoint")
    untouched(1, (*call, "garbage.pth"), "garbage.pth", "state dict")
    untouched(1, (*call, "stranger.pth"), "stranger.pth", "encoder.*", "something.weight")
    untouched(1, (*call, "nowhere.pth"), "nowhere.pth", "found none")
    untouched(1, (*call, "nowhere.safetensors"), "nowhere.safetensors", "found none")
    untouched(1, (*call, images.pile), str(images.pile))


def test_a_file_where_the_run_should_be(
    run: Finished, images: OwnImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before an image is read."""
    Path("file").write_text("precious")
    monkeypatch.delattr("newfound.experiment.source.load_own")
    own, words = images.options[:4], ("must be in a folder that can be written", "file is a file")
    for out in ("file", "file/run"):
        for call in (
            ("discover", *images.options),
            ("discover", *own),
            ("estimate", *own),
            ("calibrate", "iic", "alpha=0.1,0.2", *own),
        ):
            refused(1, (*call, "--out", out), *words, "choose another")
    refused(2, ("figures", run.path, "--out", "file"), "--out must be a folder", "the file file")
    assert Path("file").read_text() == "precious"


def test_a_full_disk_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write of a checkpoint from the second on fails; resuming goes on from the first."""
    call = ("discover", "iic", *DIGITS, *changed(TINY, "checkpoint_seconds=0", "epochs=3"), "--out", "run")
    flush, replace = os.fsync, os.replace
    written: list[str] = []

    def fsync(file: int) -> None:
        if "checkpoint.safetensors" in written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(file)

    def replaced(source: Path, target: Path) -> None:
        replace(source, target)
        written.append(target.name)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        patch.setattr(os, "replace", replaced)
        refused(
            1,
            call,
            "must be writable",
            "No space left on device",
            "unharmed",
            "then repeat the call, with --resume\n",
        )
    assert not list(Path("run").glob(".*"))
    assert Checkpoint.load(Path("run/checkpoint.safetensors")).state["stage"] == "pretrain"
    works(*call, "--resume")
    assert Checkpoint.load(Path("run/checkpoint.safetensors")).state["epoch"] == 3


def test_what_is_no_run(images: OwnImages, run: Finished) -> None:
    Path("empty").mkdir()
    Path("file").touch()
    for path in ("empty", "nowhere", "file"):
        none = (path, "found no config.json", "check the path")
        refused(2, ("evaluate", path), *none)
        refused(2, ("figures", path), *none)
        refused(2, ("report", path), *none)
        refused(2, ("figures", "--compare", path, run.path, "--out", "out"), *none)
        refused(2, ("predict", path, images.pile), *none)
    assert not list(Path("empty").iterdir())
    assert not Path("out").exists()


def test_predict_without_images(run: Finished) -> None:
    Path("empty").mkdir()
    refused(1, ("predict", run.path, "empty"), "empty", "must hold images")
    refused(1, ("predict", run.path, "nowhere"), "the new images", "nowhere", "does not exist")
    assert not (run.path / "predictions.csv").exists()


def test_predict_with_the_images_first(run: Finished, images: OwnImages) -> None:
    refused(
        2, ("predict", images.pile, run.path), "the run first", f"newfound predict {run.path} {images.pile}"
    )


def test_predictions_lose_no_file(run: Finished, images: OwnImages, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "copy")
    (copy / "predictions.csv").write_text("mine")
    refused(2, ("predict", copy, images.pile), "is there already", "another name with --out")
    assert (copy / "predictions.csv").read_text() == "mine"


def test_a_table_whose_columns_nobody_knows(images: OwnImages) -> None:
    Path("known.csv").write_text(f"file,kind\n{images.labelled / 'ants' / '00.png'},ant\n")
    untouched(1, own("known.csv", images.pile), "a column path or image", "'file,kind'", "name the column")


def test_figures_needs_one_run_or_two(run: Finished) -> None:
    refused(2, ("figures",), "--compare RUN_A RUN_B", "neither")
    refused(2, ("figures", run.path, "--compare", run.path, run.path), "--compare RUN_A RUN_B", "both")


def test_a_report_replaces_nothing_but_reports(run: Finished, tmp_path: Path) -> None:
    Path("mine.html").write_text("mine")
    refused(2, ("report", run.path, "--out", "mine.html"), "mine.html is something else", "another --out")
    assert Path("mine.html").read_text() == "mine"
    copy = shutil.copytree(run.path, tmp_path / "copy")
    for strange in ("[]", "{}", "3", "no JSON"):
        (copy / "results.json").write_text(strange)
        refused(1, ("report", copy), "must be the JSON that newfound wrote", "remove it and repeat")
    (copy / "results.json").unlink()
    refused(2, ("report", copy), "must hold a finished run", "no results.json", "--resume")


def test_damaged_metrics(run: Finished, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "copy")
    for strange in ('{"x": 1}\n', '{"stage": "disc', "[]\n"):
        (copy / "metrics.jsonl").write_text(strange)
        refused(1, ("figures", copy, "--out", "out"), "metrics.jsonl must be the JSON", "another copy")
    (copy / "metrics.jsonl").unlink()
    refused(1, ("figures", copy, "--out", "out"), "metrics.jsonl must be the JSON", "No such file")


def test_an_estimate_without_its_run_and_a_run_instead_of_an_estimate(
    run: Finished, images: OwnImages
) -> None:
    Path("begun/estimate").mkdir(parents=True)
    refused(2, ("report", "begun"), "only an estimate there", "finish the run with --resume")
    refused(2, ("estimate", *DIGITS, "--out", run.path), "must be a new folder", "it holds a run already")


def test_a_page_of_somebody_else_is_in_the_way_of_a_run() -> None:
    Path("mine").mkdir()
    Path("mine/report.html").write_text("precious")
    refused(2, ("discover", "iic", *DIGITS, *TINY, "--out", "mine"), "it holds report.html", "another --out")
    assert Path("mine/report.html").read_text() == "precious"


def test_a_report_of_a_benchmark(run: Finished) -> None:
    assert works("report", run.path, "--out", "page.html") == "written: page.html\n"
    page = Path("page.html").read_text(encoding="utf-8")
    acc = json.loads((run.path / "results.json").read_text())["task_aware"]["train"]["acc"]["best_head"]
    assert f"{100 * acc:.1f} % of the" in page
    assert "newfound discover iic" in page


def test_figures_of_a_comparison_replace_nothing(run: Finished) -> None:
    Path("figures").mkdir()
    Path("figures/tsne.png").write_text("precious")
    call = ("figures", "--compare", run.path, run.path)
    refused(2, call, "figures must be a new folder", "it holds tsne.png", "choose another --out")
    assert Path("figures/tsne.png").read_text() == "precious"


def test_figures_of_runs_on_other_classes(run: Finished, own_run: Finished) -> None:
    refused(
        2, ("figures", "--compare", run.path, own_run.path, "--out", "out"), "the same classes", "each alone"
    )
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("bogus",), ("bogus",)),
        (("discover",), ("needs images", "--labelled")),
        (("discover", "iic", "--bogus"), ("--bogus", "newfound discover --help")),
        (("discover", "iic", "--track", "matched"), ("--track", "if it is a setting, write track=VALUE")),
        (("bench", "--batch-size=8"), ("--batch-size", "write batch_size=VALUE")),
        (("merge", "run", "-dash", "novel-1"), ("option: -d", "write -- before names that begin with -")),
        (("bench", "heads=two"), ("heads", "integer", "'two'", "newfound methods iic")),
        (("discover", "iic", "--data"), ("--data", "argument")),
        (("discover", "iic", "--subset", "0"), ("--subset",)),
        (("discover", "iic", "--num-novel", "many"), ("--num-novel", "integer")),
        (("demo", "--seed", "-1"), ("--seed",)),
        (("demo", "extra"), ("extra",)),
        (("predict", "run"), ("missing argument", "newfound predict --help")),
        (("figures", "--compare", "run"), ("--compare", "2")),
        (("methods", "icc"), ("unknown method 'icc'", "'iic'")),
    ],
    ids=lambda value: " ".join(value),
)
def test_calls_that_are_wrong(call: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(2, call, *words)
    assert not list(Path().iterdir())


def test_what_is_no_setting_is_not_called_one() -> None:
    for call in (("discover", "iic", "--data"), ("evaluate", "run", "--bogus")):
        assert "setting" not in newfound(*call).err


def test_memory_that_runs_out_where_nothing_is_trained(
    run: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("newfound.engine.evaluator.Evaluator.__call__", fail)
    refused(1, ("evaluate", run.path), "must fit into memory", "free some", "where the command takes them")


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line is for what a person can mend; anything else keeps its traceback."""
    monkeypatch.setattr("newfound.cli.look.method_names", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        newfound("methods")
