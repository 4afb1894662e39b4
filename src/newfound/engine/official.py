"""Pretrained weights of others: checkpoints of the official UNO and IIC codes, and torchvision's ResNets."""

from pathlib import Path

import torch
from torch import Tensor

from newfound.core.errors import CheckpointError

KNOWN_HEAD = "head_lab.prototypes.weight"


def load_official(path: Path) -> tuple[dict[str, Tensor], list[str]]:
    """A state dict with `encoder.*` and `head_lab.prototypes.weight` → our names, and what was left out.

    `module.` and `model.` prefixes of wrappers are taken off; nothing in the file can execute code. Of
    torchvision's weights, `fc` is left out.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"a checkpoint must be at {path}; found none; check the path") from None
    except Exception as error:  # a damaged pickle raises almost anything
        raise CheckpointError(
            f"{path} must be a torch state dict that loads without executing code; got a file that does not "
            f"({type(error).__name__}); save the plain state dict again"
        ) from None
    found = content.get("state_dict", content) if isinstance(content, dict) else {}
    renamed, unused = {}, []
    is_torchvision = "conv1.weight" in found
    for key, value in found.items():
        name = str(key).removeprefix("module.").removeprefix("model.")
        if name == KNOWN_HEAD:
            renamed["h.prototypes"] = value
        elif name.startswith("encoder.") and isinstance(value, Tensor):
            renamed[name] = value
        elif is_torchvision and not name.startswith("fc."):
            renamed[f"encoder.{name}"] = value
        else:
            unused.append(str(key))
    if not is_torchvision and ("h.prototypes" not in renamed or len(renamed) == 1):
        some = ", ".join(map(str, list(found)[:5])) or "nothing"
        raise CheckpointError(
            f"{path} must hold encoder.* and {KNOWN_HEAD}; got: {some} ...; "
            "give a pretrain checkpoint of UNO or IIC, or a ResNet of torchvision"
        )
    return renamed, unused
