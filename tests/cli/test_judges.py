"""``crowdwise judges``: families, panels, and what judges favour."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Run
from tests.io.exports import export

FIT = ("--method", "dawid-skene")
NAMES = ["mé/a", "mé/b", "mé/c", "ann", "bob", "cleo", "dan"]
FAMILIES = "annotator,family\nmé/a,m\nmé/b,m\nmé/c,m\nann,people\nbob,people\nghost,m\n"


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed does not depend on how often votes are drawn; tests/trust/judges has the correction."""
    monkeypatch.setattr("crowdwise.trust.judges.findings._RESAMPLES", 2)


@pytest.fixture
def truth(folder: Path) -> pl.DataFrame:
    """Write panel.csv, families.csv, prices.csv and some gold; return the true labels."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=150)

    def answer(right: float, seen: np.ndarray) -> np.ndarray:
        return np.where(rng.random(150) < right, seen, (seen + rng.integers(1, 3, size=150)) % 3)

    shared = answer(0.75, truth)
    labels = [answer(0.97, shared) for _ in range(3)] + [answer(0.8, truth) for _ in range(4)]
    classes = np.array(["bad", "fair", "good"])
    frame = pl.DataFrame(
        {"item": np.tile(np.arange(150), 7), "annotator": np.repeat(NAMES, 150), "label": classes[np.concatenate(labels)]}
    )
    frame.write_csv(folder / "panel.csv")
    (folder / "families.csv").write_text(FAMILIES, encoding="utf-8")
    (folder / "prices.csv").write_text("annotator,price\nm,0.01\ncleo,0.02\ndan,0.03\npeople,0.2\n")
    known = pl.DataFrame({"item": np.arange(150), "label": classes[truth]})
    known.head(60).write_csv(folder / "gold.csv")
    return known


@pytest.mark.slow
def test_given_families_prices_and_people(run: Run, folder: Path, truth: pl.DataFrame) -> None:
    done = run("judges", "panel.csv", *FIT, "--families", "families.csv", "--prices", "prices.csv", "--target", "0.85",
               "-o", "judges.csv", "--panels", "panels.csv", "--labels", "labels.csv")  # fmt: skip
    assert "3 judges share errors as one family (given): m" in done.stderr
    assert "2 of 7 annotators are people" in done.stderr
    assert "1 name of families.csv gave no votes: ghost" in done.stderr
    assert "next to nothing, less than 0.01 bits, is added by" in done.stderr
    judges = pl.read_csv(folder / "judges.csv")
    by_name = {row["annotator"]: row for row in judges.iter_rows(named=True)}
    assert by_name["mé/a"]["price"] == 0.01
    assert by_name["ann"]["price"] == 0.2
    # Members of one family add little to each other, and people much to them.
    assert max(by_name[name]["bits_added"] for name in NAMES[:3]) < 0.02 < by_name["ann"]["bits_added"]
    assert ((judges["accuracy_low"] < judges["accuracy"]) & (judges["accuracy"] < judges["accuracy_high"])).all()
    panels = {row["panel"]: row for row in pl.read_csv(folder / "panels.csv").iter_rows(named=True)}
    assert panels["cheapest 3"]["judges"] == "mé/a, mé/b, mé/c"
    assert panels["cheapest 3"]["human_votes"] < 1.1  # three voices, but one answer
    assert panels["all judges"]["price"] == pytest.approx(0.08)
    assert "ann" not in panels["all judges"]["judges"]
    assert panels["cheapest for 0.85"]["accuracy"] >= 0.85
    assert all(panel["accuracy_low"] <= panel["accuracy"] for panel in panels.values())
    assert f"({panels['all judges']['accuracy_low']:.3f} or more in nine of ten drawn sets of votes)" in done.stderr
    surely = panels.get("cheapest for 0.85 with a margin")
    none = "no panel of these judges alone reaches 0.85 with a margin" in done.stderr
    assert none == (surely is None and panels["cheapest for 0.85"]["accuracy_low"] < 0.85)
    right = (pl.read_csv(folder / "labels.csv")["label"] == truth["label"]).mean()
    assert right > 0.9


@pytest.mark.slow
def test_found_families_count_as_one_and_json_says_so(run: Run, truth: pl.DataFrame) -> None:
    done = run("judges", "panel.csv", *FIT, "--json")
    assert "warning: 3 annotators seem to share errors: mé/a, mé/b, mé/c" in done.stderr
    assert "families that are found are taken to have no groups within them" in done.stderr
    told = json.loads(done.stdout)
    assert told["families_are"] == "found"
    assert {row["annotator"] for row in told["judges"] if row["family"]} == set(NAMES[:3])
    assert told["panels"][0]["panel"] == "all judges"
    assert told["panels"][0]["accuracy"] == pytest.approx(0.95, abs=0.05)


@pytest.mark.slow
def test_families_by_name_known_accuracy_of_people_and_no_panel(run: Run, truth: pl.DataFrame) -> None:
    done = run("judges", "panel.csv", *FIT, "--by-name", "/", "--human-accuracy", "0.85", "--target", "0.999")
    assert "3 judges share errors as one family (given): mé" in done.stderr
    assert "a human vote is taken to be right in 85% of the cases" in done.stderr
    assert "no panel of these judges alone is expected to reach 0.999" in done.stderr


@pytest.mark.slow
def test_gold_measures_panels(run: Run, folder: Path, truth: pl.DataFrame) -> None:
    more = ("--by-name", "/", "--gold", "gold.csv", "--panels", "panels.csv", "-o", "judges.csv")
    done = run("judges", "panel.csv", *FIT, *more, "--gold-is", "truth")
    assert "of the known labels" in done.stderr
    measured = pl.read_csv(folder / "panels.csv")
    rows = pl.read_csv(folder / "panel.csv").filter(
        pl.col("annotator") == measured.filter(pl.col("panel") == "best 1")["judges"][0]
    )
    agree = rows.join(truth.head(60), on="item").select((pl.col("label") == pl.col("label_right")).mean()).item()
    assert measured.filter(pl.col("panel") == "best 1")["right_on_gold"][0] == pytest.approx(agree)


@pytest.mark.slow
def test_models_with_prompts_in_columns(run: Run, folder: Path, truth: pl.DataFrame) -> None:
    frame = pl.read_csv(folder / "panel.csv")
    parts = frame["annotator"].str.split("/")
    split = frame.with_columns(model=parts.list.get(0), prompt=parts.list.get(1, null_on_oob=True)).drop("annotator")
    split.write_csv(folder / "parts.csv")
    done = run("judges", "parts.csv", *FIT, "--parts", "model,prompt")
    assert "3 judges share errors as one family (given): mé" in done.stderr


@pytest.fixture
def nested(folder: Path) -> None:
    """Write nested.csv: two models of one maker with three prompts each, three other judges, in the same three shapes."""
    rng = np.random.default_rng(4)
    truth = rng.integers(3, size=200)

    def answer(right: float, seen: np.ndarray) -> np.ndarray:
        return np.where(rng.random(200) < right, seen, (seen + rng.integers(1, 3, size=200)) % 3)

    shared = answer(0.7, truth)
    said = {}
    for model in ("small", "large"):
        seen = np.where(rng.random(200) < 0.7, shared, answer(0.8, truth))
        said |= {("acme", model, prompt): answer(0.95, seen) for prompt in "abc"}
    said |= {(name, "", ""): answer(0.8, truth) for name in ("bo", "cy", "di")}
    parts = pl.DataFrame(list(said), schema=["maker", "model", "prompt"], orient="row")
    judge = parts.select(pl.concat_str(pl.all(), separator="/").str.strip_chars_end("/")).to_series().to_list()
    labels = np.array(["bad", "fair", "good"])[np.concatenate(list(said.values()))]
    rows = pl.concat([parts.with_columns(judge=pl.Series(judge))[[k]] for k in range(9) for _ in range(200)])
    rows.with_columns(item=np.tile(np.arange(200), 9), label=labels).write_csv(folder / "nested.csv")
    table = parts.rename({"maker": "family"}).with_columns(annotator=pl.Series(judge)).filter(pl.col("model") != "")
    table.drop("prompt").write_csv(folder / "tree.csv")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::crowdwise.errors.DataWarning")
def test_models_within_families_by_name_columns_or_table(run: Run, folder: Path, nested: None) -> None:
    ways = {
        "name": ("--annotator", "judge", "--by-name", "/", "--levels", "2"),
        "table": ("--annotator", "judge", "--families", "tree.csv"),
        "columns": ("--parts", "maker,model,prompt", "--levels", "2"),
    }
    found = {}
    for name, way in ways.items():
        done = run("judges", "nested.csv", *FIT, *way, "--item", "item", "--label", "label", "--json")
        assert "6 judges of 2 models share errors as one family (given): acme" in done.stderr
        assert "small of acme as a whole adds" in done.stderr
        told = json.loads(done.stdout)
        found[name] = [(row["annotator"].rstrip("/"), row["accuracy"], row["model_bits_added"]) for row in told["judges"]]
        by_judge = {row["annotator"].rstrip("/"): row for row in told["judges"]}
        assert (by_judge["acme/small/a"]["family"], by_judge["acme/small/a"]["model"]) == ("acme", "small")
        # A prompt adds less than its model, the model less than the family.
        one = by_judge["acme/small/a"]
        assert one["bits_added"] < one["model_bits_added"] < one["family_bits_added"]
        assert "--levels" not in done.stderr
    assert found["name"] == found["table"] == found["columns"]
    shallow = run("judges", "nested.csv", *FIT, "--annotator", "judge", "--by-name", "/", "--item", "item", "--label", "label")
    assert "--levels 2 counts judges that share one part more as one first" in shallow.stderr


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("a,x,1\nb,x,2\n", "fewer than three independent voices"),
        ("a,x,1\nb,x,2\na,y,1\nb,y,1\n", "fewer than three independent voices"),
        ("a,x,1\na,y,1\na,z,1\n", "all votes are for one class"),
        ("a,x,1\na,y,2\na,z,1\n", "one label for all items is expected to be right in 1.000 of the cases by itself"),
    ],
    ids=["one judge", "two judges", "one class", "one item"],
)
@pytest.mark.filterwarnings("ignore::crowdwise.errors.DataWarning")
def test_odd_shapes(run: Run, folder: Path, rows: str, said: str) -> None:
    (folder / "odd.csv").write_text(f"item,annotator,label\n{rows}")
    done = run("judges", "odd.csv", *FIT, "-o", "judges.csv")
    assert said in done.stderr
    assert pl.read_csv(folder / "judges.csv")["n_votes"].sum() == len(rows.splitlines())


def test_repeated_samples_are_one_soft_vote(run: Run, folder: Path) -> None:
    lines = [{"id": f"q{n}", "judge": j, "votes": ["good", "good", "bad"] if (n + k) % 3 else ["bad"] * 3}
             for n in range(12) for k, j in enumerate("abc")]  # fmt: skip
    (folder / "samples.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = run("judges", "samples.jsonl", *FIT, "-o", "judges.csv")
    assert pl.read_csv(folder / "judges.csv")["n_votes"].to_list() == [12, 12, 12]
    assert "72 of 108 votes repeat a judge's vote on the same item; those of one judge on an item are" in done.stderr
    assert "all count" not in done.stderr
    one = run("judges", "samples.jsonl", *FIT, "--repeats", "last", "-o", "judges.csv")
    assert "one soft vote" not in one.stderr


def test_logprobs_are_soft_votes(run: Run, folder: Path) -> None:
    lines = [{"id": f"q{n}", "judge": j, "logprobs": {"good": -0.1} if (n + k) % 4 else {" bad": -0.3, "The": -2.0}}
             for n in range(12) for k, j in enumerate("abc")]  # fmt: skip
    (folder / "logs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = run("judges", "logs.jsonl", *FIT, "--probabilities", "logprobs", "--classes", "good,bad", "-o", "judges.csv")
    assert "log-probabilities of 36 of 36 votes leave" in done.stderr
    assert pl.read_csv(folder / "judges.csv")["n_votes"].to_list() == [12, 12, 12]


def battles(folder: Path) -> None:
    """Two models asked in both orders; j1 always says first, j2 prefers the longer, j3 and j4 the better."""
    rng = np.random.default_rng(2)
    rows = []
    for q in range(60):
        better, lengths = rng.integers(2), rng.integers(20, 400, size=2)
        for first, second in ((0, 1), (1, 0)):
            said = {
                "j1": 0,
                "j2": int(lengths[second] > lengths[first]),
                "j3": int(better == second),
                "j4": int(better == second),
            }
            for judge, side in said.items():
                side = side if rng.random() < 0.9 else 1 - side
                rows.append(f"q{q},m{first},m{second},{judge},{'ab'[side]},{lengths[first]},{lengths[second]},m{better}")
    header = "question_id,model_a,model_b,judge,winner,length_a,length_b,truth"
    (folder / "battles.csv").write_text("\n".join([header, *rows]) + "\n")


@pytest.mark.slow
def test_pairs_show_what_judges_favour(run: Run, folder: Path) -> None:
    battles(folder)
    done = run("judges", "battles.csv", *FIT, "-o", "judges.csv")
    assert "j1 favours the first place: the same answer wins" in done.stderr
    assert "crowdwise rank --method noisy-bt" in done.stderr
    assert "j2 prefers the longer: twice as long wins" in done.stderr
    assert not any(f"{judge} favours" in done.stderr or f"{judge} prefers" in done.stderr for judge in ("j3", "j4"))
    table = {row["annotator"]: row for row in pl.read_csv(folder / "judges.csv").iter_rows(named=True)}
    assert table["j1"]["first_advantage"] > 0.6
    assert table["j1"]["n_swapped"] == 60
    assert table["j3"]["consistency"] > 0.7 > table["j1"]["consistency"]
    assert table["j2"]["length_slope_given_truth"] > 5 * abs(table["j3"]["length_slope_given_truth"])
    # The ranking without the place: both models are as good as each other.
    run("rank", "battles.csv", "--method", "noisy-bt", "--annotators", "a.csv", "-o", "scores.csv")
    habits = pl.read_csv(folder / "a.csv").filter(pl.col("annotator") == "j1")
    assert habits["attention"][0] < 0.5
    assert habits["first_share"][0] > 0.8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--families", "families.csv", "--by-name", "/"), "three ways to say who belongs together"),
        (("--by-name", ""), "--by-name needs a mark"),
        (("--levels", "2"), "--levels goes with --by-name or --parts"),
        (("--levels", "2", "--families", "families.csv"), "add a column model"),
        (("--levels", "0", "--by-name", "/"), "--levels must be at least 1"),
        (("--people", "nobody"), "--people: nobody, and no family, is called 'nobody'"),
        (("--target", "1.5"), "--target must lie between 0 and 1"),
        (("--by-name", "/", "--human-accuracy", "0.2"), "no better than guessing among 3 classes"),
        (("--parts", "model", "--annotator", "judge"), "--annotator does not go with --parts"),
    ],
)
def test_wrong_usage_is_refused_with_the_fix(run: Run, truth: pl.DataFrame, arguments: tuple[str, ...], message: str) -> None:
    assert message in run("judges", "panel.csv", *FIT, *arguments, code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--families", "others.csv"), "names no annotator of these votes"),
        (("--by-name", "/", "--prices", "others.csv"), "no column of prices"),
    ],
)
def test_tables_of_other_annotators_are_refused(
    run: Run, folder: Path, truth: pl.DataFrame, arguments: tuple[str, ...], message: str
) -> None:
    (folder / "others.csv").write_text("annotator,group\nzoe,m\n")
    assert message in run("judges", "panel.csv", *FIT, *arguments, code=1).stderr


def test_real_preferences_of_one_judge(run: Run, folder: Path) -> None:
    path = export("llm_judge_preferences.json")
    done = run("judges", str(path), "-o", "judges.csv")
    assert "no pair was asked in both orders" in done.stderr
    (row,) = pl.read_csv(folder / "judges.csv").to_dicts()
    paid = [record["price_per_example"] for record in json.loads(path.read_text(encoding="utf-8"))]
    assert row["price"] == pytest.approx(np.mean(paid), rel=1e-4)
    assert (row["n_votes"], row["n_swapped"]) == (120, 0)


def test_stdin_is_refused(run: Run) -> None:
    assert "name that file instead of stdin" in run("judges", "-", input="item,annotator,label\n", code=1).stderr


@pytest.mark.slow
def test_prices_that_miss_a_judge_are_said(run: Run, folder: Path, truth: pl.DataFrame) -> None:
    (folder / "some.csv").write_text("annotator,price\nann,1\n")
    done = run("judges", "panel.csv", *FIT, "--by-name", "/", "--prices", "some.csv")
    assert "no price is known of bob, cleo, dan, mé/a, mé/b: panels are compared without prices" in done.stderr
    assert "fewest for 0.9" in done.stderr


def pairs(folder: Path, name: str, more: str, cells: tuple[str, str], places: str = "AB") -> None:
    """Three judges who prefer the first answer of 20 questions, asked in both orders."""
    rows = [f"q{n},{judge},{places[k]},{cells[k]}" for n in range(20) for judge in "xyz" for k in (0, 1)]
    (folder / name).write_text("\n".join([f"id,judge,verdict,{more}", *rows]) + "\n", encoding="utf-8")


def test_pairs_in_both_orders_that_nobody_says_were_swapped(run: Run, folder: Path) -> None:
    pairs(folder, "pairs.csv", "shown", ("x", "y"))
    done = run("judges", "pairs.csv", *FIT, "--item", "id", "-o", "judges.csv")
    assert "in 60 of 60 cases a judge says both A and B of one item" in done.stderr
    assert "add a column swapped" in done.stderr
    pairs(folder, "told.csv", "swapped", ("0", "1"))
    done = run("judges", "told.csv", *FIT, "-o", "judges.csv")
    assert "cases a judge says both" not in done.stderr
    assert pl.read_csv(folder / "judges.csv")["consistency"].to_list() == [1.0] * 3


def test_verdicts_that_name_the_answer_are_seen(run: Run, folder: Path) -> None:
    # The same answer wins in both orders, by name: read as places, another one wins in the other order.
    pairs(folder, "named.csv", "swapped", ("0", "1"), "AA")
    done = run("judges", "named.csv", *FIT, "-o", "judges.csv")
    assert "in 60 of 60 pairs that a judge saw in both orders the other answer wins in the other order" in done.stderr
    assert "remove the column that says which stood first" in done.stderr


def test_a_column_of_a_person_beside_judges_is_asked_about(run: Run, folder: Path) -> None:
    rows = [f"{n},{'ab'[n % 2]},{'ab'[n % 2]},{'ab'[n % 3 > 0]},{'ab'[n % 2]}" for n in range(12)]
    (folder / "wide.csv").write_text("\n".join(["id,gpt_verdict,claude_verdict,llama_verdict,human_label", *rows]) + "\n")
    done = run("judges", "wide.csv", *FIT, "-o", "judges.csv")
    assert (
        "human_label counts as a judge: --people NAME makes a person of one; known labels are read with --gold" in done.stderr
    )
    done = run("judges", "wide.csv", *FIT, "--people", "human_label", "-o", "judges.csv")
    assert "counts as a judge" not in done.stderr
    assert pl.read_csv(folder / "judges.csv").filter("person")["annotator"].to_list() == ["human_label"]
