"""Posteriors and bounds against the enumeration of all labelings, M-steps against numeric optimisation.

Nothing here calls the code under test for an expected value: each model's joint probability is written
out from its definition, with parameters read off the fit, and summed over all labelings of tiny data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import betaln, digamma, gammaln, logsumexp
from tests.methods.labels.helpers import quiet

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make
from crowdwise.parts.annotators.accuracy import ClassAccuracy, OneAccuracy
from crowdwise.parts.annotators.model import Confusion, DirichletConfusion
from crowdwise.parts.annotators.spammer import Spammer
from crowdwise.parts.priors.marginals import DirichletMarginals, Marginals

LogVote = Callable[[int, int], float]
SITUATIONS = ["plain", "weights", "gold", "history", "fixed prior", "all"]


def tiny(situation: str, n_classes: int, seed: int = 0) -> tuple[Annotations, dict[str, Any], dict[str, Any]]:
    """Five items (the last without votes) and three annotators, with options of `fit` and settings."""
    rng = np.random.default_rng(seed)
    everything = situation == "all"
    # Repeats on item 0; annotator 2 votes once.
    item = [0, 0, 0, 1, 1, 2, 2, 3, 3]
    annotator = [0, 0, 1, 0, 1, 1, 2, 0, 1]
    label = rng.integers(0, n_classes, len(item))
    weight = rng.choice([0.5, 1.0, 2.0], len(item)) if situation == "weights" or everything else None
    votes = Annotations.from_arrays(
        item, annotator, label, weight, items=range(5), annotators=range(3), classes=range(n_classes)
    )
    fit: dict[str, Any] = {}
    if situation == "gold" or everything:
        fit["gold"] = {1: int(rng.integers(0, n_classes))}
    if situation == "history" or everything:
        fit["history"] = {0: rng.integers(0, 5, (n_classes, n_classes)), 2: (3, 1)}
    settings: dict[str, Any] = {"max_iter": 3}
    if situation == "fixed prior" or everything:
        settings["class_prior"] = rng.dirichlet(np.ones(n_classes)).tolist()
    return votes, fit, settings


def fitted(name: str, situation: str, n_classes: int, seed: int = 0, **more: Any) -> Any:
    votes, fit, settings = tiny(situation, n_classes, seed)
    with quiet():
        model = make(name, **{**settings, **more}).fit(votes, **fit)
    model.given = fit.get("history")
    return model


def history_counts(model: Any) -> np.ndarray:
    """Earlier answers as [annotator, true, observed]: a pair (right, wrong) is spread evenly."""
    n_classes = model.result_.votes.n_classes
    counts = np.zeros((3, n_classes, n_classes))
    if model.given is not None:
        counts[0] = model.given[0]
        counts[2] = np.where(np.eye(n_classes, dtype=bool), 3 / n_classes, 1 / (n_classes * (n_classes - 1)))
    return counts


def enumerate_labelings(votes: Annotations, log_prior_k: np.ndarray, log_vote: LogVote) -> tuple[np.ndarray, float]:
    """Marginals of every item and log p(votes), by summing over all labelings that agree with gold."""
    n_items, n_classes = votes.n_items, votes.n_classes
    weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
    allowed = [range(n_classes) if votes.gold is None or votes.gold[n] < 0 else [int(votes.gold[n])] for n in range(n_items)]
    labelings = list(itertools.product(*allowed))
    joint = np.array(
        [
            sum(log_prior_k[k] for k in z) + sum(weight[e] * log_vote(e, z[votes.item[e]]) for e in range(votes.n_votes))
            for z in labelings
        ]
    )
    total = float(logsumexp(joint))
    marginals = np.zeros((n_items, n_classes))
    for z, log_p in zip(labelings, joint, strict=True):
        marginals[np.arange(n_items), list(z)] += math.exp(log_p - total)
    return marginals, total


def agrees(model: Any, log_prior_k: np.ndarray, log_vote: LogVote, log_prior_of_parameters: float) -> None:
    marginals, log_evidence = enumerate_labelings(model.result_.votes, log_prior_k, log_vote)
    np.testing.assert_allclose(model.result_.model_posterior, marginals, atol=1e-10)
    assert model.trace_[-1] == pytest.approx(log_evidence + log_prior_of_parameters, rel=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_dawid_skene(situation: str, n_classes: int) -> None:
    smoothing = 0.3
    model = fitted("dawid-skene", situation, n_classes, smoothing=smoothing)
    votes, pi = model.result_.votes, model.confusion_
    # Pseudo-votes: `smoothing` per class and row, as the annotator uses the labels, the right one K + 1 times as often.
    used = np.full((3, n_classes), smoothing)
    for e in range(votes.n_votes):
        used[votes.annotator[e], votes.label[e]] += 1 if votes.weight is None else votes.weight[e]
    rows = np.array(
        [[[u * (n_classes + 1 if l == k else 1) for l, u in enumerate(own)] for k in range(n_classes)] for own in used]
    )
    pseudo = smoothing * n_classes * rows / rows.sum(axis=2, keepdims=True) + history_counts(model)
    agrees(
        model,
        np.log(model.prior_),
        lambda e, k: math.log(pi[votes.annotator[e], k, votes.label[e]]),
        float((pseudo * np.log(pi)).sum()),
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_one_coin(situation: str, n_classes: int) -> None:
    model = fitted("one-coin", situation, n_classes, right=1.5, wrong=0.7)
    votes, w = model.result_.votes, model.result_.annotators.accuracy
    history = history_counts(model)
    right = 1.5 + np.einsum("akk->a", history)
    wrong = 0.7 + history.sum(axis=(1, 2)) - np.einsum("akk->a", history)

    def log_vote(e: int, k: int) -> float:
        p = w[votes.annotator[e]]
        return math.log(p if votes.label[e] == k else (1 - p) / (n_classes - 1))

    agrees(model, np.log(model.prior_), log_vote, float((right * np.log(w) + wrong * np.log(1 - w)).sum()))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_confusion_vector(situation: str, n_classes: int) -> None:
    model = fitted("confusion-vector", situation, n_classes, right=1.5, wrong=0.7)
    votes, w = model.result_.votes, model.result_.annotators.accuracy
    history = history_counts(model)
    right = 1.5 + np.einsum("akk->ak", history)
    wrong = 0.7 + history.sum(axis=2) - np.einsum("akk->ak", history)

    def log_vote(e: int, k: int) -> float:
        p = w[votes.annotator[e], k]
        return math.log(p if votes.label[e] == k else (1 - p) / (n_classes - 1))

    agrees(model, np.log(model.prior_), log_vote, float((right * np.log(w) + wrong * np.log(1 - w)).sum()))


def glad_log_vote(votes: Annotations, ability: np.ndarray, log_easiness: np.ndarray) -> LogVote:
    def log_vote(e: int, k: int) -> float:
        p = 1 / (1 + math.exp(-ability[votes.annotator[e]] * math.exp(log_easiness[votes.item[e]])))
        return math.log(p if votes.label[e] == k else (1 - p) / (votes.n_classes - 1))

    return log_vote


def glad_log_prior(ability: np.ndarray, log_easiness: np.ndarray, history: np.ndarray) -> float:
    """N(1, 1) on both, up to constants; earlier answers are answers on items of average easiness."""
    value = -0.5 * ((ability - 1) ** 2).sum() - 0.5 * ((log_easiness - 1) ** 2).sum()
    right = np.einsum("akk->a", history)
    wrong = history.sum(axis=(1, 2)) - right
    p = 1 / (1 + np.exp(-ability * math.e))
    return float(value + (right * np.log(p) + wrong * np.log(1 - p)).sum())


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_glad(situation: str, n_classes: int) -> None:
    model = fitted("glad", situation, n_classes)
    part = model.result_.annotators
    agrees(
        model,
        np.log(model.prior_),
        glad_log_vote(model.result_.votes, part.ability, part.log_easiness),
        glad_log_prior(part.ability, part.log_easiness, history_counts(model)),
    )


@pytest.mark.parametrize("situation", SITUATIONS)
def test_glad_ends_where_the_gradient_of_the_log_posterior_is_zero(situation: str) -> None:
    model = fitted("glad", situation, 3, max_iter=3000, tol=1e-13)
    votes, part, history = model.result_.votes, model.result_.annotators, history_counts(model)

    def objective(parameters: np.ndarray) -> float:
        ability, log_easiness = parameters[:3], parameters[3:]
        _, evidence = enumerate_labelings(votes, np.log(model.prior_), glad_log_vote(votes, ability, log_easiness))
        return evidence + glad_log_prior(ability, log_easiness, history)

    at = np.concatenate([part.ability, part.log_easiness])
    gradient = optimize.approx_fprime(at, objective, 1e-6)
    np.testing.assert_allclose(gradient, 0, atol=2e-4)


def test_glad_does_not_circle_around_an_item_whose_votes_look_wrong() -> None:
    # Gold against all votes makes the log-likelihood bend more sharply than the Gauss-Newton curvature says.
    item, annotator = (part.ravel() for part in np.indices((20, 5)))
    rng = np.random.default_rng(7)
    label = np.where(rng.random(100) < 0.9, item % 3, rng.integers(0, 3, 100))
    votes = Annotations.from_arrays(item, annotator, label)
    model = make("glad", tol=1e-13, max_iter=1000).fit(votes, gold={0: 1, 1: 2})
    assert model.converged_
    assert model.n_iter_ < 200


# -- variational methods: E_q[log joint] - E_q[log q], with q(labels) taken from the fit --------------


def dirichlet_terms(parameters: np.ndarray, prior: np.ndarray) -> float:
    """E_q[log p] - E_q[log q] of one Dirichlet."""
    if len(parameters) == 1:
        return 0.0
    expected_log = digamma(parameters) - digamma(parameters.sum())
    log_prior = gammaln(prior.sum()) - gammaln(prior).sum() + ((prior - 1) * expected_log).sum()
    return float(log_prior + stats.dirichlet(parameters).entropy())


def label_entropy(q_nk: np.ndarray) -> float:
    return float(-(q_nk[q_nk > 0] * np.log(q_nk[q_nk > 0])).sum())


def bayes_elbo(votes: Annotations, q_nk: np.ndarray, beta_akl: np.ndarray, beta0_akl: np.ndarray, labels_term: float) -> float:
    """ELBO of Dirichlet confusion matrices; `labels_term` is everything about the class shares."""
    n_classes = votes.n_classes
    value = labels_term + label_entropy(q_nk)
    for e in range(votes.n_votes):
        beta = beta_akl[votes.annotator[e]]
        for k in range(n_classes):
            expected = digamma(beta[k, votes.label[e]]) - digamma(beta[k].sum())
            value += (1 if votes.weight is None else votes.weight[e]) * q_nk[votes.item[e], k] * expected
    return value + sum(dirichlet_terms(beta_akl[a, k], beta0_akl[a, k]) for a in range(3) for k in range(n_classes))


def share_term(q_nk: np.ndarray, alpha: np.ndarray, alpha0: np.ndarray) -> float:
    return float((q_nk * (digamma(alpha) - digamma(alpha.sum()))).sum()) + dirichlet_terms(alpha, alpha0)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_bayes_gc(situation: str, n_classes: int) -> None:
    model = fitted("bayes-gc", situation, n_classes, diagonal=3.0, off_diagonal=0.8, alpha0=1.3)
    votes, beta, q = model.result_.votes, model.result_.concentration, model.result_.model_posterior
    beta0 = np.where(np.eye(n_classes, dtype=bool), 3.0, 0.8) + history_counts(model)
    if model.class_prior == "learn":
        alpha, alpha0 = model.result_.prior.alpha, np.full(n_classes, 1.3)
        log_share, labels_term = digamma(alpha) - digamma(alpha.sum()), share_term(q, alpha, alpha0)
    else:
        log_share = np.log(model.class_prior)
        labels_term = float((q * log_share).sum())
    marginals, _ = enumerate_labelings(
        votes,
        log_share,
        lambda e, k: digamma(beta[votes.annotator[e], k, votes.label[e]]) - digamma(beta[votes.annotator[e], k].sum()),
    )
    np.testing.assert_allclose(q, marginals, atol=1e-10)
    assert model.trace_[-1] == pytest.approx(bayes_elbo(votes, q, beta, beta0, labels_term), rel=1e-10)


def log_b(x: np.ndarray) -> float:
    return float(gammaln(x).sum() - gammaln(x.sum()))


def collapsed_elbo(votes: Annotations, q_nk: np.ndarray, beta0_akl: np.ndarray, alpha0: np.ndarray) -> float:
    """log B(alpha) - log B(alpha0) + sum_ak [log B(beta_ak) - log B(beta0_ak)] - sum q log q."""
    beta = np.array(beta0_akl, float)
    for e in range(votes.n_votes):
        weight = 1 if votes.weight is None else votes.weight[e]
        beta[votes.annotator[e], :, votes.label[e]] += weight * q_nk[votes.item[e]]
    value = log_b(alpha0 + q_nk.sum(axis=0)) - log_b(alpha0) + label_entropy(q_nk)
    return value + sum(
        log_b(row) - log_b(row0)
        for row, row0 in zip(beta.reshape(-1, len(alpha0)), beta0_akl.reshape(-1, len(alpha0)), strict=True)
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("situation", ["plain", "weights", "gold", "history"])
def test_bayes_gc_ends_at_its_collapsed_bound(situation: str, n_classes: int) -> None:
    model = fitted("bayes-gc", situation, n_classes, diagonal=3.0, off_diagonal=0.8, alpha0=1.3, tol=1e-12, max_iter=2000)
    beta0 = np.where(np.eye(n_classes, dtype=bool), 3.0, 0.8) + history_counts(model)
    expected = collapsed_elbo(model.result_.votes, model.result_.model_posterior, beta0, np.full(n_classes, 1.3))
    assert model.trace_[-1] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("situation", ["plain", "weights", "gold", "history"])
def test_collapsed_bound_of_any_labels_is_the_bound_of_freshly_updated_parts(situation: str) -> None:
    # Not at a fixed point: the identity holds for every q, which pins both penalties.
    n_classes = 3
    model = fitted("bayes-gc", situation, n_classes, diagonal=5.0, off_diagonal=2.0, alpha0=1.1)
    votes = model.result_.votes
    q = np.random.default_rng(1).dirichlet(np.ones(n_classes), size=5)
    annotators, prior = model.result_.annotators.update(votes, q), model.result_.prior.update(q)
    beta0 = np.where(np.eye(n_classes, dtype=bool), 5.0, 2.0) + history_counts(model)
    rows = annotators.log_lik(votes, np.arange(votes.n_votes))
    bound = (
        float((rows * q[votes.item]).sum())
        + float((q * prior.log_prob()).sum())
        + label_entropy(q)
        - annotators.penalty()
        - prior.penalty()
    )
    assert bound == pytest.approx(collapsed_elbo(votes, q, beta0, np.full(n_classes, 1.1)), rel=1e-10)


def mace_logs(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E log theta, E log (1 - theta), E log xi by scipy."""
    honest, habit = model.result_.annotators.honest_a, model.result_.annotators.habit_al
    total = digamma(honest.sum(axis=1))
    return (
        digamma(honest[:, 0]) - total,
        digamma(honest[:, 1]) - total,
        digamma(habit) - digamma(habit.sum(axis=1, keepdims=True)),
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("situation", [s for s in SITUATIONS if s not in ("weights", "all")])
def test_mace_with_the_honesty_of_every_vote_enumerated(situation: str, n_classes: int) -> None:
    model = fitted("mace", situation, n_classes)
    votes, part = model.result_.votes, model.result_.annotators
    log_honest, log_spam, log_habit = mace_logs(model)
    log_share = np.log(model.prior_)
    gold = np.full(5, -1) if votes.gold is None else votes.gold
    # q(z, s) is proportional to exp E[log p(votes, z, s | theta, xi)]; it factors over items, so enumerate per item.
    elbo, expected_q = 0.0, np.zeros((5, n_classes))
    for n in range(5):
        own = range(votes.item_ptr[n], votes.item_ptr[n + 1])
        states, scores = [], []
        for z in range(n_classes):
            if gold[n] >= 0 and z != gold[n]:
                continue
            for honesty in itertools.product([True, False], repeat=len(own)):
                score = log_share[z]
                for e, honest in zip(own, honesty, strict=True):
                    a, label = votes.annotator[e], votes.label[e]
                    if honest:
                        score += log_honest[a] if label == z else -math.inf
                    else:
                        score += log_spam[a] + log_habit[a, label]
                states.append(z)
                scores.append(score)
        scores = np.array(scores)
        q = np.exp(scores - logsumexp(scores))
        np.add.at(expected_q[n], states, q)
        possible = q > 0
        elbo += float((q[possible] * scores[possible]).sum() - (q[possible] * np.log(q[possible])).sum())
    np.testing.assert_allclose(model.result_.model_posterior, expected_q, atol=1e-10)

    history = history_counts(model)
    right = np.einsum("akk->ak", history)
    wrong_by_label = history.sum(axis=1) - right
    honest0 = 0.5 + np.column_stack([right.sum(axis=1), wrong_by_label.sum(axis=1)])
    habit0 = 10.0 + wrong_by_label
    for a in range(3):
        beta = stats.beta(*part.honest_a[a])
        log_prior = ((honest0[a] - 1) * [log_honest[a], log_spam[a]]).sum() - betaln(*honest0[a])
        elbo += float(log_prior + beta.entropy()) + dirichlet_terms(part.habit_al[a], habit0[a])
    assert model.trace_[-1] == pytest.approx(elbo, rel=1e-10)


# -- M-steps --------------------------------------------------------------------------------------


@pytest.fixture(params=["plain", "weights"])
def labelled(request: pytest.FixtureRequest) -> tuple[Annotations, np.ndarray]:
    """Tiny votes on three classes and a random posterior of the labels."""
    votes, _, _ = tiny(request.param, 3, seed=4)
    return votes, np.random.default_rng(2).dirichlet(np.ones(3), size=5)


def weights_of(votes: Annotations) -> np.ndarray:
    return np.ones(votes.n_votes) if votes.weight is None else votes.weight


def maximum(objective: Callable[[float], float]) -> float:
    found = optimize.minimize_scalar(
        lambda x: -objective(x), bounds=(1e-6, 1 - 1e-6), method="bounded", options={"xatol": 1e-10}
    )
    return float(found.x)


def test_one_coin_m_step_maximises_the_expected_log_posterior(labelled: tuple[Annotations, np.ndarray]) -> None:
    votes, q = labelled
    weight = weights_of(votes)
    updated = OneAccuracy.start(np.array([2.0, 0.0, 0.5]), np.array([1.0, 0.3, 0.5]), 3).update(votes, q)
    for a, (right, wrong) in enumerate([(2.0, 1.0), (0.0, 0.3), (0.5, 0.5)]):

        def objective(w: float, a: int = a, right: float = right, wrong: float = wrong) -> float:
            value = right * math.log(w) + wrong * math.log(1 - w)
            for e in np.flatnonzero(votes.annotator == a):
                for k in range(3):
                    value += weight[e] * q[votes.item[e], k] * math.log(w if votes.label[e] == k else (1 - w) / 2)
            return value

        assert updated.accuracy[a] == pytest.approx(maximum(objective), abs=1e-5)


def test_confusion_vector_m_step_maximises_the_expected_log_posterior(labelled: tuple[Annotations, np.ndarray]) -> None:
    votes, q = labelled
    weight = weights_of(votes)
    updated = ClassAccuracy.start(np.full((3, 3), 2.0), np.full((3, 3), 1.0)).update(votes, q)
    for a, k in itertools.product(range(3), range(3)):

        def objective(w: float, a: int = a, k: int = k) -> float:
            value = 2 * math.log(w) + math.log(1 - w)
            for e in np.flatnonzero(votes.annotator == a):
                value += weight[e] * q[votes.item[e], k] * math.log(w if votes.label[e] == k else (1 - w) / 2)
            return value

        assert updated.accuracy[a, k] == pytest.approx(maximum(objective), abs=1e-5)


def test_confusion_m_step_maximises_the_expected_log_posterior_on_the_simplex(labelled: tuple[Annotations, np.ndarray]) -> None:
    votes, q = labelled
    weight = weights_of(votes)
    pseudo = np.random.default_rng(3).random((3, 3, 3)) + 0.1  # [A, L, K]
    pi = Confusion.start(pseudo, 3).update(votes, q).confusion()
    np.testing.assert_allclose(pi.sum(axis=2), 1)

    def objective(pi: np.ndarray) -> float:
        value = float((pseudo.transpose(0, 2, 1) * np.log(pi)).sum())
        for e in range(votes.n_votes):
            value += weight[e] * float(q[votes.item[e]] @ np.log(pi[votes.annotator[e], :, votes.label[e]]))
        return value

    h = 1e-6
    for a, k, (up, down) in itertools.product(range(3), range(3), [(0, 1), (1, 2), (2, 0)]):
        step = np.zeros_like(pi)
        step[a, k, up], step[a, k, down] = h, -h
        assert (objective(pi + step) - objective(pi - step)) / (2 * h) == pytest.approx(0, abs=1e-4)
    # The objective is concave, so any other point of the simplex is lower.
    other = np.random.default_rng(5).dirichlet(np.ones(3), size=(3, 3))
    assert objective(pi) > objective(0.9 * pi + 0.1 * other)


@pytest.mark.parametrize("pseudo_count", [0.0, 0.7])
def test_class_shares_maximise_the_expected_log_posterior(pseudo_count: float) -> None:
    q = np.random.default_rng(2).dirichlet(np.ones(3), size=5)
    shares = Marginals(np.full(3, 1 / 3), pseudo_count=pseudo_count).update(q).probability
    mass = q.sum(axis=0) + pseudo_count  # the objective is sum_k mass_k log d_k

    def objective(free: np.ndarray) -> float:
        d = np.exp(np.append(free, 0.0) - logsumexp(np.append(free, 0.0)))
        return -float(mass @ np.log(d))

    found = optimize.minimize(objective, np.zeros(2), tol=1e-12).x
    np.testing.assert_allclose(shares, np.exp(np.append(found, 0.0) - logsumexp(np.append(found, 0.0))), atol=1e-5)


def test_dirichlet_updates_maximise_the_bound(labelled: tuple[Annotations, np.ndarray]) -> None:
    votes, q = labelled
    beta0 = np.random.default_rng(3).random((3, 3, 3)) + 0.5  # [A, K, L]
    alpha0 = np.array([1.0, 2.0, 0.5])
    part = DirichletConfusion.start(beta0.transpose(0, 2, 1), 3).update(votes, q)
    alpha = DirichletMarginals(alpha0, alpha0).update(q).alpha
    beta = part.concentration()

    def of_beta(free: np.ndarray) -> float:
        return bayes_elbo(votes, q, np.exp(free).reshape(3, 3, 3), beta0, 0.0)

    np.testing.assert_allclose(optimize.approx_fprime(np.log(beta).ravel(), of_beta, 1e-6), 0, atol=1e-4)
    np.testing.assert_allclose(
        optimize.approx_fprime(np.log(alpha), lambda free: share_term(q, np.exp(free), alpha0), 1e-6), 0, atol=1e-4
    )


def test_mace_update_maximises_the_bound(labelled: tuple[Annotations, np.ndarray]) -> None:
    votes, q = labelled
    weight = weights_of(votes)
    rng = np.random.default_rng(3)
    before = Spammer(rng.random((3, 2)) + 0.5, rng.random((3, 3)) + 0.5, rng.random((3, 2)) + 1, rng.random((3, 3)) + 1)
    after = before.update(votes, q)
    # Honesty of each vote given that it equals the label, under the values before.
    log_theta = digamma(before.honest_a) - digamma(before.honest_a.sum(axis=1, keepdims=True))
    log_xi = digamma(before.habit_al) - digamma(before.habit_al.sum(axis=1, keepdims=True))
    a, label = votes.annotator, votes.label
    spam = np.exp(log_theta[a, 1] + log_xi[a, label])
    trusted = q[votes.item, label] * np.exp(log_theta[a, 0]) / (np.exp(log_theta[a, 0]) + spam)

    def objective(free: np.ndarray) -> float:
        honest, habit = np.exp(free[:6]).reshape(3, 2), np.exp(free[6:]).reshape(3, 3)
        new_theta = digamma(honest) - digamma(honest.sum(axis=1, keepdims=True))
        new_xi = digamma(habit) - digamma(habit.sum(axis=1, keepdims=True))
        value = (weight * (trusted * new_theta[a, 0] + (1 - trusted) * (new_theta[a, 1] + new_xi[a, label]))).sum()
        for i in range(3):
            value += dirichlet_terms(honest[i], before.honest0[i]) + dirichlet_terms(habit[i], before.habit0[i])
        return float(value)

    at = np.log(np.concatenate([after.honest_a.ravel(), after.habit_al.ravel()]))
    np.testing.assert_allclose(optimize.approx_fprime(at, objective, 1e-6), 0, atol=1e-4)


@pytest.mark.parametrize("situation", ["plain", "gold", "history"])
def test_one_coin_ends_where_the_gradient_of_the_log_posterior_is_zero(situation: str) -> None:
    model = fitted("one-coin", situation, 2, max_iter=5000, tol=1e-13)
    votes, w, history = model.result_.votes, model.result_.annotators.accuracy, history_counts(model)
    right = 2 + np.einsum("akk->a", history)
    wrong = 1 + history.sum(axis=(1, 2)) - np.einsum("akk->a", history)

    def objective(w: np.ndarray) -> float:
        _, evidence = enumerate_labelings(
            votes,
            np.log(model.prior_),
            lambda e, k: math.log(w[votes.annotator[e]] if votes.label[e] == k else 1 - w[votes.annotator[e]]),
        )
        return evidence + float((right * np.log(w) + wrong * np.log(1 - w)).sum())

    np.testing.assert_allclose(optimize.approx_fprime(w, objective, 1e-7), 0, atol=1e-3)


def test_hard_dawid_skene_reports_the_classification_likelihood() -> None:
    # The bound of hard EM is max over labels, not sum: log p(votes, best labels | parameters) + log prior.
    model = fitted("dawid-skene", "plain", 2, smoothing=0.3, hard=True)
    votes, pi, d = model.result_.votes, model.confusion_, model.prior_
    best = 0.0
    for n in range(5):
        own = range(votes.item_ptr[n], votes.item_ptr[n + 1])
        best += max(
            math.log(max(d[k], 1e-300)) + sum(math.log(pi[votes.annotator[e], k, votes.label[e]]) for e in own)
            for k in range(2)
        )
    assert model.result_.trace["votes"][-1] == pytest.approx(best, rel=1e-10)


def test_a_fixed_class_prior_costs_nothing_and_stays() -> None:
    model = fitted("dawid-skene", "fixed prior", 3)
    np.testing.assert_allclose(model.prior_, model.class_prior)
    assert model.result_.bound["class prior"] == 0.0
    assert replace(model.result_.prior, learn=True).update(model.result_.model_posterior).probability != pytest.approx(
        model.prior_
    )
