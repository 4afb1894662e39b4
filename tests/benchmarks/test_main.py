"""A tiny benchmark from the command line to its JSON, and the calls that are refused."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import parts
from benchmarks.__main__ import main
from benchmarks.measure import Machine
from benchmarks.record import Record
from benchmarks.setup import ON_REQUEST, PARTS, Scale
from newfound.core.registry import method_names, recipe_for
from tests.cli.calls import works
from tests.marks import SLOW

pytestmark = pytest.mark.slow

RECORDS = sorted((Path(__file__).parents[2] / "results" / "bench").glob("*.json"))
TINY = Scale(
    *(0.0, 1, 60, (3, 5), (4, 6), 3, 16, (80, 4, (4, 5)), 4, 1, (3, 5), (10, 8, 40)),
    {"encoder": "small", "batch_size": 8},
)
SETTINGS = ("batch_size=8", "hidden=16", "projection=8", "heads=2", "device=cpu")
MAY_BE_ZERO = {"compile_seconds", "largest_loss_difference"}
Bench = Callable[..., Record]
SPLIT = ["augmentation", "forward", "backward", "optimiser"]


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.setup.SMALL", TINY)
    monkeypatch.setattr("benchmarks.baseline.loading.MOST_WORKERS", 1)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """The command line; returns the record that it wrote."""

    def run(*arguments: str) -> Record:
        path = tmp_path / "records" / "bench.json"
        main([*arguments, "--out", str(path)])
        return Record.model_validate_json(path.read_text())

    return run


def _positive(value: object) -> bool:
    """Every number is above zero, except those that may be zero."""
    if isinstance(value, dict):
        return all(key in MAY_BE_ZERO or _positive(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(_positive, value))
    return not isinstance(value, float | int) or value > 0


def test_all_parts(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    record = bench("iic", *SETTINGS)
    assert record.step
    assert record.baseline
    assert record.terms
    assert record.inter
    assert record.evaluation
    assert record.model_fields_set == set(Record.model_fields) - {*ON_REQUEST, "note"}
    assert record.config["batch_size"] == record.step.batch_size == record.terms.batch_size == 8
    assert record.precision == "float32"
    eager = record.step.modes["eager"]
    assert eager.peak_memory_gib is record.baseline.peak_memory_gib is None
    assert list(eager.split_ms or ()) == list(record.baseline.split_ms) == SPLIT
    assert record.baseline.times_as_long == {"eager": record.baseline.ms / eager.ms}
    sizes = [(row.N, row.C, row.loops is not None) for row in record.inter]
    assert sizes == [(3, 4, True), (3, 6, True), (5, 4, False), (5, 6, False)]
    assert record.evaluation.images == 60
    assert _positive(record.model_dump(include={*PARTS, "matrix_product", "seconds"}))
    out = capsys.readouterr().out
    for words in (
        "eager",
        "straightforward, 1 workers",
        "sinkhorn",
        "closed form",
        "both protocols",
        "plain",
    ):
        assert words in out


def test_one_part_of_another_method(capsys: pytest.CaptureFixture[str]) -> None:
    main(["uno-v2", *SETTINGS, "precision=bf16", "--parts", "step", "--modes", "eager"])
    out = capsys.readouterr().out
    assert "uno-v2, cifar10, batch 8" in out
    assert "a matrix product in bfloat16" in " ".join(out.split())
    assert "straightforward" not in out
    assert "written" not in out


def test_the_straightforward_step_is_compared_with_a_product_of_its_own_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    multiplied = []

    def measured(device: torch.device, precision: torch.dtype, scale: Scale) -> Machine:
        multiplied.append(precision)
        return Machine(device, precision, scale, 1.0)

    monkeypatch.setattr(parts, "measured_machine", measured)
    main(["iic", *SETTINGS, "precision=bf16", "--parts", "baseline"])
    assert multiplied == [torch.bfloat16, torch.float32]


@SLOW
def test_every_method_on_request(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    measured = bench("device=cpu", "seed=1", "--data", "digits", "--parts", "methods").methods or {}
    for name, row in measured.items():
        small = {"encoder": "small", "batch_size": 8, "device": "cpu", "seed": 1}
        assert row.config == recipe_for(name, "digits", small).flat()
        assert row.batch_size == 8
        assert row.mode == "eager"
        assert _positive(row.model_dump(exclude={"config"}))
    assert set(measured) == set(method_names()) - {"centroids", "kmeans"}
    assert "openmix" in capsys.readouterr().out


def test_embedding_on_request(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("pyarrow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("newfound.engine.embedding.BATCH", {"cpu": 2})
        record = bench("device=cpu", "--parts", "embed,memory")
    assert list(record.embed or ()) == ["lite0", "ViT-S"]
    assert [row.images for row in record.memory or ()] == [3, 5]
    assert _positive(record.model_dump(include={"embed", "memory"}))
    assert "plain loop, 1 workers" in capsys.readouterr().out


def test_whole_calls_on_request(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(*words: str) -> SimpleNamespace:
        works(*words)
        return SimpleNamespace(wait=lambda: 0)

    monkeypatch.setattr("benchmarks.discover.started", called)  # in this process, which has imported torch
    record = bench("device=cpu", "--parts", "evaluation,discover")
    assert [row.images for row in record.discover or ()] == [370, 370, 370, 40]
    assert "to the page" in capsys.readouterr().out


def test_the_losses_of_two_modes_are_compared(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(parts, "method_names", lambda: ("rs",))
    record = bench("device=cpu", "--data", "digits", "--parts", "step,methods", "--modes", "eager,compiled")
    assert record.step
    assert record.step.largest_loss_difference == 0
    row = (record.methods or {})["rs"]
    assert row.mode == "compiled"
    assert row.reference
    assert (row.reference.mode, row.reference.first_losses) == ("eager", row.first_losses)
    assert row.largest_loss_difference == 0


def test_an_interruption_keeps_the_measured_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Iterator[None]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setitem(parts.MEASURES, "evaluation", interrupted)
    path = tmp_path / "bench.json"
    with pytest.raises(KeyboardInterrupt):
        main(["iic", *SETTINGS, "--parts", "inter,evaluation", "--out", str(path)])
    assert not path.exists()
    assert len(json.loads((tmp_path / "bench.part").read_text())["inter"]) == 4


def test_a_fallback_to_another_mode_is_recorded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(function: object, **_: object) -> Callable[..., None]:
        def fail(*arguments: object) -> None:
            raise torch._dynamo.exc.TorchDynamoException("no compiler")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    record = bench("iic", *SETTINGS, "--parts", "step", "--modes", "compiled")
    assert record.step
    assert list(record.step.modes) == ["compiled, ran eager"]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_committed_records_are_read_and_written_unchanged(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert Record.model_validate_json(text).to_json() == json.loads(text)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--modes eagre", "Unknown mode 'eagre'. Did you mean 'eager'?"),
        ("--modes graph", "graph"),
        ("--parts stepp", "Unknown part 'stepp'. Did you mean 'step'?"),
        ("uno-v2 --parts baseline", "Part baseline .* cannot be measured with method uno-v2"),
        ("--parts terms --data digits", "images of kind digits"),
        ("--parts baseline augmentation=v1 small_crops=0", "small_crops=0"),
        ("--parts methods batch_size=8 pretrain.lr=1", "got batch_size, pretrain.lr"),
        ("kmeans", "kmeans has no training step"),
        ("icc", "iic"),
        ("--data cifar11", "cifar10"),
        ("--out bench.txt", "new .json file"),
        ("iic rs", "one method"),
    ],
)
def test_refused_before_anything_is_measured(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.__main__.measure", None)
    with pytest.raises(SystemExit) as stopped:
        main([*arguments.split(), "device=cpu"])
    assert stopped.value.code == 2
    assert re.search(words, capsys.readouterr().err)
