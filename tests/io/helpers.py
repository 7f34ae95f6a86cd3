"""Small helpers of the io tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from crowdwise.data.annotations import Annotations


def triples(votes: Annotations) -> list[tuple[Any, Any, Any]]:
    """List the votes as sorted (item, annotator, label)."""
    return votes.to_frame().select("item", "annotator", "label").rows()


def gold(votes: Annotations) -> dict[Any, Any]:
    """Return the known labels by item."""
    assert votes.gold is not None
    return {item: votes.classes[k] for item, k in zip(votes.items.tolist(), votes.gold.tolist(), strict=True) if k >= 0}


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def write_json(path: Path, document: Any) -> Path:
    return write(path, json.dumps(document))


def write_lines(path: Path, records: list[Any]) -> Path:
    return write(path, "".join(json.dumps(record) + "\n" for record in records))
