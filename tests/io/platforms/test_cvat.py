"""CVAT's XML for images."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tests.io.helpers import triples, write

from crowdwise.data.ratings import Ratings
from crowdwise.errors import InputError
from crowdwise.io import detect, read

META = "<meta><task><assignee><username>ann</username></assignee></task></meta>"


def xml(*images: str, meta: str = META) -> str:
    inside = "".join(f'<image id="{n}" name="i{n}.jpg" width="9" height="9">{image}</image>' for n, image in enumerate(images))
    return f'<?xml version="1.0" encoding="utf-8"?>\n<annotations><version>1.1</version>{meta}{inside}</annotations>'


def tag(label: str, **attributes: str) -> str:
    inside = "".join(f'<attribute name="{name}">{value}</attribute>' for name, value in attributes.items())
    return f'<tag label="{label}" source="manual">{inside}</tag>'


def box(x: float, label: str = "car") -> str:
    return f'<box label="{label}" occluded="0" xtl="{x}" ytl="1" xbr="{x + 10}" ybr="9" z_order="0"/>'


def test_tags_are_votes(tmp_path: Path) -> None:
    path = write(tmp_path / "annotations.xml", xml(tag("cat"), tag("dog"), ""))
    assert detect(path) == "cvat"
    votes = read(path)
    assert triples(votes) == [("i0.jpg", "ann", "cat"), ("i1.jpg", "ann", "dog")]
    assert votes.items.tolist() == ["i0.jpg", "i1.jpg", "i2.jpg"]


def test_a_file_per_annotator(tmp_path: Path) -> None:
    write(tmp_path / "ann.xml", xml(tag("cat")))
    write(tmp_path / "bob.xml", xml(tag("dog", age="3")))
    assert triples(read(tmp_path, question="tag")) == [("i0.jpg", "ann", "cat"), ("i0.jpg", "bob", "dog")]
    with pytest.raises(InputError, match=r"several questions: 'tag', 'dog\.age'"):
        read(tmp_path)
    assert triples(read(tmp_path, question="dog.age")) == [("i0.jpg", "bob", 3)]


def test_boxes_go_to_regress(tmp_path: Path) -> None:
    write(tmp_path / "ann.xml", xml(box(0) + box(50)))
    write(tmp_path / "bob.xml", xml(box(1)))
    with pytest.raises(InputError, match="boxes, no tags of whole images; crowdwise regress"):
        read(tmp_path)
    found = read(tmp_path, Ratings).to_frame()
    assert found.select("item", "annotator", "x1").rows() == [
        ("i0.jpg/car/1", "ann", 0.0), ("i0.jpg/car/1", "bob", 1.0), ("i0.jpg/car/2", "ann", 50.0)]  # fmt: skip


def test_the_zip_that_cvat_writes(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "task.zip", "w") as archive:
        archive.writestr("annotations.xml", xml(tag("cat")))
        archive.writestr("images/i0.jpg", b"\xff\xd8")
    assert triples(read(tmp_path / "task.zip")) == [("i0.jpg", "ann", "cat")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<annotations><track id='0'/></annotations>", "tracks of a video"),
        ("<annotations><image>", "broken XML"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><annotations/>", "declares a document type"),
        ("<html></html>", "XML that is not CVAT's"),
    ],
)
def test_other_xml_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / "a.xml", text))
