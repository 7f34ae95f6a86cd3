"""The command on votes out of core, as a user meets it: against the same command in memory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from crowdwise.cli import app
from crowdwise.data.simulate import simulate

Run = Callable[..., Result]

CROWD = simulate(n_items=90, n_annotators=8, n_classes=3, votes_per_item=(1, 6), random_state=1)
LOCAL = ("--engine", "local", "-m", "dawid-skene")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the crowd's votes in three files of `votes`, named as labels are, and all of them in all.parquet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CROWDWISE_DEBUG", raising=False)
    frame = CROWD.votes.to_frame().sample(fraction=1.0, shuffle=True, seed=0)
    frame.write_parquet("all.parquet")
    Path("votes").mkdir()
    for i in range(3):
        frame[i::3].write_parquet(f"votes/part-{i}.parquet")
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    """Run `crowdwise aggregate` in the folder; `code` is the exit code it must end with."""

    def invoke(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["aggregate", *arguments])
        assert result.exit_code == code, (result.exit_code, result.stderr, result.exception)
        assert "Traceback" not in result.stderr
        return result

    return invoke


def read(path: str) -> pl.DataFrame:
    """The table at a path, as text where the format has no types."""
    suffix = Path(path).suffix
    if suffix == ".parquet":
        return pl.read_parquet(path)
    if suffix == ".arrow":
        return pl.read_ipc(path)
    if suffix == ".jsonl":
        return pl.read_ndjson(path)
    return pl.read_csv(path, separator="\t" if suffix == ".tsv" else ",")


def assert_alike(found: pl.DataFrame, expected: pl.DataFrame, key: str = "item") -> None:
    """The same rows in any order, numbers up to rounding."""
    found, expected = found.sort(key), expected.sort(key)
    assert found.schema == expected.schema
    for name, dtype in expected.schema.items():
        if dtype.is_float():
            np.testing.assert_allclose(found[name], expected[name], atol=1e-6)
        else:
            assert found[name].to_list() == expected[name].to_list()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- the same answers --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "csv", "tsv", "arrow", "jsonl"])
def test_every_kind_of_output_is_that_of_memory(suffix: str, run: Run, folder: Path) -> None:
    tables = [{"-o": f"{at}.{suffix}", "--annotators": f"{at}-a.csv", "--confusion": f"{at}-c.csv"} for at in ("far", "near")]
    far, near = ([text for pair in given.items() for text in pair] for given in tables)
    run("votes", *LOCAL, "--shards", "4", *far)
    run("all.parquet", "-m", "dawid-skene", *near)
    assert_alike(read(f"far.{suffix}"), read(f"near.{suffix}"))
    assert_alike(read("far-a.csv"), read("near-a.csv"), "annotator")
    rows = read("near-c.csv").columns[:3]
    assert read("far-c.csv").select(rows).equals(read("near-c.csv").select(rows))


@pytest.mark.slow
def test_known_labels_and_history_count_as_in_memory(run: Run, folder: Path) -> None:
    some = list(CROWD.gold.items())[:30]
    pl.DataFrame({"item": [item for item, _ in some], "label": [label for _, label in some]}).write_csv("gold.csv")
    pl.DataFrame({"annotator": CROWD.votes.annotators[:2].tolist(), "right": [20, 1], "wrong": [1, 9]}).write_csv("record.csv")
    more = ("--gold", "gold.csv", "--history", "record.csv", "--class-prior", "0.5,0.3,0.2", "--json")
    far = json.loads(run("votes/*.parquet", *LOCAL, *more, "-o", "far.parquet").stdout)
    near = json.loads(run("all.parquet", "-m", "dawid-skene", *more, "-o", "near.parquet").stdout)
    assert_alike(read("far.parquet"), read("near.parquet"))
    same = ("method", "settings", "n_items", "n_annotators", "n_votes", "n_missing", "n_gold", "classes", "n_iter", "converged")
    assert {name: far[name] for name in same} == {name: near[name] for name in same}
    assert far["bound"] == pytest.approx(near["bound"])
    assert far["ran_on"].endswith("on this machine")


@pytest.mark.slow
def test_two_runs_give_the_same_bytes_with_any_number_of_threads(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    for threads in ("1", "1", "3"):
        monkeypatch.setenv("CROWDWISE_THREADS", threads)
        run("votes", *LOCAL, "--shards", "4", "-o", "labels.parquet", "-q")
        written.append(Path("labels.parquet").read_bytes())
    assert written[0] == written[1] == written[2]


@pytest.mark.slow
def test_a_folder_of_labels_is_replaced_as_a_whole(run: Run, folder: Path) -> None:
    run("votes", *LOCAL, "--shards", "5", "-o", "labels")
    assert len(names(folder / "labels")) == 5
    os.symlink("labels", "link")
    run("votes", *LOCAL, "--shards", "2", "-o", "link/")
    assert names(folder / "labels") == ["part-00000.parquet", "part-00001.parquet"]
    assert Path("link").is_symlink()
    run("all.parquet", "-m", "dawid-skene", "-o", "near.parquet")
    assert_alike(pl.read_parquet("labels/*.parquet"), read("near.parquet"))
    assert names(folder) == ["all.parquet", "labels", "link", "near.parquet", "votes"]


@pytest.mark.slow
def test_quiet_says_nothing_and_json_is_all_of_stdout(run: Run) -> None:
    quiet = run("votes", *LOCAL, "-o", "labels.csv", "-q")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    both = run("votes", *LOCAL, "-o", "labels.CSV", "-q", "--json")
    assert json.loads(both.stdout)["n_items"] == CROWD.votes.n_items
    assert Path("labels.CSV").read_bytes() == Path("labels.csv").read_bytes()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "jsonl"])
def test_only_text_for_spreadsheets_is_escaped(suffix: str, run: Run) -> None:
    Path("odd.csv").write_text("item,annotator,label\n=1+1,p,+c\n@x,q,d\n=1+1,q,+c\n-3,p,d\n@x,p,d\n")
    run("odd.csv", *LOCAL, "-o", f"far.{suffix}")
    run("odd.csv", "-m", "dawid-skene", "-o", f"near.{suffix}")
    assert_alike(read(f"far.{suffix}"), read(f"near.{suffix}"))


# -- places that get in each other's way -------------------------------------------------------


@pytest.mark.parametrize("engine", [LOCAL, ("--engine", "memory", "-m", "dawid-skene")])
@pytest.mark.parametrize(
    ("votes", "output", "said"),
    [
        ("votes", "votes/labels.parquet", "-o: votes/labels.parquet lies within votes, so it would count as votes"),
        ("votes/*.parquet", "votes/part-1.parquet", "-o: votes/part-1.parquet is also the input votes/part-1.parquet"),
    ],
)
def test_votes_are_never_replaced_by_their_labels(
    engine: tuple[str, ...], votes: str, output: str, said: str, run: Run, folder: Path
) -> None:
    before = {path.name: path.read_bytes() for path in (folder / "votes").iterdir()}
    assert said in run(votes, *engine, "-o", output, code=2).stderr
    assert {path.name: path.read_bytes() for path in (folder / "votes").iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["votes", "-o", "votes"], "-o: votes lies within votes"),
        (["votes/*.parquet", "-o", "votes"], "-o: votes holds the input votes/part-0.parquet"),
        (["all.parquet", "-o", "all.parquet"], "-o: all.parquet is also the input all.parquet"),
        (["votes", "-o", "gold.csv", "--gold", "gold.csv"], "-o: gold.csv is also the input gold.csv"),
        (["votes", "-o", "l.csv", "--annotators", "l.csv"], "--annotators: l.csv is the place of -o, or lies in it"),
        (["votes", "-o", "labels", "--confusion", "labels/c.csv"], "--confusion: the folder 'labels' does not exist"),
        (["votes", "-o", "work", "--work-dir", "work"], "-o: work and the work folder work lie in one another"),
        (["votes", "-o", "l", "--work-dir", "l/work"], "-o: l and the work folder l/work lie in one another"),
        (["votes", "-o", "l.csv", "--work-dir", "votes/work"], "votes/work: lies within votes"),
        (["votes", "-o", "l.csv", "--work-dir", "all.parquet"], "all.parquet: a file, but the work folder must be a folder"),
    ],
)
def test_places_in_each_others_way_are_refused_and_stay_as_they_were(
    arguments: list[str], said: str, run: Run, folder: Path
) -> None:
    Path("gold.csv").write_text("item,label\nitem-000001,class-0\n")
    before = names(folder), names(folder / "votes"), Path("gold.csv").read_text(), Path("all.parquet").read_bytes()
    assert said in run(*arguments, *LOCAL, code=2).stderr
    assert (names(folder), names(folder / "votes"), Path("gold.csv").read_text(), Path("all.parquet").read_bytes()) == before


def test_a_folder_in_other_use_gets_no_lock(run: Run, folder: Path) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("mine")
    assert "not a work folder of crowdwise" in run("votes", *LOCAL, "-o", "l.csv", "--work-dir", "mine", code=2).stderr
    assert names(folder / "mine") == ["notes.txt"]
    assert "no such file" in run("nothing.csv", *LOCAL, "-o", "l.csv", "--work-dir", "work", code=1).stderr
    assert not Path("work").exists()


def test_a_link_back_to_a_folder_above_is_not_followed_for_ever(run: Run) -> None:
    os.symlink(".", "votes/again")
    said = run("votes", *LOCAL, "-o", "l.csv").stderr
    assert f"{CROWD.votes.n_votes} votes on {CROWD.votes.n_items} items" in said


# -- what does not work is said before any work ------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["-m", "glad"], "glad needs all votes in memory"),
        (["-m", "dawid-skene", "--set", "restarts=3"], "with restarts=3 needs all votes in memory"),
        (["-m", "mace", "--set", "init=moments"], "init='moments' with restarts=1 needs all votes in memory"),
        (["--save", "model"], "--save needs all votes in memory"),
        (["--format", "label-studio"], "--format does not apply"),
        (["-o", "labels.json"], "labels.json: labels go into a folder (no suffix) or a file that ends in"),
        (["-o", "no/labels.csv"], "the folder 'no' does not exist"),
        (["--shards", "0"], "--shards must be at least 1"),
    ],
)
def test_what_shards_cannot_do_leaves_no_trace(more: list[str], said: str, run: Run, folder: Path) -> None:
    before = names(folder)
    output = [] if "-o" in more else ["-o", "labels.csv"]
    assert said in run("votes", "--engine", "local", "--work-dir", "work", *output, *more, code=2).stderr
    assert [name for name in names(folder) if name != "work"] == before
    assert not (folder / "work" / "store.json").exists()


def test_a_folder_that_may_not_be_written_to_is_named_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "you may not write into the folder" in run("votes", *LOCAL, "-o", "labels.csv", code=2).stderr


# -- work folders ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_work_folder_serves_other_methods_and_refuses_other_votes(run: Run) -> None:
    kept = ("--work-dir", "work", "--engine", "local")
    run("votes", *kept, "-m", "dawid-skene", "-o", "first.parquet")
    encoded = Path("work/shard-00000/label.npy").stat().st_mtime_ns
    run("votes", *kept, "-m", "mace", "-o", "mace.parquet")
    run("votes", *kept, "-m", "dawid-skene", "-o", "again.parquet")
    assert Path("work/shard-00000/label.npy").stat().st_mtime_ns == encoded
    assert Path("again.parquet").read_bytes() == Path("first.parquet").read_bytes()
    run("all.parquet", "-m", "mace", "-o", "near.parquet")
    assert_alike(read("mace.parquet"), read("near.parquet"))
    for more, different in (
        (["--deduplicate"], "deduplicate"),
        (["--shards", "9"], "2 shards instead of 9"),
        (["--missing", "x"], "missing"),
    ):
        said = run("votes", *kept, *more, "-m", "mace", "-o", "l.csv", code=2).stderr
        assert f"(different: {different}); name another work folder" in said
    os.utime("votes/part-0.parquet", (1, 1))
    assert "part-0.parquet is changed)" in run("votes", *kept, "-m", "mace", "-o", "l.csv", code=2).stderr


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"junk" * 9, None])
def test_a_posterior_that_was_cut_off_is_made_again(content: bytes | None, run: Run) -> None:
    run("votes", *LOCAL, "--work-dir", "work", "-o", "first.parquet")
    path = Path("work/shard-00000/posterior.npy")
    path.write_bytes(path.read_bytes()[:200] if content is None else content)
    run("votes", *LOCAL, "--work-dir", "work", "-o", "again.parquet")
    assert Path("again.parquet").read_bytes() == Path("first.parquet").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["item_ptr", "annotator", "label"])
def test_a_shard_that_lost_a_file_is_named(name: str, run: Run) -> None:
    run("votes", *LOCAL, "--work-dir", "work", "-o", "labels.csv")
    Path(f"work/shard-00001/{name}.npy").unlink()
    said = run("votes", *LOCAL, "--work-dir", "work", "-o", "labels.csv", code=1).stderr
    assert f"work/shard-00001/{name}.npy: missing or damaged" in said
    assert "delete the work folder work" in said


@pytest.mark.slow
def test_a_note_of_the_run_that_is_no_text_begins_anew(run: Run) -> None:
    run("votes", *LOCAL, "--work-dir", "work", "-o", "first.parquet")
    Path("work/run.json").write_bytes(b"\xff\xfe")
    run("votes", *LOCAL, "--work-dir", "work", "-o", "again.parquet")
    assert Path("again.parquet").read_bytes() == Path("first.parquet").read_bytes()


# -- interruptions -----------------------------------------------------------------------------

# Steps at which a run stops itself, while encoding, fitting and writing.
STOPS = {
    "encoding": ("crowdwise.scale.encoding", "build_shard", 2),
    "fitting": ("crowdwise.scale.local.LocalShards", "renew", 4),
    "writing": ("crowdwise.scale.outcome", "write_part", 2),
}
STOPPED = """
import os, pkgutil, sys
place, name, number, sent, *arguments = sys.argv[1:]
where, calls = pkgutil.resolve_name(place), []
original = getattr(where, name)
def stopping(*given):
    calls.append(0)
    if len(calls) == int(number):
        os.kill(os.getpid(), int(sent))
    return original(*given)
setattr(where, name, stopping)
from crowdwise.cli.app import main
sys.argv = ["crowdwise", "aggregate", *arguments]
main()
"""


def stopped(phase: str, sent: signal.Signals, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that is sent a signal at a step."""
    place, name, number = STOPS[phase]
    words = [place, name, str(number), str(int(sent)), "votes", *LOCAL, "--shards", "4", *arguments]
    environment: dict[str, Any] = os.environ | {
        "OMP_NUM_THREADS": "1",
        "CROWDWISE_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TMPDIR": "scratch",
    }
    Path("scratch").mkdir(exist_ok=True)
    return subprocess.run([sys.executable, "-c", STOPPED, *words], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "sent", "code"), [*((phase, signal.SIGKILL, -9) for phase in STOPS), (next(iter(STOPS)), signal.SIGINT, 130)]
)
def test_the_same_command_after_an_interruption_gives_the_same_labels(
    phase: str, sent: signal.Signals, code: int, run: Run, folder: Path
) -> None:
    # Reference and rerun alike in one thread per kernel.
    reference = ("votes", *LOCAL, "--shards", "4", "-q", "-o")
    run(*reference, "expected.parquet")
    done = stopped(phase, sent, "--work-dir", "work", "-o", "labels.parquet")
    assert done.returncode == code, done.stderr
    assert not Path("labels.parquet").exists()
    if sent == signal.SIGINT:
        assert "the same command resumes there" in done.stderr
        assert "Traceback" not in done.stderr
    run(*reference, "labels.parquet", "--work-dir", "work")
    assert Path("labels.parquet").read_bytes() == Path("expected.parquet").read_bytes()
    assert names(folder) == ["all.parquet", "expected.parquet", "labels.parquet", "scratch", "votes", "work"]
    assert not (folder / "work" / "spill").exists()
    assert not (folder / "work" / "unfinished.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_temporary_work_folder_is_removed_when_a_run_is_stopped(sent: signal.Signals, code: int, folder: Path) -> None:
    done = stopped("fitting", sent, "-o", "labels.parquet")
    assert done.returncode == code, done.stderr
    assert names(folder) == ["all.parquet", "scratch", "votes"]
    assert names(folder / "scratch") == []


def test_parts_of_labels_of_a_run_that_goes_on_are_left_alone(run: Run, folder: Path) -> None:
    from crowdwise.scale.lock import Lock

    for name in (".labels.csv-abcdefgh", ".labels.csv-12345678"):
        Path(name).mkdir()
    held, left = Lock(folder / ".labels.csv-abcdefgh"), Lock(folder / ".labels.csv-12345678")
    left.release()
    run("votes", *LOCAL, "-o", "labels.csv")
    held.release()
    assert names(folder) == [".labels.csv-abcdefgh", "all.parquet", "labels.csv", "votes"]
    shutil.rmtree(".labels.csv-abcdefgh")


def test_labels_are_expected_to_be_as_right_as_in_memory(run: Run) -> None:
    """Known labels, items without votes and single votes in three shards; and where no votes meet, nothing is known."""
    gold = CROWD.votes.to_frame().select("item").unique(maintain_order=True).head(10).with_columns(label=pl.lit("class-0"))
    gold.write_csv("gold.csv")
    for more in ([], ["--gold", "gold.csv"]):
        here, there = (
            [line for line in run("all.parquet", "-m", "dawid-skene", "-o", "labels.csv", *more, *way).stderr.splitlines()
             if line.startswith("expected accuracy")]
            for way in ((), ("--engine", "local", "--shards", "3"))
        )  # fmt: skip
        assert len(here) == 1
        assert there == here
    alone = CROWD.votes.to_frame().unique("item", maintain_order=True)
    alone.write_parquet("alone.parquet")
    said = run("alone.parquet", *LOCAL, "-o", "labels.csv").stderr
    assert "expected accuracy of the labels: unknown, because no item has two annotators" in said
