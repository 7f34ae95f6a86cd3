"""The bound of SVGPCR as a whole: against draws of everything hidden, under coordinate steps, and its gradient.

The oracle is written from the model alone, in numpy, with a covariance, a Cholesky factor and densities of its own:

    u_k ~ N(0, K_uu)    f_k | u_k    z_n | f_n ~ nu(f_n)    R_a[k] ~ Dir(prior)    vote ~ R_a[z_n]
    bound = E_q [ log p(votes, z, f, u, R) - log q(z, f, u, R) ],    q(f | u) = p(f | u)

Then odd crowds through the public interface.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from scipy.special import digamma, gammaln  # noqa: E402
from scipy.stats import multivariate_normal  # noqa: E402
from tests.engines.gradient.helpers import batch_of, quiet  # noqa: E402

from crowdwise.data.annotations import Annotations  # noqa: E402
from crowdwise.errors import DivergedError, SettingError  # noqa: E402
from crowdwise.estimator.registry import make_classifier  # noqa: E402
from crowdwise.parts.heads.batch import Batch  # noqa: E402
from crowdwise.parts.heads.process import ProcessHead  # noqa: E402
from crowdwise.parts.priors.covariance import covariance  # noqa: E402
from crowdwise.parts.priors.robust_max import RobustMax, Softmax  # noqa: E402
from crowdwise.parts.priors.sparse_gp import SparseGP  # noqa: E402

EPS, VARIANCE, LENGTHSCALE, JITTER = 1e-3, 1.5, 1.2, 1e-6
TERMS = ("features", "votes", "entropy", "inducing", "annotators")


# -- tiny crowds ------------------------------------------------------------------------------


@dataclass
class Problem:
    """A crowd, a process and a head, and the one batch of all items that teach."""

    votes: Annotations
    rows: np.ndarray
    process: SparseGP
    head: ProcessHead
    batch: Batch
    prior_kl: np.ndarray
    taught: np.ndarray = field(repr=False)

    def step(self) -> float:
        """One round: q(z) and q(R), then q(u); returns the head's loss."""
        loss = self.head.loss(self.process.train()(torch.tensor(self.rows[self.taught])), self.batch)
        self.head.natural_step()
        return float(loss.detach())


def crowd(
    n_items: int, n_classes: int, n_annotators: int, seed: int, *, repeats: bool, gold: bool, unvoted: bool
) -> tuple[np.ndarray, Annotations]:
    """Random rows, and votes that are right six times out of ten."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_items, 2))
    truth = np.digitize(rows[:, 0], np.quantile(rows[:, 0], np.linspace(0, 1, n_classes + 1)[1:-1]))
    item, annotator = (index.ravel() for index in np.indices((n_items, n_annotators)))
    kept = (rng.random(len(item)) < 0.8) & ~(unvoted & (item == 3))
    item, annotator = item[kept], annotator[kept]
    if repeats:
        again = rng.integers(len(item), size=len(item) // 2)
        item, annotator = np.append(item, item[again]), np.append(annotator, annotator[again])
    right = rng.random(len(item)) < 0.6
    label = np.where(right, truth[item], rng.integers(n_classes, size=len(item)))
    votes = Annotations.from_arrays(
        item, annotator, label, items=range(n_items), annotators=range(n_annotators), classes=range(n_classes)
    )
    # One of an item with votes, and one of the item without.
    return rows, votes.with_gold({0: int(truth[0]), 3: int(truth[3])} if gold else {})


def problem(
    n_classes: int = 3,
    likelihood: str = "robust-max",
    *,
    n_items: int = 12,
    n_annotators: int = 4,
    n_inducing: int = 4,
    seed: int = 0,
    kernel: str = "rbf",
    ard: bool = False,
    rate: float = 0.3,
    warmup: int = 0,
    n_draws: int = 32,
    repeats: bool = False,
    gold: bool = False,
    unvoted: bool = False,
    diagonal: bool = False,
    natural: bool = True,
) -> Problem:
    rows, votes = crowd(n_items, n_classes, n_annotators, seed, repeats=repeats, gold=gold, unvoted=unvoted)
    made = covariance(kernel, 2, lengthscale=LENGTHSCALE, variance=VARIANCE, ard=ard).double()
    link = RobustMax(EPS) if likelihood == "robust-max" else Softmax(n_classes, n_draws, n_draws)
    inducing = np.random.default_rng(seed + 1).normal(size=(n_inducing, 2))
    process = SparseGP(made, link, torch.tensor(inducing), n_classes, diagonal=diagonal, natural=natural)
    shares = np.full((n_items, n_classes), 0.1)
    np.add.at(shares, (votes.item, votes.label), 1.0)
    shares /= shares.sum(axis=1, keepdims=True)
    taught = votes.votes_per_item > 0
    if votes.gold is not None:
        known = votes.gold >= 0
        shares[known] = np.eye(n_classes)[votes.gold[known]]
        taught = taught | known
    prior_kl = np.full((n_classes, n_classes), 1 / (n_classes - 1)) + (2 - 1 / (n_classes - 1)) * np.eye(n_classes)
    head = ProcessHead(votes, prior_kl.T, torch.tensor(shares), process, rate=rate, warmup=warmup, frozen=0)
    batch = batch_of(votes, order=np.flatnonzero(taught))
    return Problem(votes, rows, process, head, batch, prior_kl, taught)


# -- the bound twice --------------------------------------------------------------------------


def log_beta(parameters: np.ndarray) -> np.ndarray:
    return gammaln(parameters).sum(axis=-1) - gammaln(parameters.sum(axis=-1))


def closed(it: Problem) -> dict[str, float]:
    """Terms of the bound from the parts that process and head offer."""
    q, beta = it.head.q_nk.numpy()[it.taught], it.head.annotators().concentration()
    with torch.no_grad():
        ell = it.process.likelihood.expected_log(*it.process.moments(torch.tensor(it.rows[it.taught]))).numpy()
        inducing = float(it.process.kl())
    e_log = digamma(beta) - digamma(beta.sum(axis=2, keepdims=True))
    every = it.head.q_nk.numpy()[it.votes.item]
    kl = log_beta(np.broadcast_to(it.prior_kl, beta.shape)) - log_beta(beta) + ((beta - it.prior_kl) * e_log).sum(axis=2)
    positive = q[q > 0]
    return {
        "features": float((q * ell).sum()),
        "votes": float((every * e_log[it.votes.annotator, :, it.votes.label]).sum()),
        "entropy": float(-(positive * np.log(positive)).sum()),
        "inducing": -inducing,
        "annotators": -float(kl.sum()),
    }


def bound(it: Problem) -> float:
    return sum(closed(it).values())


def drawn(it: Problem, n_draws: int, seed: int) -> dict[str, np.ndarray]:
    """The same terms by draws of u, f given u, z and R, [S] each; only parameters of q are taken from the code."""
    rng = np.random.default_rng(seed)
    x, points = it.rows[it.taught], it.process.inducing.detach().numpy()
    mean, root = it.process.mean_km.numpy(), it.process.root_kmm.numpy()
    q, beta = it.head.q_nk.numpy()[it.taught], it.head.annotators().concentration()
    n_classes, n_items = len(mean), len(x)

    def kappa(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        square = ((a[:, None] - b[None]) ** 2).sum(axis=2)
        return np.asarray(VARIANCE * np.exp(-square / (2 * LENGTHSCALE**2)))

    k_uu = kappa(points, points) + JITTER * VARIANCE * np.eye(len(points))
    k_xu, factor = kappa(x, points), np.linalg.cholesky(k_uu)
    solve = np.linalg.solve(k_uu, k_xu.T).T
    left = kappa(x, x) - solve @ k_xu.T
    value, vector = np.linalg.eigh((left + left.T) / 2)
    half = vector * np.sqrt(np.maximum(value, 0))

    f = np.empty((n_draws, n_items, n_classes))
    log_u = np.zeros(n_draws)
    for k in range(n_classes):
        spread = factor @ root[k] @ root[k].T @ factor.T
        q_u = multivariate_normal(factor @ mean[k], (spread + spread.T) / 2)
        u = q_u.rvs(n_draws, random_state=rng)
        log_u += multivariate_normal(np.zeros(len(points)), k_uu).logpdf(u) - q_u.logpdf(u)
        f[:, :, k] = u @ solve.T + rng.normal(size=(n_draws, n_items)) @ half.T

    z = (rng.random((n_draws, n_items, 1)) > q.cumsum(axis=1)[None, :, :-1]).sum(axis=2)
    log_q = np.log(np.take_along_axis(np.broadcast_to(q, (n_draws, *q.shape)), z[:, :, None], 2)).sum(axis=(1, 2))
    if isinstance(it.process.likelihood, RobustMax):
        log_nu = np.where(f.argmax(axis=2) == z, np.log(1 - EPS), np.log(EPS / (n_classes - 1))).sum(axis=1)
    else:
        f -= f.max(axis=2, keepdims=True)
        chosen = np.take_along_axis(f, z[:, :, None], 2)[:, :, 0]
        log_nu = (chosen - np.log(np.exp(f).sum(axis=2))).sum(axis=1)

    gamma = rng.standard_gamma(beta, (n_draws, *beta.shape))
    log_r = np.log(gamma) - np.log(gamma.sum(axis=3, keepdims=True))
    density = [((p - 1) * log_r).sum(axis=3) - log_beta(np.broadcast_to(p, beta.shape)) for p in (it.prior_kl, beta)]
    place = np.cumsum(it.taught) - 1
    log_votes = np.zeros(n_draws)
    for n, a, label in zip(it.votes.item, it.votes.annotator, it.votes.label, strict=True):
        log_votes += log_r[np.arange(n_draws), a, z[:, place[n]], label]
    return {
        "features": log_nu,
        "votes": log_votes,
        "entropy": -log_q,
        "inducing": log_u,
        "annotators": (density[0] - density[1]).sum(axis=(1, 2)),
    }


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "repeated votes, gold and an item without votes": {"repeats": True, "gold": True, "unvoted": True},
    "two classes": {"n_classes": 2},
    "five classes": {"n_classes": 5, "unvoted": True},
    "a diagonal posterior": {"diagonal": True},
}


# The likelihood changes one term alone, whatever the crowd.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "which"), [*(("robust-max", which) for which in OPTIONS), ("softmax", "plain"), ("softmax", "five classes")]
)
def test_the_bound_is_that_of_draws(likelihood: str, which: str) -> None:
    """Every term within its own error, and the sum within its."""
    n_draws, options = 40_000, OPTIONS[which]
    # So many draws of softmax's own that their error is nothing beside that of the oracle.
    it = problem(likelihood=likelihood, n_draws=2**14, **options)
    for _ in range(12):
        it.step()
    expected, got = drawn(it, n_draws, 5), closed(it)
    for name in TERMS:
        error = float(expected[name].std()) / np.sqrt(n_draws)
        assert got[name] == pytest.approx(float(expected[name].mean()), abs=4 * error + 1e-9), name
    whole = sum(expected.values())
    assert bound(it) == pytest.approx(float(whole.mean()), abs=4 * float(whole.std()) / np.sqrt(n_draws))


@pytest.mark.slow
def test_the_draws_of_softmax_by_default_cost_the_bound_little() -> None:
    """32 draws instead of 16,384, per item, at the same q."""
    it = problem(likelihood="softmax")
    for _ in range(12):
        it.step()
    few = bound(it)
    it.process.likelihood = Softmax(3, n_draws=2**14)
    assert few == pytest.approx(bound(it), abs=0.03 * 12)


@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
def test_the_loss_is_minus_the_bound_per_item_but_for_votes_and_annotators(likelihood: str) -> None:
    it = problem(likelihood=likelihood, repeats=True, gold=True, unvoted=True)
    for _ in range(5):
        it.step()
    loss = float(it.head.loss(it.process.train()(torch.tensor(it.rows[it.taught])), it.batch).detach())
    terms = closed(it)
    expected = -(terms["features"] + terms["entropy"] + terms["inducing"]) / it.taught.sum()
    assert loss == pytest.approx(expected, rel=1e-9)


def test_the_penalty_of_the_heads_annotators_is_the_divergence_in_the_bound() -> None:
    it = problem(repeats=True)
    it.step()
    assert it.head.annotators().penalty() == pytest.approx(-closed(it)["annotators"], rel=1e-9)


@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
def test_loss_and_dirichlets_give_the_whole_bound(likelihood: str) -> None:
    """Where beta = prior + counts, what votes and matrices add is log B(beta) - log B(prior): no vote is needed for it."""
    it = problem(likelihood=likelihood, repeats=True, gold=True, unvoted=True)
    for _ in range(5):
        it.step()
    loss = float(it.head.loss(it.process.train()(torch.tensor(it.rows[it.taught])), it.batch).detach())
    beta = it.head.annotators().concentration()
    crowd = float((log_beta(beta) - log_beta(np.broadcast_to(it.prior_kl, beta.shape))).sum())
    assert bound(it) == pytest.approx(crowd - it.head.n_taught * loss, rel=1e-9)


def test_the_bound_is_below_the_evidence_of_two_votes() -> None:
    """One item, two annotators who agree, K = 2: P(z) = 1/2 by symmetry, and both are right (2/3 each) or both wrong."""
    votes = Annotations.from_arrays([0, 0], [0, 1], [0, 0], items=[0], annotators=[0, 1], classes=[0, 1])
    process = SparseGP(
        covariance("rbf", 2, lengthscale=1.0).double(), RobustMax(EPS), torch.zeros(1, 2, dtype=torch.float64), 2
    )
    prior_kl = np.array([[2.0, 1.0], [1.0, 2.0]])
    start = torch.tensor([[0.9, 0.1]], dtype=torch.float64)
    head = ProcessHead(votes, prior_kl.T, start, process, rate=0.3, warmup=0, frozen=0)
    it = Problem(votes, np.zeros((1, 2)), process, head, batch_of(votes), prior_kl, np.array([True]))
    for _ in range(60):
        it.step()
    evidence = np.log((4 / 9 + 1 / 9) / 2)
    assert evidence - 1.5 < bound(it) < evidence


# -- coordinate steps -------------------------------------------------------------------------


def never_falls(it: Problem, n_rounds: int) -> list[float]:
    """The bound after every half of every round; both halves may only raise it."""
    rows, values = torch.tensor(it.rows[it.taught]), [bound(it)]
    for _ in range(n_rounds):
        it.head.loss(it.process.train()(rows), it.batch)
        values.append(bound(it))
        it.head.natural_step()
        values.append(bound(it))
    change, size = np.diff(values), 1e-8 * np.abs(values[1:])
    worst = int((change + size).argmin())
    half = "q(z), q(R)" if worst % 2 == 0 else "q(u)"
    assert (change >= -size).all(), f"{half} of round {worst // 2} lowered the bound by {-change[worst]:.3g}"
    return values


CROWDS: dict[str, dict[str, bool]] = {
    "plain": {},
    "repeated votes": {"repeats": True},
    "gold": {"gold": True},
    "an item without votes": {"unvoted": True},
    "all of it": {"repeats": True, "gold": True, "unvoted": True},
    "a diagonal posterior": {"diagonal": True},
}


@pytest.mark.parametrize("options", CROWDS.values(), ids=CROWDS)
@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
def test_full_batches_never_lower_the_bound(likelihood: str, n_classes: int, options: dict[str, bool]) -> None:
    it = problem(n_classes, likelihood, n_items=25, n_inducing=6, rate=0.3, **options)
    values = never_falls(it, 40)
    assert values[-1] > values[0] + 1


@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_half_steps_do_not_lower_it_either(likelihood: str, n_classes: int) -> None:
    never_falls(problem(n_classes, likelihood, n_items=25, n_inducing=6, rate=0.5), 40)


@pytest.mark.slow
@settings(max_examples=12)
@given(
    st.integers(0, 10_000),
    st.integers(2, 5),
    st.integers(1, 4),
    st.integers(1, 5),
    st.sampled_from(["robust-max", "softmax"]),
    st.sampled_from(["rbf", "matern", "linear", "rbf+linear"]),
    st.floats(0.01, 0.3),
    st.booleans(),
)
def test_nor_do_they_for_any_small_crowd(
    seed: int, n_classes: int, n_annotators: int, n_inducing: int, likelihood: str, kernel: str, rate: float, odd: bool
) -> None:
    it = problem(
        n_classes,
        likelihood,
        n_annotators=n_annotators,
        n_inducing=n_inducing,
        seed=seed,
        kernel=kernel,
        rate=rate,
        repeats=odd,
        gold=odd,
        unvoted=odd,
    )
    never_falls(it, 15)


def test_steps_of_half_the_items_at_a_time_keep_the_matrices_exact() -> None:
    """Memoised: after each batch the Dirichlets are the prior plus the counts of all items under their latest q."""
    it = problem(repeats=True, gold=True)
    halves = [batch_of(it.votes, order=order) for order in (np.arange(0, 12, 2), np.arange(1, 12, 2))]
    for batch in halves * 3:
        it.head.loss(it.process.train()(torch.tensor(it.rows)[batch.rows]), batch)
        it.head.natural_step()
        expected = np.tile(it.prior_kl, (4, 1, 1))
        np.add.at(expected.transpose(0, 2, 1), (it.votes.annotator, it.votes.label), it.head.q_nk.numpy()[it.votes.item])
        np.testing.assert_allclose(it.head.annotators().concentration(), expected, atol=1e-10)


# -- gradients --------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
@pytest.mark.parametrize(
    ("kernel", "ard"),
    [("rbf", False), ("matern", False), ("linear", False), ("rbf+linear*rbf", False), ("rbf", True), ("matern+linear", True)],
)
def test_the_gradient_of_the_loss_is_that_of_central_differences(likelihood: str, kernel: str, ard: bool) -> None:
    """By every parameter of the kernel and every coordinate of the inducing points, at a posterior that has moved."""
    # During the warm-up the labels are given, so that the loss is a plain function of the parameters.
    it = problem(likelihood=likelihood, kernel=kernel, ard=ard, warmup=1)
    for _ in range(8):
        it.step()
    agrees_with_differences(it)


@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
@pytest.mark.parametrize("diagonal", [False, True])
def test_so_is_that_by_the_posterior_where_it_is_a_parameter(likelihood: str, diagonal: bool) -> None:
    it = problem(likelihood=likelihood, warmup=1, natural=False, diagonal=diagonal)
    rng = np.random.default_rng(3)
    it.process.mean_km.data += torch.tensor(rng.normal(size=(3, 4)))
    it.process.root_kmm.data += torch.tensor(0.3 * rng.normal(size=(3, 4, 4)))
    assert agrees_with_differences(it) >= 2 + 8 + 3 * 4 + 3 * 4 * 4


def agrees_with_differences(it: Problem) -> int:
    """Compare the whole gradient; returns the number of its entries."""
    rows = torch.tensor(it.rows[it.taught])
    it.process.zero_grad()
    it.head.loss(it.process.train()(rows), it.batch).backward()
    n_checked = 0
    for name, parameter in it.process.named_parameters():
        assert parameter.grad is not None, name
        flat = parameter.data.view(-1)
        for i, gradient in enumerate(parameter.grad.reshape(-1).tolist()):
            kept, ends = float(flat[i]), []
            for step in (1e-5, -1e-5):
                flat[i] = kept + step
                ends.append(float(it.head.loss(it.process(rows), it.batch).detach()))
            flat[i] = kept
            assert gradient == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-6), f"{name}[{i}]"
            n_checked += 1
    assert n_checked >= 2 + 8
    return n_checked


@pytest.mark.parametrize("kernel", ["rbf", "matern"])
def test_the_variance_of_the_kernel_has_no_gradient_under_robust_max(kernel: str) -> None:
    """All functions scale with it, and the largest remains the largest. Fifteen points, so that the jitter matters."""
    it = problem(kernel=kernel, warmup=1, n_items=30, n_inducing=15)
    it.head.n_soft = 0  # the labels of the start, but not the softmax of the warm-up
    for _ in range(8):
        it.step()
    it.head.loss(it.process.train()(torch.tensor(it.rows[it.taught])), it.batch).backward()
    assert abs(float(it.process.covariance.log_variance.grad)) < 1e-7


# -- degenerate rows --------------------------------------------------------------------------


DEGENERATE: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "duplicate inducing points": (
        np.random.default_rng(0).normal(size=(12, 2)),
        np.repeat([[0.1, 0.2], [1.0, -1.0]], 3, axis=0),
    ),
    "nearly duplicate inducing points": (
        np.random.default_rng(0).normal(size=(12, 2)),
        np.full((6, 2), 0.3) + 1e-9 * np.arange(12).reshape(6, 2),
    ),
    "a constant column": (
        np.column_stack([np.random.default_rng(0).normal(size=12), np.zeros(12)]),
        np.column_stack([np.linspace(-1, 1, 6), np.zeros(6)]),
    ),
    "identical rows": (np.ones((12, 2)), np.ones((6, 2))),
    "rows far away": (1e6 * np.random.default_rng(0).normal(size=(12, 2)), np.random.default_rng(1).normal(size=(6, 2))),
}


@pytest.mark.parametrize("kernel", ["rbf", "matern", "linear", "rbf*linear"])
@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_rows_give_numbers_or_an_error_that_says_so(name: str, likelihood: str, kernel: str) -> None:
    rows, inducing = DEGENERATE[name]
    it = problem(likelihood=likelihood, kernel=kernel, n_inducing=6)
    it.rows = rows
    it.process.inducing.data = torch.tensor(inducing)
    refused = ""
    try:
        losses = [it.step() for _ in range(5)]
        it.process.zero_grad()
        it.head.loss(it.process.train()(torch.tensor(rows)), it.batch).backward()
        with torch.no_grad():
            predicted = it.process.eval()(torch.tensor(rows))
    except DivergedError as error:
        refused = str(error)
    if refused:
        assert "covariance of the inducing points is singular" in refused
        return
    assert np.isfinite(losses).all()
    for parameter in it.process.parameters():
        assert torch.isfinite(parameter.grad).all()
    np.testing.assert_allclose(predicted.exp().sum(1), 1, atol=1e-6)


# -- odd crowds through the public interface --------------------------------------------------

QUICK: dict[str, dict[str, Any]] = {
    "svgpcr": {"epochs": 2, "inducing": 5, "frozen": 0, "warmup": 1},
    "svgpcr-nf": {"epochs": 2, "inducing": 5, "frozen": 0, "warmup": 1, "layers": 2, "draws": 4, "base": 0.5},
    "gpnetcr": {"epochs": 2, "hidden": 10, "measured": 5, "warmup": 1},
}
# So small that a flow would not set in: it needs twenty natural steps.
FLOWING = {"svgpcr-nf": {"epochs": 12, "batch_size": 4}}

method = pytest.mark.parametrize("name", QUICK)


def is_sound(model: Any, features: np.ndarray) -> None:
    """Whatever is a probability is one."""
    for rows in (model.posterior_, model.confusion_, model.predict_proba(features)):
        assert np.isfinite(rows).all()
        assert (rows >= 0).all()
        np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-5)
    assert set(model.predict(features)) <= set(model.classes_.tolist())


def fitted(name: str, features: Any, votes: Annotations, fit: dict[str, Any] | None = None, **more: Any) -> Any:
    with quiet():
        return make_classifier(name, **(QUICK[name] | more)).fit(features, votes, **(fit or {}))


def of(item: Any, annotator: Any, label: Any, **vocabulary: Any) -> Annotations:
    return Annotations.from_arrays(item, annotator, label, **vocabulary)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


ODD: dict[str, tuple[np.ndarray, Annotations]] = {
    "one vote": (normal(0, 1, 3), of([0], [0], [1], classes=[0, 1, 2])),
    "one item": (normal(0, 1, 3), of([0, 0, 0], [0, 1, 2], [0, 1, 1], classes=[0, 1, 2])),
    "one annotator": (normal(0, 9, 3), of(range(9), [0] * 9, [0, 1, 2] * 3)),
    "two classes": (normal(0, 8, 3), of([*range(8), *range(8)], [0] * 8 + [1] * 8, [0, 1] * 8)),
    "a class that nobody names": (
        normal(0, 8, 3),
        of([*range(8), *range(8)], [0] * 8 + [1] * 8, [0, 1] * 8, classes=[0, 1, 2]),
    ),
    "a single class named": (normal(0, 8, 3), of(range(8), [0, 1] * 4, [0] * 8, classes=[0, 1, 2])),
    "thirty classes": (normal(0, 60, 3), of([*range(60), *range(60)], [0] * 60 + [1] * 60, [*range(30)] * 4)),
    "repeated votes": (
        normal(0, 5, 3),
        of([0, 0, 0, 1, 1, 2, 3, 4, 4], [0, 0, 0, 1, 1, 0, 1, 0, 1], [0, 0, 1, 2, 2, 1, 2, 0, 0]),
    ),
    "one column": (normal(0, 6, 1), of(range(6), [0, 1] * 3, [0, 1, 2] * 2)),
    "a constant column": (np.column_stack([normal(0, 6, 1), np.full(6, 7.0)]), of(range(6), [0, 1] * 3, [0, 1, 2] * 2)),
    "identical rows": (np.full((6, 3), 2.0), of(range(6), [0, 1] * 3, [0, 1, 2] * 2)),
    "more columns than rows": (normal(0, 6, 40), of(range(6), [0, 1] * 3, [0, 1, 2] * 2)),
    "items and an annotator without votes": (
        normal(0, 7, 3),
        of([0, 1, 2, 3], [0, 1, 0, 1], [0, 1, 2, 0], items=range(7), annotators=range(3)),
    ),
    "large numbers": (1e6 + 1e3 * normal(0, 6, 3), of(range(6), [0, 1] * 3, [0, 1, 2] * 2)),
}


# What single precision may be too coarse for.
HARD = ("one vote", "thirty classes", "a constant column", "identical rows", "large numbers")


@method
@pytest.mark.parametrize(("odd", "precision"), [*((odd, "auto") for odd in ODD), *((odd, "float32") for odd in HARD)])
def test_odd_crowds_are_fitted(name: str, odd: str, precision: str) -> None:
    features, votes = ODD[odd]
    is_sound(fitted(name, features, votes, precision=precision), features)


@method
@pytest.mark.parametrize(
    "odd", ["one item", "one annotator", "two classes", "thirty classes", "repeated votes", "identical rows"]
)
def test_odd_crowds_are_fitted_under_a_softmax(name: str, odd: str) -> None:
    features, votes = ODD[odd]
    is_sound(fitted(name, features, votes, likelihood="softmax"), features)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("odd", "likelihood"),
    [
        ("one annotator", "robust-max"),
        ("two classes", "softmax"),
        ("repeated votes", "robust-max"),
        ("identical rows", "robust-max"),
        ("identical rows", "softmax"),
        ("a constant column", "softmax"),
    ],
)
def test_odd_crowds_are_fitted_by_flows_that_move(odd: str, likelihood: str) -> None:
    features, votes = ODD[odd]
    more: dict[str, Any] = FLOWING["svgpcr-nf"] | {"epochs": 30}
    model = fitted("svgpcr-nf", features, votes, likelihood=likelihood, **more)
    assert bool(model.network_[1].flowing)
    is_sound(model, features)


@method
def test_names_in_any_script(name: str) -> None:
    items, annotators = ["Птица", "鳥", "🐦", "طائر", "naïve ", "a\u200bb"], ["Ω", "é", "e\u0301"]
    votes = of([*items, *items], [annotators[i % 3] for i in range(12)], ["да", "нет", "多分"] * 4, items=items)
    features = normal(0, 6, 3)
    model = fitted(name, features, votes, {"gold": {"鳥": "多分"}})
    is_sound(model, features)
    assert set(model.classes_.tolist()) == {"да", "нет", "多分"}
    assert model.labels_[1] == "多分"


@method
def test_every_label_known(name: str) -> None:
    features, votes = ODD["repeated votes"]
    gold = {0: 0, 1: 2, 2: 1, 3: 2, 4: 0}
    model = fitted(name, features, votes, {"gold": gold})
    is_sound(model, features)
    assert model.labels_.tolist() == [0, 2, 1, 2, 0]


@method
def test_weights_of_classes_and_of_votes(name: str) -> None:
    features = normal(0, 6, 3)
    votes = Annotations.from_arrays(range(6), [0, 1] * 3, [0, 1, 2] * 2, [0.5, 2, 1, 1e-6, 100, 1])
    is_sound(fitted(name, features, votes, class_weight={0: 10.0, 1: 0.1, 2: 1.0}), features)


@method
@pytest.mark.parametrize("weight", [0.1, 10.0])
def test_the_same_weight_for_every_class_is_no_weight(name: str, weight: float) -> None:
    features, votes = ODD["repeated votes"]
    plain = fitted(name, features, votes, epochs=8)
    weighted = fitted(name, features, votes, epochs=8, class_weight=dict.fromkeys(range(3), weight))
    np.testing.assert_allclose(weighted.predict_proba(features), plain.predict_proba(features), atol=1e-6)


@method
def test_nor_does_it_change_the_trace(name: str) -> None:
    features, votes = ODD["repeated votes"]
    plain = fitted(name, features, votes, epochs=8)
    weighted = fitted(name, features, votes, epochs=8, class_weight=dict.fromkeys(range(3), 10.0))
    np.testing.assert_allclose(weighted.trace_, plain.trace_, rtol=1e-6)


@method
@pytest.mark.parametrize("epsilon", [0, -0.1, 0.7, 1.0, 1.5, float("nan")])
def test_a_share_under_which_the_largest_function_would_not_win_is_refused(name: str, epsilon: float) -> None:
    """Of three classes, each has a third where nothing is known: two thirds are for the others."""
    features, votes = ODD["one annotator"]
    with pytest.raises(SettingError, match=r"epsilon must be .* a number above 0 and below 0\.667"):
        fitted(name, features, votes, likelihood="robust-max", epsilon=epsilon)


@pytest.mark.parametrize("name", ["svgpcr", "svgpcr-nf"])
@pytest.mark.parametrize("rate", [1.5, 5.0])
def test_natural_steps_beyond_one_are_refused_or_said_to_diverge(name: str, rate: float) -> None:
    """Beyond one the precision of the posterior need not stay positive."""
    features, votes = ODD["thirty classes"]
    with pytest.raises((SettingError, DivergedError), match="rate"):
        fitted(name, features, votes, rate=rate, epochs=30, batch_size=20)


@pytest.mark.slow
def test_gold_teaches_the_process_whatever_labels_it_starts_from() -> None:
    """svgp trains on the labels of the start; known ones are known there too."""
    features = np.concatenate([normal(0, 20, 2) - 4, normal(1, 20, 2) + 4])
    truth = np.repeat([0, 1], 20)
    votes = of(range(40), [0] * 40, 1 - truth)
    with quiet():
        model = make_classifier("svgp", epochs=20, init=np.full((40, 2), 0.5), batch_size=10)
        model.fit(features, votes, gold=dict(enumerate(truth.tolist())))
    assert (model.predict(features) == truth).mean() > 0.9
