"""What the promises of label-only methods share: which methods, quick fits, what is sound and what is the same."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from tests.contract.crowds import CANDIDATES
from tests.methods.labels.helpers import ALL, ITERATIVE, crowd, diagonal_crowd, quiet, slow_unless_classic

from crowdwise.estimator.registry import label_methods, make

ONLINE = [name for name, line in label_methods().items() if line.online]

method = pytest.mark.parametrize("name", slow_unless_classic(ALL))
# An update of a method that takes votes as they come ends near a fit to all votes, not at it: so not all of the promises.
online_too = pytest.mark.parametrize("name", slow_unless_classic([*ALL, *ONLINE]))
iterative = pytest.mark.parametrize("name", slow_unless_classic(ITERATIVE))
# Seven for each of the methods: that kernels and parts hold for any votes has its own thousands of examples.
examples = settings(max_examples=7, suppress_health_check=[HealthCheck.too_slow])


def fit(name: str, votes: Any, gold: Any = None, history: Any = None, **options: Any) -> Any:
    if name in CANDIDATES:
        options = {"methods": CANDIDATES[name]} | options
    with quiet():
        return make(name, **few(name) | options).fit(votes, gold=gold, history=history)


def few(name: str) -> dict[str, Any]:
    """As many rounds as most of the promises need: they hold after any number of them."""
    return {"max_iter": 15} if name in ITERATIVE else {}


def many(name: str) -> dict[str, Any]:
    """As many rounds as a user's fit has."""
    return {"max_iter": make(name).max_iter} if name in ITERATIVE else {}


# Thirty items, five annotators right in 85 % of cases, three classes: nothing is in doubt.
EASY, EASY_TRUTH = crowd(7, 30, diagonal_crowd(5, 3, 0.85))


@cache
def easy_fit(name: str) -> Any:
    """A fit to these that tests share: look, do not touch."""
    return fit(name, EASY)


def tight(name: str) -> dict[str, Any]:
    """Settings under which a fit ends at its fixed point."""
    return {"tol": 1e-11, "max_iter": 20_000} if name in ITERATIVE else {}


def same(first: Any, second: Any) -> None:
    """Equal to the bit, wherever a user could look."""
    assert first.posterior_.tobytes() == second.posterior_.tobytes()
    assert first.confusion_.tobytes() == second.confusion_.tobytes()
    assert first.prior_.tobytes() == second.prior_.tobytes()
    assert first.trace_.tobytes() == second.trace_.tobytes()
    assert first.labels_.tolist() == second.labels_.tolist()
    assert (first.n_iter_, first.converged_) == (second.n_iter_, second.converged_)


def is_sound(model: Any) -> None:
    votes = model.result_.votes
    shape = (votes.n_items, votes.n_classes)
    assert model.posterior_.shape == shape
    assert np.isfinite(model.posterior_).all()
    assert (model.posterior_ >= 0).all()
    assert (model.posterior_ <= 1 + 1e-12).all()
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1, atol=1e-9)
    assert model.confusion_.shape == (votes.n_annotators, votes.n_classes, votes.n_classes)
    assert (model.confusion_ >= 0).all()
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)
    np.testing.assert_allclose(model.prior_.sum(), 1, atol=1e-9)
    assert len(model.labels_) == votes.n_items
    # The frames of a report are built for every fit, so they must be buildable.
    assert len(model.result_.items_frame()) == votes.n_items
    assert len(model.result_.annotators_frame()) == votes.n_annotators
    assert len(model.result_.confusion_frame()) == votes.n_annotators * votes.n_classes**2
    assert np.isfinite(model.result_.confusion_sd).all()
