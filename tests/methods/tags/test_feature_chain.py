"""A conditional random field as the prior of tags: by enumeration, by finite differences, and on words that tell."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from tests.methods.tags.oracle import enumerate_chain

from crowdwise.data.simulate.tokens import simulate_tags
from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import ConvergenceWarning, SettingError
from crowdwise.estimator.registry import make
from crowdwise.kernels.chains import Steps, forward_backward
from crowdwise.methods.tags.feature_chain import FeatureChain, loss
from crowdwise.methods.tags.word_features import word_features

POINTER = np.array([0, 4, 7])
# Tag 2 may not begin a sequence, nor follow tag 0.
ALLOWED = np.array([[True, True, False], [True, True, True], [True, True, True], [True, True, False]])


def random_chain(seed: int) -> tuple[FeatureChain, np.random.Generator]:
    """Seven tokens in two sequences, five features, and weights by chance."""
    rng = np.random.default_rng(seed)
    features = scipy.sparse.csr_matrix((rng.random((7, 5)) < 0.5).astype(float))
    chain = FeatureChain.start(ALLOWED, features, Steps.of(POINTER), decay=0.3)
    # Any step of the fit: weights that are neither 0 nor the best.
    counts, posterior = rng.random((4, 3)) * ALLOWED, rng.dirichlet(np.ones(3), 7)
    return chain.update(counts, posterior), rng


@pytest.mark.parametrize("seed", range(3))
def test_sums_equal_enumeration_with_votes_and_without(seed: int) -> None:
    chain, rng = random_chain(seed)
    evidence = rng.random((7, 3))
    found = forward_backward(*chain.weights(), chain.tilt(evidence), chain.steps)
    initial, transition = (np.exp(part) for part in (chain.table_jk[-1], chain.table_jk[:-1]))
    initial, transition = initial * ALLOWED[-1], transition * ALLOWED[:-1]
    score = np.exp(chain.features.toarray() @ chain.weight_fk)
    gained = 0.0
    for start, stop in pairwise(POINTER):
        free, alone, _, _ = enumerate_chain(initial, transition, score[start:stop])
        total, posterior, _, _ = enumerate_chain(initial, transition, (score * evidence)[start:stop])
        np.testing.assert_allclose(chain.free.posterior[start:stop], alone, atol=1e-12)
        np.testing.assert_allclose(found.posterior[start:stop], posterior, atol=1e-12)
        gained += np.log(total) - np.log(free)
    # The log-evidence of the votes: sums with them less sums without, which the penalty holds beside the prior.
    prior = 0.15 * ((chain.weight_fk**2).sum() + (chain.table_jk**2).sum())
    assert found.log_evidence - chain.penalty() + prior == pytest.approx(gained, abs=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_that_of_finite_differences(seed: int) -> None:
    chain, rng = random_chain(seed)
    counts, posterior = rng.random((4, 3)) * ALLOWED, rng.dirichlet(np.ones(3), 7)
    at = 0.5 * rng.normal(size=chain.weight_fk.size + chain.table_jk.size)
    _, gradient = loss(at, chain, counts, posterior)
    for k, step in enumerate(1e-5 * np.eye(len(at))):
        above, below = (loss(at + sign * step, chain, counts, posterior)[0] for sign in (1, -1))
        assert gradient[k] == pytest.approx((above - below) / 2e-5, abs=1e-5)


def test_features_of_a_word_are_what_is_said_of_it() -> None:
    words = ["Ada", "met", "Ada", "Ada"]
    tags = TokenVotes.from_arrays([1, 1, 1, 2], [1, 2, 3, 1], ["x"] * 4, ["O"] * 4, token=words)
    found = word_features(tags).toarray()
    # Only what two tokens have in common is kept: any, word=ada, two ends, shape Aa, and neighbours: before= and before shape=
    # (the first tokens), after= and after shape= (the last ones).
    assert found.shape == (4, 9)
    assert found.sum(axis=1).tolist() == [7, 1, 7, 9]


def with_words(n_sequences: int, seed: int) -> tuple[TokenVotes, np.ndarray]:
    """Simulated tags whose words depend on the true tag: one of 30 for each."""
    tags, truth = simulate_tags(n_sequences, 6, random_state=seed)
    words = [f"w{tag}{np.random.default_rng(seed + n).integers(30)}" for n, tag in enumerate(truth)]
    frame = tags.votes
    rows = frame.item
    return TokenVotes.from_arrays(
        tags.sequence[rows], tags.position[rows], frame.annotators[frame.annotator], frame.classes[frame.label],
        token=[words[n] for n in rows],
    ), np.asarray(truth)  # fmt: skip


@pytest.mark.parametrize("name", ["hmm-crowd", "bsc"])
def test_the_bound_never_falls(name: str) -> None:
    tags, _ = with_words(12, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trace = make(name, features="words", tol=0, max_iter=25).fit(tags).trace_
    assert (np.diff(trace) > -1e-8 * abs(trace[-1])).all()


@pytest.mark.parametrize("name", ["hmm-crowd", "bsc"])
def test_words_that_tell_their_tags_help(name: str) -> None:
    tags, truth = with_words(60, 1)

    def right(**settings: Any) -> float:
        return float((make(name, tol=1e-3, **settings).fit(tags).labels_ == truth).mean())

    assert right(features="words") > right() + 0.005


def test_without_words_there_are_no_features() -> None:
    tags, _ = simulate_tags(5, 3, random_state=0)
    with pytest.raises(SettingError, match=r'features="words" needs the words'):
        make("hmm-crowd", features="words").fit(tags)
