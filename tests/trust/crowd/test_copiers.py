from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.trust.crowd.crowds import fit

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import answers_of, pair_sums
from crowdwise.data.simulate import simulate
from crowdwise.trust.crowd import copiers, pairs


def test_chunks_give_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = simulate(50, 9, 3, 6, "one-coin", random_state=0).votes
    answers = answers_of(votes)
    whole = pair_sums(answers, lambda i, j: np.column_stack([i + j, i * 0.5]), 2)
    monkeypatch.setattr("crowdwise.data.meetings._CHUNK", 7)
    parts = pair_sums(answers, lambda i, j: np.column_stack([i + j, i * 0.5]), 2)
    for name in ("first", "second", "n_items", "sums"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name))
    assert whole.n_items.sum() == 50 * 15


def test_a_copier_and_its_source_are_found_and_nobody_else() -> None:
    crowd = simulate(1000, 20, 3, 8, "one-coin", random_state=0)
    votes = crowd.votes
    mine = votes.annotator == 4
    rng = np.random.default_rng(0)
    keep = rng.random(int(mine.sum())) < 0.9
    copied = Annotations.from_arrays(
        votes.items[votes.item[mine][keep]], ["copier"] * int(keep.sum()), votes.classes[votes.label[mine][keep]]
    )
    report = copiers.score(fit(votes.concat(copied)))
    assert report.flagged == ["annotator-05", "copier"]
    assert report.pairs is not None
    assert report.pairs.select("first", "second").rows() == [("annotator-05", "copier")]
    assert report.pairs["agreement"].to_list() == [1.0]
    assert "agrees with copier on 100% of items" in report.frame.filter(report.frame["flag"])["reason"][0]


def test_honest_crowds_have_no_copiers() -> None:
    for seed in range(10):
        assert copiers.score(fit(simulate(400, 20, 3, 8, "dirichlet", random_state=seed).votes)).flagged == []


def test_annotators_who_met_nobody_are_not_tested() -> None:
    report = copiers.score(fit(Annotations.from_arrays([0, 1], ["x", "y"], ["a", "b"])))
    assert report.frame["p_value"].to_list() == [None, None]


def test_beyond_a_number_of_meetings_items_are_drawn_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    result = fit(simulate(400, 10, 3, 5, "one-coin", random_state=0).votes)
    whole = copiers.score(result)
    assert whole.notes == ()
    monkeypatch.setattr(pairs, "MOST_MEETINGS", 1000)
    met = pairs.of_pairs(result.votes)
    # 400 items have 4,000 pairs of answers.
    assert met.share == 0.25
    assert met.pairs.n.sum() == 1000
    part = copiers.score(result)
    assert "on 25% of their common items" in part.notes[0]
    assert "2.0 times" in part.notes[0]
    assert part.frame.equals(copiers.score(result, met=met).frame)


@pytest.mark.parametrize("method", ["dawid-skene", "majority"])
def test_people_who_agree_on_the_truth_are_no_copiers_where_the_fit_follows_a_faction(crowds: Any, method: str) -> None:
    drawn = crowds.judges(0, 3, 4)
    assert copiers.score(fit(drawn.votes, method)).flagged == [0, 1, 2]
    drawn = crowds.colluders(0, 18, n_items=300)
    result = fit(drawn.votes, method)
    assert set(copiers.score(result).codes.tolist()) <= set(range(18))
    assert len(copiers.score(result).flagged) >= 16


def test_few_meetings_are_judged_by_exact_chances() -> None:
    # Two who agree on all of 5 items, where chance and skill explain 0.3 + 0.05: 0.35^5, beside the normal's 5e-4.
    z, agree, n = np.array([3.3, 3.3]), np.array([5.0, 2.0]), np.array([5.0, 4.0])
    p_value = copiers._p_values(z, agree, n, np.array([0.35, 0.35]))
    assert p_value[0] == pytest.approx(0.35**5)
    assert np.isnan(p_value[1])
    # Broken numbers of agreements lie between whole ones: P(X >= 2) and P(X >= 3) of ten at one half.
    half = copiers._p_values(np.full(3, 9.0), np.array([2.0, 2.5, 3.0]), np.full(3, 10.0), np.full(3, 0.5))
    assert half[0] == pytest.approx(1 - 11 / 1024)
    assert half[2] == pytest.approx(1 - 56 / 1024)
    assert half[2] < half[1] < half[0]
