"""Real exports that are not part of the project: where they are, and a mark for tests that need one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Beside the checkout, or where the variable says.
FOLDER = Path(os.environ.get("CROWDWISE_EXPORTS", Path(__file__).resolve().parents[3] / "shared" / "exports"))


def export(name: str) -> Path:
    """The path of a real export; skips the test where there is none."""
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"no real export {name}: set CROWDWISE_EXPORTS to the folder that holds it")
    return path
