"""One process at a time in a folder."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary, finalize

from newfound.core.errors import UsageError


class Claim:
    """A folder that no other process may claim, for as long as somebody holds this."""

    def __init__(self, folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY)
        self.release = finalize(self, os.close, handle)
        with suppress(OSError):  # where the disk knows no locks, nothing can be told
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.release()
                raise UsageError(
                    f"{folder} must be worked in by one process at a time; another one does; wait for it, "
                    "or stop it first"
                ) from None


_CLAIMS: WeakValueDictionary[Path, Claim] = WeakValueDictionary()


def claimed(folder: Path) -> Claim:
    """The claim of this process on a folder, which is shared within it."""
    here = folder.resolve()
    claim = _CLAIMS.get(here) or Claim(here)
    _CLAIMS[here] = claim
    return claim
