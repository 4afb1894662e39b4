"""A tiny benchmark from the command's arguments to its JSON, and what it refuses."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from newfound.bench import record as bench_parts
from newfound.bench.machine import Machine
from newfound.bench.scale import Scale
from newfound.bench.setup import PARTS
from newfound.cli.bench import bench
from newfound.core.errors import UsageError
from newfound.core.registry import method_names, recipe_for

TINY = Scale(0.0, 1, 60, (3, 5), (4, 6), 3, 16, (80, 4, (4, 5)), {"encoder": "small", "batch_size": 8})
SETTINGS = ["batch_size=8", "hidden=16", "projection=8", "heads=2", "device=cpu"]
MAY_BE_ZERO = {"compile_seconds", "largest_loss_difference"}
SPEED = {"ms", "images_per_second", "tflops", "share_of_matrix_product", "peak_memory_gib", "split_ms"}
SPLIT = ["augmentation", "forward", "backward", "optimiser"]
RATIO = {"ours_ms", "straightforward_ms", "times_as_long"}
PROVENANCE = {"commit", "versions", "hardware"}


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newfound.bench.scale.SMALL", TINY)
    monkeypatch.setattr("newfound.bench.baseline.loading.MOST_WORKERS", 1)


def _positive(value: Any) -> bool:
    """Every number in a record is above zero, but nothing was compiled, and no mode differs from itself."""
    if isinstance(value, dict):
        return all(key in MAY_BE_ZERO or _positive(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(_positive, value))
    return not isinstance(value, float | int) or value > 0


def test_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "records" / "bench.json"
    bench("iic", SETTINGS, out=path)
    record = json.loads(path.read_text())
    head = {"record", "method", "benchmark", "images", "config", "device", "precision", "matrix_product"}
    assert set(record) == {*head, *PROVENANCE, *PARTS, "seconds"}
    assert record["images"].startswith("uniform random pixels")
    assert (
        record["config"]["batch_size"] == record["step"]["batch_size"] == record["terms"]["batch_size"] == 8
    )
    assert record["precision"] == "float32"
    eager = record["step"]["modes"]["eager"]
    assert set(eager) == {*SPEED, "mode", "compile_seconds", "first_losses"}
    assert set(record["baseline"]) == {*SPEED, "network_ms", "precision", "workers", "times_as_long"}
    assert eager["peak_memory_gib"] is record["baseline"]["peak_memory_gib"] is None
    assert list(eager["split_ms"]) == list(record["baseline"]["split_ms"]) == SPLIT
    assert record["baseline"]["times_as_long"] == {"eager": record["baseline"]["ms"] / eager["ms"]}
    assert all(set(record["terms"][term]) == RATIO for term in ("augmentation", "sinkhorn", "losses"))
    assert [(row["N"], row["C"], "loops" in row) for row in record["inter"]] == [
        *((3, C, True) for C in (4, 6)),
        *((5, C, False) for C in (4, 6)),
    ]
    assert set(record["inter"][0]["matrix_product"]) == {
        *("ms", "peak_mib", "times_as_long", "times_as_much_memory")
    }
    assert record["evaluation"]["images"] == 60
    measured = {key: record[key] for key in (*PARTS, "matrix_product", "seconds")}
    assert _positive(measured)
    out = capsys.readouterr().out
    for words in ("step: eager", "straightforward", "sinkhorn", "closed form", "both protocols", str(path)):
        assert words in out


def test_one_part_of_another_method(capsys: pytest.CaptureFixture[str]) -> None:
    bench("uno-v2", [*SETTINGS, "precision=bf16"], parts="step", modes="eager")
    out = capsys.readouterr().out
    assert "uno-v2, cifar10, batch 8" in out
    assert "a matrix product in bfloat16" in " ".join(out.split())
    assert "straightforward" not in out
    assert "written" not in out


def test_the_straightforward_step_is_beside_a_product_of_its_own_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    multiplied = []

    def measured(device: torch.device, precision: torch.dtype, scale: Scale) -> Machine:
        multiplied.append(precision)
        return Machine(device, precision, scale, 1.0)

    monkeypatch.setattr(bench_parts, "measured_machine", measured)
    bench("iic", [*SETTINGS, "precision=bf16"], parts="baseline")
    assert multiplied == [torch.bfloat16, torch.float32]


def test_every_method_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bench.json"
    bench("device=cpu", ["seed=1"], data="digits", parts="methods", modes="eager", out=path)
    measured = json.loads(path.read_text())["methods"]
    for name, row in measured.items():
        small = {"encoder": "small", "batch_size": 8, "device": "cpu", "seed": 1}
        assert row.pop("config") == recipe_for(name, "digits", small).flat()
        assert row["batch_size"] == 8
    assert set(measured) == set(method_names()) - {"kmeans"}
    assert all(each["mode"] == "eager" and _positive(each) for each in measured.values())
    assert "openmix" in capsys.readouterr().out


def test_the_losses_of_every_method_are_compared_where_modes_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(bench_parts, "method_names", lambda: ("rs",))
    path = tmp_path / "bench.json"
    bench("device=cpu", data="digits", parts="methods", modes="eager,compiled", out=path)
    row = json.loads(path.read_text())["methods"]["rs"]
    assert row["mode"] == "compiled"
    assert row["reference"] == {"mode": "eager", "first_losses": row["first_losses"]}
    assert row["largest_loss_difference"] == 0
    assert "losses differ by" in capsys.readouterr().out


def test_the_tolerance_is_told_where_modes_are_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    bench("iic", SETTINGS, data="digits", parts="step", modes="eager,compiled")
    assert "first losses differ by 0 at most; 0.001 is allowed" in capsys.readouterr().out


def test_what_was_measured_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Iterator[None]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setitem(bench_parts._MEASURES, "evaluation", interrupted)
    path = tmp_path / "bench.json"
    with pytest.raises(KeyboardInterrupt):
        bench("iic", SETTINGS, parts="inter,evaluation", out=path)
    assert not path.exists()
    assert len(json.loads((tmp_path / "bench.part").read_text())["inter"]) == 4


def test_the_mode_that_ran_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(function: object, **_: object) -> Callable[..., None]:
        def fail(*arguments: object) -> None:
            raise torch._dynamo.exc.TorchDynamoException("no compiler")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    path = tmp_path / "bench.json"
    bench("iic", SETTINGS, parts="step", modes="compiled", out=path)
    assert list(json.loads(path.read_text())["step"]["modes"]) == ["compiled, ran eager"]
    assert "compiled, ran eager" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"modes": "eagre"}, ("unknown mode 'eagre'", "did you mean 'eager'")),
        ({"modes": "graph"}, ("mode graph needs a GPU",)),
        ({"parts": "stepp"}, ("unknown part 'stepp'", "did you mean 'step'", "baseline")),
        ({"parts": "baseline", "method": "uno-v2"}, ("part baseline", "got method uno-v2", "leave the part")),
        ({"parts": "terms", "data": "digits"}, ("part terms", "images of kind digits")),
        ({"parts": "baseline", "settings": ["intra=mse"]}, ("got intra=mse",)),
        ({"parts": "baseline", "settings": ["augmentation=v1", "small_crops=0"]}, ("got small_crops=0",)),
        (
            {"parts": "step,methods", "settings": ["batch_size=8", "pretrain.lr=1"]},
            ("part methods must be of the run", "got batch_size, pretrain.lr;"),
        ),
        ({"method": "kmeans"}, ("must train", "kmeans", "try iic")),
        ({"method": "icc"}, ("unknown method 'icc'", "did you mean 'iic'")),
        ({"data": "cifar11"}, ("unknown benchmark 'cifar11'",)),
        ({"out": Path("bench.txt")}, ("--out must be a new .json file", "bench.txt")),
    ],
    ids=lambda value: "" if isinstance(value, tuple) else "-".join(map(str, value.values())),
)
def test_refused_before_anything_is_measured(call: dict[str, Any], words: tuple[str, ...]) -> None:
    given = {"settings": [], **call}
    given["settings"] = [*given["settings"], "device=cpu"]
    with pytest.raises(UsageError) as error:
        bench(**given)
    assert all(word in str(error.value) for word in words), error.value
