"""Panels: expected accuracy by enumeration, human votes by hand, and the cheapest panel by trying all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, combinations, product

import numpy as np
import pytest
from tests.trust.judges.models import joint, nested_model, some_model

from crowdwise.data.annotations import Annotations
from crowdwise.trust.judges import panels as module
from crowdwise.trust.judges.model import JudgeModel, Level
from crowdwise.trust.judges.panels import Panels, accuracy_of_people, in_human_votes
from crowdwise.trust.judges.resampling import Resamples, drawn, with_people

EVEN = np.array([0.5, 0.5])
PERSON = np.array([[0.8, 0.2], [0.2, 0.8]])


def by_hand(model: JudgeModel, who: tuple[int, ...]) -> float:
    return sum(joint(model, who, said).max() for said in product(range(model.n_classes), repeat=len(who)))


def independent(*right: float) -> JudgeModel:
    """Judges of two classes who are right so often."""
    tables = np.array([[[p, 1 - p], [1 - p, p]] * 2 for p in right])
    return JudgeModel.in_families(np.array([0.5, 0.5, 0, 0]), np.arange(len(right)), np.zeros(len(right)), tables, tables)


@pytest.mark.parametrize("kind", [some_model, nested_model])
@pytest.mark.parametrize("who", [(0,), (0, 2), (1, 3), (0, 1, 2, 3)])
def test_expected_accuracy_by_enumeration(
    who: tuple[int, ...], kind: Callable[[int, int], JudgeModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = kind(9, 3)
    assert Panels(model).panel(who).accuracy == pytest.approx(by_hand(model, who))
    # The same by draws, of which there are so many that half a point is twice their error or more.
    monkeypatch.setattr(module, "EXACT", 1)
    assert Panels(model).panel(who).accuracy == pytest.approx(by_hand(model, who), abs=0.012)


def test_three_judges_of_one_answer_are_one() -> None:
    alike = some_model(10, 2, np.array([0, 0, 0, 1]), hard=0.0)
    alike = replace(alike, levels=(Level(np.array([1.0, 1, 1, 0]), alike.levels[0].own), alike.levels[1]))
    panels = Panels(alike)
    assert panels.panel((0, 1, 2)).accuracy == pytest.approx(panels.panel((1,)).accuracy)


def test_people_by_hand() -> None:
    # Of three votes at 0.8, two or three are right: 3 x 0.64 x 0.2 + 0.512.
    accuracies = [accuracy_of_people(EVEN, PERSON, n) for n in (1, 2, 3)]
    np.testing.assert_allclose(accuracies, [0.8, 0.8, 0.896])
    people = with_people(independent(0.6), PERSON, 3)
    assert Panels(people).panel((1, 2, 3)).accuracy == pytest.approx(0.896)


@pytest.mark.parametrize(("accuracy", "votes"), [(0.5, 0), (0.65, 0.5), (0.8, 1), (0.848, 2), (0.896, 3), (1, np.inf)])
def test_in_human_votes(accuracy: float, votes: float) -> None:
    assert in_human_votes(accuracy, EVEN, PERSON) == pytest.approx(votes)


def test_many_classes_are_counted_up_to_what_can_be_enumerated() -> None:
    size = 8
    person = np.full((size, size), 0.05) + 0.6 * np.eye(size)
    assert in_human_votes(0.65, np.full(size, 1 / size), person) == pytest.approx(1)
    assert in_human_votes(0.9999, np.full(size, 1 / size), person) == np.inf


def test_the_cheapest_panel_is_the_cheapest() -> None:
    model = some_model(11, 2, np.array([0, 0, 1, 2, 3]))
    price = np.array([1.0, 2.0, 4.0, 0.5, 3.0])
    everyone = chain.from_iterable(combinations(range(5), n) for n in range(1, 6))
    tried = [(price[list(who)].sum(), by_hand(model, who), who) for who in everyone]
    panels, full = Panels(model, price), by_hand(model, tuple(range(5)))
    for target in (0.6, 0.9 * full, 0.99 * full):
        found = panels.cheapest(target)
        assert found is not None
        assert found.accuracy >= target
        assert found.price == pytest.approx(min(cost for cost, accuracy, _ in tried if accuracy >= target))
    assert panels.cheapest(full + 0.001) is None
    best = panels.best(2)
    assert best.accuracy == pytest.approx(max(accuracy for _, accuracy, who in tried if len(who) == 2))


def test_of_many_judges_a_panel_is_grown_and_pruned() -> None:
    right = [0.6] * 11 + [0.9]
    panels = Panels(independent(*right), np.ones(12))
    found = panels.cheapest(0.88)
    assert found is not None
    assert found.members == (11,)
    assert panels.best(1).members == (11,)
    assert len(getattr(panels.cheapest(0.3), "members", ())) == 1  # it takes a judge even where a guess would do
    assert panels.cheapest(0.9999) is None


def test_people_who_are_alike_are_interchangeable() -> None:
    model = with_people(independent(0.7), PERSON, 3)
    found = Panels(model, np.array([0.1, 1, 1, 1]), n_alike=3).cheapest(0.89)
    assert found is not None
    assert found.members == (1, 2, 3)


@pytest.mark.slow
def test_what_few_items_state_too_much_is_subtracted() -> None:
    true = independent(0.7, 0.72, 0.74, 0.76)
    answers, _ = drawn(true, 40, seed=5)
    votes = Annotations.from_matrix(answers, classes=[0, 1])
    model, _ = JudgeModel.fit(votes, np.arange(4), np.full((40, 2), 0.25) + 0.5 * np.eye(2)[answers[:, 3]])
    resamples = Resamples.of(model, votes, 3)
    panels = Panels(model, resamples=resamples)
    stated = panels.panel(range(4))
    corrected = panels.corrected(stated)
    assert corrected.accuracy <= stated.accuracy
    assert corrected.accuracy >= model.prior_k.max()
    assert corrected.sd > 0
    # Correcting twice, or again from the same seed, changes nothing.
    assert panels.corrected(corrected) == corrected
    assert Panels(model, resamples=Resamples.of(model, votes, 3)).corrected(stated) == corrected
    # Nine further draws in ten are above it, of which three are known: Student's t of two degrees of freedom, 1.886.
    assert corrected.low == pytest.approx(corrected.accuracy - 1.8856 * np.sqrt(4 / 3) * corrected.sd, abs=1e-4)
    everyone = [panels.corrected(panels.panel(who)) for n in range(1, 5) for who in combinations(range(4), n)]
    target = sorted(panel.low for panel in everyone)[-3]
    sure = panels.cheapest(target, sure=True)
    assert sure is not None
    assert sure.low >= target
    assert sure.price == min(panel.price for panel in everyone if panel.low >= target)
    assert panels.cheapest(target).price <= sure.price
    assert panels.cheapest(max(panel.low for panel in everyone) + 1e-6, sure=True) is None


@pytest.mark.parametrize("kind", [some_model, nested_model])
def test_draws_have_the_shares_of_the_model(kind: Callable[[int, int], JudgeModel]) -> None:
    model = kind(12, 2)
    answers, truth = drawn(model, 40_000, seed=2)
    for said in product(range(2), repeat=4):
        share = [((answers == said).all(axis=1) & (truth == k)).mean() for k in range(2)]
        np.testing.assert_allclose(share, joint(model, (0, 1, 2, 3), said), atol=0.008)
