"""MkDocs hook: a built page loads nothing from other hosts, and the search works from a folder; otherwise the build fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

__all__ = ["faults", "on_post_build"]

# What a browser fetches by itself; links that a reader may follow are not among it.
LOADED = re.compile(
    r"<(?:script|img|iframe|source|link(?! rel=\"canonical\"))\b[^>]*?(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)"
)
STYLED = re.compile(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')\s]+)")


@event_priority(-200)  # after the plugin that writes the index of the search as a script
def on_post_build(config: MkDocsConfig) -> None:
    """Look at every page and style of the site."""
    found = list(faults(Path(config.site_dir)))
    if found:
        raise PluginError("\n".join(found))


def faults(site: Path) -> Iterator[str]:
    """What would not work without a network."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        pattern = LOADED if path.suffix == ".html" else STYLED
        for address in sorted(set(pattern.findall(path.read_text(encoding="utf-8")))):
            yield f"{path.relative_to(site)} loads {address}"
    index = site / "search" / "search_index.js"
    if not index.is_file() or not index.read_text(encoding="utf-8").startswith("var __index"):
        yield "search/search_index.js is missing, without which the search needs a server"
