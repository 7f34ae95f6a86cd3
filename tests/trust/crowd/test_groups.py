from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.trust.crowd.crowds import fit, grouped_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.engines.independence import find
from crowdwise.errors import DataWarning
from crowdwise.estimator.registry import make
from crowdwise.trust.crowd import groups
from crowdwise.trust.crowd.checked import check


def partition(codes: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(codes == c).tolist()) for c in np.unique(codes)}


@pytest.mark.slow
def test_the_tutorials_groups_are_found_and_help() -> None:
    # N = 5,000, A = 40, K = 3, J = 5.
    votes, truth, group = grouped_crowd(0)
    plain = fit(votes)
    found = groups.score(plain)
    assert found.frame["flag"].all()
    assert partition(found.frame["group"].to_numpy()) == partition(group)
    aware = fit(votes, "group-dawid-skene", groups=groups.groups(plain))
    # The models as they are: experience with real crowds has no place in a simulated one.
    plain, aware = (replace(one, posterior=one.model_posterior, inferred=None) for one in (plain, aware))
    before, after = groups.overconfidence(plain, truth), groups.overconfidence(aware, truth)
    assert after["accuracy"] > before["accuracy"] + 0.01
    # An accuracy of about 0.9 on 5,000 items has a standard error of 0.0042.
    assert before["gap"] > 5 * 0.0042
    assert abs(after["gap"]) < 3 * 0.0042
    assert after["ece"] < 0.25 * before["ece"]


@pytest.mark.slow
def test_found_groups_and_given_ones_give_one_fit() -> None:
    votes, _, group = grouped_crowd(1, n_items=600, n_annotators=20, n_groups=4)
    auto = make("group-dawid-skene").fit(votes)
    given = make("group-dawid-skene", groups={str(a): f"team {g}" for a, g in enumerate(group)}).fit(votes)
    np.testing.assert_allclose(auto.posterior_, given.posterior_, atol=1e-6)


def test_a_group_that_the_fit_follows_is_found_all_the_same(crowds: Any) -> None:
    drawn = crowds.teams(0)
    found = groups.score(fit(drawn.votes))
    assert partition(found.frame["group"].to_numpy()) == partition(drawn.code)
    assert "group 1: shares errors with" in found.frame["reason"][0]
    plain, aware = (fit(drawn.votes, method).codes for method in ("dawid-skene", "group-dawid-skene"))
    # The largest team is right in 65 to 80 % of the items; five teams together in nine of ten.
    assert (plain == drawn.truth).mean() < 0.81
    assert (aware == drawn.truth).mean() > (plain == drawn.truth).mean() + 0.1


def test_the_other_reading_is_said(crowds: Any) -> None:
    (note,) = groups.score(fit(crowds.judges(0, 5, 2).votes)).notes
    assert "the votes can also be read so that" in note


def test_another_reading_may_be_that_nobody_shares_errors() -> None:
    # Eighteen of sixty give one wrong class of three; a crowd of this seed can also be read without any group.
    rng = np.random.default_rng(2)
    truth, skill = rng.integers(3, size=300), rng.uniform(0.5, 0.9, 60)
    key = (truth + 1 + rng.integers(2, size=300)) % 3
    item = np.repeat(np.arange(300), 6)
    who = np.concatenate([rng.choice(60, 6, replace=False) for _ in range(300)])
    ring = np.where(rng.random(1800) < 0.92, key[item], rng.integers(3, size=1800))
    honest = np.where(rng.random(1800) < skill[who], truth[item], (truth[item] + 1 + rng.integers(2, size=1800)) % 3)
    votes = Annotations.from_arrays(item, who, np.where(who < 18, ring, honest))
    assert not find(votes).readings[1].groups
    (note,) = groups.score(fit(votes)).notes
    assert note.startswith("the votes can also be read so that nobody shares errors;")
    with pytest.warns(DataWarning, match="and the votes can also be read so that nobody does"):
        check(fit(votes))


@pytest.mark.slow
def test_independent_crowds_have_no_groups() -> None:
    flagged = [groups.score(fit(simulate(400, 20, 3, 8, "dirichlet", random_state=seed).votes)).flagged for seed in range(20)]
    assert sum(bool(names) for names in flagged) <= 2


def test_overconfidence_without_truth_is_unknown() -> None:
    result = fit(simulate(20, 5, 3, 3, "one-coin", random_state=0).votes)
    assert np.isnan(groups.overconfidence(result, {})["accuracy"])
