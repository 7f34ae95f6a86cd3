"""Held-out votes and gold labels, and what labels tell of them."""

from __future__ import annotations

import tracemalloc

import numpy as np
from tests.methods.labels.helpers import crowd, diagonal_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.trust.choice.scoring import EXPONENTS, HeldOut, cross_fitted, tempered_score
from crowdwise.trust.heldout import deal


def small() -> Annotations:
    return Annotations.from_arrays([0, 0, 0, 1, 1, 1], ["a", "b", "c"] * 2, [0, 0, 1, 1, 1, 1], classes=[0, 1])


def by_hand(votes: Annotations, shares: np.ndarray, fold: np.ndarray) -> list[float]:
    """Votes of the other folds counted one by one, under shares and then under what votes make of them; K = 2."""
    found = []
    for e in range(votes.n_votes):
        others = [o for o in range(votes.n_votes) if fold[o] != fold[e]]
        classes = shares.copy()
        for _ in range(4):
            counts = np.zeros((3, 2, 2))
            for o in others:
                counts[votes.annotator[o], :, votes.label[o]] += classes[o]
            pooled = counts.sum(axis=0)
            pooled = (pooled + 1 / 2) / (pooled.sum(axis=1, keepdims=True) + 1)
            table = (counts + 2 * pooled) / (counts.sum(axis=2, keepdims=True) + 2)
            for o in others:
                joint = shares[o] * table[votes.annotator[o], :, votes.label[o]]
                classes[o] = joint / joint.sum()
        found.append(float(np.log(shares[e] @ table[votes.annotator[e], :, votes.label[e]])))
    return found


def test_votes_are_predicted_by_tables_of_the_other_folds() -> None:
    votes = small()
    held = HeldOut(votes, folds=3, seed=0)
    fold = deal(votes, 3, 0)
    np.testing.assert_array_equal(held.terms.fold, fold)
    shares = np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.2, 0.8], [0.3, 0.7], [0.5, 0.5]])
    np.testing.assert_allclose(cross_fitted(held.terms, shares), by_hand(votes, shares, fold))


def test_class_probabilities_are_as_sure_as_suits_the_other_folds() -> None:
    votes = small()
    held, fold = HeldOut(votes, folds=3, seed=0), deal(votes, 3, 0)
    # Every item has three votes, one of which is hidden at a time.
    assert held.terms.company.tolist() == [2.0] * 6
    shares = np.array([[0.99, 0.01], [0.1, 0.9], [0.999, 0.001], [0.01, 0.99], [0.9, 0.1], [0.5, 0.5]])
    tried = []
    for exponent in EXPONENTS:
        power = shares ** (1 / 2**exponent)
        tried.append(by_hand(votes, power / power.sum(axis=1, keepdims=True), fold))
    expected = []
    for e in range(6):
        others = [sum(row[o] for o in range(6) if fold[o] != fold[e]) for row in tried]
        expected.append(tried[int(np.argmax(others))][e])
    np.testing.assert_allclose(tempered_score(held.terms, shares), expected)
    # These shares are too sure: tempering pays.
    assert tempered_score(held.terms, shares).sum() > cross_fitted(held.terms, shares).sum()


def test_how_sure_a_candidate_is_does_not_decide() -> None:
    votes, truth = crowd(0, 600, diagonal_crowd(9, 2, 0.75))
    terms = HeldOut(votes, folds=9, seed=0).terms
    rng = np.random.default_rng(0)
    # Labels that are right as often as they say, and the same labels with eight votes taken for eight times the evidence.
    chance = rng.uniform(0.5, 1, 600)
    label = np.where(rng.random(600) < chance, truth, 1 - truth)
    wary = np.where(np.arange(2) == label[:, None], chance[:, None], 1 - chance[:, None])[terms.item]
    sure = wary**8 / (wary**8).sum(axis=1, keepdims=True)
    plain, fair = (score(terms, wary).mean() - score(terms, sure).mean() for score in (cross_fitted, tempered_score))
    assert plain > 0.005
    assert abs(fair) < plain / 10


def test_company_is_the_weight_that_the_fit_has_seen() -> None:
    votes = Annotations.from_arrays([0, 0, 0, 1, 1], [0, 1, 2, 0, 1], [0, 0, 1, 1, 1], [1.0, 2.0, 3.0, 1.0, 1.0])
    terms = HeldOut(votes, folds=5, seed=0).terms
    assert terms.company.tolist() == [5.0, 4.0, 3.0, 1.0, 1.0]


def test_true_labels_predict_better_than_noisy_ones() -> None:
    votes, truth = crowd(0, 200, diagonal_crowd(5, 3, 0.7))
    terms = HeldOut(votes, folds=5, seed=0).terms
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(200) < 0.1, rng.integers(0, 3, 200), truth)
    assert (
        cross_fitted(terms, np.eye(terms.n_classes)[truth[terms.item]]).mean()
        > cross_fitted(terms, np.eye(terms.n_classes)[noisy[terms.item]]).mean() + 0.02
    )


def test_other_names_of_the_classes_predict_as_well() -> None:
    votes, truth = crowd(0, 100, diagonal_crowd(5, 3, 0.7))
    terms = HeldOut(votes, folds=5, seed=0).terms
    swapped = np.array([2, 0, 1])[truth]
    np.testing.assert_allclose(
        cross_fitted(terms, np.eye(terms.n_classes)[swapped[terms.item]]),
        cross_fitted(terms, np.eye(terms.n_classes)[truth[terms.item]]),
    )


def test_a_weight_counts_as_repeated_votes() -> None:
    votes, truth = crowd(0, 40, diagonal_crowd(4, 2, 0.8))
    weight = np.where(np.arange(votes.n_votes) % 3 == 0, 2.0, 1.0)
    heavy = HeldOut(Annotations.from_arrays(votes.item, votes.annotator, votes.label, weight), folds=2, seed=0).terms
    plain = HeldOut(votes, folds=2, seed=0).terms
    for name in ("item", "annotator", "label", "fold"):
        setattr(plain, name, np.repeat(getattr(plain, name), weight.astype(int)))
    once, repeated = (
        cross_fitted(heavy, np.eye(heavy.n_classes)[truth[heavy.item]]),
        cross_fitted(plain, np.eye(plain.n_classes)[truth[plain.item]]),
    )
    np.testing.assert_allclose(once.sum(), repeated.sum())


def test_tables_of_a_large_crowd_on_many_classes_are_not_laid_out_in_full() -> None:
    rng = np.random.default_rng(0)
    item, label = np.repeat(np.arange(1000), 4), rng.integers(0, 100, 4000)
    terms = HeldOut(Annotations.from_arrays(item, rng.permutation(4000), label, classes=range(100)), folds=2, seed=0).terms
    shares = rng.dirichlet(np.ones(100), len(terms.item))
    tracemalloc.start()
    found = cross_fitted(terms, shares)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A table of 4000 x 100 x 100 numbers takes 320 MB. Nobody votes twice: the pooled table is all that is known of others.
    assert peak < 100e6
    other = np.flatnonzero(terms.fold != terms.fold[0])
    said, given = terms.label[other], shares[other]
    classes = given
    for _ in range(4):
        pooled = np.array([classes[said == label].sum(axis=0) for label in range(100)]).T
        pooled = (pooled + 1 / 100) / (pooled.sum(axis=1, keepdims=True) + 1)
        joint = given * (classes + 100 * pooled[:, said].T) / (classes + 100)
        classes = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[0], np.log(shares[0] @ pooled[:, terms.label[0]]))


def test_votes_without_weight_or_company_are_not_held_out() -> None:
    votes = Annotations.from_arrays([0, 0, 1, 2, 2], [0, 1, 0, 0, 1], [0, 1, 1, 0, 0], [1.0, 1.0, 1.0, 1.0, 0.0])
    assert HeldOut(votes, folds=2, seed=0).terms.item.tolist() == [0, 0, 2]


def test_gold_is_hidden_from_the_fit_that_is_asked_for_it_and_votes_as_one_more_annotator() -> None:
    votes, truth = crowd(0, 30, diagonal_crowd(4, 3, 0.8))
    votes = votes.with_gold({n: int(truth[n]) for n in range(10)})
    held = HeldOut(votes, folds=5, seed=1)
    terms = held.terms
    assert terms.annotator[-10:].tolist() == [4] * 10
    assert terms.label[-10:].tolist() == truth[:10].tolist()
    asked = []
    for number in range(5):
        part = held.part(number)
        assert part.gold is not None
        assert votes.gold is not None
        hidden = np.flatnonzero((part.gold < 0) & (votes.gold >= 0))
        assert hidden.tolist() == sorted(terms.item[-10:][terms.fold[-10:] == number].tolist())
        asked += hidden.tolist()
        assert part.n_votes == votes.n_votes - int((terms.fold[:-10] == number).sum())
    assert sorted(asked) == list(range(10))
