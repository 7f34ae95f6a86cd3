"""Records of benchmarks: a line per run, which survives an interrupted command."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "records.py"


def module_of(file: Path):
    spec = importlib.util.spec_from_file_location("records_under_test", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def kept(tmp_path):
    return module_of(FILE).Records("some", tmp_path / "records")


def test_a_run_is_a_line_and_the_last_of_a_key_counts(kept):
    assert kept.read() == {}
    for key, result in (("a", {"nll": 1.0}), ("b", {"nll": 2.0, "words": "x"}), ("a", {"nll": 3.0})):
        kept.add(key, result)
    assert kept.read() == {"a": {"nll": 3.0}, "b": {"nll": 2.0, "words": "x"}}
    assert len(kept.path.read_text().splitlines()) == 3


def test_half_a_line_is_skipped_and_spoils_no_later_one(kept):
    kept.add("a", 1)
    kept.add("b", 2)
    text = kept.path.read_text()
    kept.path.write_text(text[:-12])
    assert kept.read() == {"a": 1}
    kept.add("c", 3)
    assert kept.read() == {"a": 1, "c": 3}
    # Other than an interrupted line, nothing was lost or rewritten.
    assert kept.path.read_text().startswith(text[:-12] + "\n")


def test_floats_have_six_digits_however_deep(kept):
    kept.add("a", {"small": 9.123456789e-05, "many": [(1 / 3, 2)], "count": 12_345_678, "name": "x"})
    assert kept.read() == {"a": {"small": 9.12346e-05, "many": [[0.333333, 2]], "count": 12_345_678, "name": "x"}}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_record_names_the_commit_or_else_the_version(tmp_path):
    from importlib.metadata import version

    folder = tmp_path / "copy" / "benchmarks"
    folder.mkdir(parents=True)
    shutil.copy(FILE, folder)
    module = module_of(folder / FILE.name)

    def git(*words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", *who, *words], cwd=folder.parent, check=True, capture_output=True, text=True).stdout

    kept = module.Records("some", folder / "records")
    kept.add("a", 1)
    git("init", "-q")
    git("add", "benchmarks/records.py")
    git("commit", "-q", "-m", "first")
    commit = git("rev-parse", "--short", "HEAD").strip()
    kept.add("b", 2)
    (folder / FILE.name).write_text(FILE.read_text() + "\n")
    kept.add("c", 3)
    codes = [json.loads(line)["code"] for line in kept.path.read_text().splitlines()]
    assert codes == [version("crowdwise"), commit, commit + "+"]
    assert kept.codes(["c", "b"]) == [commit, commit + "+"]
