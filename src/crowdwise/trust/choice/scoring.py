"""How much the class probabilities of a candidate say about votes that it has not seen.

    p(y_e | the other votes) = sum_k q_nk T_a[k, y_e]   q_n: the candidate's posterior of item n, fitted without vote e,
                                                        to the power 1 / (votes of n in that fit)^gamma
    T_a[k, l] = (C_akl + K T[k, l]) / (C_ak. + K)       C: held-out votes of the other folds, counted under q, and then
    T[k, l]   = (sum_a C_akl + 1 / K) / (sum_a C_ak. + 1)   three times under q_nk T_a[k, y_e], normalised over k (EM)

People who vote on the same item share mistakes, so that posteriors of models of independent annotators are too sure, the more
so the more votes there are: how sure is a matter of one number gamma, by which labels should not be judged. Each candidate
gets the gamma of a grid under which it predicts the votes of the other folds best (`tempered_score`).

Tables that are only counted under q are those of an annotator who mixes up the classes wherever q is unsure, so that the
surer of two equally right candidates would win; the rounds of EM end that.

The tables are made in the same way for every candidate and of held-out votes, too (cross-fitting): posteriors are judged, not
the form in which a method keeps its annotators. A gold label that was hidden from the fit is a vote of one more annotator, who
has a table of his own: a natural logarithm of a probability, like all the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.numerics import segment_sum, tempered
from crowdwise.kernels.types import Array, Floats, Integers
from crowdwise.trust.heldout import deal

__all__ = ["EXPONENTS", "HeldOut", "Terms", "cross_fitted", "tempered_score"]

EXPONENTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


_FLOOR = 1e-12
# Of EM on the tables; ten change the mean accuracy of the choices by less than 0.05 points.
_ROUNDS = 3


class Terms:
    """Votes and gold labels that are held out, one after the other.

    Attributes
    ----------
    item, annotator, label, fold : [H]
        Gold labels come last, as votes of an annotator with the code A.
    weight : [H] or None
    company : [H]
        Votes on the item, or their weight, in the fit that has not seen the term.
    n_annotators, n_classes : int
        Sizes of the tables: A + 1 and K.
    """

    def __init__(self, votes: Annotations, index: Integers, known: Integers, vote_fold: Integers, gold_fold: Integers) -> None:
        gold = np.empty(0, np.int64) if votes.gold is None else votes.gold[known]
        self.item = np.concatenate([votes.item[index], known]).astype(np.int64)
        self.annotator = np.concatenate([votes.annotator[index], np.full(len(known), votes.n_annotators)]).astype(np.int64)
        self.label = np.concatenate([votes.label[index], gold]).astype(np.int64)
        self.fold = np.concatenate([vote_fold, gold_fold]).astype(np.int64)
        self.weight = None if votes.weight is None else np.concatenate([votes.weight[index], np.ones(len(known))])
        mass = segment_sum(votes.item, votes.weight, votes.n_items)
        folds = int(self.fold.max(initial=-1)) + 1
        weight = None if votes.weight is None else votes.weight[index]
        hidden = segment_sum(votes.item[index] * folds + vote_fold, weight, votes.n_items * folds)
        self.company = mass[self.item] - hidden[self.item * folds + self.fold]
        self.n_annotators, self.n_classes = votes.n_annotators + 1, votes.n_classes


def tempered_score(terms: Terms, shares: Array, rounds: int = _ROUNDS) -> Floats:
    """As `cross_fitted`, with class probabilities as sure as suits the votes of the other folds."""
    company = np.maximum(terms.company, 1.0)
    tried = np.array([cross_fitted(terms, tempered(shares, company**exponent), rounds) for exponent in EXPONENTS])
    log_prob = np.empty(len(terms.item))
    for number in range(int(terms.fold.max(initial=-1)) + 1):
        own = terms.fold == number
        log_prob[own] = tried[int(tried[:, ~own].sum(axis=1).argmax())][own]
    return log_prob


def cross_fitted(terms: Terms, shares: Array, rounds: int = _ROUNDS) -> Floats:
    """Log-probability of every term, [H], from class probabilities of its item, [H, K], by fits without it."""
    n_classes = terms.n_classes
    # Only pairs of annotator and label that occur are kept, P of them: all A K K numbers are too many for large crowds.
    pairs, pair = np.unique(terms.annotator * n_classes + terms.label, return_inverse=True)
    person, said = np.divmod(pairs, n_classes)
    _, first, person = np.unique(person, return_index=True, return_inverse=True)

    def tables(classes: Floats, part: Integers) -> Floats:
        counts = _counts(terms, classes, pair, len(pairs), part)
        pooled = np.array([np.bincount(said, row, minlength=n_classes) for row in counts])
        pooled = (pooled + 1 / n_classes) / (pooled.sum(axis=1, keepdims=True) + 1)
        given = np.add.reduceat(counts, first, axis=1)[:, person]
        return np.ascontiguousarray(((counts + n_classes * pooled[:, said]) / (given + n_classes)).T)

    log_prob = np.empty(len(terms.item))
    for number in range(int(terms.fold.max(initial=-1)) + 1):
        own, others = np.flatnonzero(terms.fold == number), np.flatnonzero(terms.fold != number)
        table = tables(shares[others], others)
        for _ in range(rounds):
            joint = shares[others] * table[pair[others]]
            table = tables(joint / np.maximum(joint.sum(axis=1, keepdims=True), _FLOOR), others)
        chance = (shares[own] * table[pair[own]]).sum(axis=1)
        log_prob[own] = np.log(np.maximum(chance, _FLOOR))
    return log_prob if terms.weight is None else terms.weight * log_prob


def _counts(terms: Terms, classes: Array, pair: Integers, n_pairs: int, part: Integers) -> Floats:
    """Votes of `part`, whose class probabilities are `classes`, by class and by pair of annotator and label, [K, P]."""
    weight = 1.0 if terms.weight is None else terms.weight[part]
    return np.array([np.bincount(pair[part], weight * share, minlength=n_pairs) for share in classes.T])


class HeldOut:
    """What is held out of which fold of label-only fits: votes, and gold labels in turn.

    Attributes
    ----------
    terms : Terms
    """

    def __init__(self, votes: Annotations, folds: int, seed: int) -> None:
        self._votes = votes
        dealt = deal(votes, folds, seed)
        if votes.weight is not None:
            dealt = np.where(votes.weight > 0, dealt, -1)
        self._vote_fold = dealt
        index = np.flatnonzero(dealt >= 0)
        self._known = np.empty(0, np.int64) if votes.gold is None else np.flatnonzero(votes.gold >= 0)
        self._gold_fold = np.random.default_rng(seed).permutation(len(self._known)) % folds
        self.terms = Terms(votes, index, self._known, dealt[index], self._gold_fold)

    def part(self, number: int) -> Annotations:
        """Votes and gold labels that are left to fit to."""
        part = self._votes.take_votes(self._vote_fold != number)
        if self._votes.gold is None:
            return part
        gold = self._votes.gold.copy()
        gold[self._known[self._gold_fold == number]] = -1
        return replace(part, gold=gold)

    def shares(self, fit: Callable[[Annotations], Floats], number: int) -> Floats:
        """Class probabilities of the items of fold `number`'s terms, [n, K], by a function from votes to a posterior."""
        return np.asarray(fit(self.part(number))[self.terms.item[self.terms.fold == number]])
