"""What the likelihoods learn from votes, against searches by scipy; and the draws of the softmax against brute force."""

from __future__ import annotations

import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy.optimize import minimize_scalar  # noqa: E402
from scipy.special import ndtri  # noqa: E402
from scipy.stats import qmc  # noqa: E402

from crowdwise.parts.priors import robust_max  # noqa: E402
from crowdwise.parts.priors.robust_max import RobustMax, Softmax  # noqa: E402

sizes = pytest.mark.parametrize("n_classes", [2, 3, 50])


def said_and_told(n_classes: int, n_items: int, wrong: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of functions that are sure, [n, K], and what three noisy votes tell of items that they are wrong about."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=(n_items, n_classes)) * 4
    p = np.exp(score - score.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    drawn = (rng.random((n_items, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    truth = np.where(rng.random(n_items) < wrong, rng.integers(n_classes, size=n_items), drawn)
    told = np.ones((n_items, n_classes))
    for _ in range(3):
        vote = np.where(rng.random(n_items) < 0.7, truth, rng.integers(n_classes, size=n_items))
        told *= np.where(vote[:, None] == np.arange(n_classes), 0.7 + 0.3 / n_classes, 0.3 / n_classes)
    return p, told / told.sum(axis=1, keepdims=True)


def log_votes_by_share(eps: float, p: np.ndarray, told: np.ndarray) -> float:
    """Log-likelihood of the votes, item by item and class by class."""
    n_classes, total = p.shape[1], 0.0
    for p_n, told_n in zip(p, told, strict=True):
        total += np.log(sum(t * (q * (1 - eps) + (1 - q) * eps / (n_classes - 1)) for q, t in zip(p_n, told_n, strict=True)))
    return float(total)


def log_votes_by_temperature(temperature: float, p: np.ndarray, told: np.ndarray) -> float:
    """The same of powers, and one item more that is of another class than the likeliest: any of these, in equal parts."""
    total = 0.0
    for p_n, told_n in zip(p, told, strict=True):
        warm = (p_n / p_n.max()) ** (1 / temperature)
        others = np.delete(warm, p_n.argmax()).sum() / warm.sum()
        total += np.log((warm / warm.sum() * told_n).sum()) + np.log(others) / len(p)
    return float(total)


def learned(likelihood: RobustMax | Softmax, p: np.ndarray, told: np.ndarray) -> float:
    likelihood.learn(torch.tensor(p).log(), torch.tensor(told))
    return float(likelihood.eps if isinstance(likelihood, RobustMax) else likelihood.temperature)


# -- the share of the other classes -----------------------------------------------------------


@sizes
@pytest.mark.parametrize("wrong", [0.1, 0.4])
def test_the_share_is_that_under_which_the_votes_are_most_likely(n_classes: int, wrong: float) -> None:
    p, told = said_and_told(n_classes, 400, wrong)
    most = 1 - 1 / n_classes
    best = minimize_scalar(
        lambda eps: -log_votes_by_share(eps, p, told), bounds=(1e-3, most), method="bounded", options={"xatol": 1e-9}
    )
    assert 0.01 < best.x < 0.95 * most  # the maximum lies inside
    assert learned(RobustMax(), p, told) == pytest.approx(best.x, abs=1e-5)


@sizes
def test_the_share_stays_within_its_limits(n_classes: int) -> None:
    """From what it was at first to where the largest function would say nothing."""
    p = np.full((30, n_classes), 1e-6)
    p[:, 0] = 1 - (n_classes - 1) * 1e-6
    right, wrong = np.eye(n_classes)[np.zeros(30, int)], np.eye(n_classes)[np.ones(30, int)]
    assert learned(RobustMax(), p, right) == pytest.approx(1e-3, rel=1e-6)
    assert learned(RobustMax(0.02), p, right) == pytest.approx(0.02, rel=1e-6)
    found = learned(RobustMax(), p, wrong)
    assert 0.9 * (1 - 1 / n_classes) < found < 1 - 1 / n_classes


@sizes
def test_the_share_of_one_item(n_classes: int) -> None:
    """The likelihood of one item is linear: the least share where it agrees, the most where not, and finite."""
    p = np.full((1, n_classes), 0.1 / (n_classes - 1))
    p[0, 0] = 0.9
    assert learned(RobustMax(), p, np.eye(n_classes)[[0]]) == pytest.approx(1e-3, rel=1e-6)
    assert learned(RobustMax(), p, np.eye(n_classes)[[1]]) > 0.9 * (1 - 1 / n_classes)


def test_functions_that_are_certain_teach_a_share() -> None:
    """p of nought and one: 3 of 20 votes are against, each known for sure, so the share is 3 / 20."""
    p, told = np.eye(4)[[0] * 20], np.eye(4)[[0] * 17 + [1, 2, 3]]
    assert learned(RobustMax(), p, told) == pytest.approx(0.15, abs=1e-6)


@pytest.mark.parametrize("shape", [(0, 3), (5, 1)])
def test_from_no_items_and_of_one_class_nothing_is_learned(shape: tuple[int, int]) -> None:
    p = np.ones(shape)
    assert learned(RobustMax(0.02), p, p) == 0.02
    assert learned(Softmax(shape[1]), p, p) == 1.0


# -- the temperature --------------------------------------------------------------------------


@sizes
@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_the_temperature_is_that_under_which_the_votes_are_most_likely(n_classes: int, power: float) -> None:
    """Functions that say p ** power of items that are drawn by p."""
    p, told = said_and_told(n_classes, 500, 0.05)
    said = p**power / (p**power).sum(axis=1, keepdims=True)
    best = minimize_scalar(
        lambda log: -log_votes_by_temperature(np.exp(log), said, told),
        bounds=(-3, 3),
        method="bounded",
        options={"xatol": 1e-7},
    )
    assert -2.8 < best.x < 2.8
    assert np.log(learned(Softmax(n_classes), said, told)) == pytest.approx(best.x, abs=2e-3)


@sizes
def test_the_temperature_stays_within_its_limits(n_classes: int) -> None:
    p = np.ones((10, n_classes))
    p[:, 0] = 1.3
    p /= p.sum(axis=1, keepdims=True)
    wrong = np.eye(n_classes)[np.ones(10, int)]
    for n_items in (10, 1):
        assert np.exp(2.9) < learned(Softmax(n_classes), p[:n_items], wrong[:n_items]) <= np.exp(3)
    # As probable as 1.0001 to 1: a thousand items that are right ask for more than the limit.
    near = np.array([[1.0001, *[1.0] * (n_classes - 1)]] * 1000)
    near /= near.sum(axis=1, keepdims=True)
    assert np.exp(-3) <= learned(Softmax(n_classes), near, np.eye(n_classes)[np.zeros(1000, int)]) < np.exp(-2.9)


@pytest.mark.parametrize("n_items", [1, 10, 30])
def test_few_items_that_functions_are_right_about_do_not_make_them_certain(n_items: int) -> None:
    """n right and one wrong: the probability of being right is n / (n + 1), which the temperature has to bring about."""
    p, told = np.array([[0.7, 0.3]] * n_items), np.array([[1.0, 0.0]] * n_items)
    power = 1 / learned(Softmax(2), p, told)
    odds = max((7 / 3) ** power, 1 / (7 / 3) ** power)
    assert odds == pytest.approx(max(n_items, (7 / 3) ** np.exp(-3)), rel=0.01)


def test_functions_that_are_all_but_certain_teach_a_temperature() -> None:
    """Logarithms down to -2,000, of which powers are nought in floating point."""
    log_p = torch.tensor([[0.0, -2000.0]] * 9 + [[-2000.0, 0.0]], dtype=torch.float64)
    likelihood = Softmax(2)
    likelihood.learn(log_p, torch.tensor([[1.0, 0.0]] * 10, dtype=torch.float64))
    # One in ten is wrong by as much as the others are right: the flatter, the likelier.
    assert float(likelihood.temperature) > np.exp(2.9)


# -- putting it aside -------------------------------------------------------------------------


@pytest.mark.parametrize(("likelihood", "name", "without"), [(RobustMax(), "eps", 0.0), (Softmax(3), "temperature", 1.0)])
def test_what_was_learned_comes_back_also_after_an_error(likelihood: torch.nn.Module, name: str, without: float) -> None:
    value = likelihood.get_buffer(name)
    value.fill_(0.3)
    with likelihood.unlearned():
        assert float(value) == pytest.approx(without, abs=1e-9)
    assert float(value) == 0.3
    with pytest.raises(KeyError), likelihood.unlearned():
        raise KeyError
    assert float(value) == 0.3


@pytest.mark.parametrize("likelihood", [RobustMax(), Softmax(3)])
def test_what_was_learned_changes_predictions_as_it_says(likelihood: torch.nn.Module) -> None:
    rng = np.random.default_rng(0)
    mean, variance = torch.tensor(rng.normal(size=(7, 3))), torch.tensor(rng.uniform(0.1, 2, (7, 3)))
    with likelihood.unlearned():
        p = likelihood.log_predictive(mean, variance).exp().numpy()
    if isinstance(likelihood, RobustMax):
        likelihood.eps.fill_(0.2)
        expected = 0.8 * p + 0.1 * (1 - p)
    else:
        likelihood.temperature.fill_(2.0)
        expected = np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(likelihood.log_predictive(mean, variance).exp(), expected, atol=1e-9)


# -- the draws of the softmax -----------------------------------------------------------------


def by_brute_force(mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E log softmax and E softmax over 65,536 draws of their own, some at a time."""
    engine, total, share = qmc.Sobol(mean.shape[1], seed=987), np.zeros((len(mean), 1)), np.zeros_like(mean)
    for _ in range(16):
        normal = ndtri(np.clip(engine.random(4096), 1e-12, 1 - 1e-12))
        for n in range(len(mean)):
            f = mean[n] + sd[n] * normal
            most = f.max(axis=1, keepdims=True)
            e = np.exp(f - most)
            total[n] += (most + np.log(e.sum(axis=1, keepdims=True))).sum()
            share[n] += (e / e.sum(axis=1, keepdims=True)).sum(axis=0)
    return mean - total / 2**16, share / 2**16


@pytest.mark.parametrize(
    ("n_classes", "log_error", "error"), [(2, 0.03, 0.003), (3, 0.03, 0.003), (10, 0.1, 0.01), (50, 0.1, 0.01)]
)
def test_the_softmax_is_as_exact_as_it_says(n_classes: int, log_error: float, error: float) -> None:
    rng = np.random.default_rng(n_classes)
    mean, sd = rng.normal(size=(40, n_classes)) * 2, rng.uniform(0, 3, (40, n_classes))
    sd[:12] = 3.0
    log_nu, nu = by_brute_force(mean, sd)
    likelihood, at = Softmax(n_classes), (torch.tensor(mean), torch.tensor(sd**2))
    np.testing.assert_allclose(likelihood.expected_log(*at), log_nu, atol=log_error)
    np.testing.assert_allclose(likelihood.log_predictive(*at).exp(), nu, atol=error)


@pytest.mark.parametrize("n_classes", [1, 2, 3, 50])
def test_blocks_of_rows_change_nothing_and_slopes_are_right(n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    mean, variance = torch.tensor(rng.normal(size=(5, n_classes))), torch.tensor(rng.uniform(0.01, 9, (5, n_classes)))
    likelihood = Softmax(n_classes)
    whole = likelihood.expected_log(mean, variance), likelihood.log_predictive(mean, variance)
    for block in (1, 2 * 128 * n_classes):
        monkeypatch.setattr(robust_max, "_BLOCK", block)
        torch.testing.assert_close(likelihood.expected_log(mean, variance), whole[0], rtol=1e-13, atol=1e-13)
        torch.testing.assert_close(likelihood.log_predictive(mean, variance), whole[1], rtol=1e-13, atol=1e-13)
    # Differences by every mean and variance: of fifty classes, those of one row.
    few = slice(None) if n_classes < 50 else slice(1)
    at = mean[few].requires_grad_(), variance[few].requires_grad_()
    assert torch.autograd.gradcheck(likelihood.expected_log, at)
    assert torch.autograd.gradcheck(likelihood.log_predictive, at)


def test_no_rows_have_no_answers() -> None:
    nothing = torch.zeros(0, 3, dtype=torch.float64)
    assert Softmax(3).expected_log(nothing, nothing).shape == (0, 3)
    assert Softmax(3).log_predictive(nothing, nothing).shape == (0, 3)


def test_slopes_stay_finite_where_a_function_is_known() -> None:
    """By the variance, the slope of E log nu_k is -p (1 - p) / 2 in the limit: 0.125 for two that are even."""
    mean = torch.zeros(1, 2, dtype=torch.float64)
    variance = torch.full((1, 2), 1e-10, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(Softmax(2).expected_log(mean, variance)[0, 0], variance)
    np.testing.assert_allclose(slope, [[-0.125, -0.125]], rtol=0.05)


@pytest.mark.slow
def test_the_softmax_of_predictions_takes_bounded_memory() -> None:
    """20,000 rows of ten classes at 512 draws would be 800 MB at once."""
    resource = pytest.importorskip("resource", reason="no resource module here: memory is not measured")
    mean = torch.zeros(20_000, 10, dtype=torch.float64)
    likelihood = Softmax(10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with torch.no_grad():
        likelihood.log_predictive(mean, torch.ones_like(mean))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000 * (
        1024 if sys.platform == "darwin" else 1
    )  # kilobytes, on macOS bytes
