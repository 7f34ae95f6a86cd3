"""Values converted without typer are those that typer would have made, and what is wrong gets its message."""

from __future__ import annotations

import sys
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.conftest import Run
from typer.testing import CliRunner

from crowdwise.cli.app import PANEL_OF, build, convert_plainly


def made_by(plainly: bool, arguments: list[str]) -> tuple[int, dict[str, Any]]:
    """Exit code, and what a command with one option of each kind gets."""
    app, got = typer.Typer(), {}

    @app.command()
    def command(
        name: str | None = None,
        place: Path | None = None,
        default_place: Path = Path("a"),
        count: int | None = None,
        seven: int = 7,
        share: float = 0.5,
        several: list[str] | None = None,
        on: bool = False,
    ) -> None:
        got.update(locals())

    built: Any = typer.main.get_command(app)
    for parameter in built.params if plainly else []:
        convert_plainly(parameter)
    try:
        built(arguments, standalone_mode=False)
    except Exception as problem:
        return 1, {"message": str(problem)}
    return 0, got


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--name", "x"],
        ["--name", ""],
        ["--place", "b/../c"],
        ["--place", ""],
        ["--place", "."],
        ["--count", "12", "--share", "0.25"],
        ["--count", "-3", "--share", "-2"],
        ["--count", "+3"],
        ["--count", " 3"],
        ["--count", "1_000"],
        ["--count", "3.0"],
        ["--count", "3.5"],
        ["--count", "x"],
        ["--count", "9" * 30],
        ["--share", "1e-3"],
        ["--share", "nan"],
        ["--share", ".5"],
        ["--share", "half"],
        ["--several", "a", "--several", "b"],
        ["--on"],
    ],
)
def test_the_same_values_as_typer(arguments: list[str]) -> None:
    ours, theirs = made_by(True, arguments), made_by(False, arguments)
    assert repr(ours) == repr(theirs)


def test_a_number_that_is_none_is_refused(run: Run) -> None:
    assert "--seed" in run("aggregate", "votes.csv", "--seed", "x", code=2).stderr


@pytest.mark.skipif(sys.platform == "win32", reason="every file may be read there")
def test_a_file_that_may_not_be_read_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "secret.csv").write_text("")
    # root may read everything
    monkeypatch.setattr("os.access", lambda *given, **more: False)
    assert made_by(True, ["--place", "secret.csv"]) == made_by(False, ["--place", "secret.csv"])
    assert made_by(True, ["--place", "secret.csv"])[0] == 1


def test_every_option_has_a_kind_that_is_converted_here() -> None:
    plain = {str, int, float, bool, Path}
    for name in PANEL_OF:
        for parameter in build(name).params:
            kind = getattr(parameter, "type_descriptor", None)
            assert kind is None or kind.annotation in plain or kind.annotation == list[str], (name, parameter.name)


def test_mistyped_commands_are_met_with_their_neighbours() -> None:
    from crowdwise.cli import app

    done = CliRunner().invoke(app, ["agregate"])
    assert done.exit_code == 2
    assert "agregate" in done.stderr
    # Earlier versions of typer do not suggest any.
    assert "Did you mean 'aggregate'?" in done.stderr or "suggest_commands" not in signature(typer.Typer).parameters
