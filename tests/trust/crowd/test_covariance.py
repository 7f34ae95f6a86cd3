from __future__ import annotations

import numpy as np
import pytest
from tests.trust.crowd.crowds import fit

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import answers_of
from crowdwise.data.simulate import simulate
from crowdwise.errors import SettingError
from crowdwise.trust.crowd import covariance, spammers
from crowdwise.trust.crowd.raykar_yu import spammer_score

HONEST = {"dirichlet": {"diagonal": 4.0, "off_diagonal": 1.0}}


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.6])
@pytest.mark.parametrize("votes_per_item", [5, 20])
def test_spammers_of_the_tutorials_recipe_are_found_and_no_honest_one_is(share: float, votes_per_item: int) -> None:
    # N = 10,000, K = 4, A = 20 in the tutorial; "a few spammers misclassified as honest; all honest as honest".
    missed = 0
    for seed in range(3):
        mix = {"dirichlet": 1 - share, "uniform-spammer": share / 2, "constant-spammer": share / 2}
        crowd = simulate(3000, 20, 4, votes_per_item, mix, options=HONEST, random_state=seed)
        spam = crowd.kind != "dirichlet"
        flag = covariance.score(fit(crowd.votes)).frame["flag"].to_numpy()
        assert not (flag & ~spam).any()
        missed += int((spam & ~flag).sum())
    assert missed <= 2


@pytest.mark.slow
def test_the_false_discovery_rate_holds_in_fifty_crowds_without_spammers() -> None:
    wrong = []
    for seed in range(50):
        crowd = simulate(
            300, 20, 4, 8, "dirichlet", options={"dirichlet": {"diagonal": 2.5, "off_diagonal": 1.0}}, random_state=seed
        )
        honest = spammer_score(crowd.confusion) >= 0.05
        flag = spammers.score(fit(crowd.votes)).frame["flag"].to_numpy()
        wrong.append((flag & honest).sum() / max(flag.sum(), 1))
    assert np.mean(wrong) <= 0.05


@pytest.mark.slow
def test_clusters_find_spammers_too_but_also_where_there_are_none() -> None:
    crowd = simulate(2000, 20, 4, 10, {"one-coin": 0.7, "uniform-spammer": 0.3}, random_state=1)
    flag = covariance.score(fit(crowd.votes), rule="k-means").frame["flag"].to_numpy()
    assert flag[crowd.kind == "uniform-spammer"].all()
    assert flag.sum() < 10
    honest = simulate(2000, 20, 4, 10, "one-coin", random_state=1)
    assert covariance.score(fit(honest.votes), rule="k-means").flagged
    assert covariance.score(fit(honest.votes)).flagged == []


@pytest.mark.slow
def test_the_score_is_that_of_raykar_and_yu_for_one_coin_annotators() -> None:
    crowd = simulate(20000, 10, 3, 10, "one-coin", options={"one-coin": {"a": 6, "b": 4}}, random_state=0)
    score = covariance.score(fit(crowd.votes)).frame["score"].to_numpy()
    np.testing.assert_allclose(score, spammer_score(crowd.confusion), atol=0.06)


def test_an_adversary_is_no_spammer() -> None:
    crowd = simulate(1000, 12, 3, 6, {"one-coin": 0.75, "cyclic-adversary": 0.25}, random_state=0)
    assert spammers.score(fit(crowd.votes)).flagged == []


def test_few_votes_prove_nothing() -> None:
    crowd = simulate(2000, 10, 3, 5, "one-coin", random_state=0)
    extra = Annotations.from_arrays(crowd.votes.items[:5], ["newcomer"] * 5, crowd.votes.classes[[0, 1, 2, 0, 1]])
    report = covariance.score(fit(crowd.votes.concat(extra)))
    row = report.frame.filter(report.frame["annotator"] == "newcomer").to_dicts()[0]
    assert (row["flag"], row["p_value"], row["reason"]) == (False, None, "too few votes to tell")


def test_a_repeated_vote_is_one_answer() -> None:
    crowd = simulate(200, 8, 3, 5, "one-coin", random_state=0)
    votes = crowd.votes
    doubled = votes.concat(votes)
    np.testing.assert_allclose(
        covariance.score(fit(doubled), doubled).frame["loading"],
        covariance.score(fit(doubled), doubled.deduplicate()).frame["loading"],
    )


def test_odd_votes_survive() -> None:
    one_class = Annotations.from_arrays([0, 1], ["x", "y"], ["a", "a"])
    assert spammers.score(fit(one_class)).flagged == []
    empty = Annotations.from_arrays([], [], [], items=[0], annotators=["x"], classes=["a", "b"])
    assert spammers.score(fit(empty)).flagged == []
    with pytest.raises(SettingError, match="rule"):
        covariance.score(fit(one_class), rule="guess")


def test_sparse_sums_are_those_of_a_loop_over_answers() -> None:
    # Repeated votes are one answer with shares; some items have a single answer.
    rng = np.random.default_rng(0)
    item, who = rng.integers(40, size=150), rng.integers(6, size=150)
    result = fit(Annotations.from_arrays(item, who, rng.integers(3, size=150)))
    answers = answers_of(result.votes)
    table = covariance._Table(answers, result.votes.n_items)
    loading = rng.normal(size=(6, 3, 2))
    x_cl = np.array([answers.share_cl[answers.annotator == a].mean(axis=0) for a in range(6)])
    x_cl = answers.share_cl - x_cl[answers.annotator]
    y_cr = np.array([x @ loading[a] for x, a in zip(x_cl, answers.annotator, strict=True)])
    t_cr, right, gram = np.zeros_like(y_cr), np.zeros((6, 3, 2)), np.zeros((6, 2, 2))
    for c, (n, a) in enumerate(zip(answers.item, answers.annotator, strict=True)):
        for d in np.flatnonzero(answers.item == n):
            if d != c:
                t_cr[c] += y_cr[d]
                gram[a] += loading[answers.annotator[d]].T @ loading[answers.annotator[d]]
        right[a] += np.outer(x_cl[c], t_cr[c])
    ridge = np.trace(gram.sum(axis=0)) / len(answers.item) / 2 + 1e-12
    expected = 0.5 * (loading + right @ np.linalg.inv(gram + ridge * np.eye(2)))
    np.testing.assert_allclose(covariance._loadings(table, loading, 1, 0.0), expected, rtol=1e-10, atol=1e-12)
    means = np.array([t_cr[answers.annotator == a].mean(axis=0) for a in range(6)])
    np.testing.assert_allclose(table.of_others(loading), t_cr - means[answers.annotator], rtol=1e-10, atol=1e-12)
    squares = [x_cl[answers.annotator == a].T @ x_cl[answers.annotator == a] for a in range(6)]
    np.testing.assert_allclose(table.xx_alm, squares, atol=1e-12)
