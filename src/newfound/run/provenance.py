"""The provenance of numbers: commit, versions, hardware, memory."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from newfound.engine.device import hardware
from newfound.run.models import Provenance


@cache
def commit() -> str:
    """The commit of this source tree, with `+changes` if there are any; `unknown` outside a checkout.

    The environment variable NEWFOUND_COMMIT names it for a tree without its history.
    """
    if named := os.environ.get("NEWFOUND_COMMIT"):
        return named
    here = Path(__file__).parent
    try:
        if not _git(here, "ls-files", Path(__file__).name):
            return "unknown"
        head = _git(here, "rev-parse", "HEAD")[:12]
        return head + ("+changes" if _git(here, "status", "-uno", "-z") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(folder: Path, *arguments: str) -> str:
    # No optional locks: if we are killed, a stale one would block the repository.
    call, here = ["git", "-C", str(folder), *arguments], os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(call, capture_output=True, text=True, check=True, env=here)
    return done.stdout.strip()


def provenance(device: torch.device) -> Provenance:
    """The provenance of numbers that are computed now on this device."""
    names = ("torch", "numpy", "scikit-learn", "scipy", "pillow")
    versions = {"python": platform.python_version(), **{name: version(name) for name in names}}
    return Provenance(commit=commit(), versions=versions, hardware=hardware(device))


def peak_memory(device: torch.device) -> float:
    """Peak memory in GiB: of the GPU if that is the device, else of this process; 0 if unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    try:
        import resource  # not on Windows
    except ImportError:
        return 0.0
    unit = 1 if platform.system() == "Darwin" else 2**10  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
