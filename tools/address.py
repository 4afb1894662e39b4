"""Write the address of the repository into README.md and pyproject.toml, for the release of a tag.

    python -m tools.address https://github.com/OWNER/newfound v0.1.0

The sources contain no address of their own repository. A package index shows README.md outside of it, where
links and pictures work only as absolute URLs.
"""

import re
import sys
from pathlib import Path


def absolute(text: str, address: str, tag: str) -> str:
    """The page with absolute URLs instead of relative ones."""

    def link(found: re.Match[str]) -> str:
        path = found[1]
        if path.startswith("../../"):  # a page of the repository's site, as GitHub resolves it
            return f"]({address}/{path[6:]})"
        return f"]({address}/{'raw' if path.endswith('.png') else 'blob'}/{tag}/{path})"

    return re.sub(r"\]\((?!\w+://|#)([^)\s]+)\)", link, text)


def urls(address: str, tag: str) -> str:
    """The section [project.urls] of pyproject.toml."""
    pages = {"Source": "", "Documentation": f"/tree/{tag}/docs", "Issues": "/issues"}
    pages["Changelog"] = f"/blob/{tag}/CHANGELOG.md"
    return "\n".join(
        ["[project.urls]", *(f'{name} = "{address}{path}"' for name, path in pages.items()), "", ""]
    )


def main(address: str, tag: str) -> None:
    """Rewrite both files in the current folder."""
    readme, project = Path("README.md"), Path("pyproject.toml")
    readme.write_text(absolute(readme.read_text(encoding="utf-8"), address, tag), encoding="utf-8")
    text = project.read_text(encoding="utf-8")
    project.write_text(
        text.replace("[project.scripts]", urls(address, tag) + "[project.scripts]"), encoding="utf-8"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
