"""What a folder was asked for, and the refusal of a call that asks something else of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from newfound.core.errors import UsageError

ANOTHER = "choose another folder"
"""The remedy where a folder does not say what it was asked for."""
APART = ("data", "settings")
"""What is compared key by key."""


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What two calls ask differently: settings and data by their own names, the rest by theirs."""
    flat_old, flat_new = (
        {key: value for key, value in each.items() if key not in APART} | each["settings"] | each["data"]
        for each in (old, new)
    )
    return sorted(key for key in flat_old | flat_new if flat_old.get(key) != flat_new.get(key))


def occupied(path: Path, what: str, remedy: str = "") -> UsageError:
    """The error for a folder that is not new, as it holds `what`."""
    return UsageError(f"{path} must be a new folder; it holds {what}; {remedy}choose another --out")


def occupied_by(path: Path, what: str) -> UsageError:
    """The same where what is there can go on."""
    return occupied(path, f"{what} already", "continue that one with --resume, or ")


def changed(path: Path, what: str, differing: Sequence[str], remedy: str = "") -> UsageError:
    """The error for other values than those that `what` in a folder was started with."""
    return UsageError(
        f"{what} must go on as it was started; got other values for {', '.join(differing)} than {path} has; "
        f"{remedy}leave them as they were, or choose another --out"
    )
