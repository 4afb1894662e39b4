"""Models of Hugging Face transformers and timm, from a folder or the local cache, never from the network."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from inspect import signature, unwrap
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from newfound.core.encoder import Channels, Encoder, Interpolation, Preprocessing, at_least_float32
from newfound.core.errors import CheckpointError, UsageError, reason_of, shortened
from newfound.core.files import open_plain, read_bytes, reading
from newfound.core.registry import library, register_encoder

IMAGENET: tuple[Channels, Channels] = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation for models that do not state theirs."""
BICUBIC = 3
"""Pillow's number of the bicubic filter."""
PREPROCESSING = TypeAdapter(Preprocessing)
INSTALL = "pip install 'newfound[hf]'"
INSTALL_TIMM = "pip install timm torchvision"
Config = dict[str, Any]
"""A JSON file of transformers."""
log = logging.getLogger(__name__)


@register_encoder("hf:", "any vision model of Hugging Face transformers in the local cache, or hf:./folder")
class HuggingFace(Encoder):
    """A vision model or tower; the feature is its class token, its pooled output or its mean token."""

    licence = "the model's"

    def __init__(self, model: str) -> None:
        super().__init__()
        self.name = f"hf:{model}"
        transformers = library("transformers", "hf")
        self.folder = _snapshot(model)
        self.preprocessing, self.revision = _preprocessing(self.folder), _revision(self.folder)
        with self._reading():
            config = transformers.AutoConfig.from_pretrained(
                self.folder, local_files_only=True, trust_remote_code=False
            )
            config = getattr(config, "vision_config", config)  # without the text tower
            if hasattr(config, "mask_ratio"):
                config.mask_ratio = 0.0  # masked autoencoders hide patches even in evaluation
            self._set_model(transformers.AutoModel.from_config(config, trust_remote_code=False))
            with torch.no_grad():
                side = self.preprocessing.size
                self.dim = self.eval()(torch.zeros(1, 3, side, side)).shape[1]
        self.train()

    @classmethod
    def missing(cls, model: str = "") -> str:
        installed = find_spec("transformers")
        folder = _folder(model) if model and installed else None
        there = not model or (folder and any(folder.glob("*.safetensors")))
        return " && ".join([INSTALL] * (not installed) + [f"hf download {model}"] * (not there))

    @classmethod
    def preprocessing_for(cls, model: str) -> Preprocessing:
        return _preprocessing(_snapshot(model))

    def load_pretrained(self) -> None:
        with self._reading():
            model, found = type(self.model).from_pretrained(
                self.folder,
                config=self.model.config,
                local_files_only=True,
                use_safetensors=True,
                output_loading_info=True,
            )
        self._set_model(model)
        missing = sorted({*found["missing_keys"]} & {*self.model.state_dict()})
        if missing:
            raise CheckpointError(f"The weights of {self.name} are incomplete: {shortened(missing)}.")

    def _set_model(self, model: Any) -> None:
        tower = model.config.model_type.endswith("_vision_model")
        self.has_token = not tower and any(key.endswith("cls_token") for key, _ in model.named_parameters())
        if self.has_token and getattr(model, "pooler", None):
            model.pooler = None  # which many checkpoints lack, since the class token itself is the feature
        self.model = model.float().train(self.training)
        self.resizes = "interpolate_pos_encoding" in signature(unwrap(type(model).forward)).parameters

    @property
    def last_parameters(self) -> list[nn.Parameter]:
        """Those of the last layer or, in a network with stages, of the last stage."""
        lists = [each for each in self.model.modules() if isinstance(each, nn.ModuleList)]
        layers = max(lists, key=lambda each: sum(value.numel() for value in each.parameters()), default=())
        return list(layers[-1].parameters()) if layers else []

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn errors into one line; hide progress bars and reports about the text tower."""
        from transformers.utils import logging as reports

        level, bars = reports.get_verbosity(), reports.is_progress_bar_enabled()
        reports.set_verbosity_error()
        reports.disable_progress_bar()
        try:
            with reading(self.name, "a vision model in safetensors, without code of its own", UsageError):
                yield
        finally:
            reports.set_verbosity(level)
            if bars:
                reports.enable_progress_bar()

    def forward(self, images: Tensor) -> Tensor:
        other = self.resizes and images.shape[-1] != getattr(self.model.config, "image_size", None)
        out = self.model(pixel_values=images, **({"interpolate_pos_encoding": True} if other else {}))
        if self.has_token:
            features = out.last_hidden_state[:, 0]
        elif getattr(out, "pooler_output", None) is not None:
            features = out.pooler_output.flatten(1)
        else:
            features = out.last_hidden_state.mean(dim=(2, 3) if out.last_hidden_state.ndim == 4 else 1)
        return at_least_float32(features)


@register_encoder("timm:", "any timm model whose weights are in the same cache")
class Timm(Encoder):
    """A timm model without its classifier; its weights come from the Hugging Face cache."""

    licence = "the model's"

    def __init__(self, model: str) -> None:
        super().__init__()
        try:
            self.name, self.model = model, _timm(model).create_model(model, num_classes=0)
        except RuntimeError as error:
            raise UsageError(f"Cannot build timm:{model}: {reason_of(error)}.") from None
        self.dim = int(self.model.num_features)
        self.preprocessing = self.preprocessing_for(model)

    @classmethod
    def missing(cls, model: str = "") -> str:
        return "" if find_spec("timm") else INSTALL_TIMM

    @classmethod
    def preprocessing_for(cls, model: str) -> Preprocessing:
        found = _timm(model).get_pretrained_cfg(model)
        size, pct = found.input_size[-1], found.crop_pct or 0.875
        kind: Interpolation = "bicubic" if found.interpolation == "bicubic" else "bilinear"
        shorter = None if found.crop_mode == "squash" else int(size / pct)
        return Preprocessing(size, tuple(found.mean), tuple(found.std), shorter, kind)

    def load_pretrained(self) -> None:
        hub = self.model.pretrained_cfg.get("hf_hub_id") or f"timm/{self.name}"
        folder = _snapshot(hub)
        path = folder / "model.safetensors"
        if not path.is_file():
            raise UsageError(f"There is no model.safetensors in {folder}.")
        self.model = _timm(self.name).create_model(
            self.name,
            num_classes=0,
            pretrained=True,
            pretrained_cfg_overlay={"file": str(path), "custom_load": False},
        )
        self.revision = _revision(folder)

    def forward(self, images: Tensor) -> Tensor:
        return at_least_float32(self.model(images))


def _timm(model: str) -> Any:
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # torchvision for another torch raises a RuntimeError
        raise UsageError(
            f"The encoder timm:{model} needs timm, which cannot be imported: {reason_of(error)}. "
            f"To install it: {INSTALL_TIMM}"
        ) from None
    return timm


def _snapshot(model: str) -> Path:
    """The folder of a model, which must exist."""
    folder = _folder(model)
    if folder is None:
        install = "" if find_spec("transformers") else f"{INSTALL} && "
        raise UsageError(
            f"The model {model} is not in the local Hugging Face cache. To download it: {install}hf download "
            f"{model}"
        )
    return folder


def _folder(model: str) -> Path | None:
    """The folder of a model: the one named, or the latest in the local Hugging Face cache, if any."""
    path = Path(model).expanduser()
    if path.is_absolute() or model.startswith("."):
        if not (path / "config.json").is_file():
            raise UsageError(f"There is no config.json in {path}.")
        return path
    found = None
    if find_spec("huggingface_hub"):
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        with suppress(HFValidationError):  # such a name is not in the cache either
            found = try_to_load_from_cache(model, "config.json")
    return Path(found).parent if isinstance(found, str) else None


def _revision(folder: Path) -> str:
    """The commit of a snapshot in the cache; of any other folder, a digest of its weights."""
    if folder.parent.name == "snapshots":
        return folder.name
    digest = blake2b(digest_size=8)
    for path in sorted(folder.glob("*.safetensors")):
        with open_plain(path) as file:
            while part := file.read(2**20):
                digest.update(part)
    return digest.hexdigest()


def _preprocessing(folder: Path) -> Preprocessing:
    """What preprocessor_config.json says; without it, config.json's size and ImageNet's colours."""
    found = _read(folder / "preprocessor_config.json") or _read(folder / "processor_config.json")
    config = _read(folder / "config.json")
    with reading(folder, "a model with valid preprocessing", UsageError):
        return _parsed(found.get("image_processor", found), config.get("vision_config", config), folder)


def _parsed(found: Config, config: Config, folder: Path) -> Preprocessing:
    size, crop = found.get("size") or config.get("image_size") or 224, found.get("crop_size")
    crops = bool(found.get("do_center_crop") or found.get("crop_pct"))
    if not found:
        _warn_once(folder)
        crops = True
    side, square = _side(size), isinstance(size, dict) and "height" in size
    if crops and crop:
        shorter, side = (None if square and _side(crop) == side else side), _side(crop)
    elif pct := found.get("crop_pct"):
        shorter = None if side >= 384 else int(side / pct)  # as ConvNeXt: large images are not cropped
    else:
        shorter = side if crops or (isinstance(size, dict) and not square) else None
    mean, std = (
        (found.get("image_mean") or IMAGENET[0], found.get("image_std") or IMAGENET[1])
        if found.get("do_normalize", True)
        else ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    )
    kind: Interpolation = "bicubic" if found.get("resample", BICUBIC) == BICUBIC else "bilinear"
    return PREPROCESSING.validate_python(
        {"size": side, "mean": mean, "std": std, "shorter": shorter, "interpolation": kind}
    )


@cache
def _warn_once(folder: Path) -> None:
    """Warn that defaults are used, once, however often a run builds the encoder."""
    log.warning("%s has no preprocessor_config.json; using the mean and std of ImageNet", folder)


def _side(size: Any) -> int:
    if isinstance(size, dict):
        size = size.get("shortest_edge") or size["height"]
    return int(size[0] if isinstance(size, list) else size)


def _read(path: Path) -> Config:
    with reading(path, "a config of transformers", UsageError):
        content = json.loads(read_bytes(path)) if path.exists() else {}
    return content if isinstance(content, dict) else {}
