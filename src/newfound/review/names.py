"""Names that people give to classes."""

import unicodedata
from collections.abc import Collection
from itertools import count, islice

from newfound.core.errors import UsageError
from newfound.data.assemble import is_one_line

LONGEST = 100
"""Characters of a name."""


def composed(name: str) -> str:
    """The same text with composed characters, which some file systems take apart: so names are compared."""
    return unicodedata.normalize("NFC", name)


def checked_name(name: str) -> str:
    """A name as people write it: one line, composed characters."""
    text = composed(name) if isinstance(name, str) else ""
    fits = 0 < len(text) <= LONGEST and text == text.strip() and is_one_line(text)
    if not fits or "=" in text or text[0] == "-":
        raise UsageError(
            f"a name must be one line of at most {LONGEST} characters, without =, with no space around it "
            f"and no - before it; got {name!r}; choose another"
        )
    return text


def free_names(name: str, number: int, taken: Collection[str]) -> list[str]:
    """`name-2`, `name-3`, ..., without those that are taken."""
    numbered = (f"{name}-{each}" for each in count(2))
    return list(islice((each for each in numbered if each not in taken), number))
