"""What must be known to judge or repeat a number: commit, versions, hardware, memory."""

import os
import platform
import resource
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from newfound.engine.device import hardware


@cache
def commit() -> str:
    """The commit of this source tree, `+changes` added when it has any; `unknown` outside its checkout.

    NEWFOUND_COMMIT names it where the tree travels without its history. What runs is what was loaded, so it
    is asked for once.
    """
    if named := os.environ.get("NEWFOUND_COMMIT"):
        return named
    here = Path(__file__).parent
    try:
        _git(here, "ls-files", "--error-unmatch", Path(__file__).name)
        head = _git(here, "rev-parse", "--short=12", "HEAD")
        return head + ("+changes" if _git(here, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Of what decides the numbers."""
    names = ("torch", "numpy", "scikit-learn", "scipy", "pillow")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def provenance(device: torch.device) -> dict[str, Any]:
    """The part of a record that says where its numbers come from."""
    return {
        "commit": commit(),
        "versions": versions(),
        "hardware": hardware(device),
    }


def peak_memory(device: torch.device) -> float:
    """GiB: of the GPU where there is one, else of this process since it began."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    unit = 1 if platform.system() == "Darwin" else 2**10  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
