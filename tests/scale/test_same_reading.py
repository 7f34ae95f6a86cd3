"""Odd files give the same votes, and the same lines about them, in memory and in shards."""

from __future__ import annotations

import unicodedata
import warnings
from pathlib import Path

import polars as pl
import pytest

from crowdwise.errors import DataWarning
from crowdwise.io import read
from crowdwise.scale import Local
from crowdwise.scale.collecting import collected
from crowdwise.scale.encoding import encode

HEAD = "item,annotator,label\n"
COMPOSED, TWO = unicodedata.normalize("NFC", "café"), unicodedata.normalize("NFD", "café")
FILES = {
    "white space": HEAD + "a, x,cat\na,y ,cat \nb,x,\tdog\nb,y,dog\u00a0\n c,x,big  dog\nc,y,big dog\nc,z,\u3000\n",
    "tab inside": HEAD + '"a",x,"big\tdog"\na,y,big dog\nb,x,cat\n',
    "unicode forms": HEAD + f"{COMPOSED},x,{TWO}\n{TWO},y,{COMPOSED}\nb,{TWO},cat\nb,{COMPOSED},cat\n",
    "repeats": HEAD + "a,x,cat\na,x,dog\na,x,dog\nb,x,cat\nb,y,cat\nc,y,cat\nc,y,cat\n",
    "repeats across items": HEAD + "a,x,cat\nb,x,cat\nc,x,dog\n",
    "byte-order mark": "\ufeff" + HEAD + "a,x,cat\nb,x,dog\n",
    "quoted newlines": HEAD + '"a\nb",x,cat\n"a\nb",y,dog\n"c","x\ny",cat\n',
    "carriage returns": HEAD.replace("\n", "\r\n") + "a,x,cat\r\nb,x,dog\r\n",
    "old line ends": HEAD.replace("\n", "\r") + "a,x,cat\rb,x,dog\r",
    "annotators": HEAD + "a,Ann,cat\na,ann,cat\nb,ann,cat\nb,gold,dog\nc,gold,dog\nb,1.2E+17,cat\n",
    "case": HEAD + "a,x,Cat\na,y,cat\nb,x,cat\nb,y,cat\n",
    "zeros": HEAD + "a,x,01\na,y,1\n007,x,1\n7,y,1\n",
    "numbers": HEAD + "1,2,3\n01,2,4\n1,5,3\n",
    "words": HEAD + "a,x,NA\na,y,cat\nb,x,-\n",
    "semicolons and commas": 'item;annotator;label;"note, if any"\na;x;cat;hm, yes\nb;x;dog;no, no\n',
    "blank lines": HEAD + "a,x,cat\n\n\nb,x,dog\n\n",
    "gold": "item,annotator,label,gold\na,x,cat ,cat\na,y,dog,cat\nb,x,dog,\n",
}


def both(path: Path, folder: Path) -> tuple[tuple[object, list[str]], tuple[object, list[str]]]:
    found = []
    for way in ("memory", "shards"):
        notes: list[str] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if way == "memory":
                votes = read(path, notes=notes)
            else:
                store = encode(path, folder / "work", n_shards=2)
                votes = collected(store)
                notes = list(store.notes)
        said = [str(each.message) for each in caught if issubclass(each.category, DataWarning)]
        found.append((votes, sorted(said + [note for note in notes if "repeat" in note])))
    return found[0], found[1]


@pytest.mark.parametrize("name", FILES)
def test_shards_and_memory_read_alike(name: str, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_bytes(FILES[name].encode())
    (memory, said), (shards, also) = both(path, tmp_path)
    one, other = (votes.to_frame().sort(pl.all()) for votes in (memory, shards))  # type: ignore[attr-defined]
    assert one.equals(other)
    for name_of in ("items", "annotators", "classes", "n_missing"):
        assert list(map(str, [getattr(memory, name_of)])) == list(map(str, [getattr(shards, name_of)])), name_of
    assert also == said


def test_lines_count_votes_and_survive_in_the_work_folder(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(HEAD + "a,x,cat\na,x,dog\nb,x,cat \nb,y, cat\n")
    with pytest.warns(DataWarning, match=r"spellings unified \(white space, Unicode form\): 2 labels \('cat ' is 'cat'\)"):
        store = encode(path, tmp_path / "work", n_shards=3)
    line = "1 of 4 votes repeat an annotator's vote on the same item, 1 of them with another label; all count"
    assert len(store.notes) == 1
    assert line in store.notes[0]
    assert encode(path, tmp_path / "work", n_shards=3).notes == store.notes


def test_variants_are_counted_by_votes(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(HEAD + "".join(f"{n},x,cat\n" for n in range(5)) + "a,x,Cat\nb,x,Cat\n")
    with pytest.warns(DataWarning, match=r"'cat' \(5\), 'Cat' \(2\)"):
        encode(path, tmp_path / "work")


def test_many_files_are_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "votes"
    folder.mkdir()
    (folder / "1.csv").write_text(HEAD + "a,x,cat\nb,x,dog \n")
    (folder / "2.csv").write_text(HEAD + "a,x,dog\nb, y,dog\n")
    with Local(work_dir=tmp_path / "work") as engine, pytest.warns(DataWarning, match="1 label .*, 1 annotator id "):
        store = engine.encode([str(folder)])
    assert "1 of 4 votes repeat" in store.notes[0]
