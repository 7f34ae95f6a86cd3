"""States of ebcc: special functions against scipy, compiled loops against numpy, merged subtypes against single ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.state_loops import psi_and_log_gamma
from crowdwise.parts.annotators.subtype_states import SubtypeStates, count_states, merge_columns, mergeable
from crowdwise.parts.priors.marginals import Marginals
from crowdwise.parts.priors.subtypes import Subtypes


def test_digamma_and_log_gamma() -> None:
    x = np.concatenate([10.0 ** np.linspace(-6, 6, 200), np.linspace(0.5, 12, 200)])
    psi, log_gamma = np.array([psi_and_log_gamma(value) for value in x]).T
    np.testing.assert_allclose(psi, digamma(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(log_gamma, gammaln(x), rtol=1e-13, atol=1e-13)


def problem(seed: int, weighted: bool, gold: bool, history: bool) -> tuple[Annotations, Subtypes, SubtypeStates, np.ndarray]:
    """Votes with an item nobody labelled; two live subtypes per class and three without mass."""
    rng = np.random.default_rng(seed)
    n_items, n_annotators, n_classes, n_subtypes, n_votes = 15, 5, 3, 5, 70
    votes = Annotations.from_arrays(
        rng.integers(0, n_items - 1, n_votes),
        rng.integers(0, n_annotators, n_votes),
        rng.integers(0, n_classes, n_votes),
        items=np.arange(n_items),
        annotators=np.arange(n_annotators),
        classes=np.arange(n_classes),
        weight=rng.uniform(0.1, 3, n_votes) if weighted else None,
    )
    known = np.full(n_items, -1, np.int16) if gold else np.empty(0, np.int16)
    known[: 3 * gold] = [0, 2, 1][: 3 * gold]
    silent = np.bincount(votes.item, minlength=n_items) == 0
    class_s = np.repeat(np.arange(n_classes), n_subtypes)
    shares = Marginals(np.array([0.5, 0.3, 0.2]), pseudo_count=1.0)
    prior = Subtypes(shares, 0.02, class_s, np.ones(len(class_s)), np.zeros(len(class_s)), silent, known)
    xi = np.zeros((n_items, n_classes, n_subtypes))
    xi[:, :, :2] = rng.dirichlet(np.ones(2 * n_classes), n_items).reshape(n_items, n_classes, 2)
    prior_alk = np.where(np.eye(n_classes, dtype=bool), 4.0, 0.7)[None]
    if history:
        prior_alk = prior_alk + rng.uniform(0, 3, (n_annotators, n_classes, n_classes))
    return votes, prior, SubtypeStates.start(prior_alk), xi.reshape(n_items, -1)


def rounds(votes: Annotations, prior: Subtypes, part: SubtypeStates, xi: np.ndarray, compiled: bool) -> list[np.ndarray]:
    xi, counted, bounds = xi.copy(), count_states(votes, prior, xi), []
    for _ in range(4):
        prior = prior.conditioned(counted.mass)
        part = part.conditioned(counted.counts_als, prior.class_s, prior.times_s, compiled)
        counted = part.infer_and_count(votes, prior, xi, compiled)
        bounds.append(counted.evidence - prior.penalty() - part.kl)
    classes = np.stack([xi[:, prior.class_s == k].sum(axis=1) for k in range(3)], axis=1)
    return [classes, np.array(bounds), prior.probability, np.array([counted.change])]


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("gold", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_and_merged_equal_numpy_over_all_subtypes(weighted: bool, gold: bool, history: bool) -> None:
    votes, prior, part, xi = problem(7, weighted, gold, history)
    expected = rounds(votes, prior, part, xi, compiled=False)
    groups = mergeable(prior, xi.sum(axis=0))
    assert groups is not None
    assert [len(group) for group in groups] == [1, 1, 3] * 3
    merged = replace(prior, class_s=prior.class_s[[g[0] for g in groups]], times_s=merge_columns(prior.times_s, groups))
    merged = replace(merged, mass_s=np.zeros(len(groups)))
    few = merge_columns(xi, groups)
    for found in (
        rounds(votes, prior, part, xi, compiled=True),
        rounds(votes, merged, part, few, compiled=False),
        rounds(votes, merged, part, few, compiled=True),
    ):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-11)
    assert (np.diff(expected[1]) >= -1e-9).all()


def test_products_that_underflow_are_redone_in_logs() -> None:
    n_votes = 900
    votes = Annotations.from_arrays(np.zeros(n_votes, int), np.arange(n_votes), np.arange(n_votes) % 2)
    prior = Subtypes(
        Marginals(np.array([0.5, 0.5])),
        0.1,
        np.array([0, 1]),
        np.ones(2),
        np.zeros(2),
        np.zeros(1, bool),
        np.empty(0, np.int16),
    )
    part = SubtypeStates.start(np.where(np.eye(2, dtype=bool), 2.0, 1.0)[None])
    found = [rounds_of_one(votes, prior, part, compiled) for compiled in (False, True)]
    assert found[0] == pytest.approx(found[1], rel=1e-10)


def rounds_of_one(votes: Annotations, prior: Subtypes, part: SubtypeStates, compiled: bool) -> float:
    xi = np.array([[0.6, 0.4]])
    counted = count_states(votes, prior, xi)
    part = part.conditioned(counted.counts_als, prior.class_s, prior.times_s, compiled)
    return part.infer_and_count(votes, prior.conditioned(counted.mass), xi, compiled).evidence
