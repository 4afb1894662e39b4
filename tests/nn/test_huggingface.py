"""Models of Hugging Face transformers: tiny random ones, saved and loaded again; nothing is downloaded."""

import builtins
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import newfound
from newfound.core.encoder import Preprocessing
from newfound.core.errors import CheckpointError, UsageError
from newfound.core.registry import recipe_for
from newfound.nn.encoders import build_encoder, huggingface, preprocessing_of
from newfound.run.folder import Folder
from newfound.run.trained import Trained
from tests.tiny import NARROW, TINY, stripes

pytestmark = pytest.mark.slow

WIDTH, SIDE = 16, 32
LAYERS = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
PATCHES = {"image_size": SIDE, "patch_size": 8}
TEXT = {**LAYERS, "vocab_size": 64, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
STEPS = {"hidden_sizes": [8, 8, 8, WIDTH], "depths": [1, 1, 1, 1]}
CONFIGS: Mapping[str, dict[str, Any]] = {
    "vit": {**LAYERS, **PATCHES},
    "dinov2": {**LAYERS, **PATCHES},
    "dinov3_vit": {**LAYERS, **PATCHES},
    "vit_mae": {**LAYERS, **PATCHES},
    "clip": {"text_config": TEXT, "vision_config": {**LAYERS, **PATCHES}},
    "siglip": {"text_config": TEXT, "vision_config": {**LAYERS, **PATCHES}},
    "convnext": STEPS,
    "resnet": {**STEPS, "embedding_size": 8, "layer_type": "basic"},
    "swin": {
        "embed_dim": 8,
        "depths": [1, 1],
        "num_heads": [1, 2],
        "window_size": 4,
        **PATCHES,
        "patch_size": 4,
    },
}
SIZES = {"size": {"shortest_edge": 40}, "crop_size": {"height": SIDE, "width": SIDE}, "do_center_crop": True}
COLOURS = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25]}
LOOK = Preprocessing(SIDE, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), shorter=40)
HALF, UNIT = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
IMAGES = torch.rand(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def transformers() -> Any:
    return pytest.importorskip("transformers", reason="transformers is not installed")


def saved(folder: Path, kind: str, transformers: Any) -> Any:
    """A tiny random model in `folder`, with its preprocessing."""
    torch.manual_seed(0)
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **CONFIGS[kind]))
    for name, value in model.named_parameters():
        if name.endswith("cls_token"):
            nn.init.normal_(value)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(SIZES | COLOURS))
    return model.eval()


def expected_features(kind: str, model: Any, images: Tensor) -> Tensor:
    tower = getattr(model, "vision_model", model)
    out = tower(pixel_values=images)
    if kind in ("clip", "siglip"):
        return out.pooler_output  # type: ignore[no-any-return]
    if kind in ("vit", "dinov2", "dinov3_vit"):
        return out.last_hidden_state[:, 0]  # type: ignore[no-any-return]
    if kind == "swin":
        return out.last_hidden_state.mean(1)  # type: ignore[no-any-return]
    mean = out.last_hidden_state.mean((2, 3))
    return model.layernorm(mean) if kind == "convnext" else mean  # type: ignore[no-any-return]


@torch.no_grad()
@pytest.mark.parametrize("kind", [kind for kind in CONFIGS if kind != "vit_mae"])
def test_features_are_the_models_own(kind: str, tmp_path: Path, transformers: Any) -> None:
    model = saved(tmp_path, kind, transformers)
    torch.manual_seed(1)
    encoder = build_encoder(f"hf:{tmp_path}")
    assert encoder.training
    features = encoder.eval()(IMAGES)
    assert features.shape == (3, encoder.dim) == (3, WIDTH)
    torch.testing.assert_close(features, expected_features(kind, model, IMAGES))
    assert not encoder.has_maps
    assert encoder.preprocessing == preprocessing_of(f"hf:{tmp_path}") == LOOK


@torch.no_grad()
def test_a_masked_autoencoder_sees_whole_images(tmp_path: Path, transformers: Any) -> None:
    saved(tmp_path, "vit_mae", transformers)
    encoder = build_encoder(f"hf:{tmp_path}").eval()
    torch.testing.assert_close(encoder(IMAGES), encoder(IMAGES))


@pytest.mark.parametrize("kind", ["vit", "dinov2", "clip", "convnext"])
def test_every_parameter_can_be_trained_and_images_may_have_another_size(
    kind: str, tmp_path: Path, transformers: Any
) -> None:
    saved(tmp_path, kind, transformers)
    encoder = build_encoder(f"hf:{tmp_path}")
    assert encoder(torch.rand(3, 3, 2 * SIDE, 2 * SIDE)).shape == (3, WIDTH)
    encoder(IMAGES).square().sum().backward()
    unused = [name for name, value in encoder.named_parameters() if value.grad is None]
    assert [name for name in unused if "mask_token" not in name] == []


@pytest.mark.parametrize("kind", CONFIGS)
def test_its_last_layer_or_stage_can_be_trained_alone(kind: str, tmp_path: Path, transformers: Any) -> None:
    saved(tmp_path, kind, transformers)
    encoder = build_encoder(f"hf:{tmp_path}")
    encoder.freeze_trunk()
    trained = {name for name, value in encoder.named_parameters() if value.requires_grad}
    last = 3 if kind in ("convnext", "resnet") else 1
    layers = min(trained).partition(f".{last}.")[0]
    assert trained == {name for name, _ in encoder.named_parameters() if name.startswith(f"{layers}.{last}.")}


@pytest.mark.parametrize("trains", ["heads", "last-block"])
@pytest.mark.parametrize("method", ["gcd", "simgcd"])
def test_generalised_discovery_on_it(method: str, trains: str, tmp_path: Path, transformers: Any) -> None:
    """On its vectors, or training its last layer on images: the authors train that of DINO's ViT."""
    saved(tmp_path, "vit", transformers)
    images, kinds = stripes()
    labels = np.where((kinds < 2) & (np.arange(len(kinds)) % 2 == 0), kinds, -1)
    data = newfound.from_arrays(images, labels, 2)
    settings = {**TINY, **NARROW, "encoder": f"hf:{tmp_path}", "trains": trains, "pretrain.epochs": 0}
    results = newfound.discover(method, data, tmp_path / "run", verbose=False, **settings)
    assert (results.pile, results.embedded_by is None) == ("mixed", trains == "last-block")
    assert sum(results.cluster_sizes + (results.known_sizes or [])) + results.unsorted == (labels < 0).sum()
    if trains == "last-block":
        before, after = build_encoder(f"hf:{tmp_path}"), Trained.load(Folder(tmp_path / "run")).method.encoder
        both, last = zip(before.parameters(), after.parameters(), strict=True), {*before.last_parameters}
        assert {old for old, new in both if not torch.equal(old, new)} == last


def test_the_network_is_built_without_its_weights_where_a_checkpoint_follows(
    tmp_path: Path, transformers: Any
) -> None:
    saved(tmp_path, "vit", transformers)
    whole = build_encoder(f"hf:{tmp_path}")
    (tmp_path / "model.safetensors").unlink()
    bare = build_encoder(f"hf:{tmp_path}", pretrained=False)
    bare.load_state_dict(whole.state_dict())
    with pytest.raises(UsageError, match=r"hf:.*safetensors"):
        build_encoder(f"hf:{tmp_path}")


def test_half_precision_is_loaded_as_float32(tmp_path: Path, transformers: Any) -> None:
    saved(tmp_path, "vit", transformers).half().save_pretrained(tmp_path)
    assert {value.dtype for value in build_encoder(f"hf:{tmp_path}").parameters()} == {torch.float32}


def test_incomplete_weights_are_refused(tmp_path: Path, transformers: Any) -> None:
    from safetensors.torch import load_file, save_file

    saved(tmp_path, "dinov2", transformers)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    weights.pop("layernorm.weight")
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"incomplete: layernorm.weight"):
        build_encoder(f"hf:{tmp_path}")


def test_pickles_are_refused(tmp_path: Path, transformers: Any) -> None:
    model = saved(tmp_path, "vit", transformers)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(UsageError, match=r"hf:.*safetensors"):
        build_encoder(f"hf:{tmp_path}")


def test_code_of_a_model_is_never_run(tmp_path: Path, transformers: Any) -> None:
    saved(tmp_path, "vit", transformers)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Own"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(UsageError, match="without code of its own"):
        build_encoder(f"hf:{tmp_path}")
    assert not (tmp_path / "ran").exists()


def test_a_text_model_is_refused(tmp_path: Path, transformers: Any) -> None:
    config = transformers.AutoConfig.for_model("bert", **TEXT)
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="is not a vision model"):
        build_encoder(f"hf:{tmp_path}")


def test_models_come_from_the_cache_with_their_commit(
    tmp_path: Path, transformers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    commit = "0123456789abcdef0123456789abcdef01234567"
    repo = tmp_path / "models--some--model"
    saved(repo / "snapshots" / commit, "vit", transformers)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    encoder = build_encoder("hf:some/model")
    assert encoder.revision == commit
    assert preprocessing_of("hf:some/model") == LOOK
    with pytest.raises(UsageError, match=r"not in the local Hugging Face cache.* hf download some/other"):
        build_encoder("hf:some/other")


def test_the_revision_of_a_folder_is_that_of_its_weights(tmp_path: Path, transformers: Any) -> None:
    model = saved(tmp_path, "vit", transformers)
    first = build_encoder(f"hf:{tmp_path}").revision
    assert first == build_encoder(f"hf:{tmp_path}").revision
    nn.init.ones_(next(model.parameters()))
    model.save_pretrained(tmp_path)
    assert build_encoder(f"hf:{tmp_path}").revision != first


def test_a_folder_is_found_from_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    encoders = {
        name: recipe_for("iic", "", {"encoder": name}).run.encoder
        for name in ("hf:./mine", "hf:some/model", "small", "hf:/mine")
    }
    assert encoders.pop("hf:./mine") == f"hf:{tmp_path / 'mine'}"
    assert all(name == same for name, same in encoders.items())
    with pytest.raises(UsageError, match=r"There is no config.json in"):
        preprocessing_of("hf:./mine")


@pytest.mark.parametrize(
    ("found", "look"),
    [
        (SIZES | COLOURS, LOOK),
        (COLOURS | {"size": {"height": 48, "width": 48}}, Preprocessing(48, HALF, UNIT)),
        (
            COLOURS | {"size": {"shortest_edge": 224}, "crop_pct": 0.875, "resample": 2},
            Preprocessing(224, HALF, UNIT, 256, "bilinear"),
        ),
        (COLOURS | {"size": {"shortest_edge": 384}, "crop_pct": 0.875}, Preprocessing(384, HALF, UNIT)),
        (COLOURS | {"size": 48}, Preprocessing(48, HALF, UNIT)),
        (COLOURS | {"size": 48, "crop_size": 32, "do_center_crop": True}, Preprocessing(32, HALF, UNIT, 48)),
        ({"size": 48, "do_normalize": False}, Preprocessing(48, (0.0,) * 3, (1.0,) * 3)),
        ({"image_processor": SIZES | COLOURS}, LOOK),
        ({}, Preprocessing(96, *huggingface.IMAGENET, shorter=96)),
    ],
)
def test_preprocessing_is_read_without_transformers(
    found: dict[str, Any], look: Preprocessing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    name = "processor_config.json" if "image_processor" in found else "preprocessor_config.json"
    (tmp_path / name).write_text(json.dumps(found))
    (tmp_path / "config.json").write_text(json.dumps({"vision_config": {"image_size": 96}}))
    assert preprocessing_of(f"hf:{tmp_path}") == look


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "is not a config of transformers"),
        ('{"size": [[]]}', "is not a model with valid preprocessing"),
        ('{"image_processor": 5}', "is not a model with valid preprocessing"),
        ('{"image_mean": "no"}', "mean: Input should be a valid tuple"),
    ],
)
def test_a_config_that_says_something_else_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(text)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match=words):
        preprocessing_of(f"hf:{tmp_path}")


def test_without_transformers_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UsageError, match=r"needs transformers: pip install 'newfound\[hf\]'"):
        build_encoder("hf:some/model")


class Linear(nn.Sequential):
    """What a model of timm looks like."""

    num_features = WIDTH

    def __init__(self, **given: Any) -> None:
        super().__init__(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, WIDTH))
        self.given, self.pretrained_cfg = given, {"hf_hub_id": None}


def test_a_model_of_timm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = SimpleNamespace(
        input_size=(3, SIDE, SIDE),
        mean=HALF,
        std=UNIT,
        crop_pct=0.8,
        crop_mode="center",
        interpolation="bicubic",
    )
    timm = SimpleNamespace(
        create_model=lambda _, **given: Linear(**given), get_pretrained_cfg=lambda _: config
    )
    monkeypatch.setitem(sys.modules, "timm", timm)
    monkeypatch.setattr(huggingface, "_snapshot", lambda name: tmp_path)
    assert preprocessing_of("timm:linear") == LOOK
    assert build_encoder("timm:linear", pretrained=False)(IMAGES).shape == (3, WIDTH)
    with pytest.raises(UsageError, match=r"no model.safetensors"):
        build_encoder("timm:linear")
    (tmp_path / "model.safetensors").touch()
    model = build_encoder("timm:linear").model
    assert model.given["pretrained_cfg_overlay"]["file"] == str(tmp_path / "model.safetensors")  # type: ignore[union-attr, index]


def test_where_timm_cannot_be_imported_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = builtins.__import__

    def refuse(name: str, *given: Any) -> Any:
        if name == "timm":
            raise RuntimeError("operator torchvision::nms does not exist")
        return usual(name, *given)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(
        UsageError, match="timm:any needs timm, which cannot be imported: operator torchvision"
    ):
        build_encoder("timm:any")
