"""BayesDGC's Dirichlets: the evidence lower bound written out here, its natural gradient by finite differences, loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import digamma, gammaln, polygamma
from tests.engines.gradient.helpers import CPU, batch_of, even, random_logits, some_votes, votes_on

from crowdwise.data.annotations import Annotations
from crowdwise.methods.labels.bayes_gc import BayesGC
from crowdwise.parts.heads.batch import VoteList
from crowdwise.parts.heads.dirichlet import DirichletHead
from crowdwise.parts.heads.targets import WarmStart, soft_cross_entropy

ALPHA0 = 1.1
# Uneven, so that a transposed matrix would show: [true, observed].
PRIOR_KL = np.array([[5.0, 0.7, 1.3], [2.0, 4.0, 0.4], [0.9, 1.7, 6.0]])
N_ITEMS, N_CLASSES = 5, 3
# The last item of `some_votes` has no vote.
VOTED = [0, 1, 2, 3]


def start_of(seed: int = 0, n_items: int = N_ITEMS, n_classes: int = N_CLASSES) -> torch.Tensor:
    return random_logits(seed, n_items, n_classes).softmax(1)


def head_on(votes: Annotations, start: torch.Tensor, prior_kl: np.ndarray = PRIOR_KL, **more: Any) -> DirichletHead:
    return DirichletHead(votes, prior_kl.T, ALPHA0, start, **more)


def state_of(head: DirichletHead) -> tuple[np.ndarray, np.ndarray]:
    """Dirichlet parameters of the rows, [A, K, L], and of the class shares, [K]; copies."""
    return np.array(head.annotators().concentration()), head.alpha.numpy().copy()


def weight_of(votes: Annotations) -> np.ndarray:
    return np.ones(votes.n_votes) if votes.weight is None else votes.weight


# -- the model, written out ------------------------------------------------------------------------


def expected_log(parameters: np.ndarray) -> np.ndarray:
    return digamma(parameters) - digamma(parameters.sum(axis=-1, keepdims=True))


def dirichlet_divergence(parameters: np.ndarray, prior: np.ndarray) -> float:
    """KL of one Dirichlet from another."""
    log_normaliser = gammaln(parameters.sum()) - gammaln(parameters).sum()
    log_normaliser -= gammaln(prior.sum()) - gammaln(prior).sum()
    return float(log_normaliser + ((parameters - prior) * expected_log(parameters)).sum())


def bound(
    votes: Annotations, log_f: np.ndarray, q: np.ndarray, beta: np.ndarray, alpha: np.ndarray, items: Any = None
) -> float:
    """E log p(votes, labels, shares, matrices) less E log q, over `items`."""
    items = range(votes.n_items) if items is None else items
    log_r, log_d, weight = expected_log(beta), expected_log(alpha), weight_of(votes)
    total = 0.0
    for n in items:
        for k in range(votes.n_classes):
            own = [e for e in range(votes.n_votes) if votes.item[e] == n]
            evidence = sum(weight[e] * log_r[votes.annotator[e], k, votes.label[e]] for e in own)
            log_q = np.log(q[n, k]) if q[n, k] > 0 else 0.0
            total += q[n, k] * (log_d[k] + log_f[n, k] + evidence - log_q)
    total -= dirichlet_divergence(alpha, np.full(len(alpha), ALPHA0))
    for a in range(len(beta)):
        for k in range(votes.n_classes):
            total -= dirichlet_divergence(beta[a, k], PRIOR_KL[k, : votes.n_classes])
    return float(total)


def labels(votes: Annotations, log_f: np.ndarray, beta: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """The best q under the Dirichlets, [N, K]."""
    log_q = log_f + expected_log(alpha)
    for e in range(votes.n_votes):
        for k in range(votes.n_classes):
            log_q[votes.item[e], k] += weight_of(votes)[e] * expected_log(beta)[votes.annotator[e], k, votes.label[e]]
    q = np.exp(log_q - log_q.max(axis=1, keepdims=True))
    q /= q.sum(axis=1, keepdims=True)
    if votes.gold is not None:
        for n in np.flatnonzero(votes.gold >= 0):
            q[n] = np.eye(votes.n_classes)[votes.gold[n]]
    return q


def counts(votes: Annotations, q: np.ndarray) -> np.ndarray:
    """Expected votes by annotator, true and observed class, [A, K, L]."""
    total = np.zeros((votes.n_annotators, votes.n_classes, votes.n_classes))
    for e in range(votes.n_votes):
        for k in range(votes.n_classes):
            total[votes.annotator[e], k, votes.label[e]] += weight_of(votes)[e] * q[votes.item[e], k]
    return total


def natural_gradient(function: Any, parameters: np.ndarray, step: float = 1e-4) -> np.ndarray:
    """Inverse Fisher matrix of a Dirichlet times the finite differences of `function`, [K]."""
    size = len(parameters)
    slope = np.array([(function(parameters + step * d) - function(parameters - step * d)) / (2 * step) for d in np.eye(size)])
    fisher = np.diag(polygamma(1, parameters)) - polygamma(1, parameters.sum())
    return np.linalg.solve(fisher, slope)


# -- natural-gradient steps ------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_a_step_goes_along_the_natural_gradient_of_the_bound(rate: float) -> None:
    votes, logits = some_votes(), random_logits(3, 4, 3)
    log_f = np.zeros((N_ITEMS, 3))
    log_f[VOTED] = logits.log_softmax(1).numpy()
    head = head_on(votes, start_of(), memoised=False, rate=rate)
    beta, alpha = state_of(head)
    q = labels(votes, log_f, beta, alpha)
    head.loss(logits, batch_of(votes, order=VOTED))
    new_beta, new_alpha = state_of(head)

    def of_alpha(parameters: np.ndarray) -> float:
        return bound(votes, log_f, q, beta, parameters, VOTED)

    np.testing.assert_allclose(new_alpha - alpha, rate * natural_gradient(of_alpha, alpha), atol=2e-5)
    for a in range(votes.n_annotators):
        for k in range(3):

            def of_row(parameters: np.ndarray, a: int = a, k: int = k) -> float:
                changed = beta.copy()
                changed[a, k] = parameters
                return bound(votes, log_f, q, changed, alpha, VOTED)

            gradient = natural_gradient(of_row, beta[a, k])
            np.testing.assert_allclose(new_beta[a, k] - beta[a, k], rate * gradient, atol=2e-5)
            # Where it is anything but zero, or the line above would hold for a head that stays.
            assert np.abs(gradient).max() > 1e-3


def test_steps_of_all_minibatches_are_that_of_the_whole_in_the_mean() -> None:
    votes, logits = some_votes(), random_logits(3, 4, 3)
    whole = head_on(votes, start_of(), memoised=False, rate=0.4)
    whole.loss(logits, batch_of(votes, order=VOTED))
    betas, alphas = [], []
    for rows in itertools.combinations(VOTED, 2):
        head = head_on(votes, start_of(), memoised=False, rate=0.4)
        head.loss(logits[list(rows)], batch_of(votes, order=rows))
        beta, alpha = state_of(head)
        betas.append(beta)
        alphas.append(alpha)
    assert np.std(betas, axis=0).max() > 0.01
    np.testing.assert_allclose(np.mean(betas, axis=0), state_of(whole)[0], rtol=1e-12)
    np.testing.assert_allclose(np.mean(alphas, axis=0), state_of(whole)[1], rtol=1e-12)


@pytest.mark.parametrize("settings", [{"memoised": False, "rate": 1.0}, {"memoised": False}, {"memoised": True}])
def test_a_full_first_step_is_coordinate_ascent(settings: dict[str, Any]) -> None:
    """With a rate of one, with the falling rate (whose first is one), and with exact counts."""
    votes, logits = some_votes(), random_logits(3, N_ITEMS, 3)
    first = start_of()
    head = head_on(votes, first, **settings)
    beta = PRIOR_KL + counts(votes, first.numpy())
    alpha = ALPHA0 + first.numpy()[VOTED].sum(axis=0)
    np.testing.assert_allclose(state_of(head)[0], beta, rtol=1e-12)
    np.testing.assert_allclose(state_of(head)[1], alpha, rtol=1e-12)
    loss = head.loss(logits[VOTED], batch_of(votes, order=VOTED))
    q = labels(votes, logits.log_softmax(1).numpy(), beta, alpha)
    np.testing.assert_allclose(state_of(head)[0], PRIOR_KL + counts(votes, q), rtol=1e-10)
    np.testing.assert_allclose(state_of(head)[1], ALPHA0 + q[VOTED].sum(axis=0), rtol=1e-10)
    expected = -(q[VOTED] * logits[VOTED].log_softmax(1).numpy()).sum(axis=1).mean()
    assert loss.item() == pytest.approx(expected, rel=1e-10)


def test_without_a_rate_steps_shrink_as_the_number_of_steps_to_the_minus_0_7() -> None:
    votes, logits = some_votes(), random_logits(3, 4, 3)
    head, batch = head_on(votes, start_of(), memoised=False), batch_of(votes, order=VOTED)
    for number in range(1, 5):
        beta, alpha = state_of(head)
        log_f = np.zeros((N_ITEMS, 3))
        log_f[VOTED] = logits.log_softmax(1).numpy()
        target = PRIOR_KL + counts(votes, labels(votes, log_f, beta, alpha))
        head.loss(logits, batch)
        np.testing.assert_allclose(state_of(head)[0], beta + number**-0.7 * (target - beta), rtol=1e-9)


def test_a_short_batch_takes_a_short_step() -> None:
    """The last of a stream: one item of four, where others were of four, moves by a quarter of the rate."""
    votes, logits = some_votes(), random_logits(3, 4, 3)
    head, full, last = head_on(votes, start_of(), memoised=False, rate=0.4), batch_of(votes, order=VOTED), VOTED[:1]
    log_f = np.zeros((N_ITEMS, 3))
    log_f[VOTED] = logits.log_softmax(1).numpy()
    for batch, rate in ((full, 0.4), (batch_of(votes, order=last), 0.1), (full, 0.4)):
        beta, alpha = state_of(head)
        q = np.zeros((N_ITEMS, 3))
        q[batch.rows] = labels(votes, log_f.copy(), beta, alpha)[batch.rows] * len(VOTED) / len(batch.rows)
        head.loss(logits[: len(batch.rows)], batch)
        np.testing.assert_allclose(state_of(head)[0], beta + rate * (PRIOR_KL + counts(votes, q) - beta), rtol=1e-9)
        np.testing.assert_allclose(state_of(head)[1], alpha + rate * (ALPHA0 + q.sum(axis=0) - alpha), rtol=1e-9)


# -- memoised counts -------------------------------------------------------------------------------


def test_with_exact_counts_no_batch_lowers_the_bound_and_counts_are_always_those_of_the_labels_kept() -> None:
    votes, log_f = some_votes(n_items=12, n_annotators=4), random_logits(5, 12, 3).log_softmax(1)
    head = head_on(votes, start_of(1, 12))
    voted = np.flatnonzero(votes.votes_per_item)
    rng, values = np.random.default_rng(0), []
    for _ in range(60):
        rows = rng.choice(voted, rng.integers(1, 6), replace=False)
        head.loss(log_f[rows], batch_of(votes, order=rows))
        beta, alpha = state_of(head)
        q = head.q_nk.numpy()
        np.testing.assert_allclose(beta, PRIOR_KL + counts(votes, q), rtol=1e-10)
        np.testing.assert_allclose(alpha, ALPHA0 + q.sum(axis=0), rtol=1e-10)
        values.append(bound(votes, log_f.numpy(), q, beta, alpha, voted))
    assert np.diff(values).min() >= -1e-9
    assert values[-1] > values[0] + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_with_a_network_that_knows_nothing_it_ends_at_bayes_gc(n_classes: int) -> None:
    truth = np.random.default_rng(0).integers(0, n_classes, 60)
    votes = votes_on(truth, even(5, n_classes, 0.75), seed=5, share=0.7)
    prior_lk = np.where(np.eye(n_classes, dtype=bool), 5.0, 2 / (n_classes - 1))
    reference = BayesGC(alpha0=ALPHA0, tol=1e-13, max_iter=5000).fit(votes)
    start = np.full((60, n_classes), 1 / n_classes)
    for n in range(60):
        own = votes.label[votes.item == n]
        if len(own):
            start[n] = np.bincount(own, minlength=n_classes) / len(own)
    assert votes.votes_per_item.min() > 0
    head = DirichletHead(votes, prior_lk, ALPHA0, torch.tensor(start))
    generator = torch.Generator().manual_seed(0)
    listed = VoteList(votes, torch.float64, CPU)
    for _ in range(300):
        for batch in listed.batches(torch.randperm(60, generator=generator), 16):
            head.loss(torch.zeros(len(batch.rows), n_classes, dtype=torch.float64), batch)
    np.testing.assert_allclose(head.q_nk, reference.result_.model_posterior, atol=1e-6)
    np.testing.assert_allclose(head.confusion(), reference.confusion_, atol=1e-6)
    np.testing.assert_allclose(head.annotators().concentration(), reference.result_.concentration, atol=1e-5)


# -- the bound of an epoch -------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"memoised": True}, {"memoised": False}, {"memoised": False, "rate": 0.3}])
def test_an_epoch_says_the_bound_of_its_labels_and_of_the_dirichlets_at_its_end(settings: dict[str, Any]) -> None:
    votes, logits = some_votes(), random_logits(3, N_ITEMS, 3)
    log_f, head = logits.log_softmax(1).numpy(), head_on(votes, start_of(), **settings)
    for epoch in range(2):
        q = np.zeros((N_ITEMS, 3))
        for rows in ([3, 1], [0, 2]):
            q[rows] = labels(votes, log_f, *state_of(head))[rows]
            head.loss(logits[rows], batch_of(votes, order=rows, epoch=epoch))
        terms = head.end_epoch()
        assert sum(terms.values()) == pytest.approx(bound(votes, log_f, q, *state_of(head), VOTED), rel=1e-10)
        log_d = expected_log(state_of(head)[1])
        # What the network is trained on, the entropy of the labels, and what the shares say of them.
        expected = (q[VOTED] * (log_f[VOTED] - np.log(q[VOTED]) + log_d)).sum()
        assert terms["labels"] == pytest.approx(expected, rel=1e-10)


def test_in_a_warm_up_the_bound_is_that_of_the_start() -> None:
    votes, logits, first = some_votes(), random_logits(3, N_ITEMS, 3), start_of()
    head = head_on(votes, first)
    warm = WarmStart(head, first, 1)
    for rows in ([3, 1], [0, 2]):
        warm.loss(logits[rows], batch_of(votes, order=rows))
    expected = bound(votes, logits.log_softmax(1).numpy(), first.numpy(), *state_of(head), VOTED)
    assert sum(warm.end_epoch().values()) == pytest.approx(expected, rel=1e-10)


def evidence(votes: Annotations, log_f: np.ndarray, labelings: Any) -> float:
    """log p(votes) with the matrices integrated out, over these labelings of the items."""
    values = []
    for z in labelings:
        table = counts(votes, np.eye(3)[list(z)])
        value = sum(log_f[n, k] for n, k in enumerate(z))
        value += (gammaln(PRIOR_KL + table) - gammaln(PRIOR_KL)).sum()
        value -= (gammaln((PRIOR_KL + table).sum(-1)) - gammaln(PRIOR_KL.sum(-1))).sum()
        values.append(value)
    return float(np.logaddexp.reduce(values))


def test_the_bound_is_below_the_evidence_and_is_the_evidence_where_all_labels_are_known() -> None:
    """All labelings enumerated; class shares have no factor here, as by default."""
    votes, logits = some_votes(weighted=False), random_logits(3, N_ITEMS, 3)
    log_f, everything = logits.log_softmax(1).numpy(), list(itertools.product(range(3), repeat=N_ITEMS))
    head = head_on(votes, start_of(), shares=False)
    values = []
    for _ in range(30):
        head.loss(logits, batch_of(votes))
        values.append(sum(head.end_epoch().values()))
    best = evidence(votes, log_f, everything)
    assert np.diff(values).min() >= -1e-9
    assert best - 2 < values[-1] < best

    truth = [2, 0, 1, 1, 0]
    known = head_on(votes.with_gold(truth), start_of(), shares=False)
    known.loss(logits, batch_of(votes))
    terms = known.end_epoch()
    assert sum(terms.values()) == pytest.approx(evidence(votes, log_f, [truth]), rel=1e-10)
    assert terms["class prior"] == 0


# -- what votes and items come with ----------------------------------------------------------------


@pytest.mark.parametrize("memoised", [True, False])
def test_gold_labels_are_certain_and_count(memoised: bool) -> None:
    votes = some_votes().with_gold([2, None, None, None, 1])
    first, logits = start_of(), random_logits(3, N_ITEMS, 3)
    head = head_on(votes, first, memoised=memoised, rate=None if memoised else 1.0)
    beta, alpha = state_of(head)
    # The last item has no vote but is known, so it counts among the class shares.
    np.testing.assert_allclose(alpha, ALPHA0 + first.numpy().sum(axis=0), rtol=1e-12)
    q = labels(votes, logits.log_softmax(1).numpy(), beta, alpha)
    loss = head.loss(logits, batch_of(votes))
    np.testing.assert_array_equal(q[[0, 4]], [[0, 0, 1], [0, 1, 0]])
    np.testing.assert_allclose(state_of(head)[0], PRIOR_KL + counts(votes, q), rtol=1e-10)
    np.testing.assert_allclose(state_of(head)[1], ALPHA0 + q.sum(axis=0), rtol=1e-10)
    assert loss.item() == pytest.approx(-(q * logits.log_softmax(1).numpy()).sum(axis=1).mean(), rel=1e-10)


def test_an_item_that_teaches_nothing_is_not_counted() -> None:
    alpha = head_on(some_votes(), torch.full((N_ITEMS, 3), 1 / 3, dtype=torch.float64)).alpha
    np.testing.assert_allclose(alpha, ALPHA0 + np.full(3, 4 / 3), rtol=1e-12)


@pytest.mark.parametrize("memoised", [True, False])
def test_a_weight_of_two_is_the_same_vote_twice(memoised: bool) -> None:
    item, annotator, label = [0, 0, 1, 2, 2], [0, 1, 1, 0, 1], [0, 2, 1, 2, 0]
    vocabularies: dict[str, Any] = {"items": range(3), "annotators": range(2), "classes": range(3)}
    heavy = Annotations.from_arrays(item, annotator, label, [2.0, 1, 1, 1, 2], **vocabularies)
    twice = Annotations.from_arrays([*item, 0, 2], [*annotator, 0, 1], [*label, 0, 0], **vocabularies)
    heads, logits = [], random_logits(3, 3, 3)
    for votes in (heavy, twice):
        head = head_on(votes, start_of(0, 3), memoised=memoised, rate=0.5)
        for _ in range(3):
            head.loss(logits, batch_of(votes))
        heads.append(head)
    for one, other in zip(state_of(heads[0]), state_of(heads[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("memoised", [True, False])
def test_the_weight_of_an_item_counts_in_the_loss_and_nowhere_else(memoised: bool) -> None:
    votes, logits, weight = some_votes(), random_logits(3, N_ITEMS, 3), np.array([0.2, 1.0, 3.0, 0.5, 1.0])
    plain, weighted = (head_on(votes, start_of(), memoised=memoised, rate=0.5) for _ in range(2))
    for order in ([3, 1], [0, 2], VOTED):
        beta, alpha = state_of(weighted)
        q = labels(votes, logits.log_softmax(1).numpy(), beta, alpha)
        plain.loss(logits[order], batch_of(votes, order=order))
        loss = weighted.loss(logits[order], batch_of(votes, order=order, item_weight=weight))
        each = -(q * logits.log_softmax(1).numpy()).sum(axis=1)[order]
        assert loss.item() == pytest.approx((each * weight[order]).sum() / weight[order].sum(), rel=1e-10)
    for one, other in zip(state_of(plain), state_of(weighted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


# -- the network beside it -------------------------------------------------------------------------


def test_without_class_shares_the_network_is_the_only_prior() -> None:
    votes, logits = some_votes(), random_logits(3, N_ITEMS, 3)
    head = head_on(votes, start_of(), shares=False)
    np.testing.assert_array_equal(head.log_shares(), np.zeros(3))
    beta, _ = state_of(head)
    # Shares that are all alike change nothing: the labels by hand, with flat ones.
    q = labels(votes, logits.log_softmax(1).numpy(), beta, np.ones(3))
    head.loss(logits[VOTED], batch_of(votes, order=VOTED))
    np.testing.assert_allclose(head.q_nk[VOTED], q[VOTED], rtol=1e-10)
    # Their posterior is kept all the same.
    np.testing.assert_allclose(state_of(head)[1], ALPHA0 + q[VOTED].sum(axis=0), rtol=1e-10)


def test_without_balance_the_shares_are_the_dirichlets_alone() -> None:
    head = head_on(some_votes(), start_of())
    head.loss(random_logits(3, 4, 3), batch_of(some_votes(), order=VOTED))
    np.testing.assert_allclose(head.log_shares(), expected_log(state_of(head)[1]), rtol=1e-12)


def test_the_loss_is_cross_entropy_whose_labels_have_no_gradient() -> None:
    votes, logits = some_votes(), random_logits(3, 4, 3).requires_grad_()
    head = head_on(votes, start_of())
    head.loss(logits, batch_of(votes, order=VOTED)).backward()
    again = logits.detach().clone().requires_grad_()
    soft_cross_entropy(again, head.q_nk[VOTED], torch.ones(4, dtype=torch.float64)).backward()
    assert logits.grad is not None
    assert again.grad is not None
    np.testing.assert_allclose(logits.grad, again.grad, rtol=1e-12)
    assert list(head.parameters()) == []


def test_the_posterior_given_is_not_overwritten() -> None:
    first = start_of()
    kept = first.clone()
    head_on(some_votes(), first).loss(random_logits(3, 4, 3), batch_of(some_votes(), order=VOTED))
    np.testing.assert_array_equal(first, kept)


def test_matrices_are_posterior_means_and_judge_votes() -> None:
    votes = some_votes()
    head = head_on(votes, start_of())
    head.loss(random_logits(3, 4, 3), batch_of(votes, order=VOTED))
    beta, _ = state_of(head)
    mean = beta / beta.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(head.confusion(), mean, rtol=1e-12)
    batch = batch_of(votes, order=VOTED)
    expected = [np.log(mean[a, :, y]) for a, y in zip(batch.annotator.tolist(), batch.label.tolist(), strict=True)]
    np.testing.assert_allclose(head.evidence(batch), expected, rtol=1e-12)


@pytest.mark.parametrize("settings", [{"memoised": True}, {"memoised": False}])
def test_everything_learned_travels_with_the_state_of_the_head(settings: dict[str, Any]) -> None:
    votes, batch = some_votes(), batch_of(some_votes(), order=VOTED)
    head, other = head_on(votes, start_of(0), **settings), head_on(votes, start_of(1), **settings)
    for seed in range(3):
        head.loss(random_logits(seed, 4, 3), batch)
    other.load_state_dict(head.state_dict())
    losses = [one.loss(random_logits(9, 4, 3), batch).item() for one in (head, other)]
    assert losses[0] == losses[1]
    for one, two in zip(state_of(head), state_of(other), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(head.log_shares(), other.log_shares())


def test_an_annotator_who_calls_class_0_a_1_is_learned_untransposed() -> None:
    answers = np.repeat([1, 1, 2], 40)
    votes = Annotations.from_arrays(np.arange(120), ["a"] * 120, answers, classes=[0, 1, 2], items=range(120))
    known = torch.eye(3, dtype=torch.float64)[torch.tensor(np.repeat([0, 1, 2], 40))]
    expected = PRIOR_KL + 40 * np.array([[0, 1, 0], [0, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(head_on(votes, known).annotators().concentration()[0], expected, rtol=1e-12)
    aligned = head_on(votes, known).annotators().aligned(np.array([-1, 0]), np.zeros(0, np.int64))
    # One never seen has the prior.
    np.testing.assert_allclose(aligned.concentration(), [PRIOR_KL, expected], rtol=1e-12)
