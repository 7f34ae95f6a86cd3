"""Tables that come by upload or are dropped into a folder: read by the project's own readers, taken whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.data.encode import as_text, find_column, tidy
from crowdwise.errors import CrowdwiseError, InputError
from crowdwise.io.reader import read
from crowdwise.io.source import Places, open_source
from crowdwise.serve.votes import Delivery, name_of, pair_ref

if TYPE_CHECKING:
    from crowdwise.serve.service import Service

__all__ = ["Drop", "local_pictures", "read_items", "read_votes", "upload"]

# Seconds between looks into the folder; a file is taken when it was the same twice.
_LOOK = 1.0
_OPTION = re.compile(r"(?<!\w)--[a-z]|\bcrowdwise [a-z]|^Name (it|them): ")
_COLUMNS = "Call the columns item, annotator and label; or item, and the names of annotators where each has a column"
# As the page tells pictures.
_PICTURE, _ADDRESS = re.compile(r"\.(png|jpe?g|gif|webp)$", re.IGNORECASE), re.compile("https?://")
_UNFINISHED = re.compile(r"^[.~]|\.(part|tmp|partial|crdownload|swp)$|\.refused\.txt$", re.IGNORECASE)


def read_items(path: Path) -> list[tuple[str, str | None]]:
    """Items of a table, and its other columns as JSON, to be shown with the questions."""
    source = open_source(path)
    frame = source.table(source.columns).frame
    own = find_column(frame, "item", None, Places(source.name), "Call the column with the ids of the items: item")
    names = [name_of(value, f"{source.name}: item") for value in as_text(tidy(frame[own])).to_list()]
    rows_of: dict[str, int] = {}
    for row, name in enumerate(names, 2):
        if rows_of.setdefault(name, row) != row:
            raise InputError(
                f"{source.name} row {row}: item {name[:60]!a} is there twice, first in row {rows_of[name]}; keep one"
            )
    others = [name for name in frame.columns if name != own]
    rows = zip(*(frame[name].to_list() for name in others), strict=True) if others else (() for _ in names)
    contents = [{k: str(v) for k, v in zip(others, row, strict=True) if v not in (None, "")} for row in rows]
    return [(name, json.dumps(content) if content else None) for name, content in zip(names, contents, strict=True)]


def local_pictures(given: list[tuple[str, str | None]]) -> list[tuple[str, str]]:
    """Items and what looks like a picture in a folder: a browser, which may be anywhere, shows its name."""
    shown = [(item, str(value)) for item, content in given if content for value in json.loads(content).values()]
    return [(item, value) for item, value in shown if _PICTURE.search(value) and not _ADDRESS.match(value)]


def read_votes(path: Path, name: str, classes: tuple[str, ...], at: int) -> list[Delivery]:
    """The votes of a file; the same file gives the same keys, so that it can be taken twice."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        votes = read(path, repeats="last")
    strange = [str(one) for one in votes.classes.tolist() if str(one) not in classes]
    if strange:
        raise InputError(f"{name}: label {strange[0][:60]!a} is not among the classes of the campaign: {', '.join(classes)}")
    if votes.anonymous or votes.weight is not None:
        raise InputError(f"{name}: a live campaign takes one answer per annotator and item; say who gave each vote")
    made = []
    items, people, labels = ([str(one) for one in names.tolist()] for names in (votes.items, votes.annotators, votes.classes))
    for row, (n, a, k) in enumerate(zip(votes.item.tolist(), votes.annotator.tolist(), votes.label.tolist(), strict=True)):
        item, who = name_of(items[n], f"{name}: item"), name_of(people[a], f"{name}: annotator")
        made.append(Delivery(f"file:{digest}:{row}", pair_ref(item, who), item, who, labels[k], "label", at))
    return made


async def upload(service: Service, body: bytes, name: str, at: int) -> dict[str, Any]:
    """Take in a file that came with a request."""
    if not re.fullmatch(r"[\w.-]{1,100}", name) or name.startswith("."):
        raise InputError("name must be a file name such as votes.csv")
    with tempfile.TemporaryDirectory(prefix="crowdwise-upload-") as folder:
        path = Path(folder) / name
        await asyncio.to_thread(path.write_bytes, body)
        return await _take(service, path, name, at)


async def _take(service: Service, path: Path, name: str, at: int) -> dict[str, Any]:
    classes = service.settings.campaign.classes
    try:
        made = await asyncio.to_thread(read_votes, path, name, classes, at)
    except OSError as problem:
        raise InputError(f"{name}: cannot be read ({problem.strerror})") from problem
    except CrowdwiseError as problem:
        raise InputError(_for_tables(str(problem).replace(str(path), name))) from problem
    for one in made:
        service.check_item(str(one.item))
    outcomes = await service.deliver(made)
    return {"file": name, "votes": len(made), **{kind: outcomes.count(kind) for kind in ("taken", "repeated", "older")}}


def _for_tables(words: str) -> str:
    """What is wrong with a table, with a remedy for somebody who has no options to set and no other command to call."""
    parts = re.split(r"([.;] )", words)
    first = next((n for n, part in enumerate(parts) if _OPTION.search(part)), None)
    return words if first is None else f"{''.join(parts[: max(first - 1, 0)])}. {_COLUMNS}"


class Drop:
    """Watches a folder: what is read goes to its folder "taken", what is refused to "refused" with the reason beside it."""

    def __init__(self, service: Service, folder: Path) -> None:
        self._service, self._folder = service, folder
        for place in (folder, folder / "taken", folder / "refused"):
            place.mkdir(parents=True, exist_ok=True)
        self._seen: dict[str, tuple[int, int]] = {}

    async def watch(self) -> None:
        """Look into the folder until cancelled."""
        while True:
            try:
                await self.look()
            except OSError as problem:  # a folder that is away for a moment
                self._service.brain.facts["failed"] = f"the folder {self._folder.name}: {problem.strerror}"
            await asyncio.sleep(_LOOK)

    async def look(self) -> int:
        """Take files that have not changed since the last look; returns how many."""
        now, taken = {}, 0
        for path in sorted(self._folder.iterdir()):
            if path.is_symlink() or not path.is_file() or _UNFINISHED.search(path.name):
                continue
            state = path.stat()
            now[path.name] = state.st_size, state.st_mtime_ns
            if self._seen.get(path.name) == now[path.name]:
                await self._one(path, state.st_mtime_ns // 1000)
                taken += 1
        self._seen = now
        return taken

    async def _one(self, path: Path, at: int) -> None:
        try:
            if path.stat().st_size > self._service.settings.server.max_upload:
                raise InputError(f"{path.name} is larger than max_upload")
            facts = await _take(self._service, path, path.name, at)
        except CrowdwiseError as problem:
            path.rename(_free(self._folder / "refused" / path.name))
            (self._folder / "refused" / f"{path.name}.refused.txt").write_text(f"{problem}\n", encoding="utf-8")
            self._service.events.publish("file", {"file": path.name, "refused": str(problem)[:300]})
            return
        # A crash before this line takes the file in again, which changes nothing.
        path.rename(_free(self._folder / "taken" / path.name))
        self._service.events.publish("file", facts)


def _free(path: Path) -> Path:
    """The path, or one with a number, where nothing is yet."""
    found, number = path, 1
    while found.exists():
        found, number = path.with_name(f"{path.stem}-{number}{path.suffix}"), number + 1
    return found
