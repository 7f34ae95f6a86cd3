"""Spans of text from what tools that mark it export, each recognised by its content."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from crowdwise.errors import InputError
from crowdwise.io.offsets import Document, spans_of, tag_table
from crowdwise.io.shaped import trusted
from crowdwise.io.source import Record, Source, Table, open_source
from crowdwise.io.votes import Exports

__all__ = ["read_spans"]

# Format -> module with read_spans(source, question).
_MODULES = {"label-studio": "label_studio_regions", "prodigy": "prodigy", "doccano": "doccano", "potato": "potato"}
_LISTS = ("entities", "spans", "labels", "label")
_PEOPLE = ("annotator", "annotator_id", "_annotator_id", "_session_id", "user", "user_id", "username", "worker", "coder")
_IDS = ("id", "item", "doc_id", "document", "_input_hash", "text")
_TEXT_SUFFIXES = (".csv", ".tsv", ".conll", ".bio", ".iob", ".iob2", ".txt", ".parquet", ".arrow", ".ipc", ".feather", ".gz")


def read_spans(path: Any, exports: Exports, format: str | None, question: str | None, annotator: str | None) -> Table | None:
    """A row per token and annotator; None where the file is CoNLL or a table of tags."""
    if format == "webanno" or (format is None and _is_webanno(path)):
        from crowdwise.io.webanno import read_webanno

        return read_webanno(path, question)
    if format is None and isinstance(path, str | PathLike) and Path(path).suffix.lower() in _TEXT_SUFFIXES:
        return None
    source = open_source(path)
    if format is None:
        format = _recognise(source, exports)
    if format is None:
        return None
    with trusted(source, format):
        if format in _MODULES:
            documents = import_module(f"crowdwise.io.platforms.{_MODULES[format]}").read_spans(source, question)
        else:
            documents = [_offsets(source, row, record, annotator) for row, record in source.walk()]
        return tag_table(documents, source)


def _is_webanno(path: Any) -> bool:
    if isinstance(path, str | PathLike) and not (Path(path).is_dir() or Path(path).suffix.lower() in (".tsv", "")):
        return False
    from crowdwise.io.webanno import is_webanno

    return is_webanno(path)


def _recognise(source: Source, exports: Exports) -> str | None:
    try:
        first = source.parts[0] if source.parts else source
        if first.kind not in ("json", "jsonl"):
            return None
    except InputError:
        return None
    platform = exports.recognised(source)
    if platform is not None and platform.name in _MODULES and not (platform.name == "doccano" and _names_people(first.first)):
        return str(platform.name)
    record = first.first
    found = next((record[key] for key in _LISTS if isinstance(record.get(key), list)), None)
    return "offsets" if found is not None and isinstance(record.get("text"), str) else None


def _names_people(record: Record) -> bool:
    return any(key in record for key in _PEOPLE)


def _offsets(source: Source, row: int, record: Record, annotator: str | None) -> Document:
    """A record with its text, spans as [start, end, label] or {start, end, label}, and who marked them."""
    place = f"{source.name} {source.unit} {row}"
    key = annotator or next((name for name in _PEOPLE if name in record), None)
    if key is None or record.get(key) is None:
        raise InputError(
            f"{place}: nothing says who marked the text; add a field such as 'annotator', name it with annotator=... or "
            "--annotator, or give a folder with one <annotator>.jsonl each"
        )
    text = record.get("text")
    if not isinstance(text, str):
        raise InputError(f"{place}: no field 'text' to which the offsets could belong")
    found: list[Any] = next((record[name] for name in _LISTS if isinstance(record.get(name), list)), [])
    item = next(record[name] for name in _IDS if record.get(name) is not None)
    return Document(row, item, record[key], text, spans_of(found, place))
