from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import ROWS, Run

import crowdwise


def table(text: str) -> pl.DataFrame:
    return pl.read_csv(text.encode())


def test_labels_go_to_stdout_and_the_account_to_stderr(run: Run) -> None:
    result = run("aggregate", "votes.csv")
    frame = table(result.stdout)
    assert frame.columns == ["item", "label", "confidence", "confidence_source", "n_votes", "note", "p(cat)", "p(dog)"]
    assert frame["label"].to_list() == ["cat", "dog", "cat", "dog"]
    assert "12 votes on 4 items by 3 annotators, 2 classes" in result.stderr
    assert "consensus: converged" in result.stderr
    # Four votes are too few to accuse anybody.
    assert "least reliable" not in result.stderr


def test_agreement_in_the_account_is_the_share_of_agreeing_pairs(run: Run) -> None:
    # By hand: one agreeing pair of three on a, b and d, three of three on c.
    assert "pairwise agreement 0.5" in run("aggregate", "votes.csv").stderr


def test_quiet_says_nothing(run: Run, folder: Path) -> None:
    result = run("aggregate", "votes.csv", "-q", "-o", "labels.csv")
    assert (result.stdout, result.stderr) == ("", "")
    assert (folder / "labels.csv").exists()


def test_stdin_and_explicit_stdout(run: Run) -> None:
    piped = run("aggregate", "-", "-o", "-", input=ROWS)
    assert piped.stdout == run("aggregate", "votes.csv").stdout


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet", "csv.gz"])
def test_the_suffix_names_the_format(run: Run, folder: Path, suffix: str) -> None:
    path = folder / f"labels.{suffix}"
    run("aggregate", "votes.csv", "-o", path.name)
    readers = {"tsv": lambda p: pl.read_csv(p, separator="\t"), "jsonl": pl.read_ndjson, "parquet": pl.read_parquet}
    frame = readers.get(suffix, pl.read_csv)(path)
    assert frame["label"].to_list() == ["cat", "dog", "cat", "dog"]


def test_every_output_at_once(run: Run, folder: Path) -> None:
    outputs = ["-o", "l.csv", "--annotators", "a.csv", "--confusion", "c.csv", "--save", "model", "--page", "page.html"]
    result = run("aggregate", "votes.csv", *outputs)
    assert result.stdout == ""
    assert sorted(path.name for path in folder.iterdir()) == [
        "a.csv", "c.csv", "l.csv", "model", "page.html", "truth.csv", "votes.csv",
    ]  # fmt: skip
    assert pl.read_csv(folder / "a.csv")["annotator"][-1] == "z"
    rows = pl.read_csv(folder / "c.csv").group_by("annotator", "true").agg(pl.col("probability").sum())
    assert rows["probability"].to_list() == pytest.approx([1.0] * 6)


def test_json_is_one_object(run: Run) -> None:
    document = json.loads(run("aggregate", "votes.csv", "--json").stdout)
    assert {"method", "settings", "n_items", "n_votes", "converged", "classes", "labels", "annotators"} <= set(document)
    first = document["labels"][0]
    assert first.keys() == {"item", "label", "confidence", "n_votes", "note", "probabilities"}
    assert math.isclose(sum(first["probabilities"].values()), 1)


def test_json_with_a_file_leaves_the_labels_to_it(run: Run, folder: Path) -> None:
    document = json.loads(run("aggregate", "votes.csv", "--json", "-o", "labels.csv").stdout)
    assert "labels" not in document
    assert (folder / "labels.csv").exists()


def test_settings_reach_the_method(run: Run) -> None:
    arguments = ["--method", "mace", "--set", "max-iter=7", "--set", "tol=1e-3", "--set", "init=hard-votes", "--seed", "5"]
    result = run("aggregate", "votes.csv", "--json", *arguments)
    settings = json.loads(result.stdout)["settings"]
    assert (settings["max_iter"], settings["tol"], settings["init"], settings["random_state"]) == (7, 1e-3, "hard-votes", 5)


def test_a_seed_is_nothing_to_majority(run: Run) -> None:
    assert json.loads(run("aggregate", "votes.csv", "--json", "-m", "majority", "--seed", "3").stdout)["method"] == "majority"


@pytest.mark.parametrize("prior", ["0.25,0.75", "[0.25, 0.75]", '{"dog": 0.75, "cat": 0.25}'])
def test_class_prior(run: Run, prior: str) -> None:
    assert json.loads(run("aggregate", "votes.csv", "--json", "--class-prior", prior).stdout)["class_prior"] == [0.25, 0.75]


def test_gold_stays_fixed(run: Run, folder: Path) -> None:
    (folder / "gold.csv").write_text("item,label\na,dog\n")
    result = run("aggregate", "votes.csv", "--gold", "gold.csv")
    assert table(result.stdout).row(0)[1:6] == ("dog", 1.0, "gold", 3, "known")
    assert "1 known label kept fixed" in result.stderr


def test_history_of_annotators_decides_a_tie(run: Run, folder: Path) -> None:
    (folder / "tie.csv").write_text("item,annotator,label\n1,7,no\n1,8,yes\n")
    (folder / "history.csv").write_text("annotator,right,wrong\n7,50,50\n8,98,2\n")
    labels = table(run("aggregate", "tie.csv", "--history", "history.csv", "--class-prior", "uniform").stdout)
    assert labels["label"].to_list() == ["yes"]


def test_a_written_table_of_annotators_is_a_history(run: Run) -> None:
    run("aggregate", "votes.csv", "--annotators", "annotators.csv", "--save", "model")
    run("aggregate", "votes.csv", "--history", "annotators.csv")
    run("aggregate", "votes.csv", "--history", "model")


def test_classes_and_missing_labels(run: Run, folder: Path) -> None:
    (folder / "marked.csv").write_text(ROWS + "a,w,don't know\nb,w,?\n")
    result = run("aggregate", "marked.csv", "--missing", "don't know", "--missing", "?", "--classes", "dog,cat,fox")
    assert table(result.stdout).columns[-3:] == ["p(dog)", "p(cat)", "p(fox)"]
    assert "dropped 2 missing labels" in result.stderr


def test_whole_numbers_stay_numbers(run: Run, folder: Path) -> None:
    (folder / "numbers.csv").write_text("item,annotator,label\n1,1,0\n1,2,0\n2,1,1\n")
    document = json.loads(run("aggregate", "numbers.csv", "--classes", "0,1,2", "--json").stdout)
    assert (document["classes"], document["labels"][0]["item"]) == ([0, 1, 2], 1)


def test_one_class_is_warned_of_in_one_line(run: Run, folder: Path) -> None:
    (folder / "one.csv").write_text("item,annotator,label\n1,1,cat\n2,1,cat\n")
    done = run("aggregate", "one.csv", "-q")
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("warning: only one class occurs (cat)")
    labels = table(done.stdout)
    assert labels["note"].to_list() == ["one class only"] * 2
    assert labels["label"].to_list() == ["cat", "cat"]
    # One is all that it can be, and would pass any threshold.
    assert labels["confidence"].to_list() == [None, None]
    assert labels["confidence_source"].to_list() == ["", ""]


def test_nothing_is_claimed_of_votes_for_one_class(run: Run, folder: Path) -> None:
    (folder / "one.csv").write_text("item,annotator,label\n1,1,cat\n1,2,cat\n2,1,cat\n3,1,\n")
    document = json.loads(run("aggregate", "one.csv", "--json", "--annotators", "people.csv").stdout)
    assert document["confidence_source"] is None
    assert [row["confidence"] for row in document["labels"]] == [None, None, None]
    assert [row["accuracy"] for row in document["annotators"]] == [None, None]
    assert pl.read_csv("people.csv")["accuracy_high"].to_list() == [None, None]
    told = table(run("annotators", "one.csv").stdout)
    assert told.select("accuracy", "accuracy_low", "accuracy_high").rows() == [(None, None, None)] * 2
    run("report", "one.csv", "-o", "one.html", "-q")
    page = (folder / "one.html").read_text()
    assert "unknown</strong>: one class only" in page
    for claim in ("certain enough", "clearly above chance", "improve the labels very little", "expected to be right"):
        assert claim not in page
    for command in ("plan", "review"):
        assert "one class only occurs" in run(command, "one.csv", code=1).stderr
    # What somebody knows stays known.
    (folder / "gold.csv").write_text("item,label\n1,cat\n")
    known = table(run("aggregate", "one.csv", "--gold", "gold.csv").stdout)
    assert known.select("confidence", "note").rows() == [(1.0, "known"), (None, "one class only"), (None, "no votes")]


def test_columns_by_name_weights_and_repeats(run: Run, folder: Path) -> None:
    (folder / "odd.csv").write_text("thing,who,said,much\n1,x,a,1\n1,x,a,1\n1,y,b,1.5\n")
    columns = ["--item", "thing", "--annotator", "who", "--label", "said", "--weight", "much", "--method", "majority"]
    assert table(run("aggregate", "odd.csv", *columns).stdout)["label"].to_list() == ["a"]
    assert table(run("aggregate", "odd.csv", *columns, "--deduplicate").stdout)["label"].to_list() == ["b"]


def test_unicode_and_markup_in_ids(run: Run, folder: Path) -> None:
    # One who contradicts two others on twenty items is named in the account.
    rows = [f"[bold]{n},{who},{label}" for n in range(20) for who, label in votes_on(n)]
    (folder / "häuser.csv").write_text("\n".join(["item,annotator,label", *rows]), encoding="utf-8")
    result = run("aggregate", "häuser.csv")
    assert table(result.stdout).row(0)[:2] == ("[bold]0", "猫")
    assert "least reliable annotators: [/red] (" in result.stderr


def votes_on(n: int) -> list[tuple[str, str]]:
    true, false = ("猫", "犬") if n % 2 == 0 else ("犬", "猫")
    return [("é", true), ("ü", true), ("[/red]", false)]


def test_votes_are_folded_into_a_saved_model(run: Run, folder: Path) -> None:
    header, *rows = ROWS.splitlines()
    (folder / "monday.csv").write_text("\n".join([header, *rows[:6]]))
    (folder / "tuesday.csv").write_text("\n".join([header, *rows[6:]]))
    run("aggregate", "monday.csv", "-m", "dawid-skene", "--save", "model", "--set", "tol=1e-10")
    both = table(run("aggregate", "tuesday.csv", "--warm-from", "model", "--save", "model").stdout)
    whole = table(run("aggregate", "votes.csv", "-m", "dawid-skene", "--set", "tol=1e-10").stdout)
    assert both["item"].to_list() == whole["item"].to_list()
    assert both["p(cat)"].to_list() == pytest.approx(whole["p(cat)"].to_list(), abs=1e-4)
    assert table(run("annotators", "model").stdout)["n_votes"].to_list() == [4, 4, 4]


@pytest.mark.parametrize("method", ["streaming-ds", "online-em"])
def test_an_online_method_goes_on_from_its_exact_state(run: Run, folder: Path, method: str) -> None:
    # Three days of votes on ten items, which meet again, from annotators with and without a past.
    rng = np.random.default_rng(0)
    days = [folder / f"day{day}.csv" for day in range(3)]
    for path in days:
        cells = [(rng.integers(10), "uvwxyz"[rng.integers(6)], ["cat", "dog", "fox"][rng.integers(3)]) for _ in range(40)]
        path.write_text("\n".join(["item,annotator,label", *(",".join(map(str, cell)) for cell in cells)]))
    model = crowdwise.make(method)
    for path in days:
        model.update(crowdwise.read(path))
    run("aggregate", days[0].name, "--method", method, "--save", "model")
    run("aggregate", days[1].name, "--warm-from", "model", "--save", "model")
    last = run("aggregate", days[2].name, "--warm-from", "model", "--save", "model")
    assert table(last.stdout)["p(fox)"].to_list() == pytest.approx(model.posterior_[:, 2].tolist(), abs=1e-6)
    loaded = crowdwise.load(folder / "model")
    for name in ("turn", "arrival", "posterior", "counts", "used"):
        assert loaded._state.used(name).tobytes() == model._state.used(name).tobytes(), name
    # How the past counts was decided on the first day.
    setting = {"streaming-ds": "forget=0.1", "online-em": "power=0.9"}[method]
    assert "cannot change" in run("aggregate", days[0].name, "--warm-from", "model", "--set", setting, code=2).stderr


def test_a_saved_model_keeps_its_method(run: Run) -> None:
    run("aggregate", "votes.csv", "--save", "model")
    assert "cannot continue" in run("aggregate", "votes.csv", "--warm-from", "model", "-m", "glad", code=2).stderr
    run("aggregate", "votes.csv", "--warm-from", "model", "--history", "truth.csv", code=2)


def test_bluebird(run: Run, shared_data: Path) -> None:
    votes, truth = (str(shared_data / "bluebird" / name) for name in ("annotations.csv", "truth.csv"))
    known = pl.read_csv(truth).rename({"label": "truth"})

    def right(method: str) -> float:
        result = run("aggregate", votes, "--method", method)
        assert "4,212 votes on 108 items by 39 annotators" in result.stderr
        return float(table(result.stdout).join(known, on="item").select((pl.col("label") == pl.col("truth")).mean()).item())

    # The majority's share is stated beside the data; there are no ties.
    assert right("majority") == pytest.approx(0.7593, abs=1e-4)
    assert right("dawid-skene") > 0.85


def test_swapped_columns_are_warned_of(run: Run) -> None:
    run("simulate", "--items", "60", "--annotators", "20", "--kind", "one-coin", "--seed", "3", "-o", "crowd.csv")
    words = "annotators agree hardly more than by chance"
    assert words not in run("aggregate", "crowd.csv", "-m", "majority").stderr
    swapped = ["--item", "annotator", "--annotator", "item", "-m", "majority"]
    assert words in run("aggregate", "crowd.csv", *swapped).stderr
    assert words not in run("aggregate", "crowd.csv", *swapped, "-q").stderr
