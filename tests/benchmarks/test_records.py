"""Records of benchmarks: a line per run, which survives an interrupted command."""

from __future__ import annotations

import json
import shutil
import subprocess

import numpy as np
import pytest

from benchmarks import provenance, records


@pytest.fixture
def kept(tmp_path):
    return records.Records("some", tmp_path / "records")


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


def test_a_call_of_a_decorated_function_is_a_run(kept):
    asked = []

    @kept.each
    def measured(name, seed, **settings):
        """Some words."""
        asked.append((name, seed, settings))
        return {"right": np.float64(1 / 3), "hits": np.arange(2), "pair": (np.int64(1), None)}

    found = {"right": 0.333333, "hits": [0, 1], "pair": [1, None]}
    assert measured("web", 0) == measured("web", 0) == measured("web", 1, width=2) == found
    assert asked == [("web", 0, {}), ("web", 1, {"width": 2})]
    assert list(kept.read()) == ['["measured", "web", 0]', '["measured", "web", 1, {"width": 2}]']
    assert measured.__doc__ == "Some words."


def test_a_block_names_the_runs_that_it_asked_for(kept):
    for key in "abc":
        kept.add(key, 1)
    kept.once("b", lambda: 2)
    assert [line["key"] for line in kept.used()] == ["b"]
    kept.once("c", lambda: 2)
    assert [line["key"] for line in kept.used()] == ["c"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_record_names_the_commit_or_else_the_version(tmp_path, monkeypatch):
    from importlib.metadata import version

    script = tmp_path / "copy" / "benchmarks" / "room" / "some.py"
    script.parent.mkdir(parents=True)
    script.write_text("")
    monkeypatch.setattr(provenance, "ROOT", tmp_path / "copy")

    def git(*words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", *who, *words], cwd=provenance.ROOT, check=True, capture_output=True, text=True).stdout

    kept = records.Records("some", tmp_path / "records")
    kept.add("a", 1)
    git("init", "-q")
    git("add", "benchmarks/room/some.py")
    git("commit", "-q", "-m", "first")
    commit = git("rev-parse", "--short=8", "HEAD").strip()
    kept.add("b", 2)
    script.write_text("changed = True\n")
    kept.add("c", 3)
    codes = [json.loads(line)["code"] for line in kept.path.read_text().splitlines()]
    assert codes == [version("crowdwise"), commit, commit + "+"]
    assert kept.codes(["c", "b"]) == [commit, commit + "+"]
