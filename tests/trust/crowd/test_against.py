from __future__ import annotations

from typing import Any

import numpy as np
from tests.trust.crowd.crowds import fit

from crowdwise.trust.crowd import against
from crowdwise.trust.crowd.dependence import find


def test_colluders_are_flagged_by_their_number_of_partners(crowds: Any) -> None:
    votes = crowds.colluders(0, 18, n_items=200).votes
    found = against.score(fit(votes))
    assert found.flagged == list(range(18))
    assert found.frame["reason"][0] == "shares errors with 17 more, and agrees with all others no more than by chance"


def test_agreement_with_those_outside_by_hand(crowds: Any) -> None:
    votes = crowds.judges(0, 3, 4).votes
    (group,) = find(votes).groups
    table = np.empty((7, votes.n_items), int)
    table[votes.annotator, votes.item] = votes.label
    shares = np.bincount(votes.label, minlength=3) / votes.n_votes
    own = np.array([np.bincount(row, minlength=3) + 2 * shares for row in table])
    own /= own.sum(axis=1, keepdims=True)
    beyond = [(table[a] == table[b]).mean() - own[a] @ own[b] for a in range(3) for b in range(3, 7)]
    np.testing.assert_allclose(group.outside, np.mean(beyond) / (1 - (shares**2).sum()))


def test_a_family_that_errs_together_does_not_collude(crowds: Any) -> None:
    report = against.score(fit(crowds.judges(0, 3, 4).votes))
    assert report.flagged == []
    assert (report.frame["score"].drop_nulls() > 0.2).all()
