"""Commands on answers other than classes, with names that look like formulas: what they write and what they refuse."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import crowdwise
from crowdwise.cli import app
from crowdwise.data.token_votes import TokenVotes

FILES = {
    "rank.csv": "item_a,item_b,annotator,winner\n=x,@y,-a,=x\n@y,😀,-a,b\n😀,=x,+b,tie\n",
    "cluster.csv": "item_a,item_b,annotator,same\n=x,@y,-a,1\n@y,😀,-a,0\n😀,=x,+b,0\n=x,q,+b,1\n",
    "spans.csv": "sequence,position,annotator,label,token\n=s,1,-a,B-T,=w\n=s,2,-a,O,\n=s,1,+b,B-T,=w\n=s,2,+b,O,\n",
    "sets.csv": "item,annotator,label\n=i,-a,=cat|dog\n=i,+b,=cat\nj,+b,none\n",
    "partial.csv": "item,annotator,label\n=i,-a,=cat\n=i,+b,!dog\nj,+b,dog\n",
    "numbers.csv": "item,annotator,value\n=i,-a,1.5\n=i,+b,2\nj,+b,3\nj,-a,3.25\n",
    "fair.csv": "item,annotator,label,sex\n=i,-a,1,=m\n=i,+b,0,=m\nj,+b,1,w\nj,-a,1,w\n",
}
COMMANDS = {
    "rank": ["rank", "rank.csv"],
    "cluster": ["cluster", "cluster.csv", "--clusters", "2"],
    "spans": ["spans", "spans.csv"],
    "sets": ["aggregate", "sets.csv", "--type", "multilabel"],
    "partial": ["aggregate", "partial.csv", "--type", "partial"],
    "numbers": ["regress", "numbers.csv"],
    "fair": ["fairness", "fair.csv", "--group", "sex"],
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)

    def invoke(*arguments: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == code, (result.exit_code, result.stderr, result.exception)
        assert "Traceback" not in result.stderr
        return result

    return invoke


@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_formulas_are_escaped_in_every_table(run: Callable[..., Any], command: list[str], tmp_path: Path) -> None:
    run(*command, "-o", "out.csv", "--annotators", "who.csv", "-q")
    written = (tmp_path / "out.csv").read_text() + (tmp_path / "who.csv").read_text()
    first_cells = [cell for line in written.splitlines() for cell in line.split(",")[:2]]
    assert any(cell.startswith("'=") for cell in first_cells)
    assert not [cell for cell in first_cells if cell[:1] in "=+-@" and cell]


@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_stdout_takes_one_thing_and_refusals_write_nothing(run: Callable[..., Any], command: list[str], tmp_path: Path) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    assert not run(*command, "--json", "-o", "-", code=2).stdout
    assert not run(*command, "--annotators", "-", code=2).stdout
    run(*command, "-o", "out.csv", "--annotators", "out.csv", code=2)
    run(*command, "-o", command[1], code=2)
    run(*command, "-o", "out.csv", "--set", "colour=1", code=2)
    (tmp_path / command[1]).write_text(FILES[command[1]].splitlines()[0] + "\n")
    run(*command, "-o", "out.csv", "--annotators", "who.csv", code=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_json_is_json_alone(run: Callable[..., Any], command: list[str]) -> None:
    assert json.loads(run(*command, "--json", "-q").stdout)


def test_tokens_without_a_word_are_written_as_a_mark(run: Callable[..., Any], tmp_path: Path) -> None:
    run("spans", "spans.csv", "-o", "out.csv", "--tokens", "tags.conll", "-q")
    assert (tmp_path / "tags.conll").read_text() == "=w\tB-T\n_\tO\n"
    run("spans", "spans.csv", "--tokens", "-", code=2)


def test_only_line_ends_end_a_line_of_conll(run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "odd.conll").write_bytes("token\tx\ty\r\nA\u2028da\tB-P\tB-P\r\nso\x85\tO\t?\r\n\r\nBob\tB-P\tO\r\n".encode())
    tags = crowdwise.read(tmp_path / "odd.conll", TokenVotes)
    assert (tags.n_sequences, tags.n_tokens) == (2, 3)


def test_the_separator_of_labels_must_be_something(run: Callable[..., Any]) -> None:
    assert "must not be empty" in run("aggregate", "sets.csv", "--type", "multilabel", "--separator", "", code=2).stderr


VOTES = "item,annotator,label\n" + "".join(
    f"=i{n},{who},{'=cat' if n % 2 else '-'}\n" for n in range(6) for who in ("@x", "+y", "z") if (n, who) != (5, "z")
)
WRITERS: dict[str, list[str]] = {
    "aggregate": ["aggregate", "votes.csv", "-m", "majority"],
    "annotators": ["annotators", "votes.csv", "-m", "majority"],
    "review": ["review", "votes.csv", "-m", "majority"],
    "audit": ["audit", "votes.csv", "-m", "majority", "--check", "3"],
    "suggest": ["suggest", "votes.csv", "-m", "majority"],
    "convert": ["convert", "votes.csv"],
    "to a platform": ["convert", "votes.csv", "--to", "appen"],
    "simulate": ["simulate", "--items", "5", "--annotators", "3", "--votes-per-item", "2", "--classes", "=a,=b"],
}


def cells(path: Path) -> list[str]:
    return [cell for row in csv.reader(StringIO(path.read_text(), newline="")) for cell in row]


@pytest.mark.parametrize("command", WRITERS.values(), ids=list(WRITERS))
def test_every_csv_is_for_spreadsheets_unless_raw(run: Callable[..., Any], command: list[str], tmp_path: Path) -> None:
    (tmp_path / "votes.csv").write_text(VOTES)
    said = run(*command, "-o", "out.csv").stderr
    assert "out.csv: a ' was put before what a spreadsheet would run as a formula" in said
    assert any(cell.startswith("'") for cell in cells(tmp_path / "out.csv"))
    assert not [cell for cell in cells(tmp_path / "out.csv") if len(cell) > 1 and cell[0] in "=+@"]
    plain = run(*command, "-o", "raw.csv", "--raw").stderr
    assert "formula" not in plain
    assert any(cell[:1] in ("=", "+", "@") for cell in cells(tmp_path / "raw.csv"))
    assert [cell.removeprefix("'") for cell in cells(tmp_path / "out.csv")] == cells(tmp_path / "raw.csv")


def test_other_formats_and_harmless_names_stay_as_they_are(run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "votes.csv").write_text(VOTES)
    assert "formula" not in run("convert", "votes.csv", "-o", "out.jsonl").stderr
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])["item"] == "=i0"
    (tmp_path / "signs.csv").write_text("item,annotator,label\n-1,x,+\n-1,y,-\n-2.5,x,+\n")
    assert "formula" not in run("aggregate", "signs.csv", "-m", "majority", "-o", "out.csv").stderr
