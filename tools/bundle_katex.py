"""Copy what the documentation needs of KaTeX into docs/katex: ``npm pack katex@VERSION``, unpack, and name the folder.

    python tools/bundle_katex.py package

Of the fonts only woff2, which every browser of today reads, and only the families that formulas here use.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

GOAL = Path(__file__).parents[1] / "docs" / "katex"
UNUSED = ("Fraktur", "SansSerif", "Script", "Typewriter")


def bundle(package: Path, goal: Path) -> None:
    """Write script, styles, fonts and licence, and which version they are of."""
    (goal / "fonts").mkdir(parents=True, exist_ok=True)
    version = json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
    shutil.copy(package / "dist" / "katex.min.js", goal)
    shutil.copy(package / "LICENSE", goal / "LICENSE.txt")
    styles = (package / "dist" / "katex.min.css").read_text(encoding="utf-8")
    (goal / "katex.min.css").write_text(f"/* KaTeX {version}; see tools/bundle_katex.py */\n{slim(styles)}\n", encoding="utf-8")
    for font in re.findall(r"url\((fonts/[^)]*)\)", slim(styles)):
        shutil.copy(package / "dist" / font, goal / "fonts")


def slim(styles: str) -> str:
    """The styles without fonts that are left out."""
    styles = re.sub(r",url\([^)]*\.(?:woff|ttf)\) format\([^)]*\)", "", styles)
    return re.sub(rf"@font-face{{[^}}]*KaTeX_(?:{'|'.join(UNUSED)})[^}}]*}}", "", styles)


if __name__ == "__main__":
    bundle(Path(sys.argv[1]), GOAL)
