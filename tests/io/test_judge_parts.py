"""Judges that several columns name, and prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from crowdwise.errors import InputError
from crowdwise.io.annotator_tables import read_families
from crowdwise.io.judge_parts import prices_in, read_parts, read_prices


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_parts_are_joined(tmp_path: Path) -> None:
    path = write(
        tmp_path / "v.jsonl",
        '{"id": "q", "model": "m", "prompt": "kurz", "temperature": 0.7, "label": "x"}\n'
        '{"id": "q", "model": "m", "prompt": "läng", "temperature": null, "label": "?"}\n',
    )
    votes = read_parts(path, ["model", "prompt", "temperature"], missing=["?"])
    assert votes.annotators.tolist() == ["m/kurz/0.7", "m/läng/"]
    assert (votes.n_votes, votes.n_missing) == (1, 1)
    with pytest.raises(InputError, match=r"no column 'promt'.*did you mean 'prompt'"):
        read_parts(path, ["model", "promt"])


def test_prices(tmp_path: Path) -> None:
    assert read_prices(write(tmp_path / "p.csv", "annotator,price\na,0.5\nb,2\n")) == {"a": 0.5, "b": 2}
    votes = write(tmp_path / "v.csv", "item,annotator,label,cost_per_vote\nq,a,x,1\nr,a,x,2\nq,b,x,\n")
    assert prices_in(votes) == {"a": 1.5}
    # A price may be that of the item, and a table with a column per annotator has none.
    assert prices_in(write(tmp_path / "n.csv", "item,annotator,label,price\nq,a,x,cheap\n")) == {}
    assert prices_in(write(tmp_path / "n.csv", "item,ann,bob,price_per_vote\nq,x,x,1\n")) == {}
    with pytest.raises(InputError, match="no column of prices"):
        read_prices(write(tmp_path / "q.csv", "annotator,group\na,b\n"))
    for wrong in ("dear", "-1"):
        with pytest.raises(InputError, match=f"row 2: '?{wrong}'? is no price"):
            read_prices(write(tmp_path / "w.csv", f"annotator,price\na,{wrong}\n"))


def test_a_family_is_a_group(tmp_path: Path) -> None:
    assert read_families(write(tmp_path / "f.csv", "judge,family\na,m\nb,m\n")) == {"a": "m", "b": "m"}
