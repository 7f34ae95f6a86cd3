"""Bits that a judge adds, by enumeration of all patterns of answers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.trust.judges.models import joint, nested_model, some_model

from crowdwise.data.annotations import Annotations
from crowdwise.trust.judges.information import added_bits, entropy, group_bits
from crowdwise.trust.judges.model import JudgeModel


def conditional(model: JudgeModel, j: int) -> float:
    """I(Y; V_j | V_-j) = H(Y | V_-j) - H(Y | V) in bits, over all patterns."""

    def uncertainty(who: tuple[int, ...]) -> float:
        tables = [joint(model, who, said) for said in product(range(model.n_classes), repeat=len(who))]
        return sum(float(-(t * np.log2(t / t.sum())).sum()) for t in tables)

    everyone = tuple(range(model.n_judges))
    return uncertainty(tuple(a for a in everyone if a != j)) - uncertainty(everyone)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("nested", [False, True])
def test_the_mean_over_all_patterns_is_the_conditional_information(nested: bool, n_classes: int) -> None:
    codes = np.array([[0, 1, 0], [0, 0, 0]])
    model = nested_model(6, n_classes, codes) if nested else some_model(6, n_classes, np.array([0, 1, 0]))
    total = np.zeros(3)
    for said in product(range(n_classes), repeat=3):
        votes = Annotations.from_matrix(np.array([said]), classes=list(range(n_classes)))
        total += joint(model, (0, 1, 2), said).sum() * added_bits(model, votes)
    np.testing.assert_allclose(total, [conditional(model, j) for j in range(3)], rtol=1e-9)
    assert (total > 0).all()


def test_a_family_as_a_whole() -> None:
    model = some_model(6, 2, np.array([0, 1, 0]))
    total, left = np.zeros(2), np.zeros(2)
    for said in product(range(2), repeat=3):
        table = joint(model, (0, 1, 2), said)
        total += table.sum() * group_bits(model, Annotations.from_matrix(np.array([said]), classes=[0, 1]), 1)
        for f, others in enumerate([(1,), (0, 2)]):
            rest = joint(model, others, tuple(said[a] for a in others))
            gain = float(entropy(rest / rest.sum()) - entropy(table / table.sum()))
            # Of single items no family adds less than nothing, over all of them none does anyway.
            left[f] += table.sum() * max(gain, 0.0)
    np.testing.assert_allclose(total, left, rtol=1e-9)


def test_a_model_within_a_family() -> None:
    model = nested_model(6, 2, np.array([[0, 0, 1], [0, 0, 0]]))
    total, left = np.zeros(2), np.zeros(2)
    for said in product(range(2), repeat=3):
        table = joint(model, (0, 1, 2), said)
        total += table.sum() * group_bits(model, Annotations.from_matrix(np.array([said]), classes=[0, 1]), 1)
        for j, others in enumerate([(2,), (0, 1)]):
            rest = joint(model, others, tuple(said[a] for a in others))
            gain = float(entropy(rest / rest.sum()) - entropy(table / table.sum()))
            left[j] += table.sum() * max(gain, 0.0)
    np.testing.assert_allclose(total, left, rtol=1e-9)


def test_a_copy_and_a_coin_add_nothing() -> None:
    model = some_model(7, 2, np.array([0, 0, 1]), hard=0.0)
    coin = model.levels[0].own.copy()
    coin[2] = [0.5, 0.5]
    model = JudgeModel.in_families(model.prior_s, model.family, np.array([1.0, 1.0, 0.0]), model.levels[1].own, coin)
    bits = added_bits(model, Annotations.from_matrix([[0, 0, 1], [1, 1, 0], [0, 0, 0]]))
    np.testing.assert_allclose(bits, 0, atol=1e-9)


def test_a_soft_vote_adds_as_much_as_it_is_sure() -> None:
    model = some_model(9, 2, np.array([0, 1]))
    soft = [[0.5, 0.5], [0.7, 0.3], [0.2, 0.8], [0.7, 0.3]]
    votes = Annotations.from_probabilities(["x", "x", "y", "y"], [0, 1, 0, 1], soft, classes=[0, 1])

    def uncertain(first: float, second: float | None) -> float:
        tables = [first * joint(model, (1,), (0,)) + (1 - first) * joint(model, (1,), (1,))]
        if second is not None:
            answers = [(a, b, p * q) for a, p in ((0, second), (1, 1 - second)) for b, q in ((0, first), (1, 1 - first))]
            tables = [sum(weight * joint(model, (0, 1), (a, b)) for a, b, weight in answers)]
        return float(entropy(tables[0] / tables[0].sum()))

    wanted = (0 + uncertain(0.7, None) - uncertain(0.7, 0.2)) / 2
    assert added_bits(model, votes)[0] == pytest.approx(max(wanted, 0), abs=1e-12)


def test_nobody_is_known_of_those_who_never_voted() -> None:
    votes = Annotations.from_codes(
        np.array([0, 0]), np.array([0, 1]), np.array([0, 1]), np.array([0]), np.arange(3), np.array([0, 1])
    )
    bits = added_bits(some_model(8, 2, np.array([0, 1, 2])), votes)
    assert np.isfinite(bits).tolist() == [True, True, False]


def test_entropy_in_bits() -> None:
    np.testing.assert_allclose(entropy(np.array([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]])), [1, 0, 0.811278], atol=1e-6)
