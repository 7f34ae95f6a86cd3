"""Naming of classes: known permutations, adversaries, components, gold."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.engines.moments import Cooccurrence
from crowdwise.engines.permutation import align_rows, best_names, name_classes

NONE = np.empty(0, np.int16)


def shuffled(confusion: np.ndarray, seed: int) -> np.ndarray:
    """Tables [A, L, K] whose true classes are in another order for every annotator."""
    rng = np.random.default_rng(seed)
    return np.stack([matrix.T[:, rng.permutation(len(matrix))] for matrix in confusion])


def mixed_confusion(n_classes: int = 3) -> np.ndarray:
    """Five honest annotators of different bias, three who answer the next class, two spammers."""
    rng = np.random.default_rng(5)
    honest = 0.6 * np.eye(n_classes) + 0.4 * rng.dirichlet(np.ones(n_classes), size=(5, n_classes))
    adversary = np.roll(diagonal_crowd(3, n_classes, 0.85), 1, axis=2)
    spammer = np.repeat(rng.dirichlet(np.ones(n_classes), size=(2, 1)), n_classes, axis=1)
    return np.concatenate([honest, adversary, spammer])


def test_best_names_inverts_a_known_permutation() -> None:
    order = np.array([2, 0, 1])
    agreement = np.eye(3)[order]  # latent class k is called order[k]
    assert best_names(agreement).tolist() == np.argsort(order).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_all_annotators_come_into_one_order_and_get_their_names(seed: int) -> None:
    confusion = mixed_confusion()
    votes, _ = crowd(seed, 4000, confusion, prior=[0.5, 0.3, 0.2])
    moments = Cooccurrence.of(votes)
    everyone = np.ones(10, bool)
    aligned = align_rows(shuffled(confusion, seed), moments, everyone)
    # One common order: undoing the order of the first annotator undoes that of everybody.
    orders = [best_names(aligned[a].T @ confusion[a].T) for a in range(5)]
    shares = np.array([0.5, 0.3, 0.2])[np.argsort(orders[0])]
    named, d = name_classes(aligned, shares, votes, NONE, _shares(votes), moments.component, everyone)
    # The two spammers have equal rows: any order is theirs.
    np.testing.assert_allclose(named.transpose(0, 2, 1), confusion, atol=1e-12)
    np.testing.assert_allclose(d, [0.5, 0.3, 0.2])


def test_adversaries_who_outvote_the_honest_do_not_name_the_classes() -> None:
    # Six weak honest annotators, four strong adversaries: most labels are wrong, most people are not.
    confusion = np.concatenate([diagonal_crowd(6, 3, 0.5), np.roll(diagonal_crowd(4, 3, 0.95), 1, axis=2)])
    votes, truth = crowd(0, 3000, confusion)
    assert (_shares(votes).argmax(axis=1) == truth).mean() < 0.4
    table = np.roll(confusion, 1, axis=1).transpose(0, 2, 1)
    named, _ = name_classes(table, np.full(3, 1 / 3), votes, NONE, _shares(votes), np.zeros(10, int), np.ones(10, bool))
    np.testing.assert_allclose(named.transpose(0, 2, 1), confusion)


def test_components_that_never_met_are_named_one_by_one() -> None:
    first, second = crowd(1, 500, diagonal_crowd(4, 3, 0.8))[0], crowd(2, 500, diagonal_crowd(4, 3, 0.7))[0]
    votes = Annotations.from_arrays(
        np.concatenate([first.item, second.item + 500]), np.concatenate([first.annotator, second.annotator + 4]),
        np.concatenate([first.label, second.label]),
    )  # fmt: skip
    moments = Cooccurrence.of(votes)
    assert len(set(moments.component[:4])) == len(set(moments.component[4:])) == 1
    assert moments.component[0] != moments.component[4]
    confusion = np.concatenate([diagonal_crowd(4, 3, 0.8), diagonal_crowd(4, 3, 0.7)]).transpose(0, 2, 1)
    turned = confusion.copy()
    turned[:4] = turned[:4][:, :, [1, 2, 0]]
    turned[4:] = turned[4:][:, :, [0, 2, 1]]
    named, _ = name_classes(turned, np.full(3, 1 / 3), votes, NONE, _shares(votes), moments.component, np.ones(8, bool))
    np.testing.assert_allclose(named, confusion)


def test_gold_names_classes_against_the_vote() -> None:
    votes, truth = crowd(3, 300, diagonal_crowd(4, 3, 0.85))
    known = np.full(300, -1, np.int16)
    known[:100] = (truth[:100] + 1) % 3
    table = diagonal_crowd(4, 3, 0.85).transpose(0, 2, 1)
    named, _ = name_classes(table, np.full(3, 1 / 3), votes, known, _shares(votes), np.zeros(4, int), np.ones(4, bool))
    np.testing.assert_allclose(named[0].argmax(axis=0), [2, 0, 1])


def _shares(votes: Annotations) -> np.ndarray:
    from crowdwise.kernels.numerics import vote_shares
    from crowdwise.parts.annotators.model import weight_of

    return vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes)
