"""The hooks of the documentation are modules of a folder, as MkDocs loads them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs" / "hooks"))
