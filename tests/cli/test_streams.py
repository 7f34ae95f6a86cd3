"""Streams that whoever started the program has closed, and input without end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="closes streams as a POSIX shell does")
VOTES = "item,annotator,label\na,x,cat\na,y,cat\nb,x,dog\n"


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "votes.csv").write_text(VOTES)
    line = command.replace("crowdwise", f"{sys.executable} -m crowdwise")
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=folder, timeout=120)


@pytest.mark.slow
def test_closed_stdin_is_an_empty_one(tmp_path: Path) -> None:
    done = run("crowdwise aggregate - -m majority <&-", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: stdin: the file is empty; expected a header and rows below it\n"
    assert run("crowdwise aggregate votes.csv -m majority -q <&-", tmp_path).stdout.startswith("item,label,")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["aggregate votes.csv -m majority -q", "--help"])
def test_closed_stdout_is_an_error_in_one_line(command: str, tmp_path: Path) -> None:
    done = run(f"crowdwise {command} >&-", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: stdout is closed; write to a file with -o, or leave stdout open\n"


@pytest.mark.slow
def test_closed_stdout_does_not_matter_where_nothing_is_written_to_it(tmp_path: Path) -> None:
    done = run("crowdwise aggregate votes.csv -m majority -q -o labels.csv <&- >&-", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "labels.csv").read_text().startswith("item,label,")


@pytest.mark.slow
def test_what_is_said_on_a_closed_stderr_does_not_mix_with_results(tmp_path: Path) -> None:
    done = run("crowdwise aggregate votes.csv -m majority 2>&-", tmp_path)
    assert done.returncode == 0
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["item", "a", "b"]


@pytest.mark.slow
def test_input_without_end_stops_at_the_limit(tmp_path: Path) -> None:
    done = run("yes item,annotator,label | crowdwise aggregate - --max-bytes 5MB", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: stdin: it is more than 5,000,000 bytes, the limit")


@pytest.mark.slow
def test_a_limit_that_is_none_is_wrong_usage(tmp_path: Path) -> None:
    done = run("crowdwise aggregate votes.csv --max-bytes lots", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--max-bytes must be a size such as 4GB" in done.stderr
