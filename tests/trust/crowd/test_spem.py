"""SpEM: its M-step against a general optimiser, and spammers of a simulated crowd."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.trust.crowd.crowds import draw, fit, symmetric

from crowdwise.data.annotations import Annotations
from crowdwise.trust.crowd.raykar_yu import spammer_score
from crowdwise.trust.crowd.spem import MOST_PRECISION, penalised_rows, score, spem


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("precision", [0.5, 20.0, 400.0])
def test_rows_are_at_the_maximum(n_classes: int, precision: float) -> None:
    counts = np.random.default_rng(0).uniform(0.5, 20, (n_classes, n_classes))
    found = np.full((1, n_classes, n_classes), 1 / n_classes)
    for _ in range(300):
        found = penalised_rows(counts[None], np.array([precision * (n_classes - 1)]), found)

    def loss(x: np.ndarray) -> float:
        rows = np.exp(x.reshape(n_classes, n_classes))
        rows /= rows.sum(axis=1, keepdims=True)
        # (K - 1)^2 S is the prior's quadratic form.
        penalty = 0.5 * precision * (n_classes - 1) ** 2 * float(spammer_score(rows[None])[0])
        return penalty - float((counts * np.log(rows)).sum())

    best = minimize(loss, np.zeros(n_classes**2), options={"gtol": 1e-9})
    assert loss(np.log(found[0]).ravel()) == pytest.approx(best.fun, abs=1e-3)
    np.testing.assert_allclose(found.sum(axis=2), 1)


@pytest.fixture
def spam() -> tuple[Annotations, np.ndarray]:
    """Four of fifteen answer by a habit of their own; the others are right in 0.65; three classes, all on all of 500 items."""
    rng = np.random.default_rng(1)
    truth = rng.integers(3, size=500)
    labels = [draw(rng, np.tile(rng.dirichlet(np.ones(3)), (500, 1))) for _ in range(4)]
    labels += [draw(rng, symmetric(0.65, 3)[truth]) for _ in range(11)]
    return Annotations.from_matrix(np.column_stack(labels), annotators=range(15)), truth


def test_spammers_are_pruned_and_nobody_else(spam: tuple[Annotations, np.ndarray]) -> None:
    votes, truth = spam
    found = spem(votes)
    assert np.flatnonzero(found.pruned).tolist() == [0, 1, 2, 3]
    assert (found.precision[:4] > MOST_PRECISION).all()
    assert (found.posterior.argmax(axis=1) == truth).mean() > 0.9
    # One share for (0.65 - 0.175)^2: between its rows, without the prior.
    np.testing.assert_allclose(1 / found.precision[4:], 0.475**2, rtol=0.4)
    report = score(fit(votes))
    assert report.flagged == [0, 1, 2, 3]
    assert report.frame["reason"][0].startswith("pruned: precision ")


def test_small_and_empty_votes_have_an_answer() -> None:
    for votes in (Annotations.from_arrays([0, 1], ["x", "y"], ["a", "b"]), Annotations.from_arrays([0], ["x"], ["a"])):
        assert np.isfinite(spem(votes).posterior).all()
