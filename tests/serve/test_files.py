"""Tables by upload and by a folder: whole or not at all, and twice is once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.serve.serving import PLAIN, Served, serving, settings_in

from crowdwise.errors import InputError
from crowdwise.serve import Client
from crowdwise.serve.files import read_items

TABLE = b"item,annotator,label\ni1,anna,cat\ni1,bert,dog\ni2,anna,cat\n"


def test_an_upload_is_taken_once(served: Served) -> None:
    client = Client(served.url, served.lead)
    assert client.upload(TABLE) == {"file": "votes.csv", "votes": 3, "taken": 3, "repeated": 0, "older": 0}
    assert client.upload(TABLE)["repeated"] == 3
    # A later answer of the same person counts; an earlier file that comes later does not.
    client.vote("i2", "dog", annotator="anna")
    early = client.call("POST", "/upload?name=early.csv&at=2020-01-01T00:00:00Z", b"item,annotator,label\ni2,anna,cat\n")
    assert early["older"] == 1


def test_any_table_that_crowdwise_reads_will_do(served: Served) -> None:
    wide = b"item,w1,w2\nwide1,cat,dog\nwide2,cat,cat\n"
    assert Client(served.url, served.lead).upload(wide, "wide.csv")["taken"] == 4


def test_a_file_with_one_wrong_row_is_refused_whole(served: Served) -> None:
    client = Client(served.url, served.lead)
    with pytest.raises(InputError, match="'bird' is not among the classes") as problem:
        client.upload(b"item,annotator,label\nwhole1,anna,cat\nwhole2,anna,bird\n", "mixed.csv")
    assert "/tmp" not in str(problem.value)
    served.settle()
    assert not [row for row in client.labels() if row["item"].startswith("whole")]


@pytest.mark.parametrize(
    "table",
    [
        b"item,label\na,cat\nb,dog\n",
        b"photo,anna,bert\np1,cat,dog\np2,dog,dog\n",
        b"left,right,winner\na,b,a\nb,c,b\n",
        b"photo,cat,dog\np1,3,1\np2,0,4\n",
    ],
)
def test_a_refused_upload_is_not_told_options_or_commands(served: Served, table: bytes) -> None:
    with pytest.raises(
        InputError, match=r"votes\.csv: no .* column; found .*\. Call the columns item, annotator and label"
    ) as found:
        Client(served.url, served.lead).upload(table)
    assert "Name " not in str(found.value)
    assert "--" not in str(found.value)
    assert "crowdwise" not in str(found.value)


def test_a_changed_table_of_items_is_taken_over_at_the_next_start(tmp_path: Path) -> None:
    text, table = PLAIN.replace("[inference]", 'items = "items.csv"\n[inference]'), tmp_path / "items.csv"
    table.write_text("item,text,picture\na,One,https://example.org/1.png\nb,Two,\nc,Three,\n")
    with serving(settings_in(tmp_path, text)) as served:
        assert served.service.remarks == []
        Client(served.url, served.lead).vote("b", "cat", annotator="anna")
    table.write_text("item,text,picture\na,One,signs/my 1.PNG\nb,Zwei,\nd,Four,signs/4.png\n")
    with serving(settings_in(tmp_path, text)) as served:
        changed, new, left, local = served.service.remarks
        assert "of 2 known items" in changed
        assert "new: 1" in new
        assert "not in it: 1;" in left
        assert "'signs/my 1.PNG' of item 'a' and 1 more will be seen as text" in local
        assert served.service.shown("b")["content"] == {"text": "Zwei"}
        assert served.service.shown("c")["content"] == {"text": "Three"}
        assert Client(served.url, served.lead).progress()["votes"] == 1
    with serving(settings_in(tmp_path, text)) as served:
        assert [one for one in served.service.remarks if "known items" in one or "new:" in one] == []


def test_files_in_the_folder_are_taken_and_moved(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    text = PLAIN.replace("[inference]", 'drop = "inbox"\n[inference]')
    with serving(settings_in(tmp_path, text)) as served:
        (inbox / "half.csv.part").write_bytes(TABLE)
        (inbox / "wrong.csv").write_bytes(b"item,annotator,label\nx,anna,bird\n")
        (inbox / "votes.csv").write_bytes(TABLE)
        os.symlink("/etc/hostname", inbox / "link.csv")
        served.wait_for(lambda: (inbox / "taken" / "votes.csv").exists() and (inbox / "refused" / "wrong.csv").exists())
        reason = served.wait_for(lambda: next(iter((inbox / "refused").glob("*.txt")), None))
        assert "'bird' is not among the classes" in reason.read_text()
        assert sorted(path.name for path in inbox.iterdir() if not path.is_dir()) == ["half.csv.part", "link.csv"]
        served.settle()
        assert Client(served.url, served.lead).progress()["votes"] == 3
        # The same file under another name brings nothing new.
        (inbox / "again.csv").write_bytes(TABLE)
        served.wait_for(lambda: (inbox / "taken" / "again.csv").exists())
        served.settle()
        assert served.service.counts == {"taken": 3, "repeated": 3}


def test_items_bring_what_is_shown(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item,text,link\n1,One,\n2,,https://example.org/2.png\n")
    assert read_items(tmp_path / "items.csv") == [("1", '{"text": "One"}'), ("2", '{"link": "https://example.org/2.png"}')]
    (tmp_path / "named.csv").write_text("photo,text\n1,One\n")
    with pytest.raises(InputError, match=r"no item column; found 'photo', 'text'\. Call the column with the ids .*: item$"):
        read_items(tmp_path / "named.csv")
    (tmp_path / "twice.csv").write_text("item,text\na,One\nb,Two\na,Three\n")
    with pytest.raises(InputError, match=r"twice\.csv row 4: item 'a' is there twice, first in row 2; keep one"):
        read_items(tmp_path / "twice.csv")
    (tmp_path / "bare.csv").write_text("item\na\nb\n")
    assert read_items(tmp_path / "bare.csv") == [("a", None), ("b", None)]
