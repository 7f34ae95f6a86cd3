"""The cheapest decision, by hand; and costs of every shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from crowdwise import Annotations, make
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.costs import Costs

CLASSES = ["sick", "unsure", "well"]
# Rows: true class; columns: label.
MATRIX = np.array([[0.0, 2.0, 10.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
LONG = {"true": np.repeat(CLASSES, 3).tolist(), "label": CLASSES * 3, "cost": MATRIX.ravel().tolist()}


def test_the_decision_is_the_cheapest_of_all_labels() -> None:
    posterior = np.random.default_rng(0).dirichlet(np.ones(3), 200)
    codes, cost = Costs.of(MATRIX, CLASSES).decide(posterior)
    for n, share in enumerate(posterior):
        by_label = [sum(share[k] * MATRIX[k, label] for k in range(3)) for label in range(3)]
        assert codes[n] == int(np.argmin(by_label))
        assert cost[n] == pytest.approx(min(by_label))
    assert len(set(codes.tolist())) == 3


def test_equal_costs_give_the_most_probable_class_and_ties_the_first() -> None:
    posterior = np.array([[0.2, 0.5, 0.3], [0.4, 0.2, 0.4], [1 / 3, 1 / 3, 1 / 3]])
    codes, cost = Costs.of(None, CLASSES).decide(posterior)
    assert codes.tolist() == [1, 0, 0]
    np.testing.assert_allclose(cost, [0.5, 0.6, 2 / 3])


def test_a_tie_of_costs_goes_to_the_more_probable_class() -> None:
    # Both labels cost 0.8: 0.2 * 4 and 0.8 * 1.
    assert Costs.of([[0, 4], [1, 0]], ["rare", "common"]).decide(np.array([[0.2, 0.8]]))[0].tolist() == [1]


def test_no_label_where_it_is_cheaper() -> None:
    posterior = np.array([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2]])
    codes, cost = Costs.of(None, ["p", "q"], abstain=0.2).decide(posterior)
    # A label that costs as much as none is given.
    assert codes.tolist() == [0, -1, 0]
    np.testing.assert_allclose(cost, [0.1, 0.2, 0.2])


@pytest.mark.parametrize(
    "given",
    [
        MATRIX,
        MATRIX.tolist(),
        LONG,
        pd.DataFrame(LONG),
        pl.DataFrame(LONG).rename({"label": "Decision"}),
        pl.DataFrame({"true": CLASSES, **{name: MATRIX[:, k] for k, name in enumerate(CLASSES)}}),
        # Columns and rows in another order, cells as text with decimal commas.
        pl.DataFrame({"": CLASSES[::-1], "well": ["0", "1,0", "10,0"], "unsure": [1, 0, 2], "sick": [3, 1, 0]}),
        {(true, label): MATRIX[k, c] for k, true in enumerate(CLASSES) for c, label in enumerate(CLASSES) if k != c},
        {true: {label: MATRIX[k, c] for c, label in enumerate(CLASSES)} for k, true in enumerate(CLASSES)},
        pd.DataFrame(MATRIX, CLASSES, CLASSES),
        pd.DataFrame(MATRIX, CLASSES, CLASSES).iloc[::-1, [1, 2, 0]],
        # Rows are what was decided, as the name of the index says.
        pd.DataFrame(MATRIX.T, pd.Index(CLASSES, name="predicted"), CLASSES),
    ],
)
def test_costs_in_every_usual_form(given: Any) -> None:
    np.testing.assert_array_equal(Costs.of(given, CLASSES).matrix, MATRIX)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (pd.DataFrame(MATRIX, ["sick", "unsre", "well"], CLASSES), "'unsre'.*did you mean 'unsure'"),
        (pd.DataFrame(MATRIX, columns=CLASSES), "'0'"),
        ({"sick": {"wel": 1}}, "'wel'.*did you mean 'well'"),
    ],
)
def test_names_of_an_index_and_of_keys_are_checked(given: Any, name: str) -> None:
    with pytest.raises(InputError, match=f"costs name the class {name}"):
        Costs.of(given, CLASSES)


def test_classes_that_are_numbers_are_found() -> None:
    np.testing.assert_array_equal(Costs.of(pd.DataFrame([[0, 2], [1, 0]]), [0, 1]).matrix, [[0, 2], [1, 0]])
    np.testing.assert_array_equal(Costs.of({(0, 1): 2, ("1", "0"): 3}, np.array([0, 1])).matrix, [[0, 2], [3, 0]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({("sick", "well"): 1}, "nothing of 5 of the 6 mistakes: 'unsure' on items that are 'sick'"),
        ({("sick", "wel"): 1}, "class 'wel', which the votes do not have; .*did you mean 'well'"),
        ({**{(a, b): 1 for a in CLASSES for b in CLASSES}, ("sick", "well"): -1}, "'well' on items that are 'sick' is -1"),
        ({**{(a, b): 1 for a in CLASSES for b in CLASSES}, ("sick", "well"): "much"}, "is 'much'; costs are numbers"),
        ({"true": ["sick"] * 2, "label": ["well"] * 2, "cost": [1, 2]}, "both 1 and 2 for 'well'"),
        ({"cost": [1]}, "columns true, label, cost"),
        (np.ones((2, 2)), "in this order: sick, unsure, well"),
        ("costs.csv", "a table with columns true, label and cost"),
    ],
)
def test_wrong_costs_say_what_is_wrong_and_what_to_do(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Costs.of(given, CLASSES)


@pytest.mark.parametrize("abstain", [-1, float("nan"), float("inf"), "1", True])
def test_a_wrong_cost_of_no_label_is_refused(abstain: Any) -> None:
    with pytest.raises(SettingError, match="abstain must be a cost of 0 or more"):
        Costs.of(None, CLASSES, abstain)


def test_the_table_of_items_has_the_cheapest_labels() -> None:
    votes = Annotations.from_arrays(
        ["a", "a", "a", "b", "b", "b", "c", "c", "c"],
        ["x", "y", "z"] * 3,
        ["well", "well", "sick", "well", "well", "well", "sick", "sick", "well"],
        items=["a", "b", "c", "d"],
    )
    result = make("majority", confidence="model").fit(votes).result_
    frame = result.decide({("sick", "well"): 10, ("well", "sick"): 1}, abstain=0.6)
    # By hand: a is sick with 1/3, so "sick" costs 2/3 and "well" 10/3; c is sick with 2/3, so "sick" costs 1/3.
    assert frame["label"].to_list() == [None, "well", "sick", None]
    assert frame["note"].to_list() == ["abstained", "", "", "no votes"]
    np.testing.assert_allclose(frame["expected_cost"].to_list()[:3], [0.6, 0, 1 / 3])
    assert frame["expected_cost"][3] is None
    np.testing.assert_allclose(frame["confidence"].to_list()[1:3], [1, 2 / 3])
    plain = result.decide()
    assert plain["label"].to_list() == result.items_frame()["label"].to_list()
    assert plain["confidence"].to_list() == result.items_frame()["confidence"].to_list()


def test_a_square_table_of_labels_by_truth_says_so_in_its_first_header():
    by_truth = Costs.of(pl.DataFrame({"true": ["a", "b"], "a": [0, 20], "b": [1, 0]}), ["a", "b"])
    by_label = Costs.of(pl.DataFrame({"predicted": ["a", "b"], "a": [0, 1], "b": [20, 0]}), ["a", "b"])
    assert by_truth.matrix.tolist() == by_label.matrix.tolist() == [[0, 1], [20, 0]]
    assert by_truth.dearest() == ("b", "a", 20)
