"""Methods in files of one's own: modules that an environment variable names, imported along with ours."""

import os
import sys
from importlib import import_module

from newfound.core.errors import NewfoundError, UsageError, reason_of

VARIABLE = "NEWFOUND_METHODS"
"""Modules with commas between."""


def import_own_methods() -> None:
    """Import what the variable names, found where Python looks and in the current folder."""
    names = [name for part in os.environ.get(VARIABLE, "").split(",") if (name := part.strip())]
    if names and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for name in names:
        try:
            import_module(name)
        except NewfoundError:
            raise
        except Exception as error:
            raise UsageError(
                f"{VARIABLE} must name modules that can be imported, with commas between; got {name!r}: "
                f"{reason_of(error)}; mend that file, go to its folder, or leave it out"
            ) from error
