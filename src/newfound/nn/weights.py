"""Weight files of torchvision's ResNets as a start for ours."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.errors import CheckpointError


def load_torchvision(encoder: Encoder, path: str | Path) -> None:
    """Load the weights in a `.safetensors` file or one written by `torch.save` into `encoder`.

    The classifier `fc` of the file is ignored; every other key must fit.
    """
    weights = {key: value for key, value in _read(Path(path)).items() if not key.startswith("fc.")}
    own = encoder.state_dict()
    # Older files do not count batches, and nothing here reads the count.
    needed = {key for key in own if not key.endswith(".num_batches_tracked")}
    missing = sorted(needed - weights.keys())
    unexpected = sorted(weights.keys() - own.keys())
    misfits = [
        f"{key} {tuple(weights[key].shape)} (need {tuple(own[key].shape)})"
        for key in sorted(own.keys() & weights.keys())
        if weights[key].shape != own[key].shape
    ]
    if missing or unexpected or misfits:
        raise CheckpointError(
            f"{path} does not fit this encoder; missing: {_listed(missing)}; "
            f"unexpected: {_listed(unexpected)}; of another shape: {_listed(misfits)}; "
            "use a file for the same network"
        )
    encoder.load_state_dict(weights, strict=False)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            content = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything
        raise CheckpointError(
            f"{path} must be a readable .safetensors or torch.save file of plain tensors; "
            f"got {type(error).__name__}; download it again"
        ) from error
    if not (isinstance(content, dict) and all(isinstance(value, Tensor) for value in content.values())):
        raise CheckpointError(
            f"{path} must hold a dictionary of tensors and nothing else; got other things too; "
            "save the model's state_dict() alone"
        )
    return content


def _listed(keys: list[str]) -> str:
    return ", ".join(keys) or "none"
