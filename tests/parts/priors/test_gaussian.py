from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal

from crowdwise.parts.priors.gaussian import GaussianPrior
from crowdwise.parts.priors.logistic import log_softmax


def by_hand(scaled: np.ndarray, q_nk: np.ndarray, rows: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """MAP shares, means and covariance: one item in the middle per class, `rows` items of a unit covariance."""
    n_k = q_nk.sum(axis=0)
    mean = (q_nk.T @ scaled) / (n_k + 1)[:, None]
    scatter = rows * np.eye(scaled.shape[1])
    for k in range(q_nk.shape[1]):
        apart = scaled - mean[k]
        scatter += (apart * q_nk[:, [k]]).T @ apart + np.outer(mean[k], mean[k])
    return (n_k + 1) / (n_k + 1).sum(), mean, scatter / (len(scaled) + rows)


def minus_log_prior(share: np.ndarray, mean: np.ndarray, covariance: np.ndarray, rows: float) -> float:
    """Normal - inverse-Wishart density and one pseudo-count per share, up to constants."""
    inverse = np.linalg.inv(covariance)
    quadratic = sum(m @ inverse @ m for m in mean)
    return float((rows * np.linalg.slogdet(covariance)[1] + rows * np.trace(inverse) + quadratic) / 2 - np.log(share).sum())


@pytest.mark.parametrize("rows", [0.5, 4.0, 100.0])
def test_joint_density_and_penalty_are_those_of_the_matrices(rows: float) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(30, 4)) * [1, 5, 0.1, 2] + 7
    scaled = (table - table.mean(axis=0)) / table.std(axis=0)
    start = GaussianPrior.start(table, 3, rows)
    density, penalty = [], []
    for seed in (1, 2):
        q_nk = np.random.default_rng(seed).dirichlet(np.full(3, 0.5), 30)
        share, mean, covariance = by_hand(scaled, q_nk, rows)
        prior = start.update(q_nk)
        joint = np.stack([np.log(share[k]) + multivariate_normal(mean[k], covariance).logpdf(scaled) for k in range(3)], axis=1)
        density.append(prior.log_prob() - joint)
        penalty.append(prior.penalty() - minus_log_prior(share, mean, covariance, rows))
        raw = prior.raw_weights
        np.testing.assert_allclose(log_softmax(table @ raw[:-1] + raw[-1]), log_softmax(joint), atol=1e-8)
        np.testing.assert_allclose(prior.probability, share)
    # Constants are free, as long as they stay the same: of the whole data, over classes and rounds.
    np.testing.assert_allclose(density, density[0][0, 0], atol=1e-8)
    assert penalty[0] == pytest.approx(penalty[1], abs=1e-8)


def test_a_sparse_table_gives_what_the_same_dense_one_gives_with_one_scale() -> None:
    rng = np.random.default_rng(3)
    dense = rng.poisson(0.5, (80, 6)).astype(float)
    q_nk = rng.dirichlet(np.ones(2), 80)
    raw = GaussianPrior.start(csr_array(dense), 2, 6.0).update(q_nk).raw_weights
    common = np.sqrt(dense.var(axis=0).mean())
    share, mean, covariance = by_hand((dense - dense.mean(axis=0)) / common, q_nk, 6.0)
    joint = np.stack(
        [
            np.log(share[k]) + multivariate_normal(mean[k], covariance).logpdf((dense - dense.mean(axis=0)) / common)
            for k in range(2)
        ],
        axis=1,
    )
    np.testing.assert_allclose(log_softmax(dense @ raw[:-1] + raw[-1]), log_softmax(joint), atol=1e-6)
