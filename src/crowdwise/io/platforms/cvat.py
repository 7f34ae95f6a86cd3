"""CVAT: the XML "for images", tags and boxes of images (https://docs.cvat.ai/docs/manual/advanced/xml_format/).

A file holds the work of one annotator: who it was is the name of the file where several files are read, as after an export of
every job of a replicated task, else whom the task or the job was assigned to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from crowdwise.errors import InputError
from crowdwise.io.advice import instead
from crowdwise.io.boxes import Box
from crowdwise.io.source import Source
from crowdwise.io.votes import Ballot, Export, Request

__all__ = ["matches", "read", "read_boxes"]

_TAG = "tag"


def matches(source: Source) -> bool:
    """Recognise the root element, in the first file."""
    part = source.parts[0] if source.parts else source
    return b"<annotations" in part.data[:2000]


def read(source: Source, request: Request) -> Export:
    """Return the tags of whole images as votes; an attribute of a tag is a question of its own, ``label.attribute``."""
    ballot = Ballot(source, untyped=True)
    wanted = request.question or request.label
    boxes = False
    for person, row, image in _images(source):
        answers: dict[str, Any] = {}
        for tag in image.iterfind("tag"):
            label = tag.get("label", "")
            answers.setdefault(_TAG, []).append(label)
            for attribute in tag.iterfind("attribute"):
                answers.setdefault(f"{label}.{attribute.get('name')}", []).append((attribute.text or "").strip() or None)
        boxes = boxes or image.find("box") is not None
        ballot.vote(row, image.get("name"), person, answers)
    if boxes and not any(answers for *_, answers in ballot.votes):
        raise InputError(f"{source.name}: boxes, no tags of whole images; {instead('regress', source.name)} reads them")
    return ballot.export(wanted)


def read_boxes(source: Source, wanted: str | None) -> list[Box] | None:
    """The boxes, of one label where it is named, in pixels."""
    boxes = []
    for person, row, image in _images(source):
        for box in image.iterfind("box"):
            if wanted in (None, box.get("label")):
                x1, y1, x2, y2 = (float(box.get(side, "nan")) for side in ("xtl", "ytl", "xbr", "ybr"))
                boxes.append(Box(row, image.get("name"), person, box.get("label", ""), (x1, y1, x2, y2)))
    return boxes or None


def _images(source: Source) -> Iterator[tuple[str, int, ElementTree.Element]]:
    """The annotator, the number and the element of every image."""
    for part in source.parts if source.parts is not None else (source,):
        root = _parsed(part)
        if root.find("track") is not None and root.find("image") is None:
            raise InputError(f'{part.name}: tracks of a video; export the task as "CVAT for images"')
        assigned = root.findtext("meta/job/assignee/username") or root.findtext("meta/task/assignee/username")
        person = part.path.stem if source.parts is not None or not assigned else assigned
        for row, image in enumerate(root.iterfind("image"), start=1):
            part.last_row = row
            yield person, row, image


def _parsed(part: Source) -> ElementTree.Element:
    # A document type could declare entities that expand without end.
    if b"<!DOCTYPE" in part.data or b"<!ENTITY" in part.data:
        raise InputError(f"{part.name}: declares a document type, which CVAT never does; export it again")
    try:
        return ElementTree.fromstring(part.data.decode())
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"{part.name}: broken XML ({error}); export it again") from None
