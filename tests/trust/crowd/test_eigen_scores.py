from __future__ import annotations

import numpy as np
import pytest
from tests.trust.crowd.crowds import draw, fit, symmetric

from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError
from crowdwise.trust.crowd import eigen_scores
from crowdwise.trust.crowd.pairs import of_pairs

RIGHT = np.array([0.9, 0.8, 0.8, 0.7, 0.7, 0.6, 0.5, 0.2] * 3)


def crowd(n_classes: int, share: float) -> tuple[Annotations, np.ndarray]:
    """One-coin annotators, each on a share of 4,000 items, half of them on a fifth of that; and their reliability."""
    rng = np.random.default_rng(0)
    truth = rng.integers(n_classes, size=4000)
    labels = np.column_stack([draw(rng, symmetric(right, n_classes)[truth]) for right in RIGHT])
    asked = rng.random(labels.shape) < np.where(np.arange(len(RIGHT)) % 2, share / 5, share)
    item, who = np.nonzero(asked)
    votes = Annotations.from_arrays(item, who, labels[item, who], annotators=range(len(RIGHT)))
    return votes, (n_classes * RIGHT - 1) / (n_classes - 1)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_ratio_of_eigenvectors_is_the_reliability(n_classes: int) -> None:
    votes, true = crowd(n_classes, 1.0)
    found = eigen_scores.reliability(of_pairs(votes))
    np.testing.assert_allclose(found, true, atol=0.12)
    # Ghosh's takes all pairs to have met equally often, which these have not.
    ghosh = eigen_scores.reliability(of_pairs(votes), "ghosh")
    assert np.abs(ghosh - true).mean() > 2 * np.abs(found - true).mean()


def test_ghosh_is_exact_where_everybody_answers_everything() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=3000)
    votes = Annotations.from_matrix(np.column_stack([draw(rng, symmetric(right, 2)[truth]) for right in RIGHT]))
    for kind in eigen_scores.KINDS:
        np.testing.assert_allclose(eigen_scores.reliability(of_pairs(votes), kind), 2 * RIGHT - 1, atol=0.1)
    # By the matrix of votes -1, +1 itself.
    table = np.empty((3000, len(RIGHT)))
    table[votes.item, votes.annotator] = 2.0 * votes.label - 1
    value, vector = np.linalg.eigh(table.T @ table)
    expected = np.abs(vector[:, -1]) * np.sqrt(value[-1] / 3000)
    np.testing.assert_allclose(np.abs(eigen_scores.reliability(of_pairs(votes), "ghosh")), np.minimum(expected, 1), atol=1e-6)


def test_spammers_are_flagged() -> None:
    votes, true = crowd(2, 1.0)
    for kind in ("eigen-ratio",):
        report = eigen_scores.score(fit(votes), kind=kind)
        assert report.detector == kind
        assert set(np.flatnonzero(np.abs(true) < 1e-9).tolist()) <= set(report.codes.tolist())
        # Less than a twentieth of a perfect annotator's information, as the flag says.
        assert (true[report.codes] ** 2 < 0.05).all()
    with pytest.raises(SettingError, match="kind must be one of"):
        eigen_scores.score(fit(votes), kind="other")


def test_who_met_nobody_has_no_score() -> None:
    report = eigen_scores.score(fit(Annotations.from_arrays([0, 1], ["x", "y"], ["a", "b"])))
    assert report.frame["score"].to_list() == [None, None]
