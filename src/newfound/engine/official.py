"""Weights of others: checkpoints of the official UNO and IIC codes, and networks of torchvision."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from newfound.core.errors import CheckpointError

KNOWN_HEAD = "head_lab.prototypes.weight"


def load_official(path: Path) -> tuple[dict[str, Tensor], list[str]]:
    """A state dict with `encoder.*` and `head_lab.prototypes.weight` → our names, and what was left out."""
    found = _state_dict(path)
    renamed, unused = {}, []
    for key, value in found.items():
        if key == KNOWN_HEAD:
            renamed["h.prototypes"] = value
        elif key.startswith("encoder.") and isinstance(value, Tensor):
            renamed[key] = value
        else:
            unused.append(key)
    if "h.prototypes" not in renamed or len(renamed) == 1:
        raise CheckpointError(
            f"{path} must hold encoder.* and {KNOWN_HEAD}; got: {_some(found)}; "
            "give a pretrain checkpoint of UNO or IIC, or weights=FILE for a network of torchvision"
        )
    return renamed, unused


def load_torchvision(path: Path) -> dict[str, Tensor]:
    """The encoder of a ResNet by torchvision's names, which timm's have too; `fc` stays behind.

    Old files lack the count of batches, which is then zero.
    """
    found = _state_dict(path)
    if "conv1.weight" not in found:
        raise CheckpointError(
            f"{path} must hold a ResNet by torchvision's names, from conv1.weight on; got: {_some(found)}; "
            "give such a file, or --pretrained for a checkpoint of newfound, UNO or IIC"
        )
    own = {
        key: value.float() if value.is_floating_point() else value
        for key, value in found.items()
        if isinstance(value, Tensor) and not key.startswith("fc.")
    }
    norms = [key.removesuffix("running_var") for key in own if key.endswith("running_var")]
    counts = {f"{norm}num_batches_tracked": torch.tensor(0) for norm in norms}
    return {f"encoder.{key}": value for key, value in (counts | own).items()}


def _state_dict(path: Path) -> dict[str, Any]:
    """What a file of safetensors or of torch holds, without the prefixes of wrappers.

    Nothing in it can execute code.
    """
    if not path.is_file():
        raise CheckpointError(f"a checkpoint must be at {path}; found none; check the path")
    try:
        is_plain = path.suffix == ".safetensors"
        content: Any = load_file(path) if is_plain else torch.load(path, "cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(f"{path} must be readable; got: {error.strerror}; mend that") from None
    except SafetensorError as error:
        raise CheckpointError(
            f"{path} must be a whole safetensors file; got {error}; take another copy"
        ) from None
    except Exception as error:  # a damaged pickle raises almost anything
        raise CheckpointError(
            f"{path} must be a torch state dict that loads without executing code; got a file that does not "
            f"({type(error).__name__}); save the plain state dict again"
        ) from None
    found = content.get("state_dict", content) if isinstance(content, dict) else {}
    return {str(key).removeprefix("module.").removeprefix("model."): value for key, value in found.items()}


def _some(found: dict[str, Any]) -> str:
    return ", ".join([*list(found)[:5], "..."] if found else ["nothing"])
