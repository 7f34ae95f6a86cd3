"""``crowdwise aggregate`` on judges of whom three share errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Run

NAMES = ["m-a", "m-b", "m-c", "ann", "bob", "cleo", "dan"]
FIT = ("--method", "dawid-skene")


@pytest.fixture
def truth(folder: Path) -> pl.Series:
    """Write verdicts.csv and families.csv; return the true labels by item."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)

    def answer(right: float, seen: np.ndarray) -> np.ndarray:
        return np.where(rng.random(300) < right, seen, (seen + rng.integers(1, 3, size=300)) % 3)

    shared = answer(0.75, truth)
    labels = [answer(0.97, shared) for _ in range(3)] + [answer(0.8, truth) for _ in range(4)]
    frame = pl.DataFrame(
        {
            "item": np.tile(np.arange(300), 7),
            "annotator": np.repeat(NAMES, 300),
            "label": np.array(["bad", "fair", "good"])[np.concatenate(labels)],
        }
    )
    frame.write_csv(folder / "verdicts.csv")
    (folder / "families.csv").write_text("annotator,group\nm-a,model m\nm-b,model m\nm-c,model m\nann,people\nghost,ghosts\n")
    return pl.Series(np.array(["bad", "fair", "good"])[truth])


def test_the_warning_comes_first_and_names_the_next_step(run: Run, truth: pl.Series) -> None:
    result = run("aggregate", "verdicts.csv", *FIT, "-o", "labels.csv")
    lines = result.stderr.splitlines()
    assert lines[0].startswith("warning: 3 annotators seem to share errors: m-a, m-b, m-c (43 % of the votes; ")
    assert any("--groups families.csv" in line and "labels in which the readings differ" in line for line in lines)
    first_number = next(k for k, line in enumerate(lines) if "2,100 votes on 300 items" in line)
    assert next(k for k, line in enumerate(lines) if line.startswith("next:")) < first_number
    # Lowered confidence is below what most crowds would leave: no range that begins and ends with one number.
    assert lines[-1] == "expected accuracy of the labels: 69%; to measure it: crowdwise audit"


def test_labels_stay_and_confidence_falls(run: Run, folder: Path, truth: pl.Series) -> None:
    import crowdwise

    run("aggregate", "verdicts.csv", *FIT, "-o", "labels.csv", "--save", "model")
    labels = pl.read_csv(folder / "labels.csv")
    plain = crowdwise.make("dawid-skene").fit(crowdwise.read(folder / "verdicts.csv")).result_.items_frame()
    assert labels["label"].to_list() == plain["label"].to_list()
    assert (labels["confidence"] <= plain["confidence"] + 1e-6).all()
    right = (labels["label"] == truth).mean()
    assert plain["confidence"].mean() - right > 0.15
    assert labels["confidence"].mean() - right < 0.6 * (plain["confidence"].mean() - right)
    saved = crowdwise.load(folder / "model").result_.items_frame()
    np.testing.assert_allclose(saved["confidence"], labels["confidence"], rtol=1e-4)


def test_quiet_still_warns_and_json_holds_the_groups(run: Run, truth: pl.Series) -> None:
    result = run("aggregate", "verdicts.csv", *FIT, "--quiet", "--json")
    assert result.stderr.startswith("warning: 3 annotators seem to share errors")
    (group,) = json.loads(result.stdout)["dependence"][0]
    assert group["annotators"] == ["m-a", "m-b", "m-c"]
    assert group["p_value"] < 0.01
    assert group["share_of_votes"] == pytest.approx(3 / 7)


def test_given_groups_count_as_one_and_labels_improve(run: Run, folder: Path, truth: pl.Series) -> None:
    run("aggregate", "verdicts.csv", *FIT, "-o", "plain.csv")
    result = run("aggregate", "verdicts.csv", *FIT, "--groups", "families.csv", "-o", "l.csv", "--annotators", "a.csv")
    assert "3 annotators count as 1 group: model m" in result.stderr
    assert "1 name of families.csv gave no votes: ghost" in result.stderr
    assert "warning" not in result.stderr
    assert "2,100 votes on 300 items by 7 annotators" in result.stderr
    labels, plain = pl.read_csv(folder / "l.csv"), pl.read_csv(folder / "plain.csv")
    assert labels["n_votes"].to_list() == [7] * 300
    assert (labels["label"] == truth).mean() > (plain["label"] == truth).mean() + 0.1
    people = pl.read_csv(folder / "a.csv")
    assert sorted(people["annotator"]) == ["ann", "bob", "cleo", "dan", "model m"]
    # A group has the votes of its three members, and agrees where they do.
    votes = pl.read_csv(folder / "verdicts.csv").join(labels.select("item", decided="label"), on="item")
    of_members = votes.filter(pl.col("annotator").str.starts_with("m-"))
    group = people.row(by_predicate=pl.col("annotator") == "model m", named=True)
    assert group["n_votes"] == of_members.height == 900
    assert group["agreement"] == pytest.approx((of_members["label"] == of_members["decided"]).mean(), rel=1e-4)
    assert people.filter(annotator="ann")["n_votes"].item() == 300


def test_independent_annotators_are_not_accused(run: Run, folder: Path, truth: pl.Series) -> None:
    frame = pl.read_csv(folder / "verdicts.csv").filter(~pl.col("annotator").is_in(["m-b", "m-c"]))
    frame.write_csv(folder / "independent.csv")
    result = run("aggregate", "independent.csv", *FIT, "--json")
    assert "share errors" not in result.stderr
    assert "dependence" not in json.loads(result.stdout)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--type", "multilabel"), "one class per item"),
        (("--warm-from", "model"), "--warm-from is about single annotators"),
        (("--trusted", "x"), "--trusted is about single annotators"),
        (("--history", "truth.csv"), "single annotators"),
        (("--fuse-groups",), "--fuse-groups is about single annotators"),
        (("--drop-colluders",), "--drop-colluders is about single annotators"),
        (("--engine", "local"), "in memory"),
        (("-o", "families.csv"), "also the input"),
    ],
)
def test_what_groups_do_not_go_with_is_refused(run: Run, truth: pl.Series, options: tuple[str, ...], words: str) -> None:
    assert words in run("aggregate", "verdicts.csv", "--groups", "families.csv", *options, code=2).stderr


@pytest.mark.parametrize(
    ("table", "words", "code"),
    [
        ("annotator,team\nm-a,x\n", "no group column; found 'annotator', 'team'. Rename the columns: annotator, group", 1),
        ("who,team\nm-a,x\n", "no annotator and no group column; found 'who', 'team'. Rename the columns: annotator", 1),
        ("annotator,group\nm-a,x\nm-a,y\n", "annotator 'm-a' is in 'x' and in 'y'", 1),
        ("annotator,group\nnobody,x\nnone,x\n", "names no annotator of these votes", 2),
    ],
)
def test_a_wrong_table_of_groups_is_refused(
    run: Run, folder: Path, truth: pl.Series, table: str, words: str, code: int
) -> None:
    (folder / "families.csv").write_text(table)
    assert words in run("aggregate", "verdicts.csv", "--groups", "families.csv", code=code).stderr


@pytest.mark.parametrize(
    "arguments", [("review", "-o", "out.csv"), ("plan",), ("calibrate", "-o", "out.csv"), ("explain", "0")]
)
def test_other_commands_warn_too(run: Run, truth: pl.Series, arguments: tuple[str, ...]) -> None:
    command, *rest = arguments
    wanted = rest[:1] if command == "explain" else []
    more = [] if command == "explain" else rest
    result = run(command, *wanted, "verdicts.csv", *FIT, *more)
    assert "3 annotators seem to share errors: m-a, m-b, m-c" in result.stderr
    assert ("who seem to share errors here" in result.stdout) is (command == "explain")


def test_review_accepts_what_aggregate_is_sure_of(run: Run, folder: Path, truth: pl.Series) -> None:
    run("aggregate", "verdicts.csv", *FIT, "-o", "labels.csv")
    run("review", "verdicts.csv", *FIT, "-o", "decisions.csv")
    labels, decisions = (pl.read_csv(folder / name)["confidence"] for name in ("labels.csv", "decisions.csv"))
    assert labels.to_list() == decisions.to_list()


@pytest.mark.parametrize("shards", ["1", "3"])
def test_votes_in_shards_are_believed_as_little(run: Run, folder: Path, truth: pl.Series, shards: str) -> None:
    run("aggregate", "verdicts.csv", *FIT, "-o", "memory.csv")
    result = run("aggregate", "verdicts.csv", *FIT, "-o", "shards.csv", "--shards", shards)
    assert result.stderr.startswith("warning: 3 annotators seem to share errors: m-a, m-b, m-c")
    memory, sharded = (pl.read_csv(folder / f"{name}.csv").sort("item") for name in ("memory", "shards"))
    assert sharded["label"].to_list() == memory["label"].to_list()
    # Both fits end where they have nearly converged, and files hold six digits.
    np.testing.assert_allclose(sharded["confidence"], memory["confidence"], atol=1e-4)


def test_suggest_says_it_too(run: Run, truth: pl.Series) -> None:
    result = run("suggest", "verdicts.csv", "--budget", "5", "-o", "ask.csv")
    assert result.stderr.startswith("warning: 3 annotators seem to share errors: m-a, m-b, m-c")


@pytest.mark.parametrize("where", [(), ("--shards", "2")])
def test_a_trusted_annotator_settles_it(run: Run, folder: Path, truth: pl.Series, where: tuple[str, ...]) -> None:
    plain = run("aggregate", "verdicts.csv", *FIT, "-o", "plain.csv", *where)
    told = run("aggregate", "verdicts.csv", *FIT, "-o", "told.csv", "--trusted", "ann", *where)
    assert "the votes can also be read so that" in plain.stderr
    assert "the votes can also be read so that" not in told.stderr
    plain_frame, frame = (pl.read_csv(folder / f"{name}.csv").sort("item") for name in ("plain", "told"))
    assert frame["label"].to_list() == plain_frame["label"].to_list()
    assert (frame["confidence"] >= plain_frame["confidence"] - 1e-6).all()
    if not where:
        result = run("aggregate", "verdicts.csv", *FIT, "--trusted", "ann", "-o", "told.csv", "--readings", "both.csv")
        both = pl.read_csv(folder / "both.csv")
        differ = int((both["label"] != both["reading_1"]).sum())
        assert differ > 50
        assert f"counted so, {differ} of 300 labels would be others, such as that of " in result.stderr
    refused = run("aggregate", "verdicts.csv", *FIT, "-o", "x.csv", "--trusted", "nobody", *where, code=2)
    assert "no annotator is called 'nobody'" in refused.stderr


@pytest.mark.slow
def test_found_groups_are_fused_when_asked(run: Run, folder: Path, truth: pl.Series) -> None:
    result = run(
        "aggregate", "verdicts.csv", *FIT, "--fuse-groups", "-o", "fused.csv", "--annotators", "a.csv", "--save", "model"
    )
    assert "labels are those with every group counted as one annotator" in result.stderr
    assert "2,100 votes on 300 items by 7 annotators" in result.stderr
    run("aggregate", "verdicts.csv", *FIT, "--groups", "families.csv", "-o", "given.csv")
    fused, given = (pl.read_csv(folder / name) for name in ("fused.csv", "given.csv"))
    assert fused["label"].to_list() == given["label"].to_list()
    assert fused["n_votes"].to_list() == [7] * 300
    assert (fused["label"] == truth).mean() > 0.9
    spam = run("aggregate", "verdicts.csv", *FIT, "--fuse-groups", "--drop-spammers", "-o", "spam.csv")
    assert "dropped" not in spam.stderr.replace("no spammers are dropped", "")
    # The other reading still stands, so that the labels are no surer than it leaves them.
    assert "the votes can also be read so that" in result.stderr
    assert (fused["confidence"] <= given["confidence"] + 1e-6).all()
    assert sorted(pl.read_csv(folder / "a.csv")["annotator"]) == ["ann", "bob", "cleo", "dan", "group 1"]
    saved = run("report", "model", "-o", "page.html")
    assert "wrote page.html" in saved.stderr


def test_a_trusted_annotator_or_known_labels_choose_who_is_fused(run: Run, folder: Path, truth: pl.Series) -> None:
    pl.DataFrame({"item": range(30), "label": truth[:30]}).write_csv(folder / "checked.csv")
    right = {}
    for name, known in {
        "honest": ("--trusted", "ann"),
        "family": ("--trusted", "m-a"),
        "gold": ("--gold", "checked.csv"),
    }.items():
        result = run("aggregate", "verdicts.csv", *FIT, "--fuse-groups", *known, "-o", f"{name}.csv")
        assert "the votes can also be read so that" not in result.stderr
        right[name] = float((pl.read_csv(folder / f"{name}.csv")["label"] == truth).mean())
    assert right["honest"] > 0.9
    assert right["gold"] > 0.9
    assert right["family"] < 0.8


def test_both_labelings_are_shown_and_written(run: Run, folder: Path, truth: pl.Series) -> None:
    result = run("aggregate", "verdicts.csv", *FIT, "-o", "labels.csv", "--readings", "readings.csv")
    lines = result.stderr.splitlines()
    assert any(line.startswith("reading 1, where m-a, m-b, m-c share errors: bad: ") for line in lines)
    assert any(line.startswith("reading 2, where ann, bob, cleo, dan share errors: bad: ") for line in lines)
    frame = pl.read_csv(folder / "readings.csv")
    assert frame.columns == ["item", "label", "reading_1", "reading_2"]
    differ = int((frame["reading_1"] != frame["reading_2"]).sum())
    assert f"they differ in {differ} of 300 labels, such as " in result.stderr
    assert (frame["reading_1"] == truth).mean() > 0.9 > 0.8 > (frame["reading_2"] == truth).mean()
    document = json.loads(run("aggregate", "verdicts.csv", *FIT, "--json").stdout)
    assert document["labels_by_reading"] == [frame["reading_1"].to_list(), frame["reading_2"].to_list()]
    low, high = document["dependence"][0][0]["excess_interval"]
    assert low < document["dependence"][0][0]["excess_agreement"] < high


@pytest.fixture
def colluders(folder: Path, crowds: Any) -> pl.Series:
    """Write colluders.csv, dense, in which 12 of 40 agree on wrong answers; return the true labels by item."""
    drawn = crowds.colluders(0, 18, n_items=200)
    kept = drawn.votes.annotator % 3 != 2
    names = np.array([f"c{a:02}" if a < 18 else f"h{a:02}" for a in range(60)])
    frame = {"item": drawn.votes.item[kept], "annotator": names[drawn.votes.annotator[kept]]}
    labels = np.array(["x", "y", "z"])
    pl.DataFrame(frame | {"label": labels[drawn.votes.label[kept]]}).write_csv(folder / "colluders.csv")
    return pl.Series(labels[drawn.truth])


@pytest.mark.slow
def test_colluders_are_dropped_and_the_honest_are_not(run: Run, folder: Path, colluders: pl.Series) -> None:
    plain = run("aggregate", "colluders.csv", *FIT, "--drop-spammers", "-o", "plain.csv")
    assert "12 annotators seem to share errors" in plain.stderr
    assert "with the others they agree no more than by chance" in plain.stderr
    assert "warning: no spammers are dropped: where annotators share errors" in plain.stderr
    assert (pl.read_csv(folder / "plain.csv")["label"] == colluders).mean() < 0.6
    undecided = run("aggregate", "colluders.csv", *FIT, "--drop-colluders", "-o", "undecided.csv")
    assert "nobody is dropped: either may be the colluders" in undecided.stderr
    assert "--trusted NAME" in undecided.stderr
    result = run("aggregate", "colluders.csv", *FIT, "--drop-colluders", "--trusted", "h30", "--drop-spammers", "-q", "--json")
    document = json.loads(result.stdout)
    assert set(document["dropped_annotators"]) == {f"c{a:02}" for a in range(18) if a % 3 != 2}
    assert "dropped 12 colluders: c00, c01, c03" in result.stderr
    assert (pl.Series([row["label"] for row in document["labels"]]) == colluders).mean() > 0.97


def test_a_fit_that_follows_colluders_blames_nobody_without_a_word(run: Run, folder: Path, colluders: pl.Series) -> None:
    plain = run("aggregate", "colluders.csv", *FIT, "-o", "plain.csv")
    assert (pl.read_csv(folder / "plain.csv")["label"] == colluders).mean() < 0.6
    assert "12 annotators seem to share errors" in plain.stderr
    assert "least reliable annotators" not in plain.stderr
    judged = run("annotators", "colluders.csv", *FIT, "-o", "annotators.csv")
    assert "spammer: h" in judged.stderr
    assert "honest annotators may look like spammers" in judged.stderr


def test_a_family_that_errs_together_is_not_dropped(run: Run, folder: Path, truth: pl.Series) -> None:
    result = run("aggregate", "verdicts.csv", *FIT, "--drop-colluders", "-o", "labels.csv", "--annotators", "a.csv")
    assert "nobody is dropped: " in result.stderr
    assert pl.read_csv(folder / "a.csv").height == 7


def test_nothing_is_fused_or_dropped_where_nobody_shares_errors(run: Run, folder: Path, truth: pl.Series) -> None:
    pl.read_csv(folder / "verdicts.csv").filter(~pl.col("annotator").is_in(["m-b", "m-c"])).write_csv(
        folder / "independent.csv"
    )
    for option in ("--fuse-groups", "--drop-colluders"):
        result = run("aggregate", "independent.csv", *FIT, option, "--readings", "r.csv", "-o", "l.csv")
        assert "no annotators seem to share errors: labels are as fitted" in result.stderr
        assert pl.read_csv(folder / "r.csv").columns == ["item", "label"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fuse-groups", "--drop-colluders"), "--drop-colluders does not go with --fuse-groups"),
        (("--fuse-groups", "--history", "families.csv"), "--history does not go with --fuse-groups"),
        (("--fuse-groups", "--type", "multilabel"), "one class per item"),
        (("--drop-colluders", "--gold-is", "truth"), "--drop-colluders changes labels after they are compared"),
        (("--readings", "r.csv", "--engine", "local", "-o", "l.csv"), "in memory"),
    ],
)
def test_what_fusing_does_not_go_with_is_refused(run: Run, truth: pl.Series, options: tuple[str, ...], words: str) -> None:
    assert words in run("aggregate", "verdicts.csv", *options, code=2).stderr


def test_who_has_named_somebody_to_rely_on_is_told_the_step_that_is_left(run: Run, truth: pl.Series) -> None:
    result = run("aggregate", "verdicts.csv", *FIT, "--trusted", "ann", "-o", "l.csv")
    assert "next: aggregate --fuse-groups counts those who share errors as one" in result.stderr
    assert "--trusted NAME" not in result.stderr


def test_annotators_are_judged_by_a_fit_in_which_groups_count_as_one(run: Run, folder: Path, truth: pl.Series) -> None:
    result = run("annotators", "verdicts.csv", *FIT, "--groups", "families.csv", "-o", "judged.csv")
    assert "3 annotators count as 1 group: model m" in result.stderr
    assert "as fitted" not in result.stderr
    found = pl.read_csv(folder / "judged.csv")
    assert sorted(found["annotator"]) == sorted(NAMES)
    # Groups have the names that they were given, and the table goes in again.
    assert dict(found.filter(pl.col("group").is_not_null()).select("annotator", "group").rows()) == dict.fromkeys(
        ("m-a", "m-b", "m-c"), "model m"
    )
    again = run("annotators", "verdicts.csv", *FIT, "--groups", "judged.csv", "-o", "again.csv")
    assert "3 annotators count as 1 group: model m" in again.stderr
    right = {
        name: (group["label"] == truth[group["item"].to_list()]).mean()
        for (name,), group in pl.read_csv(folder / "verdicts.csv").group_by("annotator")
    }
    for name, accuracy in found.select("annotator", "accuracy").rows():
        assert accuracy == pytest.approx(right[name], abs=0.06)
    # Without them the three confirm each other, and a line says so.
    plain = run("annotators", "verdicts.csv", *FIT, "-o", "plain.csv")
    assert "accuracies are as fitted, where annotators who share errors confirm each other" in plain.stderr
    assert "annotators --groups families.csv" in plain.stderr
    assert "labels" not in plain.stderr.replace("known labels", "")
    assert pl.read_csv(folder / "plain.csv").filter(annotator="m-a")["accuracy"].item() > right["m-a"] + 0.15


def test_beside_given_groups_only_what_goes_with_them_is_advised(run: Run, folder: Path, truth: pl.Series) -> None:
    # The three who share errors are not in the table.
    (folder / "other.csv").write_text("annotator,group\nann,people\nbob,people\n")
    result = run("aggregate", "verdicts.csv", *FIT, "--groups", "other.csv", "-o", "x.csv")
    assert "3 annotators seem to share errors: m-a, m-b, m-c" in result.stderr
    assert "next: add those who belong together to the table of --groups, or check some labels" in result.stderr
    assert "--trusted" not in result.stderr
    assert "--fuse-groups" not in result.stderr
    # Annotators are judged by such a fit too, and those who are left confirm each other in it.
    judged = run("annotators", "verdicts.csv", *FIT, "--groups", "other.csv", "-o", "y.csv")
    assert "3 annotators seem to share errors: m-a, m-b, m-c" in judged.stderr
    assert "accuracies are as fitted" in judged.stderr
    table = pl.read_csv(folder / "y.csv").drop_nulls("group")
    assert dict(table.select("annotator", "group").rows()) == {"ann": "people", "bob": "people"}


@pytest.mark.parametrize(("option", "words"), [("--drop-spammers", "single annotators"), ("--trusted", "single annotators")])
def test_groups_of_annotators_refuse_what_is_about_single_ones(run: Run, truth: pl.Series, option: str, words: str) -> None:
    more = ["ann"] if option == "--trusted" else []
    assert words in run("annotators", "verdicts.csv", "--groups", "families.csv", option, *more, code=2).stderr


def test_trusted_annotators_who_contradict_each_other_are_named(run: Run, folder: Path, truth: pl.Series) -> None:
    both = run("aggregate", "verdicts.csv", *FIT, "--trusted", "ann", "--trusted", "m-a", "-o", "l.csv").stderr
    assert "--trusted ann, m-a choose nothing: however the votes are read, one of them shares errors" in both
    one = run("aggregate", "verdicts.csv", *FIT, "--trusted", "ann", "--trusted", "bob", "-o", "l.csv").stderr
    assert "chooses nothing" not in one
    assert "choose nothing" not in one
    assert "by chance" not in one
    # One who always gives another label than ann, and shares errors with nobody.
    frame = pl.read_csv(folder / "verdicts.csv").filter(pl.col("annotator").is_in(["ann", "bob", "cleo", "dan"]))
    other = frame.filter(annotator="ann").with_columns(
        annotator=pl.lit("eve"), label=pl.col("label").replace({"bad": "fair", "fair": "good", "good": "bad"})
    )
    pl.concat([frame, other]).write_csv(folder / "quarrel.csv")
    said = run("aggregate", "quarrel.csv", *FIT, "--trusted", "ann", "--trusted", "eve", "-o", "l.csv").stderr
    assert "ann and eve, both --trusted, agree no more than by chance (0% of 300 common items)" in said


def test_readings_are_decided_by_costs_too(run: Run, folder: Path, truth: pl.Series) -> None:
    import crowdwise
    from crowdwise.engines.independence import find
    from crowdwise.trust.crowd.cautious import refitted

    rows = [(t, d, 9 if t == "bad" else 1) for t in ("bad", "fair", "good") for d in ("bad", "fair", "good") if t != d]
    costs = pl.DataFrame(rows, schema=["true", "label", "cost"], orient="row")
    costs.write_csv(folder / "costs.csv")
    options = ("--costs", "costs.csv", "--abstain", "0.5", "--readings", "r.csv", "-o", "l.csv")
    facts = json.loads(run("aggregate", "verdicts.csv", *FIT, *options, "--json").stdout)
    written = pl.read_csv(folder / "r.csv")
    assert facts["labels_by_reading"] == [written["reading_1"].to_list(), written["reading_2"].to_list()]
    assert written["label"].to_list() == pl.read_csv(folder / "l.csv")["label"].to_list()
    result = crowdwise.make("dawid-skene").fit(crowdwise.read(folder / "verdicts.csv")).result_
    for number, reading in enumerate(find(result.votes).readings, start=1):
        expected = refitted(result, result.votes, reading).result_.decide(costs, abstain=0.5)["label"]
        assert written[f"reading_{number}"].to_list() == expected.to_list()


@pytest.mark.slow
def test_a_few_checks_choose_who_shares_errors(run: Run, truth: pl.Series) -> None:
    said = run("audit", "verdicts.csv", *FIT, "--check", "20", "-o", "check.csv").stderr
    assert "crowdwise audit verdicts.csv --more check.csv draws further items" in said
    assert "then: crowdwise audit verdicts.csv --checked check.csv, with the same options" in said
    assert "or use them as known labels: crowdwise aggregate verdicts.csv --gold check.csv --fuse-groups, where they" in said


@pytest.mark.slow
def test_the_items_that_decide_are_drawn_and_their_labels_choose(run: Run, folder: Path, truth: pl.Series) -> None:
    draw = ("audit", "verdicts.csv", *FIT, "--decide", "12", "-o", "decide.csv")
    done = run(*draw)
    assert "crowdwise audit --decide 20 -o FILE draws them" in done.stderr
    assert "to which readings of the votes give different labels" in done.stderr
    assert "crowdwise aggregate verdicts.csv --gold decide.csv --fuse-groups, with the same options" in done.stderr
    table = pl.read_csv(folder / "decide.csv")
    # Those who check are not shown what the votes say.
    assert table.columns == ["item", "true label"]
    assert (table.height, table["true label"].null_count()) == (12, 12)
    run("aggregate", "verdicts.csv", *FIT, "--readings", "both.csv", "-o", "labels.csv")
    both = pl.read_csv(folder / "both.csv")
    differ = both.filter(pl.col("reading_1") != pl.col("reading_2"))["item"]
    assert set(differ) & set(table["item"])
    labels = [None, *truth[table["item"][1:].to_list()]]
    table.with_columns(pl.Series("true label", labels)).write_csv(folder / "decide.csv")
    done = run("aggregate", "verdicts.csv", *FIT, "--gold", "decide.csv", "--fuse-groups", "-o", "chosen.csv")
    assert "warning: 3 annotators seem to share errors: m-a, m-b, m-c" in done.stderr
    assert "the votes can also be read" not in done.stderr
    assert "11 known labels kept fixed" in done.stderr
    # What somebody has filled in is not replaced.
    assert "name it as known with aggregate --gold, or name another file" in run(*draw, code=2).stderr
    done = run("audit", "verdicts.csv", *FIT, "--decide", "5", "--trusted", "ann", "-o", "more.csv", code=1)
    assert "there is nothing to decide" in done.stderr
    assert "--check is about a certificate" in run("audit", "verdicts.csv", "--decide", "5", "--check", "5", code=2).stderr


def test_the_table_of_annotators_says_who_belongs_together(run: Run, folder: Path, truth: pl.Series) -> None:
    run("annotators", "verdicts.csv", *FIT, "-o", "people.csv")
    found = dict(pl.read_csv(folder / "people.csv").select("annotator", "group").rows())
    assert found == {name: "group 1" if name.startswith("m-") else None for name in NAMES}
    assert (
        "3 annotators count as 1 group: group 1"
        in run("aggregate", "verdicts.csv", *FIT, "--groups", "people.csv", "-o", "one.csv").stderr
    )
    run("aggregate", "verdicts.csv", *FIT, "--groups", "families.csv", "-o", "two.csv")
    assert (folder / "one.csv").read_bytes() == (folder / "two.csv").read_bytes()
