from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest

from crowdwise import DawidSkene, Raykar
from crowdwise.data.annotations import Annotations
from crowdwise.data.anonymous import AnonymousVotes
from crowdwise.data.datasets import demo
from crowdwise.data.simulate import simulate
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.estimator.registry import classifiers, label_methods
from crowdwise.kernels.numerics import COMPILED_FROM
from crowdwise.trust.compare import DEFAULT_CLASSIFIERS, DEFAULT_METHODS, compare, comparison
from crowdwise.trust.compare.choose import chosen
from crowdwise.trust.heldout import deal, held_out
from crowdwise.trust.metrics import accuracy, ece_debiased, log_loss

ALL_METHODS = {**label_methods(), **classifiers()}
CLASSIFIERS = classifiers()

MEASURED = ["accuracy", "macro_f1", "auc", "log_loss", "ece", "ece_debiased"]
COLUMNS = ["method", *MEASURED, "held_out", "agreement", "seconds", "memory_mb", "n_iter", "converged", "error"]


@pytest.mark.slow
def test_every_method_in_registry_order() -> None:
    campaign = demo()
    table = compare(campaign.votes, campaign.gold, "all", folds=0)
    assert table.columns == COLUMNS
    suited = [
        name
        for name, method in ALL_METHODS.items()
        if method.suits(4) and name not in CLASSIFIERS and method.family != "ordinal"
    ]
    assert table["method"].to_list() == suited
    assert table["error"].null_count() == len(suited)
    assert table.drop("error", "memory_mb", "held_out").null_count().sum_horizontal().item() == 0
    assert (table["seconds"] > 0).all()


def test_a_few_quick_methods_unless_others_are_named() -> None:
    pytest.importorskip("torch")
    assert chosen(None, {}, 3, False) == [name for name in ALL_METHODS if name in DEFAULT_METHODS]
    assert [name for name in chosen(None, {}, 3, True) if name in CLASSIFIERS] == list(DEFAULT_CLASSIFIERS)
    ordinal = {name for name, method in ALL_METHODS.items() if method.family == "ordinal"}
    assert set(chosen(["all"], {}, 2, True)) == set(ALL_METHODS) - ordinal
    assert "eigen" not in chosen("all", {}, 3, False)
    assert chosen("glad", {}, 3, False) == ["glad"]


def test_measures_are_those_of_a_fit() -> None:
    campaign = demo()
    model = DawidSkene().fit(campaign.votes)
    row = compare(campaign.votes, campaign.gold, ["dawid-skene"]).row(0, named=True)
    assert row["accuracy"] == accuracy(model.posterior_, campaign.truth)
    assert row["log_loss"] == log_loss(model.posterior_, campaign.truth)
    assert row["ece_debiased"] == ece_debiased(model.posterior_, campaign.truth) < row["ece"]
    assert row["n_iter"] == model.n_iter_
    expected = held_out(lambda votes: DawidSkene().fit(votes).result_, campaign.votes, deal(campaign.votes, 3, 7))
    row = compare(campaign.votes, campaign.gold, ["dawid-skene"], folds=3, random_state=7).row(0, named=True)
    assert row["held_out"] == pytest.approx(np.nanmean(expected))


def test_without_truth_held_out_votes_and_agreement_remain() -> None:
    table = compare(demo().votes, methods=["majority", "dawid-skene"])
    assert table.columns == [name for name in COLUMNS if name not in MEASURED]
    assert (table["held_out"] < 0).all()
    assert table["agreement"].n_unique() == 1
    assert compare(demo().votes, methods=["majority"], folds=0)["held_out"].to_list() == [None]


def test_ties_are_split() -> None:
    votes = Annotations.from_arrays([1, 1, 2, 2], ["x", "y", "x", "y"], ["a", "b", "a", "a"])
    # By hand: a tie earns a half, the other item is right.
    plain = {"majority": {"confidence": "model"}}
    assert compare(votes, {1: "b", 2: "a"}, ["majority"], settings=plain)["accuracy"].to_list() == [0.75]
    # By experience a vote is added that is divided by the class shares, 3/4 to a: it decides the tie, as it does for labels.
    assert compare(votes, {1: "b", 2: "a"}, ["majority"])["accuracy"].to_list() == [0.5]


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
    found = comparison(campaign.votes, campaign.gold, ["majority", "dawid-skene", "mace"], n_resamples=20)
    assert found.table["error"].to_list() == [None, "no luck", None]
    assert found.table.row(1)[1:-1] == (None,) * 12
    assert found.agreement.columns == ["method", "majority", "mace"]
    assert set(found.intervals["method"]) == {"majority", "mace"}


def test_a_method_that_fails_on_folds_alone_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = demo()
    whole = DawidSkene._fit

    def fail(self: Any, problem: Any) -> Any:
        if problem.votes.n_votes < campaign.votes.n_votes:
            raise RuntimeError("too few votes")
        return whole(self, problem)

    monkeypatch.setattr(DawidSkene, "_fit", fail)
    row = compare(campaign.votes, campaign.gold, ["dawid-skene"]).row(0, named=True)
    assert row["error"] == "held-out votes: too few votes"
    assert row["accuracy"] > 0.9
    assert row["held_out"] is None


def test_a_posterior_that_is_none_is_a_row_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = demo()
    whole = DawidSkene._fit

    def spoil(self: Any, problem: Any) -> Any:
        done = whole(self, problem)
        done.posterior[:] = np.nan
        return done

    monkeypatch.setattr(DawidSkene, "_fit", spoil)
    row = compare(campaign.votes, campaign.gold, ["dawid-skene"], folds=0).row(0, named=True)
    assert "not finite" in row["error"]
    assert row["accuracy"] is None
    assert compare(campaign.votes, methods=["dawid-skene"])["held_out"].to_list() == [None]


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
        ({"settings": {"mace": {"tol": -1}}}, "tol must be"),
        ({"methods": ["raykar"]}, "give them with --features"),
        ({"methods": ["majority"], "reference": "mace"}, "not among the methods"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"time_limit": 0}, "above 0 seconds"),
        ({"folds": 1}, "at least 2"),
        ({"level": 1}, "strictly between"),
        ({"n_resamples": -1}, "n_resamples"),
    ],
)
def test_misspelt_names_and_impossible_settings_are_refused(options: dict[str, Any], message: str) -> None:
    campaign = demo()
    with pytest.raises(SettingError, match=message):
        comparison(campaign.votes, campaign.gold, **options)


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
        seconds = compare(campaign.votes, campaign.gold, ["dawid-skene"], folds=0)["seconds"][0]
    # Loading the compiled loops takes most of a second, compiling them several; the fit far less.
    assert seconds < 0.5


def test_classifiers_are_measured_by_the_labels_they_recover() -> None:
    campaign = simulate(n_items=60, n_annotators=6, n_classes=3, random_state=2)
    rng = np.random.default_rng(0)
    X = np.eye(3)[campaign.truth] + rng.normal(0, 0.5, (60, 3))
    # In another order, and with two rows that nobody has voted on.
    order = rng.permutation(60)
    rows, ids = np.vstack([X[order], X[:2]]), [*campaign.votes.items[order].tolist(), "new-1", "new-2"]
    model = Raykar().fit(rows, campaign.votes, items=ids)
    posterior = np.empty((60, 3))
    posterior[order] = model.posterior_[:60]
    table = compare(campaign.votes, campaign.gold, ["majority", "raykar"], features=rows, items=ids, folds=3)
    assert table["error"].to_list() == [None, None]
    assert table["accuracy"][1] == accuracy(posterior, campaign.truth)
    assert table["log_loss"][1] == pytest.approx(log_loss(posterior, campaign.truth))
    # Features tell the class nearly by themselves here, so they help to foretell votes.
    assert table["held_out"][1] > table["held_out"][0]


def test_a_single_known_item_gives_no_interval() -> None:
    campaign = demo()
    item = next(iter(campaign.gold))
    found = comparison(campaign.votes, {item: campaign.gold[item]}, ["majority", "dawid-skene"], folds=2, n_resamples=20)
    assert found.table["accuracy"].null_count() == 0
    assert found.intervals["measure"].unique().to_list() == ["held_out"]
    assert found.wide()["log_loss_difference_low"].null_count() == 2


def test_methods_that_need_annotators_are_left_out_where_nobody_knows_them() -> None:
    votes = AnonymousVotes.from_arrays(np.repeat(range(6), 3), range(18), ["a", "a", "b", "b", "b", "a"] * 3)
    for methods in (None, "all", ["all"]):
        with pytest.warns(DataWarning, match="nobody knows who gave these votes"):
            found = compare(votes, methods=methods, folds=0)
        assert set(found["method"]) == {"majority", "consensus"}
    with pytest.warns(DataWarning), pytest.raises(SettingError, match="'dawid-skene' is not among the methods compared"):
        comparison(votes, methods="all", folds=0, reference="dawid-skene")
    named = compare(votes, methods=["majority", "dawid-skene"], folds=0)
    assert "nobody knows who gave these votes" in named.filter(method="dawid-skene")["error"].item()


def test_auc_of_a_single_known_class_is_undefined_and_documents_leave_it_empty() -> None:
    from crowdwise.report.comparison import document, markdown, page

    campaign = demo()
    gold = {item: label for item, label in dict(campaign.gold).items() if label == campaign.votes.classes[0]}
    found = comparison(campaign.votes, gold, ["majority", "dawid-skene"], folds=0, n_resamples=20)
    assert found.table["auc"].is_nan().all()
    assert found.table["accuracy"].is_not_nan().all()
    assert "(nan" not in markdown(found) + page(found)
    assert "| nan" not in markdown(found)
    assert "| AUC |" in markdown(found)
    assert document(found)["methods"][0]["auc"] is None
