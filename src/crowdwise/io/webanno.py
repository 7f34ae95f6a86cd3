"""INCEpTION and WebAnno: TSV 3 (https://inception-project.github.io, user guide, appendix "WebAnno TSV 3.3").

A file holds what one annotator marked in one document: a line per token (``2-4<tab>31-36<tab>Paris<tab>LOC[3]``), a column per
feature of the layers that the header lists (``#T_SP=layer|feature|feature``). ``[3]`` joins the tokens of one span, ``|``
separates spans on one token, ``_`` stands for none and ``*`` for a span without a value. Parts of tokens (``2-4.1``) mark the
whole token. Export folders are ``<document>/<annotator>.tsv``; files beside each other are annotators of one document.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from crowdwise.errors import DataWarning, InputError, did_you_mean
from crowdwise.io.source import Places, Table, read_text_bytes

__all__ = ["is_webanno", "read_webanno"]

_MARK = b"#FORMAT=WebAnno TSV 3"
_NUMBER = re.compile(r"\[(\d+)\]$")
_TOKEN = re.compile(r"(\d{1,9})-(\d{1,9})(\.\d+)?$")
_CURATED = ("initial_cas.tsv", "curation_user.tsv")


@dataclass(frozen=True)
class _Line:
    number: int
    sentence: int
    position: int
    token: str
    cells: list[str]


def is_webanno(path: Any) -> bool:
    """Whether a file, or any file of a folder, is TSV of WebAnno."""
    return bool(_files(path, first_only=True))


def read_webanno(path: Any, question: str | None) -> Table:
    """A row per token and annotator: sequence, position, token, annotator and label (BIO), of one feature."""
    files = _files(path)
    # An annotator's file stands beside those of others on the same document, or alone in its folder.
    rows: list[tuple[int, str, int, str, str, str]] = []
    together = len({file.parent for file in files}) == 1
    for file in files:
        document = "" if together else f"{file.parent.name}:"
        features, lines = _parsed(file)
        column = _column(features, question, str(file))
        for line, tag in zip(lines, _tags(lines, column, str(file)), strict=True):
            rows.append((line.number, f"{document}{line.sentence}", line.position, line.token, file.stem, tag))
    if not rows:
        raise InputError(f"{path}: no tokens")
    if len(files) == 1:
        warnings.warn(f"{files[0]}: one annotator; give the folder with the files of all", DataWarning, stacklevel=4)
    number, *columns = zip(*rows, strict=True)
    names = ("sequence", "position", "token", "annotator", "label")
    frame = pl.DataFrame({name: pl.Series(values) for name, values in zip(names, columns, strict=True)})
    return Table(frame, Places(str(path), rows=np.array(number, np.int64), unit="line"))


def _files(path: Any, first_only: bool = False) -> list[Path]:
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(part) for part in path]
    every = [file for one in paths for file in (sorted(one.rglob("*.tsv")) if one.is_dir() else [one])]
    found = []
    for file in every:
        if file.is_file() and file.name.lower() not in _CURATED:
            with file.open("rb") as opened:
                if opened.read(64).removeprefix(b"\xef\xbb\xbf").startswith(_MARK):
                    found.append(file)
        if found and first_only:
            break
    return found


def _parsed(file: Path) -> tuple[list[str], list[_Line]]:
    """Names of the features in order of their columns, and the lines of the tokens."""
    features: list[str] = []
    lines: list[_Line] = []
    for number, text in enumerate(read_text_bytes(file, str(file)).decode().split("\n"), start=1):
        if text.startswith(("#T_SP=", "#T_CH=", "#T_RL=")):
            kind, layer, *names = text.strip()[3:5], *text.strip()[6:].split("|")
            short = layer.rsplit(".", 1)[-1]
            # A relation has a column more, for where it comes from; only spans are asked for here.
            features += [f"{short}.{name}" if kind == "SP" else "" for name in names or [""]]
            continue
        cells = text.rstrip("\r").split("\t")
        place = _TOKEN.match(cells[0])
        if place is None or len(cells) < 3:
            continue
        if place.group(3) and not lines:
            raise InputError(f"{file} line {number}: part of a token that is not there; export it again")
        if place.group(3):
            # Part of the token before it: what is marked there counts for all of it.
            lines[-1] = _joined(lines[-1], cells[3:])
            continue
        lines.append(_Line(number, int(place.group(1)), int(place.group(2)), cells[2], cells[3:]))
    if not lines:
        raise InputError(f"{file}: no lines of tokens; expected lines such as 1-1<tab>0-5<tab>Paris<tab>LOC")
    return features, lines


def _joined(line: _Line, part: list[str]) -> _Line:
    cells = [own if own != "_" or k >= len(part) else part[k] for k, own in enumerate(line.cells)]
    return _Line(line.number, line.sentence, line.position, line.token, cells)


def _column(features: list[str], question: str | None, name: str) -> int:
    """The column of the feature that is asked for: the only one, the one called value of a named entity, or the named one."""
    spans = [feature for feature in features if feature]
    if question is not None:
        if question in spans:
            return features.index(question)
        near = [feature for feature in spans if question in (feature.split(".", 1)[0], feature.split(".", 1)[1])]
        if len(near) == 1:
            return features.index(near[0])
        raise InputError(f"{name}: no feature {question!r}; found {', '.join(spans)}{did_you_mean(question, spans)}")
    likely = [feature for feature in spans if feature == "NamedEntity.value"] or spans
    if len(likely) == 1:
        return features.index(likely[0])
    raise InputError(f"{name}: several features: {', '.join(spans)}. Pick one with question=... or --question") from None


def _tags(lines: list[_Line], column: int, name: str) -> list[str]:
    """BIO tags: tokens whose value has one number are one span; of several spans on a token the first counts."""
    tags: list[str] = []
    before, several = "", 0
    for line in lines:
        cell = line.cells[column] if column < len(line.cells) else "_"
        values = [value for value in cell.split("|") if value not in ("_", "")]
        several += len(values) > 1
        # A span that goes on comes before one that begins.
        value = before if before in values and _NUMBER.search(before) else values[0] if values else ""
        label = _NUMBER.sub("", value).replace("\\", "")
        label = "span" if label == "*" else label
        if not value:
            tags.append("O")
        else:
            tags.append(f"{'I' if value == before and _NUMBER.search(value) else 'B'}-{label}")
        before = value
    if several:
        warnings.warn(f"{name}: {several} tokens stand in several spans; the first counts", DataWarning, stacklevel=5)
    return tags
