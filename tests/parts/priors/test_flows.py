"""Planar flows against autograd, quadrature and their inverse; the process that they bend against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.extra.numpy import arrays  # noqa: E402

from crowdwise.parts.priors.covariance import covariance  # noqa: E402
from crowdwise.parts.priors.flow_gp import FlowGP  # noqa: E402
from crowdwise.parts.priors.flows import PlanarFlows  # noqa: E402
from crowdwise.parts.priors.robust_max import RobustMax, Softmax  # noqa: E402


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def flows(n_layers: int = 3, n_flows: int = 2, width: int = 4, seed: int = 0) -> PlanarFlows:
    made = PlanarFlows(n_layers, n_flows, width).double()
    for number, parameter in enumerate(made.parameters()):
        parameter.data = normal(seed + number, *parameter.shape)
    return made


def any_floats(*shape: int, bound: float = 50.0) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, shape, elements=st.floats(-bound, bound, allow_nan=False))


# -- flows ------------------------------------------------------------------------------------


def test_a_new_flow_is_the_identity() -> None:
    points = normal(1, 6, 2, 4)
    mapped, log_det = PlanarFlows(3, 2, 4).double()(points)
    np.testing.assert_allclose(mapped.detach(), points, atol=1e-15)
    np.testing.assert_allclose(log_det.detach(), 0, atol=1e-15)


def test_log_determinants_are_those_of_the_jacobian() -> None:
    made, points = flows(), normal(1, 6, 2, 4)
    _, log_det = made(points)
    for s in range(6):
        whole = torch.autograd.functional.jacobian(lambda x: made(x[None])[0][0], points[s])
        for k in range(2):
            assert float(torch.linalg.slogdet(whole[k, :, k])[1]) == pytest.approx(float(log_det[s, k].detach()), abs=1e-10)
            assert float(whole[k, :, 1 - k].abs().max()) == 0


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(any_floats(3, 1, 4), any_floats(3, 1, 4), any_floats(3, 1), any_floats(5, 1, 4))
def test_flows_are_invertible_whatever_their_parameters(
    weight: np.ndarray, push: np.ndarray, bias: np.ndarray, points: np.ndarray
) -> None:
    made = PlanarFlows(3, 1, 4).double()
    for parameter, value in zip(made.parameters(), (weight, push, bias), strict=True):
        parameter.data = torch.tensor(value)
    with torch.no_grad():
        mapped, log_det = made(torch.tensor(points))
        assert torch.isfinite(log_det).all()
        assert all(float(room.min()) > 0 for _, _, room, _ in made._layers())
        # Undoing a squeeze magnifies rounding by as much.
        magnified = float(np.prod([1 + float((push.norm() / room).max()) for _, push, room, _ in made._layers()]))
        scale = 1 + float(mapped.abs().max()) + float(np.abs(bias).max())
        np.testing.assert_allclose(made.inverse(mapped), points, atol=1e-14 * magnified * scale)


def test_the_inverse_undoes_the_flow() -> None:
    made, points = flows(), normal(1, 50, 2, 4)
    np.testing.assert_allclose(made.inverse(made(points)[0]).detach(), points, atol=1e-12)
    np.testing.assert_allclose(made(made.inverse(points))[0].detach(), points, atol=1e-12)


@pytest.mark.parametrize("weight", [0.0, 5e-324, 1e-200, 1e200])
def test_weights_of_any_length_leave_room(weight: float) -> None:
    made = flows(1, 1, 2)
    made.weight_lkm.data = torch.tensor([[[weight, 0.0]]], dtype=torch.float64)
    made.push_lkm.data = torch.tensor([[[-30.0, 1.0]]], dtype=torch.float64)
    points = normal(3, 20, 1, 2)
    mapped, log_det = made(points)
    assert torch.isfinite(log_det).all()
    np.testing.assert_allclose(made.inverse(mapped).detach(), points, atol=1e-9)


def test_a_bent_density_integrates_to_one() -> None:
    """p(y) = N(inverse(y)) / |det| on a line."""
    made = flows(3, 1, 1)
    grid = torch.linspace(-60, 60, 200_001, dtype=torch.float64)[:, None, None]
    with torch.no_grad():
        before = made.inverse(grid)
        log_p = -before[:, 0, 0].square() / 2 - np.log(2 * np.pi) / 2 - made(before)[1][:, 0]
    assert float(torch.trapezoid(log_p.exp(), grid[:, 0, 0])) == pytest.approx(1, abs=1e-4)


def test_moving_a_bend_changes_the_mean_log_determinant() -> None:
    """a ~ N(0, 1): d/db E log |det| = phi(b) (log room - log(1 + 0.01 (room - 1))), which single samples do not show."""
    made = flows(1, 1, 1)
    made.weight_lkm.data, made.bias_lk.data = torch.ones(1, 1, 1, dtype=torch.float64), torch.tensor([[0.4]]).double()
    draws = torch.tensor(np.random.default_rng(0).normal(size=(100_000, 1, 1)))
    room = float(made._layers()[0][2].detach())
    expected = np.exp(-0.08) / np.sqrt(2 * np.pi) * (np.log(room) - np.log(1 + 0.01 * (room - 1)))
    made(draws)[1].mean().backward()
    assert float(made.bias_lk.grad) == pytest.approx(expected, rel=0.02)
    made.smooth, made.bias_lk.grad = False, torch.zeros(1, 1).double()
    made(draws)[1].mean().backward()
    assert float(made.bias_lk.grad) == 0


# -- the process ------------------------------------------------------------------------------


def process(likelihood: torch.nn.Module | None = None, n_draws: int = 4, rest: bool = False) -> FlowGP:
    torch.manual_seed(0)
    kernel = covariance("rbf", 2, lengthscale=0.7, variance=1.5).double()
    made = FlowGP(kernel, likelihood or RobustMax(), normal(5, 5, 2), 3, 2, n_draws).double()
    made.mean_km.copy_(normal(6, 3, 5))
    made.root_kmm.copy_(torch.triu(0.3 * normal(7, 3, 5, 5)) + 0.5 * torch.eye(5))
    made.shift_km.data, made.log_scale_km.data = 0.3 * normal(8, 3, 5), 0.3 * normal(9, 3, 5)
    if not rest:
        for number, parameter in enumerate(made.flows.parameters()):
            parameter.data = normal(10 + number, *parameter.shape)
    made.flowing.fill_(True)
    return made


def base_of(made: FlowGP, k: int) -> torch.distributions.MultivariateNormal:
    mean = made.mean_km[k] + made.root_kmm[k] @ made.shift_km[k]
    root = made.root_kmm[k] * made.log_scale_km[k].exp()
    return torch.distributions.MultivariateNormal(mean, root @ root.T)


PRIOR = torch.distributions.MultivariateNormal(torch.zeros(5, dtype=torch.float64), torch.eye(5, dtype=torch.float64))


def test_the_kl_of_resting_flows_is_that_of_two_gaussians() -> None:
    made = process(rest=True)
    expected = sum(float(torch.distributions.kl_divergence(base_of(made, k), PRIOR).detach()) for k in range(3))
    assert float(made.base_kl().detach()) == pytest.approx(expected, rel=1e-9)
    base, values, log_det = (part.detach() for part in made.bent(made._noise(2000, None)))
    assert float(made.divergence_of(base, values, log_det).detach()) == pytest.approx(expected, rel=1e-9)
    # The definition, by draws of the base alone: a Monte-Carlo estimate of the same number.
    each = sum(base_of(made, k).log_prob(base[:, k]) - PRIOR.log_prob(values[:, k]) - log_det[:, k] for k in range(3))
    assert float(each.mean().detach()) == pytest.approx(expected, abs=4 * float(each.std().detach()) / np.sqrt(2000))


def test_the_kl_of_bent_values_is_its_definition_by_draws() -> None:
    """E log q0(v0) - log |det| - log p(v), with draws of its own."""
    made = process()
    with torch.no_grad():
        divergence = float(made.divergence_of(*made.bent(normal(20, 40_000, 3, 5))))
        base, values, log_det = made.bent(normal(21, 40_000, 3, 5))
        each = sum(base_of(made, k).log_prob(base[:, k]) - PRIOR.log_prob(values[:, k]) - log_det[:, k] for k in range(3))
    assert divergence == pytest.approx(float(each.mean()), abs=6 * float(each.std()) / 200)
    assert abs(divergence - float(made.base_kl().detach())) > 1


@pytest.mark.slow
@pytest.mark.parametrize("rest", [True, False])
def test_expected_log_likelihoods_are_those_of_draws_of_the_functions(rest: bool) -> None:
    made, x = process(rest=rest, n_draws=1000), normal(30, 4, 2)
    with torch.no_grad():
        got = made.train()(x)
        values = made.bent(normal(31, 200_000, 3, 5))[1]
        b = made._projection(x)
        left = (1.5 - b.square().sum(1)).clamp(min=0).sqrt()
        f = torch.einsum("bm,skm->sbk", b, values) + left[:, None] * normal(32, 200_000, 4, 3)
        share = torch.nn.functional.one_hot(f.argmax(2), 3).double().mean(0)
    expected = share * np.log(1 - 1e-3) + (1 - share) * np.log(1e-3 / 2)
    # ln(2000) = 7.6 times the error of a share, which plain draws would make four times as large.
    np.testing.assert_allclose(got, expected, atol=7.6 * 0.5 / np.sqrt(1000))
    with torch.no_grad():
        log_p = made.eval()(x)
    np.testing.assert_allclose(log_p.exp().sum(1), 1, atol=1e-9)
    np.testing.assert_allclose(log_p.exp(), share, atol=0.15)


def test_predictions_are_the_rows_own() -> None:
    made, x = process().eval(), normal(30, 6, 2)
    with torch.no_grad():
        np.testing.assert_allclose(made(x)[2:3], made(x[2:3]), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
def test_gradients_of_the_bound_are_finite_differences(likelihood: str) -> None:
    made = process(RobustMax() if likelihood == "robust-max" else Softmax(3)).train()
    made.flows.smooth = False
    x, q = normal(30, 4, 2), torch.softmax(normal(33, 4, 3), 1)

    def loss() -> torch.Tensor:
        torch.manual_seed(4)
        expected = made(x)
        return made.divergence - (q * expected).sum()

    loss().backward()
    for name, parameter in made.named_parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for i in range(0, len(flat), max(1, len(flat) // 4)):
            kept = float(flat[i])
            ends = []
            for step in (1e-6, -1e-6):
                flat[i] = kept + step
                ends.append(float(loss().detach()))
            flat[i] = kept
            assert float(gradient[i]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=2e-5), name
