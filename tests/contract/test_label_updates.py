"""Label-only methods that continue: new votes, new classes, a warm start."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.contract.labels import easy_fit, fit, is_sound, iterative, many, method, online_too, same, tight
from tests.methods.labels.helpers import (
    ALL,
    ITERATIVE,
    ORDERED,
    crowd,
    diagonal_crowd,
    quiet,
    slow_unless_classic,
)

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make

# -- keeping on -----------------------------------------------------------------------------------


def halves(kind: str) -> tuple[Annotations, Annotations]:
    """First and later votes of a crowd large enough to have one fixed point to come back to."""
    votes, _ = crowd(11, 100, diagonal_crowd(6, 3, 0.8))
    later = {
        "new items": votes.item >= 75,
        "new annotators": votes.annotator >= 4,
        "new votes on old items": (votes.item + votes.annotator) % 3 == 0,
        "all": (votes.item >= 80) | (votes.annotator >= 5) | ((votes.item + votes.annotator) % 5 == 0),
    }[kind]
    names = [np.array([f"i{n:03d}" for n in votes.item]), np.array([f"a{a}" for a in votes.annotator]), votes.label]
    first, second = (Annotations.from_arrays(*(column[keep] for column in names)) for keep in (~later, later))
    return first, second


# Each kind alone for one method that counts, one with point estimates and one with counts of the posterior.
ALONE = [
    (name, kind)
    for name in ("majority", "dawid-skene", "bayes-gc")
    for kind in ("new items", "new annotators", "new votes on old items")
]


@pytest.mark.parametrize(("name", "kind"), [*ALONE, *(pytest.param(name, "all", marks=pytest.mark.slow) for name in ALL)])
def test_update_ends_where_a_full_fit_ends(name: str, kind: str, tmp_path: Path) -> None:
    first, second = halves(kind)
    full = fit(name, first.concat(second), **tight(name))
    model = fit(name, first, **tight(name))
    model.result_.save(tmp_path)
    reopened = crowdwise.load(tmp_path)
    with quiet():
        model.update(second)
        reopened.update(second)
    np.testing.assert_allclose(model.posterior_, full.posterior_, atol=1e-6)
    np.testing.assert_allclose(model.prior_, full.prior_, atol=1e-6)
    np.testing.assert_allclose(model.confusion_, full.confusion_, atol=1e-5)
    assert model.result_.votes.n_votes == full.result_.votes.n_votes
    same(model, reopened)


# Updates by many votes are above, for every method; here only that several add up.
@pytest.mark.parametrize("name", ["majority", "dawid-skene", "bayes-gc", "glad"])
def test_update_one_item_at_a_time_equals_one_fit(name: str) -> None:
    votes, _ = crowd(12, 24, diagonal_crowd(5, 2, 0.85))
    full = fit(name, votes, **tight(name))
    model = fit(name, votes[:22], **tight(name))
    for n in (22, 23):
        with quiet():
            model.update(votes[[n]])
    np.testing.assert_allclose(model.posterior_, full.posterior_, atol=1e-6)


@method
def test_update_with_gold_keeps_the_gold_of_before(name: str, easy: Annotations) -> None:
    wrong = {n: int((label + 1) % 3) for n, label in enumerate(easy_fit(name).labels_[:4])}
    first, later = {n: wrong[n] for n in (0, 1)}, {n: wrong[n] for n in (2, 3)}
    model = fit(name, easy[:20], gold=first, **tight(name))
    with quiet():
        model.update(easy[20:], gold=later)
    full = fit(name, easy, gold=wrong, **tight(name))
    np.testing.assert_array_equal(model.result_.votes.gold, full.result_.votes.gold)
    np.testing.assert_allclose(model.posterior_, full.posterior_, atol=1e-6)


@online_too
def test_update_keeps_the_history_of_annotators(name: str, easy: Annotations) -> None:
    history = {0: (0, 50), 4: (50, 0)}
    # Annotator 4 comes with the later votes; a class does, too.
    keep = easy.select(annotators=[0, 1, 2, 3])
    model = fit(name, easy, history=history)
    known = model.result_.history
    with quiet():
        model.update(Annotations.from_arrays([99], ["newcomer"], ["a fourth class"]))
    assert model.posterior_.shape == (31, 4)
    np.testing.assert_allclose(model.result_.history[:5, :3, :3], known)
    # Annotators absent from the votes of a fit have no place in its result, so their history goes.
    model = fit(name, keep, history=history)
    with quiet():
        model.update(easy.select(annotators=[4]))
    assert model.posterior_.shape == (30, 3)


@pytest.mark.parametrize("name", slow_unless_classic([n for n in ALL if n not in ORDERED]))
def test_update_with_new_classes_ends_where_a_full_fit_ends(name: str) -> None:
    votes, _ = crowd(13, 45, diagonal_crowd(6, 3, 0.9))
    labels = np.array(["b", "c", "a"], dtype=object)[votes.label]  # the new class sorts first
    old = np.isin(votes.item, np.flatnonzero(np.bincount(votes.item, weights=votes.label == 2, minlength=45) == 0))
    first = Annotations.from_arrays(votes.item[old], votes.annotator[old], labels[old])
    second = Annotations.from_arrays(votes.item[~old], votes.annotator[~old], labels[~old])
    assert first.classes.tolist() == ["b", "c"]
    model = fit(name, first, **tight(name))
    with quiet():
        model.update(second)
    full = fit(name, Annotations.from_arrays(votes.item, votes.annotator, labels), **tight(name))
    assert model.classes_.tolist() == ["b", "c", "a"]
    np.testing.assert_allclose(model.posterior_[:, [2, 0, 1]], full.posterior_, atol=1e-6)


@iterative
def test_warm_start_goes_on_from_the_last_fit(name: str, easy: Annotations) -> None:
    cold = fit(name, easy, **many(name))
    model = make(name, warm_start=True)
    with quiet():
        first = model.fit(easy).n_iter_
        again = model.fit(easy).n_iter_
    assert first == cold.n_iter_
    # What is still to move is judged by the rounds of this run, of which a warm one has few: a round or two more may come.
    assert again <= first + 2
    np.testing.assert_allclose(model.posterior_, cold.posterior_, atol=1e-3)


@iterative
def test_warm_start_survives_other_items_and_classes(name: str, easy: Annotations) -> None:
    with quiet():
        model = make(name, warm_start=True).fit(easy)
        is_sound(model.fit(Annotations.from_arrays([100, 101, 3], [0, "new", 1], ["x", "y", "0"])))
        is_sound(model.fit(easy.with_classes([2, 1, 0])))


@pytest.mark.parametrize("name", slow_unless_classic([n for n in ITERATIVE if n not in ORDERED]))
def test_warm_start_finds_the_classes_in_their_new_order(name: str, easy: Annotations) -> None:
    # Items never seen, classes in a cycle (which differs from its own inverse): one round shows where it began.
    new, _ = crowd(21, 10, diagonal_crowd(5, 3, 0.6))
    new = Annotations.from_arrays(new.item + 100, new.annotator, new.label, classes=range(3))
    order = [1, 2, 0]
    rounds = []
    for votes in (new, new.with_classes(order)):
        with quiet():
            model = make(name, warm_start=True).fit(easy)
            rounds.append(model.set_params(max_iter=1).fit(votes).posterior_)
    np.testing.assert_allclose(rounds[1], rounds[0][:, order], atol=1e-9)
