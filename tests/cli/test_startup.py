from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from crowdwise import __version__
from crowdwise.cli.app import PANEL_OF, build
from crowdwise.cli.job import count, number, one_line
from crowdwise.report.explanation_text import bar

COMMANDS = sorted(PANEL_OF)


@pytest.mark.slow
def test_help_imports_nothing_heavy() -> None:
    code = """
import sys
sys.argv = ["crowdwise", "--help"]
from crowdwise.cli import main
try:
    main()
except SystemExit as stop:
    assert stop.code == 0, stop.code
heavy = {"torch", "sklearn", "numba", "scipy", "polars", "numpy", "pandas"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(command in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(run: Run, command: str) -> None:
    assert f"Example: crowdwise {command}" in " ".join(run(command, "--help").stdout.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_made_of_sentences_without_types(run: Run, command: str) -> None:
    shown = run(command, "--help", env={"COLUMNS": "300"}).stdout
    assert not re.search(r"<\w+(\[.*\])?>", shown)
    for made in build(command).params:
        text = made.help or ""
        assert text[:1].isupper(), (made.name, text)
        assert text.endswith((".", "...")), (made.name, text)
        assert made.metavar is not None, made.name


def test_version_and_bare_call(run: Run) -> None:
    assert run("--version").stdout == f"crowdwise {__version__}\n"
    done = subprocess.run([sys.executable, "-m", "crowdwise", "--version"], capture_output=True, text=True)
    assert done.stdout == f"crowdwise {__version__}\n"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
@pytest.mark.parametrize("colour", [True, False])
def test_a_terminal_gets_the_first_rows(folder: Path, colour: bool) -> None:
    import pty

    (folder / "many.csv").write_text("item,annotator,label\n" + "\n".join(f"[b]{n},x,{n % 2}" for n in range(30)))
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-m", "crowdwise", "aggregate", "many.csv"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=environment if colour else environment | {"NO_COLOR": "1"},
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "[b]9" not in shown  # "[b]0", "[b]1", "[b]10", ... come first
    assert "[b]10" in shown
    assert "20 items more; write all with -o FILE" in shown
    assert ("\x1b[" in shown) == colour
    assert b"30 votes on 30 items" in done.stderr


def test_text_for_people() -> None:
    assert [count(1, "item"), count(1234, "vote"), count(2, "class")] == ["1 item", "1,234 votes", "2 classes"]
    assert [number(x) for x in (0.5, 1.0, 0.00012345, 1 / 3, None, float("nan"), 0.0, 7)] == [
        "0.5", "1", "0.00012", "0.3333", "", "", "0", "7",
    ]  # fmt: skip
    assert one_line("a\nb\x1b[1m\u202e") == "a\\nb\\x1b[1m\\u202e"


def test_bars_start_in_the_middle() -> None:
    assert bar(2, 4, width=4) == "    │▇▇  "
    assert bar(-4, 4, width=4) == "▇▇▇▇│    "
    assert bar(0, 0, width=2) == "  │  "


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_of_an_option_has_one_meaning(command: str) -> None:
    names = [name for made in build(command).params for name in made.opts]
    assert len(set(names)) == len(names)
