from __future__ import annotations

import warnings
from typing import Any

import polars as pl
import pytest

from crowdwise import DawidSkene
from crowdwise.aggregate.registry import METHODS
from crowdwise.annotations import Annotations
from crowdwise.compare import compare
from crowdwise.datasets import demo
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.kernels.votes import COMPILED_FROM
from crowdwise.metrics import accuracy, log_loss
from crowdwise.simulate import simulate

COLUMNS = ["method", "accuracy", "macro_f1", "log_loss", "ece", "seconds", "n_iter", "converged", "error"]


def test_every_method_in_registry_order() -> None:
    campaign = demo()
    table = compare(campaign.votes, campaign.gold)
    assert table.columns == COLUMNS
    suited = [name for name, method in METHODS.items() if method.suits(campaign.votes.n_classes)]
    assert table["method"].to_list() == suited
    assert table["error"].null_count() == len(suited)
    assert table.drop("error").null_count().sum_horizontal().item() == 0
    assert (table["seconds"] > 0).all()


def test_measures_are_those_of_a_fit() -> None:
    campaign = demo()
    model = DawidSkene().fit(campaign.votes)
    row = compare(campaign.votes, campaign.gold, ["dawid-skene"]).row(0, named=True)
    assert row["accuracy"] == accuracy(model.posterior_, campaign.truth)
    assert row["log_loss"] == log_loss(model.posterior_, campaign.truth)
    assert row["n_iter"] == model.n_iter_


def test_ties_are_split() -> None:
    votes = Annotations.from_arrays([1, 1, 2, 2], ["x", "y", "x", "y"], ["a", "b", "a", "a"])
    # By hand: a tie earns a half, the other item is right.
    assert compare(votes, {1: "b", 2: "a"}, ["majority"])["accuracy"].to_list() == [0.75]


@pytest.mark.parametrize("shape", [dict, lambda gold: pl.DataFrame({"item": list(gold), "truth": list(gold.values())}),
                                   lambda gold: list(gold.values())])  # fmt: skip
def test_truth_in_any_shape(shape: Any) -> None:
    campaign = demo()
    expected = compare(campaign.votes, campaign.gold, ["majority"])["accuracy"]
    assert compare(campaign.votes, shape(campaign.gold), ["majority"])["accuracy"].equals(expected)


def test_gold_does_not_leak_into_the_fits() -> None:
    campaign = demo()
    told = compare(campaign.votes.with_gold(campaign.gold), campaign.gold, ["majority"])
    assert told.drop("seconds").equals(compare(campaign.votes, campaign.gold, ["majority"]).drop("seconds"))


def test_a_failing_method_does_not_stop_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, problem: Any) -> Any:
        raise RuntimeError("no luck")

    monkeypatch.setattr(DawidSkene, "_fit", fail)
    campaign = demo()
    table = compare(campaign.votes, campaign.gold, ["majority", "dawid-skene", "mace"])
    assert table["error"].to_list() == [None, "no luck", None]
    assert table.row(1)[1:-1] == (None,) * 7


def test_settings_and_seed_by_method() -> None:
    campaign = demo()
    table = compare(campaign.votes, campaign.gold, ["dawid-skene", "mace"], settings={"dawid-skene": {"max_iter": 3}})
    assert table["n_iter"][0] == 3
    assert table["converged"][0] is False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["majorty"]}, "did you mean 'majority'"),
        ({"settings": {"dawid": {}}}, "no method 'dawid'"),
        ({"settings": {"mace": {"tool": 1}}}, "did you mean 'tol'"),
    ],
)
def test_misspelt_names_are_refused(options: dict[str, Any], message: str) -> None:
    campaign = demo()
    with pytest.raises(SettingError, match=message):
        compare(campaign.votes, campaign.gold, **options)


def test_a_truth_of_other_items_is_refused() -> None:
    with pytest.warns(DataWarning), pytest.raises(InputError, match="names no item"):
        compare(demo().votes, {"elsewhere": "cat"}, ["majority"])


def test_warnings_name_their_method() -> None:
    votes = Annotations.from_arrays([1, 2], ["x", "x"], ["a", "a"])
    with pytest.warns(DataWarning, match="majority: only one class"):
        compare(votes, {1: "a"}, ["majority"])


def test_progress_names_the_method_that_runs() -> None:
    campaign, seen = demo(), []
    compare(campaign.votes, campaign.gold, ["mace", "majority"], progress=lambda *step: seen.append(step))
    assert seen == [("majority", 0, 2), ("mace", 1, 2)]


def test_compilation_is_charged_to_nobody() -> None:
    campaign = simulate(n_items=COMPILED_FROM // 5 + 1, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seconds = compare(campaign.votes, campaign.gold, ["dawid-skene"])["seconds"][0]
    # Loading the compiled loops takes most of a second, compiling them several; the fit far less.
    assert seconds < 0.5
