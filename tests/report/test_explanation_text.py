"""What is said of one label: who voted what, what moved it furthest and why it is not surer, before the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crowdwise import Annotations, DawidSkene, MajorityVote, read
from crowdwise.report.explanation_text import explanation_document, explanation_notes, explanation_rows, explanation_summary

VOTES = Annotations.from_arrays(
    ["split"] * 3 + ["one"] + ["all"] * 3,
    ["x", "y", "z", "x", "x", "y", "z"],
    ["cat", "cat", "dog", "dog", "cat", "cat", "cat"],
    items=["split", "one", "all", "none"],
)


def explained(item: str, estimator: Any = None, **fit: Any) -> Any:
    return (estimator or MajorityVote()).fit(VOTES, **fit).explain(item)


def lines(*given: Any, **fit: Any) -> list[str]:
    return list(explanation_summary(explained(*given, **fit)))


def test_who_said_what_and_which_votes_moved_it() -> None:
    head, said, towards, against, why = lines("split")
    # Each of three votes is a third of the share; with a fourth, divided by the class shares, the label has less than 2 / 3.
    assert head.startswith("split: cat, probability 0.6")
    assert said == "3 votes: 2 for cat, 1 for dog"
    assert (towards, against) == ("towards cat: x (0.33), y (0.33)", "towards dog: z (0.33)")
    assert why == "no surer, though the share of the votes is 0.6667: one more is counted, divided by the class shares"


def test_a_unanimous_item_has_nobody_on_the_other_side() -> None:
    found = lines("all")
    assert len(found) == 4
    assert found[1:3] == ["3 votes: 3 for cat", "towards cat: x (0.33), y (0.33), z (0.33)"]


def test_a_single_vote_says_whose_it_is() -> None:
    assert lines("one")[1:] == ["1 vote: x said dog", "no surer, for one annotator alone voted, and nobody is always right"]


def test_without_votes_there_is_what_was_known_before() -> None:
    assert lines("none")[1:] == ["no votes", "no surer, for nobody voted: this is what was known before"]


def test_a_known_label_needs_no_reason() -> None:
    found = lines("split", gold={"split": "dog"})
    assert found[0] == "split: dog, probability 1 (known: the votes did not decide it)"
    assert found[1:] == ["3 votes: 2 for cat, 1 for dog", "towards dog: z (0.33)", "towards cat: x (0.33), y (0.33)"]


def test_models_say_what_they_would_believe_and_what_experience_leaves() -> None:
    why = explained("all", DawidSkene(smoothing=1.0))
    assert why.by_model == pytest.approx(DawidSkene(smoothing=1.0, confidence="model").fit(VOTES).explain("all").confidence)
    assert why.confidence < why.by_model
    assert list(explanation_summary(why))[-1].startswith("no surer, because annotators share mistakes: 0.")
    assert lines("all", DawidSkene(smoothing=1.0, confidence="model"))[-1].startswith("as sure as the model")


def test_votes_for_a_third_class_say_so_and_many_are_counted() -> None:
    classes, names = [f"c{n}" for n in range(7)], [f"a{n}" for n in range(9)]
    votes = Annotations.from_arrays(["i"] * 9, names, [*classes, "c0", "c0"], classes=classes)
    _, said, towards, *_ = explanation_summary(MajorityVote().fit(votes).explain("i"))
    assert said == "9 votes: 3 for c0, 1 for c1, 1 for c2, 1 for c3, 1 for c4 and for 2 more classes"
    assert towards == "towards c0: a0 (0.11), a7 (0.11), a8 (0.11)"
    # Those who know the answer call bees wasps, and never anything else so.
    item = [f"i{n}" for n in range(40) for _ in range(3)]
    label = [said for n in range(40) for said in (("bee", "bee", "wasp") if n % 2 else ("ant", "ant", "ant"))]
    habits = Annotations.from_arrays([*item, "new", "new"], ["p", "q", "r"] * 40 + ["p", "r"], [*label, "bee", "wasp"])
    line = list(explanation_summary(DawidSkene().fit(habits).explain("new")))[2]
    assert line.startswith("towards bee: ")
    assert sorted(name.split(" (")[0] for name in line.removeprefix("towards bee: ").split("), ")) == ["p", "r"]
    assert ", said wasp)" in line
    assert "said bee" not in line


def test_rows_stand_from_for_to_against_and_only_those_of_votes_have_bars() -> None:
    why = explained("split", DawidSkene(smoothing=1.0))
    names, rows = explanation_rows(why)
    assert names[:3] == ["source", "vote", "log-odds"]
    assert sorted(row[0] for row in rows[:2]) == ["x", "y"]
    assert [row[0] for row in rows[2:]] == ["z", "class prior", "caution", "total"]
    votes = [row[2] for row in rows if row[1] is not None]
    assert votes == sorted(votes, reverse=True)
    assert "▇" * 12 in max(rows[:4], key=lambda row: abs(row[2]))[3]
    assert [row[3] for row in rows[-2:]] == ["", ""]
    assert [line.split(":")[0] for line in explanation_notes(why)] == ["caution"]


def test_what_adds_nothing_is_left_out() -> None:
    # An item that is half and half stays so, whatever is added to both.
    even = Annotations.from_arrays(["i", "i"], ["x", "y"], ["p", "q"])
    why = MajorityVote().fit(even).explain("i")
    assert [row[0] for row in explanation_rows(why)[1]] == ["x", "y", "class prior", "total"]
    assert list(explanation_notes(why)) == []
    assert [row["source"] for row in explanation_document(why)["rows"]] == ["class prior", "x", "y", "caution"]


def test_an_explanation_shows_its_label_and_its_table() -> None:
    assert repr(explained("split")).startswith("Explanation(split: cat, not dog, probability 0.6")
    assert "contribution" in repr(explained("split"))


def test_json_holds_what_the_lines_say() -> None:
    found = explanation_document(explained("split"))
    assert found["said"] == [{"label": "cat", "votes": 2.0}, {"label": "dog", "votes": 1.0}]
    assert found["by_model"] == pytest.approx(2 / 3)
    assert found["confidence_source"] == "experience"


def test_anonymous_votes_stand_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_text("item,cat,dog\ni,2,1\nj,0,3\n")
    head, said, why = explanation_summary(MajorityVote().fit(read(tmp_path / "counts.csv", format="counts")).explain("i"))
    assert (head.split(",")[0], said) == ("i: cat", "3 votes: 2 for cat, 1 for dog")
    assert why.startswith("no surer, though")
