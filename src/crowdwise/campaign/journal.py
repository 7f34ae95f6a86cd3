"""What a campaign writes down: a snapshot at its start, then a line for everything that happens.

``FOLDER/campaign.zip`` holds settings and votes of the start, as JSON and Arrow, and is written once, whole or not at all.
``FOLDER/journal.txt`` grows by a line per event: a checksum and JSON. A line counts once it is on the disk as a whole; what a
killed process leaves of one is dropped, for no call has returned for it. So an event costs what it holds, however long
the campaign. Who writes holds the journal's lock, and who finds that another process has continued is refused: no event that a
call has returned for is lost. Nothing is pickled: opening a campaign never runs code from it.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any
from zlib import crc32

import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of
from crowdwise.errors import InputError, SettingError
from crowdwise.io.declared import declared_size
from crowdwise.io.limits import check_archive
from crowdwise.io.lock import hold
from crowdwise.io.writer import replacing

__all__ = ["Journal", "Start"]

SNAPSHOT, JOURNAL = "campaign.zip", "journal.txt"
_VERSION = 1


class Start:
    """The start of a campaign: votes, the pool's items and allowed pairs where given, and settings that JSON can hold.

    `history` is what was known of annotators before, as `crowdwise.campaign.history` has it.
    """

    def __init__(
        self,
        votes: Annotations,
        items: Any,
        allowed: Annotations | None,
        settings: dict[str, Any],
        history: pl.DataFrame | None = None,
    ) -> None:
        self.votes, self.items, self.allowed, self.settings, self.history = votes, items, allowed, settings, history

    def members(self) -> dict[str, bytes]:
        """Contents of the snapshot by name."""
        votes = self.votes
        gold = None
        if votes.gold is not None:
            gold = [label if code >= 0 else None for code, label in zip(votes.gold, votes.classes[votes.gold], strict=True)]
        frames = {
            "votes": votes.to_frame(),
            "items": pl.DataFrame({"item": series_of(votes.items)} | ({} if gold is None else {"gold": series_of(gold)})),
            "annotators": pl.DataFrame({"annotator": series_of(votes.annotators)}),
            "classes": pl.DataFrame({"class": series_of(votes.classes)}),
        }
        if self.items is not None:
            frames["pool"] = pl.DataFrame({"item": series_of(self.items)})
        if self.allowed is not None:
            frames["allowed"] = self.allowed.to_frame()
        if self.history is not None:
            frames["history"] = self.history
        meta = {"crowdwise": _VERSION, "members": list(frames), "settings": self.settings}
        return {"meta.json": json.dumps(meta).encode()} | {f"{name}.arrow": _arrow(frame) for name, frame in frames.items()}

    @classmethod
    def read(cls, path: Path) -> Start:
        """What `members` wrote."""
        try:
            with zipfile.ZipFile(path) as archive:
                check_archive(archive, path.stat().st_size, str(path), stored=True)
                meta = json.loads(archive.read("meta.json"))
                if meta["crowdwise"] != _VERSION:
                    raise ValueError(f"format {meta['crowdwise']}, expected {_VERSION}")
                frames = {name: _frame(archive.read(f"{name}.arrow")) for name in meta["members"]}
            votes = _votes_of(frames["votes"], frames["items"]["item"], frames["annotators"]["annotator"], frames["classes"])
            if "gold" in frames["items"].columns:
                votes = votes.with_gold(frames["items"].rename({"gold": "label"}).drop_nulls())
            allowed = None if "allowed" not in frames else Annotations.from_frame(frames["allowed"])
            if not isinstance(meta["settings"], dict):
                raise ValueError("settings that are none")
            items = frames["pool"]["item"] if "pool" in frames else None
            return cls(votes, items, allowed, meta["settings"], frames.get("history"))
        except (Exception, pl.exceptions.PanicException) as problem:  # whatever a damaged or foreign file does to the readers
            raise InputError(f"{path}: not a campaign that this version of crowdwise can read ({problem!s:.300})") from problem


class Journal:
    """The events of a campaign in a folder."""

    def __init__(self, folder: str | PathLike[str], size: int = 0, torn: int = 0) -> None:
        self.path = Path(folder) / JOURNAL
        # Bytes of whole lines, and of what a killed writer left behind them.
        self.size, self.torn = size, torn

    @classmethod
    def create(cls, folder: str | PathLike[str], start: Start) -> Journal:
        """A new campaign; one that is there already is not touched."""
        folder = Path(folder)
        members = start.members()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = os.open(folder / JOURNAL, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as problem:
            raise SettingError(f"cannot save into {folder} ({problem.strerror or problem}); name another folder") from None
        try:
            with _held(file, folder / JOURNAL):
                if (folder / SNAPSHOT).exists():
                    raise SettingError(f"{folder} holds a campaign already; resume it: ActiveLoop.load(path, model=...)")
                if os.fstat(file).st_size:
                    raise SettingError(
                        f"{folder} holds the journal of another campaign, without its start; name another folder"
                    )
                with replacing(folder / SNAPSHOT) as partial, zipfile.ZipFile(partial, "w") as archive:
                    for name, content in members.items():
                        archive.writestr(name, content)
        finally:
            os.close(file)
        return cls(folder)

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> tuple[Journal, Start, list[dict[str, Any]]]:
        """A campaign that was begun before, and what has happened in it."""
        path = Path(folder) / SNAPSHOT
        if not path.is_file():
            raise InputError(f"{folder}: no campaign here (expected {SNAPSHOT}); begin one with ActiveLoop(..., path=...)")
        start = Start.read(path)
        journal = Path(folder) / JOURNAL
        content = journal.read_bytes() if journal.exists() else b""
        events: list[dict[str, Any]] = []
        size = 0
        lines = content.splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            event = _event(line)
            if event is None:
                if number < len(lines):
                    raise InputError(f"{journal} line {number}: damaged; restore the file from a copy, or cut it off there")
                break
            events.append(event)
            size += len(line)
        return cls(folder, size, len(content) - size), start, events

    def append(self, event: dict[str, Any]) -> None:
        """Write an event; it is on the disk when this returns, and not at all if it raises."""
        text = json.dumps(event).encode()
        line = b"%08x %s\n" % (crc32(text), text)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with _held(file, self.path):
                if os.fstat(file).st_size not in (self.size, self.size + self.torn):
                    raise InputError(f"{self.path}: another process has continued this campaign; load it again")
                self._write(file, line)
        finally:
            os.close(file)
        self.size, self.torn = self.size + len(line), 0

    def _write(self, file: int, line: bytes) -> None:
        """Put a line behind the whole ones, or leave these as they are."""
        os.ftruncate(file, self.size)
        try:
            os.lseek(file, self.size, os.SEEK_SET)
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        except BaseException:
            os.ftruncate(file, self.size)
            raise


@contextmanager
def _held(file: int, path: Path) -> Iterator[None]:
    """Hold the lock of the journal, so that nobody writes between the look at its size and the end of the line."""
    with hold(file) as held:
        if not held:
            raise InputError(f"{path}: another process is writing and does not finish; end it, or wait and try again")
        yield


def _event(line: bytes) -> dict[str, Any] | None:
    """The event of a line, None if the line is not whole."""
    checksum, _, text = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % crc32(text):
        return None
    event = json.loads(text)
    return event if isinstance(event, dict) else None


def _votes_of(frame: pl.DataFrame, items: pl.Series, annotators: pl.Series, classes: pl.DataFrame) -> Annotations:
    return Annotations.from_arrays(
        frame["item"],
        frame["annotator"],
        frame["label"],
        frame["weight"] if "weight" in frame.columns else None,
        items=items.to_list(),
        annotators=annotators.to_list(),
        classes=classes["class"].to_list(),
    )


def _frame(content: bytes) -> pl.DataFrame:
    """A table as `_arrow` wrote it, which is not compressed."""
    if declared_size(BytesIO(content), "arrow") > len(content):
        raise ValueError("a compressed table, which could grow without bounds")
    return pl.read_ipc(BytesIO(content))


def _arrow(frame: pl.DataFrame) -> bytes:
    buffer = BytesIO()
    frame.write_ipc(buffer)
    return buffer.getvalue()
