"""The bound of every iterative method never falls, whatever the votes and whatever is known beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.methods.labels.helpers import ITERATIVE, quiet, random_votes, slow_unless_classic

from crowdwise.estimator.registry import label_methods, make

METHODS = label_methods()

# Settings worth varying, per method; the common ones are drawn for all.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "dawid-skene": [{"smoothing": s, "hard": hard} for s in (0, 0.01, 0.5) for hard in (False, True)],
    "one-coin": [{}, {"right": 0, "wrong": 0}, {"right": 0.2, "wrong": 3}],
    "confusion-vector": [{}, {"right": 0, "wrong": 0}, {"right": 0.2, "wrong": 3}],
    "glad": [{}],
    "mace": [{}, {"honest": 2, "spam": 0.1, "habit": 0.3}],
    "bayes-gc": [{}, {"alpha0": 0.1, "diagonal": 0.3, "off_diagonal": 0.05}, {"off_diagonal": 2.0}],
    "hierarchical-dawid-skene": [{}],
    "group-dawid-skene": [{}, {"groups": {0: "x", 1: "x"}}, {"groups": {0: "x", 1: "x"}, "smoothing": 0}],
    "ebcc": [{"restarts": 1}, {"restarts": 1, "subtypes": 2, "sparsity": 1.0}],
    "minimax-entropy": [{}, {"strength": 0.01, "steps": 3}],
    "cbcc": [{}, {"communities": 2, "trust": 0.1}],
    "worker-cluster": [{}, {"clusters": 2, "smoothing": 0}],
    "cumulative-link": [{}, {"nodes": 1}, {"offset_sd": 3.0, "slope": 1.0, "smoothing": 0.01, "careless": 0.1}],
    "belief-propagation": [
        {},
        {"family": "two-coin", "annotator_prior": "beta:0.5,0.2"},
        {"annotator_prior": "spammer-hammer:0.6"},
    ],
    "mean-field": [
        {},
        {"family": "two-coin", "annotator_prior": "beta:0.5,0.2"},
        {"family": "confusion", "annotator_prior": "dirichlet:1,3"},
        {"annotator_prior": "spammer-hammer:0.6"},
    ],
}

# Bethe's approximation of log p(votes) is no bound: it is exact on trees and stationary at the end, and may fall on the way.
# Attention, habits and the shared matrix have pseudo-counts that the bound of the hierarchical model leaves out.
NO_BOUND = ["belief-propagation", "hierarchical-dawid-skene"]


def problem(seed: int, name: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Votes without signal, the hardest for EM, with a random choice of everything that may be given."""
    rng = np.random.default_rng(seed)
    n_items, n_annotators, n_classes = (int(rng.integers(1, top)) for top in (13, 6, 5))
    n_votes = int(rng.integers(0, 41))
    weight = rng.choice([0.0, 0.3, 1.0, 4.0], n_votes) if rng.random() < 0.3 else None
    votes = random_votes(rng, n_items, n_annotators, n_classes, n_votes, weight=weight)
    fit: dict[str, Any] = {}
    if rng.random() < 0.4:
        fit["gold"] = [int(rng.integers(0, n_classes)) if rng.random() < 0.3 else None for _ in range(n_items)]
    if rng.random() < 0.4:
        fit["history"] = {a: rng.integers(0, 4, (n_classes, n_classes)) for a in range(n_annotators) if rng.random() < 0.5}
    settings = dict(SETTINGS[name][int(rng.integers(len(SETTINGS[name])))])
    settings["class_prior"] = ["learn", "uniform", rng.dirichlet(np.ones(n_classes)).tolist()][int(rng.integers(3))]
    settings["init"] = ["votes", "random", "hard-votes"][int(rng.integers(3))]
    return votes, fit, settings | {"random_state": seed, "tol": 1e-12, "max_iter": 60}


def assert_bound_never_falls(name: str, seed: int) -> None:
    votes, fit, settings = problem(seed, name)
    with quiet():
        model = make(name, **settings).fit(votes, **fit)
    trace = model.trace_
    assert len(trace) == model.n_iter_
    assert np.isfinite(trace).all(), (name, seed)
    if name in NO_BOUND:
        return
    fall = -np.diff(trace)
    assert (fall <= 1e-9 * np.maximum(np.abs(trace[1:]), 1.0)).all(), (name, seed, settings, trace)


def test_every_iterative_method_is_covered() -> None:
    assert set(SETTINGS) == set(ITERATIVE)
    for name, variants in SETTINGS.items():
        METHODS[name].cls()
        assert variants


@pytest.mark.parametrize("name", slow_unless_classic(ITERATIVE))
def test_bound_never_falls(name: str) -> None:
    for seed in range(4 if name in NO_BOUND else 12):
        assert_bound_never_falls(name, seed)


@pytest.mark.parametrize("name", slow_unless_classic(ITERATIVE))
def test_the_best_of_several_starts_has_the_highest_bound(name: str) -> None:
    votes, fit, settings = problem(1, name)
    with quiet():
        one = make(name, **settings).fit(votes, **fit)
        several = make(name, **{**settings, "restarts": 4}).fit(votes, **fit)
    assert several.trace_[-1] >= one.trace_[-1] - 1e-9 * abs(one.trace_[-1])
