"""The automatic choice among label-only methods."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd, quiet

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, NotFittedError, SettingError
from crowdwise.estimator.registry import label_methods, make
from crowdwise.trust.choice import trial
from crowdwise.trust.choice.auto import Auto
from crowdwise.trust.choice.candidates import CANDIDATES

METHODS = label_methods()
# Where the number of candidates is not what is tested.
FEW = ["majority", "dawid-skene", "mace"]


def biased_crowd(n_items: int = 300) -> tuple[Annotations, np.ndarray]:
    """Two experts, and five who see the first class in most items of the second."""
    expert = np.array([[0.95, 0.05], [0.05, 0.95]])
    biased = np.array([[0.98, 0.02], [0.65, 0.35]])
    return crowd(5, n_items, np.stack([expert] * 2 + [biased] * 5))


@pytest.fixture(scope="module")
def biased() -> Any:
    votes, truth = biased_crowd()
    with quiet():
        return Auto().fit(votes), votes, truth


# -- the choice -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_estimator_shows_the_fit_of_the_chosen_method(biased: Any) -> None:
    model, votes, truth = biased
    with quiet():
        alone = make(model.chosen_).fit(votes)
    assert model.result_.method == f"auto: {model.chosen_}"
    assert model.posterior_.tobytes() == alone.posterior_.tobytes()
    assert model.confusion_.tobytes() == alone.confusion_.tobytes()
    assert model.trace_.tobytes() == alone.trace_.tobytes()
    assert (model.labels_ == truth).mean() > 0.9


def test_a_crowd_that_leans_one_way_is_not_left_to_the_majority(biased: Any) -> None:
    model, votes, truth = biased
    majority = make("majority").fit(votes)
    assert (majority.labels_ == truth).mean() < 0.85
    assert model.chosen_ in ("dawid-skene", "confusion-vector", "mace", "consensus", "ebcc")
    assert model.chosen_ in model.reason_.split(",")[0]


def test_the_table_has_a_row_per_candidate(biased: Any) -> None:
    table = biased[0].choice_
    assert table["method"].to_list() == list(CANDIDATES)
    assert table["difference"].min() == 0
    assert (table["score"] < 0).all()
    best = table["score"].max()
    np.testing.assert_allclose(table["difference"], best - table["score"], atol=1e-12)


def test_equal_annotators_are_left_to_a_simple_method() -> None:
    votes, _ = crowd(3, 200, diagonal_crowd(5, 3, 0.75))
    with quiet():
        model = Auto(methods=["one-coin", "dawid-skene"]).fit(votes)
    assert model.chosen_ == "one-coin"


@pytest.mark.slow
def test_the_default_is_taken_where_it_is_about_as_good_as_the_best() -> None:
    votes, _ = crowd(3, 200, diagonal_crowd(5, 3, 0.75))
    with quiet():
        model = Auto(methods=["one-coin", "consensus"], standard_errors=100).fit(votes)
    assert model.chosen_ == "consensus"
    best = model.choice_.sort("score")["method"].to_list()[-1]
    assert best == "consensus" or model.reason_.startswith("consensus, the default method that predicts")


def test_small_votes_get_the_default_without_a_comparison() -> None:
    votes, _ = crowd(7, 30, diagonal_crowd(5, 3, 0.85))
    model = Auto().fit(votes)
    assert model.result_.method == "auto: consensus"
    assert "150 votes" in model.reason_
    assert model.choice_["score"].null_count() == len(CANDIDATES)
    assert model.posterior_.tobytes() == make("consensus").fit(votes).posterior_.tobytes()
    # Where it is no candidate, the simplest is taken.
    assert Auto(methods="one-coin,dawid-skene").fit(votes).chosen_ == "one-coin"


def test_votes_of_one_class_are_warned_about_once() -> None:
    votes = Annotations.from_arrays(np.repeat(range(100), 3), [0, 1, 2] * 100, ["yes"] * 300)
    with pytest.warns(DataWarning, match="only one class") as caught:
        model = Auto().fit(votes)
    assert len(caught) == 1
    assert "one class only" in model.reason_


def test_few_votes_per_annotator_leave_no_candidate_out() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 120)
    people = rng.permutation(np.repeat(np.arange(100), 6))
    item = np.repeat(np.arange(120), 5)
    label = np.where(rng.random(600) < 0.7, truth[item], rng.integers(0, 4, 600))
    with quiet():
        model = Auto(methods="majority,confusion-vector,dawid-skene").fit(Annotations.from_arrays(item, people, label))
    assert model.choice_["score"].null_count() == 0
    assert model.choice_["note"].to_list() == ["", "", ""]


# -- operations, not seconds ----------------------------------------------------------------------


def test_without_operations_nothing_is_compared() -> None:
    votes, _ = biased_crowd()
    model = Auto(operations=0).fit(votes)
    assert model.chosen_ == "consensus"
    assert "enough for 0 of 7" in model.reason_
    notes = dict(zip(model.choice_["method"], model.choice_["note"], strict=True))
    assert notes.pop("consensus") == "taken without comparison"
    assert all(note.startswith("skipped: it takes about") for note in notes.values())


@pytest.mark.slow
def test_candidates_that_take_too_many_operations_are_skipped_and_named() -> None:
    votes, _ = biased_crowd()
    with quiet():
        model = Auto(operations=1e7).fit(votes)
    notes = dict(zip(model.choice_["method"], model.choice_["note"], strict=True))
    assert [name for name, note in notes.items() if note] == ["ebcc"]
    assert "too many operations: ebcc" in model.reason_


@pytest.mark.slow
def test_the_clock_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    votes, _ = biased_crowd()
    with quiet():
        model = Auto(methods=FEW).fit(votes)
    rng = np.random.default_rng(0)
    for clock in ("perf_counter", "monotonic", "process_time", "time"):
        monkeypatch.setattr(time, clock, lambda: float(rng.normal(0, 1e6)))
    monkeypatch.setattr(trial, "perf_counter", lambda: float(rng.normal(0, 1e6)))
    with quiet():
        wild = Auto(methods=FEW).fit(votes)
    assert wild.choice_.drop("seconds").equals(model.choice_.drop("seconds"))
    assert not wild.choice_["seconds"].equals(model.choice_["seconds"])
    assert (wild.chosen_, wild.reason_) == (model.chosen_, model.reason_)
    assert wild.posterior_.tobytes() == model.posterior_.tobytes()


def test_only_the_table_of_a_choice_reads_a_clock() -> None:
    folder = Path(trial.__file__).parent
    found = {path.name for path in folder.glob("*.py") if re.search(r"^\s*(from time|import time)\b", path.read_text(), re.M)}
    assert found == {"trial.py", "new_rows.py"}


def test_a_candidate_that_fails_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    votes, _ = biased_crowd()

    def broken(self: Any, problem: Any) -> Any:
        raise SettingError("out of order")

    monkeypatch.setattr(METHODS["one-coin"].cls, "_fit", broken)
    with quiet():
        model = Auto(methods="majority,one-coin,dawid-skene").fit(votes)
    assert model.choice_["note"].to_list()[1] == "failed: out of order"
    assert model.chosen_ == "dawid-skene"


def test_gold_labels_can_turn_the_choice() -> None:
    # Three of five share a wrong habit; votes foretell each other well under it, true labels do not.
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, 400)
    habit = rng.integers(0, 2, 400)
    votes = [np.where(rng.random(400) < 0.95, habit, 1 - habit) for _ in range(3)]
    votes += [np.where(rng.random(400) < 0.9, truth, 1 - truth) for _ in range(2)]
    data = Annotations.from_matrix(np.stack(votes, axis=1))
    with quiet():
        plain = Auto(methods="majority,dawid-skene").fit(data)
        told = Auto(methods="majority,dawid-skene").fit(data, gold={n: int(truth[n]) for n in range(200)})
    rest = slice(200, None)
    assert (plain.labels_ == truth)[rest].mean() < 0.65
    assert (told.labels_ == truth)[rest].mean() > 0.85


def test_a_record_of_annotators_is_used_even_without_a_comparison() -> None:
    votes = Annotations.from_arrays([0, 0, 1, 1], ["x", "y"] * 2, ["p", "q", "q", "p"])
    model = Auto().fit(votes, history={"x": (1, 40), "y": (40, 1)})
    assert model.chosen_ == "consensus"
    assert model.labels_.tolist() == ["q", "p"]


# -- stacking -------------------------------------------------------------------------------------


def test_a_stack_is_the_weighted_mean_of_posteriors() -> None:
    votes, truth = biased_crowd()
    with quiet():
        model = Auto(methods="majority,one-coin,dawid-skene", stack=True).fit(votes)
        parts = [weight * make(name).fit(votes).posterior_ for name, weight in model.weights_.items()]
    assert model.result_.method == "auto: stack"
    assert sum(model.weights_.values()) == pytest.approx(1)
    np.testing.assert_allclose(model.posterior_, np.sum(parts, axis=0))
    assert (model.labels_ == truth).mean() > 0.9
    # New votes are judged by matrices that were counted under the stack.
    assert (model.predict(votes) == model.labels_).mean() > 0.95


# -- saving and settings --------------------------------------------------------------------------


def test_a_saved_choice_comes_back_with_its_table(biased: Any, tmp_path: Path) -> None:
    model = biased[0]
    model.save(tmp_path)
    loaded = crowdwise.load(tmp_path)
    assert type(loaded) is Auto
    assert loaded.choice_.equals(model.choice_)
    assert (loaded.chosen_, loaded.reason_, loaded.weights_) == (model.chosen_, model.reason_, model.weights_)
    assert loaded.result_.method == model.result_.method
    # The result alone names the method.
    model.result_.save(tmp_path / "result")
    assert crowdwise.load(tmp_path / "result").chosen_ == model.chosen_


@pytest.mark.slow
def test_an_update_chooses_again() -> None:
    votes, _ = biased_crowd()
    first = Auto(methods=FEW).fit(votes[:20])
    assert "without comparing" in first.reason_
    with quiet():
        model = Auto(methods=FEW).fit(votes)
        first.update(votes[20:])
    assert first.chosen_ == model.chosen_
    assert first.posterior_.tobytes() == model.posterior_.tobytes()


@pytest.mark.parametrize("wrong", [[], "", "majoritee", ["auto"], "online-em", 3, [1]])
def test_wrong_candidates_are_named(wrong: Any) -> None:
    votes, _ = crowd(7, 30, diagonal_crowd(5, 3, 0.85))
    with pytest.raises(SettingError, match="methods"):
        Auto(methods=wrong).fit(votes)


def test_nothing_is_chosen_before_a_fit() -> None:
    with pytest.raises(NotFittedError):
        _ = Auto().choice_
