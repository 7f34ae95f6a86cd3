"""Mean field: its bound is the evidence lower bound, written out with scipy's densities, and below log p(votes)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import betaln, digamma, xlogy
from tests.methods.labels.helpers import crowd, diagonal_crowd, quiet
from tests.methods.labels.test_belief_propagation import (
    LOOP_ANNOTATOR,
    LOOP_ITEM,
    RIGHT,
    WRONG,
    atoms_factor,
    enumerated,
    log_factor,
    votes_on,
)

from crowdwise.estimator.registry import make
from crowdwise.methods.labels.mean_field import MeanField


def fitted(n_classes: int, seed: int, **settings: Any) -> MeanField:
    votes = votes_on(LOOP_ITEM, LOOP_ANNOTATOR, n_classes, seed)
    with quiet():
        return MeanField(annotator_prior=f"beta:{RIGHT},{WRONG}", tol=1e-12, max_iter=3000).set_params(**settings).fit(votes)


def label_terms(model: MeanField) -> float:
    """E_q log p(z) - E_q log q(z)."""
    q = model.result_.model_posterior
    return float((q * np.log(model.prior_)).sum() - xlogy(q, q).sum())


def counts(model: MeanField) -> np.ndarray:
    votes = model.result_.votes
    found = np.zeros((votes.n_annotators, votes.n_classes, votes.n_classes))
    for e in range(votes.n_votes):
        found[votes.annotator[e], :, votes.label[e]] += model.result_.model_posterior[votes.item[e]]
    return found


def beta_term(right: float, wrong: float, n_classes: int) -> float:
    """E_q[log-likelihood] - KL(q || prior) of one accuracy under its conjugate posterior, by numeric integration."""
    a, b = RIGHT + right, WRONG + wrong

    def inner(w: float) -> float:
        log_lik = right * np.log(w) + wrong * np.log((1 - w) / (n_classes - 1))
        return float(log_lik + stats.beta.logpdf(w, RIGHT, WRONG) - stats.beta.logpdf(w, a, b))

    # The factor (1 - w)^(b - 1) may be infinite at one; quad takes it as a weight.
    value, _ = integrate.quad(lambda w: w ** (a - 1) * inner(min(w, 1 - 1e-15)), 0, 1, weight="alg", wvar=(0, b - 1))
    return float(value / np.exp(betaln(a, b)))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("family", ["one-coin", "two-coin"])
def test_bound_is_the_evidence_lower_bound(family: str, n_classes: int) -> None:
    model = fitted(n_classes, 1, family=family)
    expected = label_terms(model)
    for c in counts(model):
        right, wrong = np.diag(c), c.sum(axis=1) - np.diag(c)
        rows = [(right.sum(), wrong.sum())] if family == "one-coin" else list(zip(right, wrong, strict=True))
        expected += sum(beta_term(r, w, n_classes) for r, w in rows)
    assert model.trace_[-1] == pytest.approx(expected, abs=1e-6)
    _, evidence = enumerated(model.result_.votes, model.prior_, lambda c: log_factor(family, c))
    assert model.trace_[-1] <= evidence


def test_bound_under_draws_is_the_evidence_lower_bound() -> None:
    rng = np.random.default_rng(0)
    atoms, weight = rng.dirichlet(np.ones(3), size=(4, 3)), rng.dirichlet(np.ones(4))
    model = fitted(3, 2, annotator_prior=atoms, annotator_weights=weight)
    expected = label_terms(model)
    for c in counts(model):
        log_lik = (c * np.log(atoms)).sum(axis=(1, 2))
        rho = weight * np.exp(log_lik)
        rho /= rho.sum()
        expected += float(rho @ (log_lik + np.log(weight) - np.log(rho)))
    assert model.trace_[-1] == pytest.approx(expected, abs=1e-8)
    _, evidence = enumerated(model.result_.votes, model.prior_, lambda c: atoms_factor(atoms, weight, c))
    assert model.trace_[-1] <= evidence


def test_posterior_satisfies_its_equation() -> None:
    model = fitted(2, 3)
    votes, c = model.result_.votes, counts(model)
    right = RIGHT + np.einsum("akk->a", c)
    wrong = WRONG + c.sum(axis=(1, 2)) - np.einsum("akk->a", c)
    log_q = np.zeros((votes.n_items, 2))
    for e in range(votes.n_votes):
        a = votes.annotator[e]
        log_q[votes.item[e], votes.label[e]] += digamma(right[a]) - digamma(wrong[a])
    q = np.exp(log_q) / np.exp(log_q).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.result_.model_posterior, q, atol=1e-5)
    np.testing.assert_allclose(model.result_.accuracy, right / (right + wrong), atol=1e-5)
    sd = np.sqrt(stats.beta.var(right, wrong))
    np.testing.assert_allclose(model.result_.confusion_sd[:, 0, 0], sd, atol=1e-5)


def test_confusion_rows_are_bayes_gc_with_a_fixed_class_prior() -> None:
    votes, _ = crowd(1, 60, diagonal_crowd(6, 3, 0.7), votes_per_item=4)
    ours = MeanField(family="confusion", annotator_prior="dirichlet:3,1.5").fit(votes)
    theirs = make("bayes-gc", class_prior="uniform", diagonal=3.0, off_diagonal=0.75).fit(votes)
    np.testing.assert_allclose(ours.result_.model_posterior, theirs.result_.model_posterior, atol=1e-12)
    np.testing.assert_allclose(ours.trace_, theirs.trace_)


def test_two_coins_are_dirichlet_rows_where_there_are_two_classes() -> None:
    votes, _ = crowd(2, 60, diagonal_crowd(6, 2, 0.7), votes_per_item=4)
    two, rows = (MeanField(family=family).fit(votes) for family in ("two-coin", "confusion"))
    np.testing.assert_allclose(two.result_.model_posterior, rows.result_.model_posterior, atol=1e-10)
    np.testing.assert_allclose(two.confusion_, rows.confusion_, atol=1e-10)


def test_many_draws_from_a_beta_come_close_to_the_beta() -> None:
    votes, _ = crowd(3, 60, diagonal_crowd(6, 2, 0.7), votes_per_item=4)
    grid = stats.beta.ppf((np.arange(4000) + 0.5) / 4000, 2, 1)
    exact, drawn = MeanField().fit(votes), MeanField(annotator_prior=grid).fit(votes)
    np.testing.assert_allclose(drawn.result_.model_posterior, exact.result_.model_posterior, atol=1e-3)
    np.testing.assert_allclose(drawn.result_.confusion_sd, exact.result_.confusion_sd, atol=1e-3)
