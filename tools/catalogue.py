"""Write the catalogue of methods, src/newfound/methods/catalogue.json, from the registry."""

import json
from pathlib import Path

from newfound.cli.lists import CARDS, registered

PATH = Path("src/newfound/methods/catalogue.json")


def text() -> str:
    """The contents of the file, one method per line."""
    cards = CARDS.dump_python(registered(), mode="json", exclude_defaults=True)
    lines = (f"{json.dumps(name)}: {json.dumps(card, ensure_ascii=False)}" for name, card in cards.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Rewrite the file, relative to the current folder."""
    PATH.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
