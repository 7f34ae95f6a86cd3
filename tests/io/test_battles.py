"""Comparisons of models: arena battles, MT-Bench and AlpacaEval."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.exports import export
from tests.io.helpers import write, write_json, write_lines

from crowdwise.data.comparisons import Comparisons
from crowdwise.errors import DataWarning, InputError
from crowdwise.io import read
from crowdwise.methods.rank.bradley_terry import BradleyTerry
from crowdwise.methods.rank.crowd_bt import CrowdBT


def rows(votes: Comparisons) -> list[tuple[Any, ...]]:
    return sorted(votes.to_frame().select("first", "second", "annotator", "outcome").rows())


def test_arena_battles(tmp_path: Path) -> None:
    header = "question_id,model_a,model_b,response_a,response_b,winner,judge,turn\n"
    text = "q1,x,y,hi,ho,model_a,u1,1\nq2,y,x,hi,ho,model_b,u1,1\nq3,x,z,hi,ho,tie (bothbad),u2,1\n"
    votes = read(write(tmp_path / "battles.csv", header + text), Comparisons)
    assert rows(votes) == [("x", "y", "u1", 1), ("x", "z", "u2", 0), ("y", "x", "u1", -1)]


def test_battles_of_nobody(tmp_path: Path) -> None:
    records = [{"model_a": "x", "model_b": "y", "winner": "model_b"}, {"model_a": "x", "model_b": "y", "winner": "tie"}]
    with pytest.warns(DataWarning, match="no column says who compared"):
        votes = read(write_lines(tmp_path / "b.jsonl", records), Comparisons)
    assert rows(votes) == [("x", "y", "anonymous", -1), ("x", "y", "anonymous", 0)]


def test_battles_with_a_column_per_outcome(tmp_path: Path) -> None:
    text = "id,model_a,model_b,prompt,winner_model_a,winner_model_b,winner_tie\n1,x,y,p,1,0,0\n2,x,y,p,0,1,0\n3,x,y,p,0,0,1\n"
    with pytest.warns(DataWarning):
        votes = read(write(tmp_path / "b.csv", text), Comparisons)
    assert sorted(votes.outcome.tolist()) == [-1, 0, 1]


def test_mt_bench_pairs_are_judged_twice(tmp_path: Path) -> None:
    judge = ["gpt-4", "pair-v2"]
    first = {"question_id": 81, "model_1": "x", "model_2": "y", "g1_winner": "model_1", "g2_winner": "tie", "judge": judge}
    second = first | {"question_id": 82, "g1_winner": "error", "g2_winner": "model_2"}
    votes = read(write_lines(tmp_path / "pair.jsonl", [first, second]), Comparisons)
    # In the second game the judge saw y first, and preferred it to x.
    assert rows(votes) == [("x", "y", "gpt-4 pair-v2", 1), ("y", "x", "gpt-4 pair-v2", 0), ("y", "x", "gpt-4 pair-v2", 1)]
    assert votes.n_missing == 1


def preferences(*numbers: float | None) -> list[dict[str, Any]]:
    return [{"generator_1": "x", "generator_2": "y", "annotator": "gpt4", "preference": p, "output_1": ""} for p in numbers]


def test_a_preference_has_a_degree(tmp_path: Path) -> None:
    votes = read(write_json(tmp_path / "a.json", preferences(1.0, 1.2, 1.9, 1.5, 0, None)), Comparisons)
    assert votes.n_missing == 1
    assert votes.degree is not None
    found = sorted(zip(votes.outcome.tolist(), votes.degree.round(6).tolist(), strict=True))
    assert found == [(-1, 0.9), (0, 0.5), (0, 0.5), (1, 0.8), (1, 1.0)]


def test_whole_preferences_have_none(tmp_path: Path) -> None:
    votes = read(write_json(tmp_path / "a.json", preferences(1, 2, 2)), Comparisons)
    assert votes.degree is None
    assert votes.outcome.tolist() == [-1, -1, 1]


def test_a_degree_also_where_columns_are_named(tmp_path: Path) -> None:
    text = "left,right,who,said\nx,y,ann,1.25\nx,y,bob,2\n"
    votes = read(write(tmp_path / "a.csv", text), Comparisons, annotator="who", answer="said")
    assert votes.degree is not None
    assert sorted(zip(votes.outcome.tolist(), votes.degree.tolist(), strict=True)) == [(-1, 1.0), (1, 0.75)]


def test_versions_are_ids_and_no_degrees(tmp_path: Path) -> None:
    text = "item_a,item_b,annotator,winner\n1.5,2.5,ann,1.5\n"
    votes = read(write(tmp_path / "v.csv", text), Comparisons)
    assert votes.degree is None
    assert votes.outcome.tolist() == [1]


def test_numbers_outside_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the winner '1.2' is neither .* degrees from 1 to 2 throughout"):
        read(write_json(tmp_path / "a.json", preferences(1.2, 2.7)), Comparisons)


def test_the_score_is_that_of_the_summed_probabilities() -> None:
    share = np.array([0.9, 0.6, 0.2, 0.7])
    votes = Comparisons.from_arrays(["x"] * 4, ["y"] * 4, ["j"] * 4, (2 - share).tolist())
    score = BradleyTerry(prior=1e-9).fit(votes).result_.score
    # One pair: the maximum of p log s + (1 - p) log(1 - s) is the mean of p.
    assert abs(score[0] - score[1]) == pytest.approx(math.log(2.4 / 1.6), abs=1e-4)


def test_a_degree_is_two_weighted_votes() -> None:
    """The oracle: the same votes written as two rows each, with weights that sum to one."""
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 4, 40), rng.integers(4, 8, 40)
    who, share = rng.integers(0, 3, 40), rng.uniform(0.02, 0.98, 40)
    graded = Comparisons.from_arrays(first, second, who, (2 - share).tolist())
    both = Comparisons.from_arrays(
        np.tile(first, 2), np.tile(second, 2), np.tile(who, 2), ["left"] * 40 + ["right"] * 40, weight=np.r_[share, 1 - share]
    )
    for method in (BradleyTerry(), CrowdBT()):
        one, other = (method.fit(votes).result_.score for votes in (graded, both))
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert graded.n_votes == 40


def test_degrees_follow_their_votes() -> None:
    votes = Comparisons.from_arrays(["x", "x", "y"], ["y", "z", "z"], ["a", "b", "a"], [1.1, 1.6, 2.0])
    assert votes.take_votes(np.array([2])).degree is not None
    joined = votes.concat(Comparisons.from_arrays(["x"], ["y"], ["a"], ["x"]))
    assert joined.degree is not None
    assert sorted(joined.degree.round(6).tolist()) == [0.6, 0.9, 1.0, 1.0]
    assert votes.to_frame().columns == ["first", "second", "annotator", "outcome", "degree"]


def test_the_real_judgments() -> None:
    path = export("llm_judge_preferences.json")
    records = json.loads(path.read_text())
    votes = read(path, Comparisons)
    assert votes.n_votes == len(records)
    for_second = np.where(votes.outcome > 0, 1 - votes.degrees, votes.degrees)
    assert for_second.sum() == pytest.approx(sum(record["preference"] - 1 for record in records))


def test_votes_are_not_sought_in_comparisons(tmp_path: Path) -> None:
    path = tmp_path / "my battles.csv"
    path.write_text("model_a,model_b,winner,judge\nx,y,model_a,ann\ny,z,tie,bob\n")
    with pytest.raises(InputError, match=r"These are comparisons: crowdwise rank '.*my battles\.csv'"):
        read(path)
