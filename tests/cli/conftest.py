"""A small campaign in a CSV file, and a way to run commands on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from crowdwise.cli import app

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a report shows does not depend on how often plans are simulated; tests/campaign/test_stopping.py has the plans."""
    monkeypatch.setattr("crowdwise.report.budget._REPEATS", 1)


# Four items; x and y agree throughout, and z is wrong on three of four.
ROWS = """item,annotator,label
a,x,cat
a,y,cat
a,z,dog
b,x,dog
b,y,dog
b,z,cat
c,x,cat
c,y,cat
c,z,cat
d,x,dog
d,y,dog
d,z,cat
"""
TRUTH = "item,label\na,cat\nb,dog\nc,cat\nd,dog\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with votes.csv and truth.csv."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CROWDWISE_DEBUG", raising=False)
    (tmp_path / "votes.csv").write_text(ROWS)
    (tmp_path / "truth.csv").write_text(TRUTH)
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    """Run a command in the folder; `code` is the exit code it must end with."""

    def invoke(*arguments: str, code: int = 0, **options: Any) -> Result:
        result = CliRunner().invoke(app, list(arguments), **options)
        assert result.exit_code == code, (result.exit_code, result.stderr, result.exception)
        assert "Traceback" not in result.stderr
        return result

    return invoke
