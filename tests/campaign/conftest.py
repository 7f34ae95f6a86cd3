"""States with posteriors and confusion matrices of our choice, without any fit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import settings

from crowdwise.campaign.policies import State
from crowdwise.campaign.pool import Pool
from crowdwise.data.annotations import Annotations

# Of properties whose examples cost milliseconds each; what they compose has properties of its own, with all examples.
few_examples = settings(max_examples=min(settings().max_examples, 200))


def names(prefix: str, size: int) -> list[str]:
    return [f"{prefix}{n}" for n in range(size)]


def no_votes(n_items: int, n_annotators: int, n_classes: int = 2) -> Annotations:
    return Annotations.from_arrays(
        [], [], [], items=names("i", n_items), annotators=names("a", n_annotators), classes=names("c", n_classes)
    )


def rows(rng: np.random.Generator, *shape: int) -> Any:
    """Random probabilities along the last axis, some of them zero."""
    drawn = rng.dirichlet(np.full(shape[-1], 0.7), size=shape[:-1])
    drawn[rng.random(drawn.shape[:-1]) < 0.1] = np.eye(shape[-1])[0]
    return drawn


def fake_result(votes: Annotations, posterior: Any, confusion: Any, mass: float = 10.0) -> Any:
    """What policies and plans read of a result; `mass` is the number of votes behind every row of a matrix."""
    concentration, posterior = mass * np.asarray(confusion) + 1e-9, np.asarray(posterior, float)
    mean = concentration / concentration.sum(axis=2, keepdims=True)
    return SimpleNamespace(
        votes=votes,
        history=None,
        annotators=SimpleNamespace(concentration=lambda: concentration),
        prior=None,
        settings={"confidence": "model"},
        posterior=np.asarray(posterior, float),
        codes=np.asarray(posterior).argmax(axis=1),
        confidence=np.asarray(posterior, float).max(axis=1),
        confidence_source="model",
        confusion=np.asarray(confusion, float),
        concentration=concentration,
        confusion_sd=np.sqrt(mean * (1 - mean) / (concentration.sum(axis=2, keepdims=True) + 1)),
    )


def state_of(
    votes: Annotations,
    seed: int = 0,
    features: Any = None,
    model: Any = None,
    pool: Any = None,
    mass: float = 10.0,
    **options: Any,
) -> State:
    """A state over `votes` with random beliefs."""
    rng = np.random.default_rng(seed)
    posterior, confusion = (
        rows(rng, votes.n_items, votes.n_classes),
        rows(rng, votes.n_annotators, votes.n_classes, votes.n_classes),
    )
    return State(fake_result(votes, posterior, confusion, mass), pool or Pool.of(votes, **options), rng, model, features)
