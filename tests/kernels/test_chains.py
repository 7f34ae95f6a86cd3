from __future__ import annotations

import numpy as np
import pytest
from tests.methods.tags.oracle import enumerate_chain

from crowdwise.kernels.chains import Steps, best_path, forward_backward


def chain(seed, n_states=3, forbid=True):
    rng = np.random.default_rng(seed)
    initial, transition = rng.dirichlet(np.ones(n_states)), rng.dirichlet(np.ones(n_states), n_states)
    if forbid:
        initial[2] = transition[0, 2] = 0.0
    return rng, initial, transition


@pytest.mark.parametrize("seed", range(5))
def test_sums_over_all_paths_equal_enumeration(seed):
    rng, initial, transition = chain(seed)
    pointer = np.array([0, 4, 4, 5, 10])
    emission = rng.random((10, 3))
    steps = Steps.of(pointer)
    got = forward_backward(initial, transition, emission, steps)
    path = best_path(initial, transition, emission, steps)
    evidence, pairs, first = 0.0, np.zeros((3, 3)), np.zeros(3)
    for start, stop in ((0, 4), (4, 5), (5, 10)):
        total, posterior, two, best = enumerate_chain(initial, transition, emission[start:stop])
        evidence += np.log(total)
        pairs += two
        first += posterior[0]
        np.testing.assert_allclose(got.posterior[start:stop], posterior, atol=1e-12)
        assert tuple(path[start:stop]) == best
    assert got.log_evidence == pytest.approx(evidence, abs=1e-10)
    np.testing.assert_allclose(got.pairs_jk, pairs, atol=1e-12)
    np.testing.assert_allclose(got.first_k, first, atol=1e-12)


def test_weights_that_do_not_sum_to_one_are_summed_as_they_are():
    rng, initial, transition = chain(7)
    emission = rng.random((4, 3))
    total, posterior, _, _ = enumerate_chain(0.3 * initial, 0.5 * transition, emission)
    got = forward_backward(0.3 * initial, 0.5 * transition, emission, Steps.of(np.array([0, 4])))
    assert got.log_evidence == pytest.approx(np.log(total), abs=1e-10)
    np.testing.assert_allclose(got.posterior, posterior, atol=1e-12)


def test_overwhelming_evidence_for_what_is_forbidden_stays_finite():
    _, initial, transition = chain(1)
    emission = np.zeros((40, 3))
    emission[:, 2] = 1.0
    got = forward_backward(initial, transition, emission, Steps.of(np.array([0, 1, 40])))
    assert np.isfinite(got.posterior).all()
    np.testing.assert_allclose(got.posterior.sum(axis=1), 1.0)
    assert got.posterior[0, 2] == 0 == got.posterior[1, 2]
    assert best_path(initial, transition, emission, Steps.of(np.array([0, 1, 40])))[0] != 2


def test_no_tokens_at_all():
    got = forward_backward(np.ones(2) / 2, np.ones((2, 2)) / 2, np.empty((0, 2)), Steps.of(np.array([0, 0])))
    assert got.log_evidence == 0.0
    assert got.posterior.shape == (0, 2)
