"""Workbooks, zip archives, other encodings, and rows above the header."""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from tests.io.helpers import triples, write

from crowdwise.data.ratings import Ratings
from crowdwise.errors import DataWarning, InputError, MissingExtraError, SettingError
from crowdwise.io import read
from crowdwise.io.limits import limited

CSV = "item,annotator,label\np1,ann,cat\np1,bob,dog\n007,ann,cat\n"
VOTES = [("007", "ann", "cat"), ("p1", "ann", "cat"), ("p1", "bob", "dog")]
needs_excel = pytest.mark.skipif(importlib.util.find_spec("fastexcel") is None, reason="fastexcel is not installed")
ROWS = [line.split(",") for line in CSV.splitlines()]


def workbook(path: Path, **sheets: list[list[Any]]) -> Path:
    """A workbook as small as the format allows: cells are texts or numbers in place."""

    def cell(place: str, value: Any) -> str:
        if isinstance(value, int | float):
            return f'<c r="{place}"><v>{value}</v></c>'
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>' if value else ""

    spread = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kinds, named, linked = "", "", ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for n, (title, rows) in enumerate(sheets.items(), start=1):
            lines = "".join(
                f'<row r="{r}">{"".join(cell(f"{chr(65 + c)}{r}", value) for c, value in enumerate(row))}</row>'
                for r, row in enumerate(rows, start=1)
            )
            text = f'<worksheet xmlns="{spread}"><sheetData>{lines}</sheetData></worksheet>'
            archive.writestr(f"xl/worksheets/sheet{n}.xml", text)
            sheet = "application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"
            kinds += f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{sheet}"/>'
            named += f'<sheet name="{title}" sheetId="{n}" r:id="rId{n}"/>'
            linked += f'<Relationship Id="rId{n}" Type="{office}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        main = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
        relation = "application/vnd.openxmlformats-package.relationships+xml"
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType="{relation}"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{main}"/>{kinds}</Types>',
        )
        relations = f'<Relationships xmlns="{package}/relationships">'
        link = f'<Relationship Id="rId1" Type="{office}/officeDocument" Target="xl/workbook.xml"/>'
        archive.writestr("_rels/.rels", f"{relations}{link}</Relationships>")
        archive.writestr("xl/_rels/workbook.xml.rels", f"{relations}{linked}</Relationships>")
        head = f'<workbook xmlns="{spread}" xmlns:r="{office}">'
        archive.writestr("xl/workbook.xml", f"{head}<sheets>{named}</sheets></workbook>")
    return path


@needs_excel
def test_a_workbook(tmp_path: Path) -> None:
    assert triples(read(workbook(tmp_path / "v.xlsx", Votes=ROWS, Notes=[]))) == VOTES


@needs_excel
def test_numbers_of_a_workbook_are_not_guessed(tmp_path: Path) -> None:
    path = workbook(tmp_path / "v.xlsx", Votes=[["item", "annotator", "value"], [1, "ann", 2.5], [2, "ann", 3]])
    assert read(path, Ratings).to_frame().rows() == [(1, "ann", 2.5), (2, "ann", 3.0)]


@needs_excel
def test_a_title_and_rows_in_a_workbook(tmp_path: Path) -> None:
    path = workbook(tmp_path / "v.xlsx", Votes=[["Export, June 2024"], [], *ROWS[:2], ["p2", "", "cat"]])
    said = pytest.warns(DataWarning, match=r"2 rows above the header are left out \(the header is row 3\)")
    with said, pytest.raises(InputError, match=r"v\.xlsx row 5: .*annotator"):
        read(path)


@needs_excel
def test_several_sheets_need_a_name(tmp_path: Path) -> None:
    path = workbook(tmp_path / "v.xlsx", June=ROWS, July=[*ROWS[:1], ["p9", "eve", "fox"]])
    with pytest.raises(InputError, match=r"several sheets: 'June', 'July'\. Pick one, for example: .*--sheet June"):
        read(path)
    assert triples(read(path, sheet="July")) == [("p9", "eve", "fox")]
    with pytest.raises(InputError, match="no sheet 'Juli'; found 'June', 'July'; did you mean 'July'"):
        read(path, sheet="Juli")


@needs_excel
def test_a_broken_workbook(tmp_path: Path) -> None:
    path = tmp_path / "v.xlsx"
    path.write_bytes(b"PK\x03\x04 and nothing else")
    with pytest.raises(InputError, match=r"v\.xlsx: not a readable"):
        read(path)


@needs_excel
def test_a_workbook_is_bounded(tmp_path: Path) -> None:
    path = workbook(tmp_path / "v.xlsx", Votes=[["item", "annotator", "label"], *[["x" * 100, "a", "b"]] * 500])
    with limited(20_000), pytest.raises(InputError, match="unzips to more than 20,000 bytes"):
        read(path)


def test_a_workbook_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(MissingExtraError, match=r"needs fastexcel: pip install 'crowdwise\[excel\]'"):
        read(workbook(tmp_path / "v.xlsx", Votes=ROWS))


def packed(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_a_zip_with_one_table(tmp_path: Path) -> None:
    members = {"data/votes.csv": CSV, "README.md": "x", "__MACOSX/data/._votes.csv": "y", "data/": ""}
    path = packed(tmp_path / "v.zip", **members)
    assert triples(read(path)) == VOTES
    with pytest.raises(InputError, match=r"v\.zip \(data/votes\.csv\): no column 'x'"):
        read(path, item="x")


@pytest.mark.parametrize("name", ["v.json", "v.jsonl"])
def test_json_in_a_zip(tmp_path: Path, name: str) -> None:
    records = [f'{{"item": "{i}", "annotator": "{a}", "label": "{x}"}}' for i, a, x in VOTES]
    text = "[" + ",\n".join(records) + "]" if name == "v.json" else "\n".join(records)
    assert triples(read(packed(tmp_path / "v.zip", **{name: text}))) == VOTES


def test_several_tables_or_none_in_a_zip(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds one table; found a\.csv, b\.csv\. Unpack it"):
        read(packed(tmp_path / "v.zip", **{"a.csv": CSV, "b.csv": CSV}))
    with pytest.raises(InputError, match="holds one table; found none"):
        read(packed(tmp_path / "w.zip", **{"a.png": "x"}))


def test_a_zip_is_bounded(tmp_path: Path) -> None:
    path = packed(tmp_path / "v.zip", **{"v.csv": CSV + "p1,eve,cat\n" * 100_000})
    with pytest.raises(InputError, match="unzips to more than 100,000 bytes"):
        read(path, max_bytes=100_000)


def test_encodings(tmp_path: Path) -> None:
    text = CSV.replace("dog", "größer")
    for encoding in ("cp1252", "utf-16", "utf-16-le", "utf-8-sig"):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes(text.encode(encoding))
        assert ("p1", "bob", "größer") in triples(read(path, encoding=encoding))
    with pytest.raises(InputError, match=r"row 3: byte 0xf6 is not UTF-8; .*--encoding cp1252"):
        read(tmp_path / "cp1252.csv")
    with pytest.raises(InputError, match="Python knows no 'klingon'"):
        read(tmp_path / "cp1252.csv", encoding="klingon")
    with pytest.raises(InputError, match=r"cp1252\.csv row 3: not ascii"):
        read(tmp_path / "cp1252.csv", encoding="ascii")


@pytest.mark.parametrize(
    ("first", "separator"), [("sep=;", ";"), ('"sep=;"', ";"), ("sep=,", ","), ("SEP=\t", "\t"), ("sep=^", "^")]
)
def test_a_line_that_names_the_separator(tmp_path: Path, first: str, separator: str) -> None:
    path = write(tmp_path / "v.csv", f"{first}\r\n" + CSV.replace(",", separator).replace("\n", "\r\n"))
    assert triples(read(path)) == VOTES
    with pytest.raises(InputError, match=r"v\.csv row 4: label 'dog'"):
        read(path, classes=["cat"])


@pytest.mark.parametrize(
    "title", ["Export of June\n", "Export of June,,\n\n", "\n\n", '"A title, quoted"\n,,\n', "Export, June\n"]
)
def test_rows_above_the_header(tmp_path: Path, title: str) -> None:
    path = write(tmp_path / "v.csv", title + CSV)
    rows = title.count("\n")
    with pytest.warns(DataWarning, match=rf"{rows} rows? above the header (is|are) left out"):
        assert triples(read(path)) == VOTES
    with pytest.warns(DataWarning), pytest.raises(InputError, match=rf"v\.csv row {rows + 3}: label 'dog'"):
        read(path, classes=["cat"])


def test_rows_above_the_header_that_only_the_user_knows(tmp_path: Path) -> None:
    text = CSV.replace("item,annotator,label", "picture,who,said")
    path = write(tmp_path / "v.csv", "Export, of June\n" + text)
    named = {"item": "picture", "annotator": "who", "label": "said"}
    with pytest.raises(InputError, match=r"no column 'picture', no column 'who', no column 'said'; found 'Export'"):
        read(path, **named)
    assert triples(read(path, **named, skip_rows=1)) == VOTES
    assert triples(read(write(tmp_path / "w.csv", "a, b\n" + CSV.replace(",", ";")), skip_rows=1)) == VOTES
    with pytest.raises(InputError, match="no row is left below the 9 that are skipped"):
        read(path, skip_rows=9)
    with pytest.raises(SettingError, match="skip_rows must be a whole number"):
        read(path, skip_rows=-1)


def test_one_column_of_texts_is_no_title(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "text\nhello\nyou\n")
    with pytest.raises(InputError, match="no annotator and no label column; found 'text'"):
        read(path)


def test_a_header_without_the_index_of_its_rows_stays(tmp_path: Path) -> None:
    # As R writes it: the fields do not fit the header, and nothing is taken for something else.
    path = write(tmp_path / "v.csv", "item,annotator,label\n1,p1,ann,cat\n2,p1,bob,dog\n")
    with pytest.raises(InputError, match="row numbers in front of the columns have no name in the header, as R writes them"):
        read(path)
