from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import psutil
import pytest
from tests.cli.conftest import ROWS, Run

from crowdwise.errors import ConvergenceWarning

CROWDWISE = [sys.executable, "-m", "crowdwise"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nope.csv"], 1, "nope.csv: no such file"),
        (["votes.csv", "--classes", "cat,fox"], 1, "votes.csv row 4: label 'dog' is not among the classes cat, fox"),
        (["votes.csv", "--item", "itme"], 1, "no column 'itme'"),
        (["votes.csv", "--method", "dawidskene"], 2, "no method 'dawidskene'; did you mean 'dawid-skene'?"),
        (["votes.csv", "--set", "tool=1"], 2, "no method is named, so it is consensus: name another with --method"),
        (["votes.csv", "-m", "dawid-skene", "--set", "tool=1"], 2, "no setting 'tool'; did you mean 'tol'?"),
        (["votes.csv", "-m", "dawid-skene", "--set", "tol=-1"], 2, "tol must be above 0"),
        (["votes.csv", "--set", "tol"], 2, "--set needs NAME=VALUE"),
        (["votes.csv", "--class-prior", "flat"], 2, "--class-prior must be learn, anchored, uniform or shares"),
        (["votes.csv", "--classes", "cat,,dog"], 2, "--classes has an empty entry"),
        (["votes.csv", "--format", "cvs"], 2, "did you mean 'csv'?"),
        (["votes.csv", "-o", "labels.xyz"], 2, "cannot write .xyz"),
        (["votes.csv", "-o", "votes.csv"], 2, "votes.csv is also the input"),
        (["votes.csv", "-o", "l.csv", "--annotators", "./l.csv"], 2, "is also the output of -o"),
        (["votes.csv", "-o", "nowhere/l.csv"], 2, "the folder 'nowhere' does not exist"),
        (["votes.csv", "--page", "page.txt"], 2, "a page ends in .html"),
        (["votes.csv", "--save", "truth.csv"], 2, "truth.csv is a file"),
        (["votes.csv", "--json", "-o", "-"], 2, "both ask for stdout"),
        (["votes.csv", "--warm-from", "nowhere"], 1, "no saved result here"),
        (["votes.csv", "--history", "truth.csv"], 1, "annotator history: no annotator column"),
    ],
)
def test_one_line_and_an_exit_code(run: Run, folder: Path, arguments: list[str], code: int, message: str) -> None:
    result = run("aggregate", *arguments, code=code)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["truth.csv", "votes.csv"]


def test_usage_errors_are_two(run: Run) -> None:
    run("aggregate", code=2)
    run("aggregate", "votes.csv", "--unknown", code=2)
    run("nonsense", code=2)


def test_a_bad_row_leaves_no_file_and_the_old_one_alone(run: Run, folder: Path) -> None:
    (folder / "votes.csv").write_text(ROWS + ",x,cat\n")
    (folder / "labels.csv").write_text("before")
    outputs = ["-o", "labels.csv", "--annotators", "a.csv", "--save", "model", "--page", "p.html"]
    assert "row 14: the item id is missing" in run("aggregate", "votes.csv", *outputs, code=1).stderr
    assert (folder / "labels.csv").read_text() == "before"
    assert sorted(path.name for path in folder.iterdir()) == ["labels.csv", "truth.csv", "votes.csv"]


def test_stdin_is_named_in_messages(run: Run) -> None:
    said = run("aggregate", "-", code=1, input="a,b\n1,2\n").stderr
    assert said.startswith("error: stdin: no item, no annotator and no label column")


def test_warnings_are_lines_and_filters_are_restored(run: Run) -> None:
    before = warnings.filters[:]
    result = run("aggregate", "votes.csv", "-m", "dawid-skene", "--set", "max_iter=1", "-q")
    assert result.stderr.startswith("warning: stopped after 1 iteration")
    assert ConvergenceWarning.__name__ not in result.stderr
    assert warnings.filters == before


@pytest.mark.slow
def test_debug_shows_the_traceback(folder: Path) -> None:
    def stderr(*arguments: str, **environment: str) -> str:
        done = subprocess.run(
            [*CROWDWISE, "aggregate", "nope.csv", *arguments], capture_output=True, text=True, env=os.environ | environment
        )
        assert done.returncode == 1
        return done.stderr

    assert "Traceback" not in stderr()
    assert "Traceback" in stderr("--debug")
    assert "Traceback" in stderr(CROWDWISE_DEBUG="1")


def test_control_characters_do_not_reach_the_terminal(run: Run, folder: Path) -> None:
    rows = [f"{n},{who},{'ab'[(n + wrong) % 2]}" for n in range(20) for who, wrong in (("x", 0), ("y", 0), ("\x1b[31mred", 1))]
    (folder / "votes.csv").write_text("\n".join(["item,annotator,label", *rows]))
    result = run("aggregate", "votes.csv", "-o", "l.csv")
    assert "\x1b" not in result.stderr
    assert "\\x1b[31mred" in result.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals are of another kind there")
def test_interrupt_leaves_no_file(folder: Path) -> None:
    rows = [f"i{n},a{(n + k) % 7},{(n * k) % 3}" for n in range(3000) for k in range(3)]
    (folder / "many.csv").write_text("item,annotator,label\n" + "\n".join(rows))
    command = [
        *CROWDWISE,
        "aggregate",
        "many.csv",
        "-m",
        "dawid-skene",
        "-o",
        "labels.csv",
        "--set",
        "restarts=1000",
        "--set",
        "tol=1e-300",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    # Imports take a second of the processor, however long that is while other tests run; the rest is the fit.
    while process.poll() is None and psutil.Process(process.pid).cpu_times().user < 2:
        time.sleep(0.05)
    assert process.poll() is None, "the fit ended before it could be interrupted"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert stderr.splitlines() == ["interrupted; unfinished files were left as they were"]
    assert sorted(path.name for path in folder.iterdir()) == ["many.csv", "truth.csv", "votes.csv"]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="pipes are of another kind there")
def test_a_closed_pipe_is_silent(folder: Path) -> None:
    process = subprocess.Popen([*CROWDWISE, "simulate", "--items", "20000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"item,annotator,label\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=20) == 141


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_line(folder: Path, unbuffered: str) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        command = [*CROWDWISE, "aggregate", "votes.csv"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: [Errno 28] No space left on device"
