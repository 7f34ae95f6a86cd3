"""Minimax entropy's annotators: compiled loops equal numpy, and a step never lowers what it climbs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.parts.annotators import maxent
from crowdwise.parts.annotators.maxent import MaxEntConfusion

NONE_KNOWN = np.empty(0, np.int16)


def problem(
    seed: int, weighted: bool, spread: float = 1.0, rounds: int = 50
) -> tuple[Annotations, MaxEntConfusion, np.ndarray]:
    """Votes with an item nobody labelled, a model somewhere, and a posterior with certain items."""
    rng = np.random.default_rng(seed)
    n_items, n_annotators, n_classes, n_votes = 12, 6, 4, 60
    votes = Annotations.from_arrays(
        rng.integers(0, n_items - 1, n_votes),
        rng.integers(0, n_annotators, n_votes),
        rng.integers(0, n_classes, n_votes),
        items=np.arange(n_items),
        annotators=np.arange(n_annotators),
        classes=np.arange(n_classes),
        weight=rng.uniform(0, 3, n_votes) if weighted else None,
    )
    earlier = rng.uniform(0, 2, (n_annotators, n_classes, n_classes))
    model = MaxEntConfusion.start(earlier, n_items, 1.0, 0.7, 0.3, 1)
    model = replace(model, rounds=rounds)
    sigma, tau = spread * rng.normal(size=earlier.shape), spread * rng.normal(size=model.tau_nlk.shape)
    model = replace(model, sigma_alk=sigma - sigma.mean(axis=1, keepdims=True), tau_nlk=tau - tau.mean(axis=1, keepdims=True))
    posterior = rng.dirichlet(np.full(n_classes, 0.3), n_items)
    posterior[:3] = np.eye(n_classes)[:3]
    return votes, model, posterior


def climbed(model: MaxEntConfusion, votes: Annotations, posterior: np.ndarray) -> float:
    """Penalised expected log-likelihood, vote by vote."""
    total = -model.penalty()
    for e in range(votes.n_votes):
        scores = model.sigma_alk[votes.annotator[e]] + model.tau_nlk[votes.item[e]]
        log_p = scores - np.log(np.exp(scores).sum(axis=0))
        weight = 1.0 if votes.weight is None else votes.weight[e]
        total += weight * float(posterior[votes.item[e]] @ log_p[votes.label[e]])
    return total


@pytest.mark.parametrize("rounds", [0, 50])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_compiled_loops_equal_numpy(seed: int, weighted: bool, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    votes, model, posterior = problem(seed, weighted, rounds=rounds)
    found = []
    for compiled_from in (0, 10**9):
        monkeypatch.setattr(maxent, "COMPILED_FROM", compiled_from)
        after = model.update(votes, posterior)
        inferred = posterior.copy()
        evidence, change = after.infer(votes, np.log(np.full((1, 4), 0.25)), NONE_KNOWN, inferred)
        found.append([after.sigma_alk, after.tau_nlk, inferred, np.array([evidence, change])])
    for compiled, plain in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("rounds", [0, 50])
@pytest.mark.parametrize("spread", [0.0, 1.0, 8.0])
@pytest.mark.parametrize("seed", range(8))
def test_no_step_lowers_what_it_climbs(seed: int, spread: float, rounds: int) -> None:
    votes, model, posterior = problem(seed, weighted=True, spread=spread, rounds=rounds)
    for _ in range(6):
        after = model.update(votes, posterior)
        assert climbed(after, votes, posterior) >= climbed(model, votes, posterior) - 1e-9
        model = after


def test_steps_end_where_slopes_vanish() -> None:
    votes, model, posterior = problem(0, weighted=True)
    for _ in range(200):
        model = model.update(votes, posterior)
    best = climbed(model, votes, posterior)
    rng = np.random.default_rng(1)
    for _ in range(20):
        move = 1e-5 * rng.normal(size=model.sigma_alk.shape), 1e-5 * rng.normal(size=model.tau_nlk.shape)
        up, down = (
            replace(model, sigma_alk=model.sigma_alk + s * move[0], tau_nlk=model.tau_nlk + s * move[1]) for s in (1, -1)
        )
        assert abs(climbed(up, votes, posterior) - climbed(down, votes, posterior)) < 1e-9
        assert climbed(up, votes, posterior) <= best + 1e-9


def test_extreme_scores_take_the_way_of_logs() -> None:
    votes, model, posterior = problem(0, weighted=False, spread=300.0)
    assert not model._compiled(votes)
    assert np.isfinite(model.update(votes, posterior).sigma_alk).all()
