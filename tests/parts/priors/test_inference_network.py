"""The inference network against dense Gaussians: features, joint distributions and divergences."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.distributions import MultivariateNormal, kl_divergence  # noqa: E402

from crowdwise.parts.priors.covariance import covariance  # noqa: E402
from crowdwise.parts.priors.inference_network import InferenceNetwork, RandomFeatures, gaussian_kl  # noqa: E402
from crowdwise.parts.priors.robust_max import RobustMax, Softmax  # noqa: E402


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def features(kind: str = "rbf", n_hidden: int = 10, n_classes: int = 3) -> RandomFeatures:
    torch.manual_seed(0)
    made = RandomFeatures(kind, 2, n_classes, n_hidden, 0.7).double()
    made.mean_kf.data = normal(1, n_classes, 2 * n_hidden)
    made.root_kff.data += 0.2 * normal(2, n_classes, 2 * n_hidden, 2 * n_hidden)
    made.log_variance.data.fill_(0.3)
    return made


def network(likelihood: torch.nn.Module | None = None, n_measured: int = 5, n_rows: int = 30) -> InferenceNetwork:
    kernel = covariance("rbf", 2, lengthscale=0.7, variance=1.5).double()
    return InferenceNetwork(features(), kernel, likelihood or RobustMax(), n_measured, normal(3, n_rows, 2))


def dense(made: RandomFeatures, rows: torch.Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """phi m and phi root root' phi' row by row from the definition."""
    x, frequency = rows.numpy() / 0.7, made.frequency_dh.detach().numpy()
    height = np.sqrt(np.exp(0.3) / frequency.shape[1])
    phi = np.array([np.concatenate([np.cos(row @ frequency), np.sin(row @ frequency)]) * height for row in x])
    root = np.tril(made.root_kff[k].detach().numpy())
    return phi @ made.mean_kf[k].detach().numpy(), phi @ root @ root.T @ phi.T


@pytest.mark.parametrize("kind", ["rbf", "matern"])
def test_features_of_drawn_frequencies_approach_the_covariance(kind: str) -> None:
    rows, n_hidden, n_times = normal(4, 6, 2).float(), 200, 100
    torch.manual_seed(0)
    with torch.no_grad():
        phi = [RandomFeatures(kind, 2, 1, n_hidden, 0.7).features(rows) for _ in range(n_times)]
        expected = covariance(kind, 2, lengthscale=0.7)(rows, rows)
    # A mean of cosines, each with a standard deviation of at most one.
    np.testing.assert_allclose(sum(p @ p.T for p in phi) / n_times, expected, atol=4 / np.sqrt(n_hidden * n_times))


def test_moments_and_joints_are_those_of_gaussian_weights() -> None:
    made, rows = features(), normal(5, 4, 2)
    with torch.no_grad():
        mean, variance = made.moments(rows)
        joint_mean, factor = made.joint(rows)
    for k in range(3):
        expected_mean, expected = dense(made, rows, k)
        np.testing.assert_allclose(mean[:, k], expected_mean, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(joint_mean[k], expected_mean, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(variance[:, k], np.diag(expected), rtol=1e-6)
        np.testing.assert_allclose(factor[k] @ factor[k].T, expected + 1e-6 * np.exp(0.3) * np.eye(4), rtol=1e-6, atol=1e-7)


def test_a_natural_step_of_size_one_solves_gaussian_regression() -> None:
    """For E log N(y; f, noise) the bound is quadratic: one full step lands on the exact posterior of w."""
    made, rows, noise = features(n_classes=1), normal(5, 40, 2), 0.3
    y = normal(9, 40, 1)
    with torch.no_grad():
        phi, (mean, _) = made.features(rows), made.moments(rows)
    made.natural_step(phi, (y - mean) / noise, torch.full((40, 1), -0.5 / noise, dtype=torch.float64), 1.0)
    precision = np.eye(20) + phi.numpy().T @ phi.numpy() / noise
    np.testing.assert_allclose(
        made.mean_kf[0].detach(), np.linalg.solve(precision, phi.numpy().T @ y[:, 0].numpy() / noise), atol=1e-9
    )
    root = made.root_kff[0].detach().numpy()
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(precision), atol=1e-9)
    np.testing.assert_array_equal(root, np.tril(root))


def test_natural_steps_raise_the_bound_of_known_labels() -> None:
    """sum E log nu - KL(q(w) || N(0, I)), with the KL by torch."""
    made, rows = network(), normal(5, 60, 2)
    made.posterior.mean_kf.data.zero_()
    made.posterior.root_kff.data.copy_(torch.eye(20).repeat(3, 1, 1))
    label = torch.nn.functional.one_hot((rows[:, 0] > 0.3).long() + (rows[:, 1] > 0.3).long(), 3).double()
    standard = MultivariateNormal(torch.zeros(20).double(), torch.eye(20).double())

    def bound() -> float:
        with torch.no_grad():
            total = (label * made.likelihood.expected_log(*made.posterior.moments(rows))).sum()
            q = MultivariateNormal(made.posterior.mean_kf, scale_tril=made.posterior.root_kff)
            return float(total - kl_divergence(q, standard).sum())

    bounds = [bound()]
    for _ in range(4):
        made.learn(rows, label, 1.0)
        bounds.append(bound())
    assert (np.diff(bounds) > -1e-6).all()
    assert bounds[-1] > bounds[0] + 50


def test_divergences_are_those_of_torchs_gaussians() -> None:
    made, points, before = network(), normal(6, 7, 2), features()
    before.mean_kf.data += 0.3
    eye = np.eye(7)
    with torch.no_grad():
        from_prior, from_before = (float(value) for value in made.divergence(points, before))
        prior_cov = made.covariance(points, points) + 1.5e-6 * torch.eye(7)
    prior = MultivariateNormal(torch.zeros(7, dtype=torch.float64), prior_cov)
    expected, expected_before = 0.0, 0.0
    for k in range(3):
        mean, cov = dense(made.posterior, points, k)
        q = MultivariateNormal(torch.tensor(mean), torch.tensor(cov + 1e-6 * np.exp(0.3) * eye))
        mean, cov = dense(before, points, k)
        q_before = MultivariateNormal(torch.tensor(mean), torch.tensor(cov + 1e-6 * np.exp(0.3) * eye))
        expected += float(kl_divergence(q, prior))
        expected_before += float(kl_divergence(q, q_before))
    assert from_prior == pytest.approx(expected, rel=1e-4)
    assert from_before == pytest.approx(expected_before, rel=1e-4)


def test_a_gaussian_is_nowhere_from_itself() -> None:
    """Zero, with a gradient of zero: a mirror step of one optimiser step does not feel where it came from."""
    made, points = network(), normal(6, 7, 2)
    mean, factor = made.posterior.joint(points)
    divergence = gaussian_kl(mean, factor, mean.detach(), factor.detach())
    assert float(divergence.detach()) == pytest.approx(0, abs=1e-9)
    for gradient in torch.autograd.grad(divergence, [made.posterior.mean_kf, made.posterior.frequency_dh]):
        assert float(gradient.abs().max()) < 1e-5


def test_no_more_points_are_compared_than_the_rank() -> None:
    made = network(n_measured=15).train()
    assert made(normal(7, 40, 2)).shape == (40, 3)
    assert len(made.points) == 20
    np.testing.assert_array_equal(made.points[:5], normal(7, 40, 2)[:5])
    pool = {tuple(row) for row in made.pool.tolist()}
    assert len({tuple(row) for row in made.points[5:].tolist()} & pool) == 15
    made(normal(7, 3, 2))
    assert len(made.points) == 18


def test_a_pool_smaller_than_the_measurement_set_is_taken_whole() -> None:
    made = network(n_measured=15, n_rows=2).train()
    made(normal(7, 3, 2))
    assert len(made.points) == 5


def test_the_same_point_many_times_is_met_with_jitter() -> None:
    made = network()
    assert torch.isfinite(made.divergence(torch.zeros(20, 2, dtype=torch.float64))[0])


def test_evaluation_answers_with_log_probabilities_of_draws() -> None:
    made, rows = network().eval(), normal(5, 4, 2)
    with torch.no_grad():
        proba = made(rows).exp()
    rng = np.random.default_rng(0)
    f = np.stack([rng.multivariate_normal(*dense(made.posterior, rows, k), 200_000) for k in range(3)], 2)
    share = np.stack([(f.argmax(2) == k).mean(axis=0) for k in range(3)], 1)
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-9)
    np.testing.assert_allclose(proba, share, atol=0.006)


@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
def test_gradients_of_the_objective_are_finite_differences(likelihood: str) -> None:
    made = network(RobustMax() if likelihood == "robust-max" else Softmax(3)).train()
    rows, q, before = normal(5, 4, 2), torch.softmax(normal(8, 4, 3), 1), features()
    before.mean_kf.data += 0.1

    def loss() -> torch.Tensor:
        torch.manual_seed(4)
        expected = made(rows)
        from_prior, from_before = made.divergence(made.points, before)
        return from_prior + 0.5 * from_before - 3 * (q * expected).sum()

    loss().backward()
    for name, parameter in made.named_parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for i in range(0, len(flat), max(1, len(flat) // 4)):
            kept, ends = float(flat[i]), []
            for step in (1e-5, -1e-5):
                flat[i] = kept + step
                ends.append(float(loss().detach()))
            flat[i] = kept
            assert float(gradient[i]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3, abs=1e-4), name
