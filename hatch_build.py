"""What the package says of itself outside the repository: where its home is, and a description whose links lead there.

Where the home is stands in one place, `home` in `pyproject.toml`. With it the pictures and links of the README are
addresses, of the files as they are at this version, and the urls of the package are named. Without it a package index
could show no picture and follow no link, so the description has their words alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAPER = {"Paper": "https://arxiv.org/abs/2005.00928"}
_PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?://)([^)]+)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?://|#)([^)]+)\)")


class HomeHook(MetadataHookInterface):
    """Found by hatchling, which looks for a class of this kind."""

    def update(self, metadata: dict[str, Any]) -> None:
        home = self.config.get("home", "").rstrip("/")
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": description(readme, home, metadata["version"]),
        }
        metadata["urls"] = urls(home)


def description(readme: str, home: str, version: str) -> str:
    """The README, readable where its files are not.

    >>> description("![A page](docs/page.png) [More](docs/page.md)", "https://host/attnx", "0.2.0")
    '![A page](https://host/attnx/raw/v0.2.0/docs/page.png) [More](https://host/attnx/blob/v0.2.0/docs/page.md)'
    >>> description("![A page](docs/page.png) [More](docs/page.md)", "", "0.2.0")
    '*A page* More'
    """
    if not home:
        return _LINK.sub(r"\1", _PICTURE.sub(r"*\1*", readme))
    return _LINK.sub(rf"[\1]({home}/blob/v{version}/\2)", _PICTURE.sub(rf"![\1]({home}/raw/v{version}/\2)", readme))


def urls(home: str) -> dict[str, str]:
    """What an index shows beside the description."""
    if not home:
        return PAPER
    pages = {"Documentation": "tree/main/docs", "Changelog": "blob/main/CHANGELOG.md", "Issues": "issues"}
    return {"Homepage": home, **{name: f"{home}/{path}" for name, path in pages.items()}, **PAPER}
