"""The variational steps of SVGPCR: the bound by hand, and who moves when."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import digamma, gammaln
from tests.engines.gradient.helpers import CPU, even, votes_on

from crowdwise.data.annotations import Annotations
from crowdwise.parts.heads.batch import Batch, VoteList
from crowdwise.parts.heads.process import ProcessHead
from crowdwise.parts.priors.covariance import covariance
from crowdwise.parts.priors.robust_max import RobustMax
from crowdwise.parts.priors.sparse_gp import SparseGP

PRIOR_LK = np.where(np.eye(3, dtype=bool), 2.0, 0.5)


def problem(n_items: int = 90) -> tuple[torch.Tensor, np.ndarray, Annotations]:
    """Three clouds, four annotators of whom one names the next class."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=n_items)
    centre = np.array([[0, 2.0], [2, -1], [-2, -1]])
    rows = torch.tensor(centre[truth] + 0.7 * rng.normal(size=(n_items, 2)))
    confusion = np.array([*even(3, 3, 0.7), np.roll(np.eye(3), 1, axis=1) * 0.8 + 0.2 / 3])
    return rows, truth, votes_on(truth, confusion, seed=1, share=0.8)


def parts(rows: torch.Tensor, votes: Annotations, warmup: int = 0) -> tuple[SparseGP, ProcessHead, Batch]:
    made = SparseGP(covariance("rbf", 2, lengthscale=1.5).double(), RobustMax(), rows[:8].clone(), 3)
    start = np.full((len(rows), 3), 1e-3)
    np.add.at(start, (votes.item, votes.label), 1.0)
    posterior = torch.tensor(start / start.sum(axis=1, keepdims=True))
    head = ProcessHead(votes, PRIOR_LK, posterior, made, rate=0.1, warmup=warmup, frozen=3)
    (batch,) = VoteList(votes, torch.float64, CPU).batches(torch.arange(len(rows)), len(rows))
    return made, head, batch


def log_beta(parameters: np.ndarray) -> np.ndarray:
    return gammaln(parameters).sum(axis=-1) - gammaln(parameters.sum(axis=-1))


def bound(made: SparseGP, head: ProcessHead, rows: torch.Tensor, votes: Annotations) -> float:
    """sum q (l + evidence) + H(q) - KL(v) - KL(R), from the state of process and head alone."""
    beta, prior = head.annotators().concentration(), PRIOR_LK.T
    e_log = digamma(beta) - digamma(beta.sum(axis=2, keepdims=True))
    with torch.no_grad():
        expected = made.likelihood.expected_log(*made.moments(rows)).numpy()
        kl = float(made.kl())
    scores = expected.copy()
    for e in range(votes.n_votes):
        scores[votes.item[e]] += e_log[votes.annotator[e], :, votes.label[e]]
    q = head.q_nk.numpy()
    total = (q * scores).sum() - np.where(q > 0, q * np.log(np.maximum(q, 1e-300)), 0).sum() - kl
    rows_kl = log_beta(np.broadcast_to(prior, beta.shape)) - log_beta(beta) + ((beta - prior) * e_log).sum(axis=2)
    return float(total - rows_kl.sum())


def step(made: SparseGP, head: ProcessHead, rows: torch.Tensor, batch: Batch) -> torch.Tensor:
    loss = head.loss(made.train()(rows), batch)
    head.natural_step()
    return loss


@pytest.mark.slow
def test_full_batches_never_lower_the_bound() -> None:
    rows, _, votes = problem()
    made, head, batch = parts(rows, votes)
    values = []
    for _ in range(80):
        step(made, head, rows, batch)
        values.append(bound(made, head, rows, votes))
    assert (np.diff(values) > -1e-8).all()
    assert values[-1] > values[0] + 30


def test_labels_and_annotators_are_found_the_adversary_included() -> None:
    rows, truth, votes = problem()
    made, head, batch = parts(rows, votes)
    for _ in range(80):
        step(made, head, rows, batch)
    assert (head.q_nk.argmax(1).numpy() == truth).mean() > 0.95
    confusion = head.confusion().numpy()
    assert np.einsum("akk->a", confusion[:3]).min() / 3 > 0.55
    assert (confusion[3].argmax(axis=1) == [1, 2, 0]).all()
    assert (made.eval()(rows).argmax(1).numpy() == truth).mean() > 0.9


def test_the_optimisers_gradient_is_that_of_the_expected_likelihood() -> None:
    """By the length scale, finite differences with q and the process's posterior held."""
    rows, _, votes = problem(30)
    made, head, batch = parts(rows, votes)
    for _ in range(10):
        step(made, head, rows, batch)
    loss = head.loss(made.train()(rows), batch)
    made.zero_grad()
    loss.backward()
    q, parameter = head.q_nk.clone(), made.covariance.log_lengthscale

    def value(shift: float) -> float:
        with torch.no_grad():
            parameter.add_(shift)
            answer = -float((q * made.likelihood.expected_log(*made.moments(rows))).sum()) / len(rows)
            parameter.sub_(shift)
        return answer

    assert parameter.grad is not None
    np.testing.assert_allclose(parameter.grad.item(), (value(1e-5) - value(-1e-5)) / 2e-5, rtol=1e-5)


def test_during_the_warm_up_the_labels_are_those_of_the_start() -> None:
    rows, _, votes = problem()
    made, head, batch = parts(rows, votes, warmup=1)
    counts, start = head.count_rk.clone(), head.start_nk.clone()
    step(made, head, rows, batch)
    torch.testing.assert_close(head.count_rk, counts)
    expected, variance = made.moments(rows)
    assert float((made.likelihood.expected_log(expected, variance).detach().argmax(1) == start.argmax(1)).double().mean()) > 0.5


def test_inducing_points_wait_and_a_step_without_a_loss_does_nothing() -> None:
    rows, _, votes = problem()
    made, head, _ = parts(rows, votes)
    head.begin_epoch(0, lambda: torch.zeros(0))
    assert not made.inducing.requires_grad
    head.begin_epoch(3, lambda: torch.zeros(0))
    assert made.inducing.requires_grad
    before = made.precision_kmm.clone()
    head.natural_step()
    assert torch.equal(before, made.precision_kmm)
