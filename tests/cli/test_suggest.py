"""``crowdwise suggest``, ``plan`` and ``simulate-campaign``: from votes to questions, and how many more."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Run

from crowdwise.campaign.policies import ITEM_POLICIES, State
from crowdwise.campaign.pool import Pool
from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError
from crowdwise.methods.labels.dawid_skene import DawidSkene


def table(text: str) -> pl.DataFrame:
    return pl.read_csv(text.encode())


@pytest.fixture
def campaign(folder: Path) -> Path:
    """Two votes on each of ten items by x, y and z in turn; new items and annotators in files of their own."""
    people = "xyz"
    rows = [f"{n},{people[(n + k) % 3]},{'cat' if n % 2 else 'dog'}" for n in range(10) for k in range(2)]
    (folder / "votes.csv").write_text("item,annotator,label\n" + "\n".join(rows) + "\n")
    (folder / "pool.csv").write_text("item,note\n8,old\n9,old\n100,new\n")
    (folder / "capacity.csv").write_text("annotator,capacity,cost\nx,1,1\nw,2,0.5\n")
    return folder


# -- suggest --------------------------------------------------------------------------------------


def test_questions_go_to_stdout_and_the_account_to_stderr(run: Run, campaign: Path) -> None:
    result = run("suggest", "votes.csv", "--budget", "4")
    frame = table(result.stdout)
    assert frame.columns == ["item", "annotator", "score", "cost"]
    assert frame.height == 4
    assert "4 questions about 4 items of 10 to " in result.stderr
    assert "dawid-skene: expected accuracy 96%, in nine of ten crowds between " in result.stderr
    assert result.stderr.rstrip().endswith("(aggregate and plan say it of consensus; -m consensus here too)")
    chosen = [run("suggest", "votes.csv", "--budget", "4", "-m", name).stderr for name in ("consensus", "dawid-skene")]
    assert [f"{name}: expected accuracy" in said for name, said in zip(("consensus", "dawid-skene"), chosen, strict=True)] == [
        True
    ] * 2
    assert not [said for said in chosen if "here too" in said]
    # What is said of one method is said alike by every command.
    same = run("plan", "votes.csv", "--target", "0.6", "--campaigns", "1").stdout.splitlines()[0]
    assert same.removeprefix("now, by ") in chosen[0]
    told = set(pl.read_csv("votes.csv").select("item", "annotator").rows())
    assert not told & set(frame.select("item", "annotator").rows())


def test_one_who_gets_most_questions_is_named_unless_somebody_is_limited(run: Run, folder: Path) -> None:
    # a is always right, and b, c and d on two items of three, each wrong on another third.
    rows = [f"{n},{who},{(n + ('bcd'[n % 3] == who)) % 2}" for n in range(60) for who in "abcd"]
    (folder / "votes.csv").write_text("item,annotator,label\n" + "\n".join(rows) + "\n")
    (folder / "pool.csv").write_text("item\n" + "\n".join(str(100 + n) for n in range(20)) + "\n")
    (folder / "capacity.csv").write_text("annotator,capacity\na,9\nb,9\nc,9\nd,9\n")
    free = run("suggest", "votes.csv", "--pool", "pool.csv", "--budget", "10", "--policy", "random+accuracy")
    asked = table(free.stdout)["annotator"].to_list()
    most = max(set(asked), key=asked.count)
    assert asked.count(most) > 5
    assert (
        f"{asked.count(most)} of them to {most}, because nobody's answers are limited (--capacity FILE limits them)"
        in free.stderr
    )
    limited = run("suggest", "votes.csv", "--pool", "pool.csv", "--budget", "10", "--capacity", "capacity.csv")
    assert "--capacity FILE" not in limited.stderr


def test_pool_and_capacity_are_kept(run: Run, campaign: Path) -> None:
    limits = ["--pool", "pool.csv", "--capacity", "capacity.csv", "--per-item", "2"]
    result = run("suggest", "votes.csv", *limits, "--budget", "10", "-o", "out.csv")
    frame = pl.read_csv("out.csv")
    assert set(frame["item"].to_list()) <= {8, 9, 100}
    # x can answer once and w, who is new, twice, for half the price.
    assert sorted(frame["annotator"].to_list()) == ["w", "w", "x"]
    assert sorted(frame["cost"].to_list()) == [0.5, 0.5, 1.0]
    assert "the budget is not spent" in result.stderr


def test_nothing_left_to_ask_is_said_in_words(run: Run, folder: Path) -> None:
    (folder / "all.csv").write_text("item,annotator,label\na,x,p\na,y,q\nb,x,q\nb,y,q\n")
    lines = run("suggest", "all.csv", "--budget", "2").stderr.splitlines()
    assert lines[0] == "no question"
    assert lines[1].startswith("the budget is not spent: ")
    # Dawid-Skene calls both items q and is sure of it, though the votes on one are even.
    assert lines[2] == "dawid-skene: expected accuracy unknown: no label is 'p', against the votes on 1 item"


def test_the_pool_may_be_parquet(run: Run, campaign: Path) -> None:
    pl.DataFrame({"item": [8, 100]}).write_parquet(campaign / "pool.parquet")
    frame = table(run("suggest", "votes.csv", "--pool", "pool.parquet", "--budget", "9").stdout)
    assert set(frame["item"].to_list()) == {8, 100}


def test_items_that_lack_votes_come_first_and_full_ones_not_at_all(run: Run, campaign: Path) -> None:
    frame = table(run("suggest", "votes.csv", "--pool", "pool.csv", "--least", "1", "--budget", "1").stdout)
    assert frame["item"].to_list() == [100]
    frame = table(run("suggest", "votes.csv", "--pool", "pool.csv", "--most", "2", "--budget", "9").stdout)
    assert frame["item"].to_list() == [100]


def test_earlier_assignments_are_not_asked_again(run: Run, campaign: Path) -> None:
    run("suggest", "votes.csv", "--budget", "6", "-o", "first.csv")
    run("suggest", "votes.csv", "--budget", "6", "--asked", "first.csv", "-o", "second.csv")
    first, second = (pl.read_csv(name) for name in ("first.csv", "second.csv"))
    # An item waits for one answer at a time: the four others are next.
    assert not set(first["item"].to_list()) & set(second["item"].to_list())
    assert second.height == 4


def test_before_the_first_vote(run: Run, campaign: Path) -> None:
    files = ["--pool", "pool.csv", "--capacity", "capacity.csv"]
    frame = table(run("suggest", *files, "--classes", "cat,dog", "--budget", "2").stdout)
    assert frame.height >= 2
    for missing in (files, ["--pool", "pool.csv", "--classes", "cat,dog"]):
        assert "without VOTES, say what there is" in run("suggest", *missing, code=2).stderr


def test_json_has_the_questions_unless_they_have_a_file(run: Run, campaign: Path) -> None:
    document = json.loads(run("suggest", "votes.csv", "--budget", "3", "--json", "-q").stdout)
    assert document["n_questions"] == len(document["questions"]) == 3
    assert document["cost"] == 3
    assert set(document["expected_accuracy"]) == {"mean", "low", "high"}
    assert "questions" not in json.loads(run("suggest", "votes.csv", "--json", "-o", "out.csv").stdout)


def test_the_same_seed_suggests_the_same(run: Run, campaign: Path) -> None:
    first, again = (run("suggest", "votes.csv", "--policy", "random+random", "--seed", "3").stdout for _ in range(2))
    assert first == again


def test_cells_that_a_spreadsheet_would_run_are_escaped(run: Run, campaign: Path) -> None:
    (campaign / "evil.csv").write_text("item\n=1+1\n")
    text = run("suggest", "votes.csv", "--item", "item", "--pool", "evil.csv", code=1).stderr
    assert "item '=1+1' is str, but those of the votes are int" in text
    (campaign / "votes.csv").write_text("item,annotator,label\n=1+1,x,cat\nb,x,dog\nb,y,dog\n")
    run("suggest", "votes.csv", "-o", "out.csv")
    assert "'=1+1" in (campaign / "out.csv").read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("annotator,capacity\nx,1\ny,-2\n", "capacity.csv row 3: capacity '-2' is not a whole number"),
        ("annotator,capacity\nx,many\n", "capacity.csv row 2: capacity 'many' is not a whole number"),
        ("annotator,capacity,cost\nx,1,0\n", "capacity.csv row 2: cost '0' is not a number above 0"),
        ("annotator,capacity\nx,1\nx,2\n", "capacity.csv row 3: annotator 'x' is there twice"),
        ("annotator,capacity\n,1\n", "capacity.csv row 2: the annotator id is missing"),
        ("annotator,room\nx,1\n", "no column 'capacity'"),
    ],
)
def test_mistakes_in_a_table_are_named_with_their_row(run: Run, campaign: Path, content: str, message: str) -> None:
    (campaign / "capacity.csv").write_text(content)
    assert message in run("suggest", "votes.csv", "--capacity", "capacity.csv", code=1).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "entropie"], "--policy: there is no policy 'entropie'; did you mean 'entropy'? (policies are warm-inf"),
        (["--policy", "margn+ubc"], "did you mean 'margin+ucb'?"),
        (["--budget", "0"], "budget must be a number above 0"),
        (["--explore", "2"], "explore is a share"),
        (["--least", "3", "--most", "2"], "is below least"),
        (["--policy", "dalc"], "--policy: dalc asks a classifier about items: give their features with --features FILE"),
        (["--method", "ccem"], "--features FILE"),
        (["--json", "-o", "-"], "both ask for stdout"),
        (["-o", "votes.csv"], "is also the input"),
    ],
)
def test_wrong_usage_ends_with_two(run: Run, campaign: Path, options: list[str], message: str) -> None:
    assert message in run("suggest", "votes.csv", *options, code=2).stderr


@pytest.mark.parametrize("item", sorted(ITEM_POLICIES))
def test_policies_that_ask_a_classifier_are_refused_without_features_and_no_others(run: Run, campaign: Path, item: str) -> None:
    votes = Annotations.from_arrays(["i", "i"], ["x", "y"], ["cat", "dog"])
    state = State(DawidSkene().fit(votes).result_, Pool.of(votes), np.random.default_rng(0))
    try:
        ITEM_POLICIES[item](state)
    except SettingError:
        text = run("suggest", "votes.csv", "--policy", f"{item}+ucb", code=2).stderr
        assert f"{item}+ucb asks a classifier about items" in text
        recorded_features(campaign)
        text = run("suggest", "votes.csv", "--features", "X.npz", "--method", "majority", "--policy", item, code=2).stderr
        assert "and no --method that counts votes alone" in text
    else:
        assert table(run("suggest", "votes.csv", "--policy", f"{item}+ucb", "--budget", "2").stdout).height == 2


def test_features_train_a_classifier(run: Run, campaign: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(campaign / "X.npz", X=rng.normal(size=(11, 2)), items=np.array([*range(10), 100]))
    options = ["--features", "X.npz", "--policy", "predictive-entropy+accuracy", "--pool", "pool.csv"]
    result = run("suggest", "votes.csv", *options, "--budget", "2")
    assert set(table(result.stdout)["item"].to_list()) <= {8, 9, 100}
    assert "raykar: expected accuracy " in result.stderr
    np.savez(campaign / "X.npz", X=rng.normal(size=(10, 2)), items=np.arange(10))
    assert "no row for 1 items of the pool, such as 100" in run("suggest", "votes.csv", *options, code=1).stderr


# -- plan -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_plan_for_people_and_for_machines(run: Run, campaign: Path) -> None:
    run("simulate", "-o", "noisy.csv", "--items", "40", "--annotators", "6", "--votes-per-item", "1", "--classes", "2")
    text = run("plan", "noisy.csv", "--target", "0.97", "--campaigns", "3", "--method", "bayes-gc").stdout
    assert "now, by bayes-gc: expected accuracy unknown: most items have at most one vote" in text
    assert "target 0.97 with probability 0.95: " in text
    document = json.loads(
        run("plan", "noisy.csv", "--target", "0.97", "--campaigns", "3", "--method", "bayes-gc", "--json").stdout
    )
    assert set(document) == {"method", "target", "probability", "expected_accuracy", "more_votes", "out_of_reach"}
    assert document["method"] == "bayes-gc"
    # What is unknown is no number.
    assert set(document["expected_accuracy"].values()) == {None}


def test_a_target_that_is_reached_needs_nothing_more(run: Run, campaign: Path) -> None:
    run("aggregate", "votes.csv", "--save", "model", "-q")
    text = run("plan", "model", "--target", "0.1").stdout
    assert "target 0.1 with probability 0.95: reached" in text
    assert re.search(r"now, by consensus: expected accuracy \d\d%, in nine of ten crowds between \d\d% and \d+%", text)


def test_a_plan_may_rest_on_features_too(run: Run, campaign: Path) -> None:
    recorded_features(campaign)
    options = ["plan", "votes.csv", "--features", "X.npz", "--target", "0.6", "--campaigns", "2", "--json"]
    document = json.loads(run(*options).stdout)
    assert document["method"] == "raykar"
    # Features that give the class away make labels surer than the votes alone do.
    alone = json.loads(run("plan", "votes.csv", "--target", "0.6", "--campaigns", "2", "--json", "-m", "dawid-skene").stdout)
    assert document["expected_accuracy"]["mean"] > alone["expected_accuracy"]["mean"]
    assert "counts votes alone: leave --features out" in run(*options, "--method", "majority", code=2).stderr


def test_targets_are_shares(run: Run, campaign: Path) -> None:
    assert "--target must lie between 0 and 1" in run("plan", "votes.csv", "--target", "95", code=2).stderr
    assert "--campaigns must be at least 1" in run("plan", "votes.csv", "--campaigns", "0", code=2).stderr


# -- simulate-campaign ----------------------------------------------------------------------------

SMALL = ["--campaigns", "2", "--method", "majority"]


def test_a_recorded_crowd_is_raced_on(run: Run, campaign: Path) -> None:
    (campaign / "truth.csv").write_text("item,label\n" + "".join(f"{n},{'cat' if n % 2 else 'dog'}\n" for n in range(10)))
    result = run("simulate-campaign", "votes.csv", "--truth", "truth.csv", *SMALL, "--batch", "4", "--no-plot", "-o", "race")
    curves = pl.read_csv("race/curves.csv")
    # Half of the twenty recorded votes, four at a time, for two policies and two seeds.
    assert curves["votes"].to_list() == [4, 8, 10] * 4
    ends = table(result.stdout)
    assert ends["policy"].to_list() == ["random+random", "warm-information"]
    assert "wrote race/curves.csv" in result.stderr


def test_a_simulated_crowd_is_raced_on_and_drawn(run: Run, campaign: Path) -> None:
    pytest.importorskip("matplotlib")
    crowd = ["--items", "8", "--annotators", "3", "--classes", "cat,dog", "--kind", "one-coin"]
    options = [*SMALL, "--policies", "entropy+ucb,random+random", "--budget", "8", "--batch", "4", "-o", "race", "--json"]
    document = json.loads(run("simulate-campaign", *crowd, *options).stdout)
    assert [entry["policy"] for entry in document["policies"]] == ["entropy+ucb", "random+random"]
    assert (campaign / "race" / "curves.png").read_bytes().startswith(b"\x89PNG")


def recorded_features(campaign: Path) -> list[str]:
    """A feature that says which items are cats, and the truth."""
    (campaign / "truth.csv").write_text("item,label\n" + "".join(f"{n},{'cat' if n % 2 else 'dog'}\n" for n in range(10)))
    sign = np.where(np.arange(10) % 2, 1.0, -1.0)
    np.savez(campaign / "X.npz", X=np.column_stack([sign, np.linspace(-1, 1, 10)]), items=np.arange(10))
    return ["simulate-campaign", "votes.csv", "--truth", "truth.csv", "--features", "X.npz", "--campaigns", "1", "--no-plot"]


def test_a_classifier_is_raced_on_a_recorded_crowd(run: Run, campaign: Path) -> None:
    command = recorded_features(campaign)
    policies = ["--policies", "random+random,predictive-entropy+accuracy"]
    document = json.loads(run(*command, "--method", "raykar", *policies, "--batch", "5", "--json").stdout)
    assert document["method"] == "raykar"
    assert [entry["votes"] for entry in document["policies"]] == [10, 10]
    # The feature gives the class away, so that ten votes label all items.
    assert [entry["accuracy"] for entry in document["policies"]] == [1, 1]


def test_features_also_spread_the_questions_of_a_label_only_method(run: Run, campaign: Path) -> None:
    document = json.loads(run(*recorded_features(campaign), "--method", "majority", "--batch", "5", "--json").stdout)
    assert document["method"] == "majority"


@pytest.mark.slow
def test_dalc_is_raced_on_a_recorded_crowd(run: Run, campaign: Path) -> None:
    pytest.importorskip("torch")
    fast = ["--method", "dalc", "--set", "epochs=2", "--set", "warmup=1", "--set", "rank=2"]
    document = json.loads(run(*recorded_features(campaign), *fast, "--policies", "dalc", "--batch", "5", "--json").stdout)
    assert [entry["policy"] for entry in document["policies"]] == ["dalc"]
    assert document["method"] == "dalc"


def test_every_recorded_item_needs_features(run: Run, campaign: Path) -> None:
    command = recorded_features(campaign)
    np.savez(campaign / "X.npz", X=np.zeros((9, 2)), items=np.arange(9))
    assert "no row for 1 of the 10 items" in run(*command, "--method", "raykar", code=1).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--features", "X.npz"], "--features belong to recorded votes"),
        (["--method", "dalc"], "dalc learns from features"),
        (["votes.csv"], "--truth FILE"),
        (["--policies", "best"], "--policies: there is no policy 'best' (policies are"),
        (["--policies", "entropy,bald"], "--policies: bald asks a classifier about items: give their features with --features"),
        (["--campaigns", "0"], "--campaigns must be at least 1"),
        (["--gold", "truth.csv"], "give the truth with --truth"),
        (["-o", "votes.csv"], "is a file; name a folder"),
        (["--batch", "100", "--budget", "10"], "within the budget"),
    ],
)
def test_races_that_cannot_be_run_end_with_two(run: Run, campaign: Path, options: list[str], message: str) -> None:
    assert message in run("simulate-campaign", *options, "--items", "5", "--annotators", "2", code=2).stderr
