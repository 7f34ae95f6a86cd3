from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from crowdwise.parts.priors.scaling import Scaling, principal_axes


def test_dense_columns_get_mean_zero_and_deviation_one() -> None:
    table = np.random.default_rng(0).normal(5, 3, (50, 4))
    scaled = Scaling.of(table).apply(table)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), 1)


def test_a_constant_column_becomes_zeros_and_is_not_blown_up_by_rounding() -> None:
    table = np.column_stack([np.full(7, 0.1), np.full(7, 0.0), np.arange(7.0)])
    scaled = Scaling.of(table).apply(table)
    np.testing.assert_allclose(scaled[:, :2], 0, atol=1e-15)


def test_a_sparse_table_is_divided_by_one_number_and_stays_sparse() -> None:
    rng = np.random.default_rng(0)
    table = csr_array(rng.random((40, 6)) * (rng.random((40, 6)) < 0.3))
    scaled = Scaling.of(table).apply(table)
    assert scaled.nnz == table.nnz
    ratio = scaled.data / table.data
    np.testing.assert_allclose(ratio, ratio[0])
    np.testing.assert_allclose(scaled.toarray().var(axis=0).mean(), 1)


@pytest.mark.parametrize("sparse", [False, True])
def test_weights_for_scaled_columns_turn_into_weights_for_the_table(sparse: bool) -> None:
    rng = np.random.default_rng(1)
    dense = rng.normal(2, 5, (30, 3)) * (rng.random((30, 3)) < 0.5)
    table = csr_array(dense) if sparse else dense
    scaling, weights = Scaling.of(table), rng.normal(size=(4, 2))
    raw = scaling.raw_weights(weights)
    np.testing.assert_allclose(dense @ raw[:-1] + raw[-1], scaling.apply(table) @ weights[:-1] + weights[-1])


@pytest.mark.parametrize("kind", ["exact", "wide", "sparse"])
def test_principal_axes_are_those_of_the_singular_value_decomposition(kind: str) -> None:
    rng = np.random.default_rng(2)
    n_columns = 2100 if kind == "wide" else 12
    # Well separated variances, so that the axes are determined.
    dense = rng.normal(size=(60, 5)) @ (np.diag([20.0, 10, 5, 2, 1]) @ rng.normal(size=(5, n_columns))) + 3
    axes, variance, mean = principal_axes(csr_array(dense) if kind == "sparse" else dense, 3)
    _, singular, turn = np.linalg.svd(dense - dense.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(mean, dense.mean(axis=0))
    np.testing.assert_allclose(variance, singular[:3] ** 2 / 60, rtol=1e-6)
    np.testing.assert_allclose(np.abs(turn[:3] @ axes), np.eye(3), atol=1e-5)


def test_there_are_never_more_axes_than_rows_or_columns() -> None:
    assert principal_axes(np.random.default_rng(0).normal(size=(3, 8)), 20)[0].shape == (8, 3)
    assert principal_axes(np.random.default_rng(0).normal(size=(8, 2)), 20)[0].shape == (2, 2)
