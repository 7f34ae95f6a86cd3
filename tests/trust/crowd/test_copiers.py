from __future__ import annotations

import numpy as np
import pytest
from tests.methods.labels.helpers import random_votes
from tests.trust.crowd.crowds import fit

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.engines.dependence import residual_agreement
from crowdwise.engines.meetings import answers_of, pair_sums
from crowdwise.trust.crowd import copiers, pairs


def test_residual_agreement_by_hand() -> None:
    votes = random_votes(
        np.random.default_rng(0), 12, 4, 3, 60, weight=np.random.default_rng(1).integers(0, 3, 60).astype(float)
    )
    result = fit(votes)
    found = residual_agreement(votes, result.posterior, result.confusion)
    shares: dict[tuple[int, int], np.ndarray] = {}
    for e in range(votes.n_votes):
        key = (int(votes.item[e]), int(votes.annotator[e]))
        shares.setdefault(key, np.zeros(3))[votes.label[e]] += votes.weight[e]
    shares = {key: value / value.sum() for key, value in shares.items() if value.sum() > 0}
    for p, (a, b) in enumerate(zip(found.first, found.second, strict=True)):
        items = [n for n in range(12) if (n, a) in shares and (n, b) in shares]
        expected = [
            sum(result.posterior[n, k] * result.confusion[a, k] @ result.confusion[b, k] for k in range(3)) for n in items
        ]
        assert found.n_items[p] == len(items)
        assert found.agree[p] == pytest.approx(sum(shares[n, a] @ shares[n, b] for n in items))
        assert found.expected[p] == pytest.approx(sum(expected))
        assert found.variance[p] == pytest.approx(sum(x * (1 - x) for x in expected))


def test_chunks_give_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = simulate(50, 9, 3, 6, "one-coin", random_state=0).votes
    answers = answers_of(votes)
    whole = pair_sums(answers, lambda i, j: np.column_stack([i + j, i * 0.5]), 2)
    monkeypatch.setattr("crowdwise.engines.meetings._CHUNK", 7)
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
    found = pairs.of_pairs(result, result.votes)
    # 400 items have 4,000 pairs of answers.
    assert found.share == 0.25
    assert found.n_items.sum() == 1000
    part = copiers.score(result)
    assert "on 25% of their common items" in part.notes[0]
    assert "2.0 times" in part.notes[0]
    assert part.frame.equals(copiers.score(result, found=found).frame)
