"""What all methods for annotations other than classes have in common, and odd data of every kind."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.data.comparisons import Comparisons
from crowdwise.data.label_sets import LabelSets
from crowdwise.data.ratings import Ratings
from crowdwise.data.similarities import Similarities
from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import ConvergenceWarning, DataWarning, InputError
from crowdwise.estimator.registry import METHODS as EVERY
from crowdwise.estimator.registry import label_methods, make

METHODS = label_methods()
TASKS = {name: method for name, method in EVERY.items() if method.answers != "labels" or method.groups}

Floats = NDArray[np.float64]
ORDINAL = ("cumulative-link", "ordinal-binary")
# Few steps are enough for promises that hold after any number of them.
SETTINGS: dict[str, dict[str, Any]] = {
    "similarity-nmf": {"clusters": 3},
    "crowd-clustering": {"clusters": 2, "epochs": 3},
    "rank-network": {"epochs": 3},
    "parity-classifier": {"epochs": 2},
    "crowd-layer-regression": {"epochs": 3},
    "gp-crowd-regression": {"max_iter": 3},
}


@dataclass(frozen=True)
class Case:
    """A table of answers by column, the class that reads them, and how a method is fitted to it and asked."""

    columns: tuple[NDArray[Any], ...]
    read: Callable[..., Any]
    estimate: Callable[[Any], Floats]
    groups: dict[Any, Any] | None = None
    features: Floats | None = None
    features_first: bool = False

    def fit(self, name: str, columns: Sequence[Any] | None = None, **settings: Any) -> Any:
        data = self.read(*(self.columns if columns is None else columns))
        estimator = make(name).set_params(**SETTINGS.get(name, {}) | settings)
        given = [data] if self.features is None else [self.features, data]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", DataWarning)
            return estimator.fit(*given, **({} if self.groups is None else {"groups": self.groups}))


def case_of(name: str) -> Case:
    """Small data for a method, by its family and by what it needs."""
    rng = np.random.default_rng(11)
    family = METHODS[name].family if name in ORDINAL else TASKS[name].family
    needs = "" if name in ORDINAL else TASKS[name].needs
    n_items, n_people, n_rows = 12, 5, 90
    features = rng.normal(size=(n_items, 2)) if "features" in needs else None
    if family in ("ranking", "similarity"):
        first = rng.integers(0, n_items, n_rows)
        second = (first + rng.integers(1, n_items, n_rows)) % n_items
        # Every item is met, so that the rows of features are those of the items.
        first[:n_items], second[:n_items] = np.arange(n_items), (np.arange(n_items) + 1) % n_items
        who = rng.integers(0, n_people, n_rows)
        if family == "ranking":
            answer = np.where(rng.random(n_rows) < 1 / (1 + np.exp((first - second) / 3)), "left", "right").astype(object)
            answer[rng.random(n_rows) < 0.1] = "tie"
            return Case((first, second, who, answer), Comparisons.from_arrays, lambda e: e.scores_, None, features)
        answer = np.where(rng.random(n_rows) < 0.85, first % 3 == second % 3, first % 3 != second % 3).astype(int)
        return Case((first, second, who, answer), Similarities.from_arrays, lambda e: e.membership_, None, features)
    item, who = (index.ravel() for index in np.indices((n_items, n_people)))
    right = rng.random(len(item)) < 0.75
    if family == "sequences":
        tag = np.array(["O", "B-X", "I-X"], object)[np.where(right, item % 3, rng.integers(0, 3, len(item)))]
        return Case((item // 6, item % 6, who, tag), TokenVotes.from_arrays, lambda e: e.posterior_)
    if family == "several labels":
        said = np.where(right[:, None], item[:, None] % 4 <= np.arange(3), rng.random((len(item), 3)) < 0.5)
        text = np.array(["|".join(np.array(list("abc"))[row]) or "none" for row in said], object)
        return Case((item, who, text), LabelSets.from_arrays, lambda e: e.result_.probability)
    if family == "partial votes":
        mark = np.where(rng.random(len(item)) < 0.3, "!", "")
        text = np.array([f"{m}{k}" for m, k in zip(mark, rng.integers(0, 3, len(item)), strict=True)], object)
        text[4] = "skip"
        return Case((item, who, text), Annotations.from_arrays, lambda e: e.result_.posterior)
    if family == "numbers":
        value = item + rng.normal(size=n_people)[who] + rng.normal(0, 0.4, len(item))
        return Case((item, who, value), Ratings.from_arrays, lambda e: e.estimate_, None, features, True)
    label = np.where(right, item % 3, rng.integers(0, 3, len(item)))
    if family == "fairness":
        groups = {k: k % 2 for k in range(n_items)}
        if features is None:
            return Case((item, who, label), Annotations.from_arrays, lambda e: e.posterior_, groups)
        return Case((item, who, label), Annotations.from_arrays, lambda e: e.predict_proba(features), groups, features, True)
    return Case((item, who, label), Annotations.from_arrays, lambda e: e.posterior_)


EVERY = (*TASKS, *ORDINAL)
# -- settings ----------------------------------------------------------------------------------


# -- promises of every fit ---------------------------------------------------------------------


# -- what must not matter ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bradley-terry", "crowd-bt", "noisy-bt"])
def test_sides_swapped_with_their_outcomes_rank_alike(name: str) -> None:
    case = case_of(name)
    first, second, who, answer = case.columns
    turned = np.array([{"left": "right", "right": "left"}.get(word, word) for word in answer], object)
    swapped = case.fit(name, [second, first, who, turned])
    assert case.estimate(swapped) == pytest.approx(case.estimate(case.fit(name)), abs=1e-6)


@pytest.mark.parametrize("name", ["bradley-terry", "crowd-bt"])
def test_turning_every_vote_turns_the_scores(name: str) -> None:
    case = case_of(name)
    first, second, who, answer = case.columns
    turned = case.fit(name, [second, first, who, answer])
    assert case.estimate(turned) == pytest.approx(-case.estimate(case.fit(name)), abs=1e-4)


def test_sides_do_not_matter_for_similarity() -> None:
    case = case_of("similarity-nmf")
    first, second, who, answer = case.columns
    swapped = case.fit("similarity-nmf", [second, first, who, answer])
    assert np.array_equal(case.estimate(swapped), case.estimate(case.fit("similarity-nmf")))


@pytest.mark.parametrize("name", [n for n, m in TASKS.items() if m.family == "numbers" and "features" not in m.needs])
def test_numbers_in_another_unit_give_estimates_in_that_unit(name: str) -> None:
    case = case_of(name)
    item, who, value = case.columns
    other = case.fit(name, [item, who, 1000 * value - 3e4])
    assert (case.estimate(other) + 3e4) / 1000 == pytest.approx(case.estimate(case.fit(name)), abs=1e-5)


@pytest.mark.parametrize("name", ORDINAL)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_ordered_classes_turned_round_give_the_mirror_image(name: str, n_classes: int) -> None:
    case = case_of(name)
    item, who, label = case.columns
    label = np.minimum(label, n_classes - 1)
    forth, back = (case.fit(name, [item, who, votes]) for votes in (label, n_classes - 1 - label))
    assert case.estimate(back)[:, ::-1] == pytest.approx(case.estimate(forth), abs=1e-6)


def test_the_order_of_labels_does_not_matter() -> None:
    columns = case_of("label-wise").columns
    forth, back = (make("label-wise").fit(LabelSets.from_arrays(*columns, labels=labels)) for labels in ("abc", "cba"))
    assert back.result_.probability[:, ::-1] == pytest.approx(forth.result_.probability, abs=1e-6)


def test_votes_of_weight_zero_say_nothing() -> None:
    first, second, who, answer = case_of("crowd-bt").columns
    keep = np.arange(len(first)) % 4 > 0
    for name in ("bradley-terry", "crowd-bt", "noisy-bt"):
        weighed = make(name).fit(Comparisons.from_arrays(first, second, who, answer, weight=keep.astype(float)))
        rest = make(name).fit(Comparisons.from_arrays(first[keep], second[keep], who[keep], answer[keep]))
        assert weighed.scores_ == pytest.approx(rest.scores_, abs=1e-4)


# -- odd shapes --------------------------------------------------------------------------------

COMPARISONS: dict[str, tuple[Sequence[Any], ...]] = {
    "one vote": ("x", "y", "a", ["x"]),
    "all ties": ("xyz", "yzx", "aab", ["tie"] * 3),
    "contradictory repeats": ("xx", "yy", "aa", ["x", "y"]),
    "a hundred repeats": ("x" * 100, "y" * 100, "a" * 100, ["x"] * 100),
    "numbers and texts": ([1, 2], ["2", "3"], [7, 8], ["1", 3]),
    "a missing answer": ("xy", "yz", "ab", ["x", None]),
    "emoji": (["😀", "=1+1"], ["é", "😀"], ["名", "-x"], ["😀", "=1+1"]),
}


@pytest.mark.parametrize("name", ["bradley-terry", "crowd-bt", "noisy-bt"])
@pytest.mark.parametrize("shape", COMPARISONS)
def test_odd_comparisons_have_finite_scores_of_mean_zero(name: str, shape: str) -> None:
    columns = [list(column) for column in COMPARISONS[shape]]
    fitted = make(name).fit(Comparisons.from_arrays(*columns))
    assert fitted.scores_.mean() == pytest.approx(0, abs=1e-9)
    assert fitted.items_frame().height == len(fitted.scores_)
    if shape in ("all ties", "contradictory repeats"):
        assert fitted.scores_ == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("answers", [[], [None], [""]])
def test_no_answers_are_a_clear_error(answers: list[Any]) -> None:
    one = [["x"] * len(answers), ["y"] * len(answers), ["a"] * len(answers), answers]
    for name in ("bradley-terry", "crowd-bt", "noisy-bt"):
        with pytest.raises(InputError, match="no comparisons"):
            make(name).fit(Comparisons.from_arrays(*one))
    with pytest.raises(InputError, match="no answers"):
        make("similarity-nmf").fit(Similarities.from_arrays(*one))
    with pytest.raises(InputError, match=r"no rows|every tag is missing"):
        TokenVotes.from_arrays(one[0], [1] * len(answers), one[2], answers)
    with pytest.raises(InputError, match="no label is named"):
        make("label-wise").fit(LabelSets.from_arrays(one[0], one[2], answers))


def test_parts_that_never_met_are_ranked_apart_with_a_warning() -> None:
    votes = Comparisons.from_arrays(list("xp"), list("yq"), list("ab"), ["x", "q"])
    for name in ("bradley-terry", "crowd-bt", "noisy-bt"):
        with pytest.warns(DataWarning, match="2 parts that never met"):
            fitted = make(name).fit(votes)
        assert fitted.items_frame()["component"].n_unique() == 2
        assert dict(zip(votes.items.tolist(), np.sign(fitted.scores_), strict=True)) == {"p": -1, "q": 1, "x": 1, "y": -1}


def test_winners_that_are_ids_here_and_sides_there_are_refused() -> None:
    # Items 1 .. 4 and the winners 1 and 2: of (2, 1) the winner 1 is an id, of (3, 4) it can only be the first.
    with pytest.raises(InputError, match="row 0: the winner '1' is the id of one item"):
        Comparisons.from_arrays([2, 3], [1, 4], ["a", "a"], [1, 1])
    ids = Comparisons.from_arrays([2, 3], [1, 4], ["a", "a"], [1, 3])
    assert ids.outcome.tolist() == [-1, 1]
    sides = Comparisons.from_arrays([1, 3], [2, 4], ["a", "a"], [1, 2])
    assert sides.outcome.tolist() == [1, -1]


SEQUENCES = [name for name, method in TASKS.items() if method.family == "sequences"]


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("tag", ["O", "B-X", "I-X"])
def test_a_sentence_of_one_token(name: str, tag: str) -> None:
    fitted = make(name).fit(TokenVotes.from_arrays(["é"], [1], ["a"], [tag], token=["😀"], classes=["O", "B-X", "I-X"]))
    assert fitted.labels_.tolist() in (["O"], ["B-X"])
    assert fitted.posterior_.sum(axis=1) == pytest.approx(1)
    if tag != "I-X":
        assert fitted.labels_.tolist() == [tag]


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sentence_that_nobody_tagged_has_tags_with_doubt(name: str) -> None:
    tags = TokenVotes.from_arrays([1, 1, 2, 2], [1, 2, 1, 2], ["a"] * 4, ["B-X", "I-X", None, "?"])
    fitted = make(name).fit(tags)
    assert fitted.items_frame().height == 4
    assert fitted.labels_[:2].tolist() == ["B-X", "I-X"]
    assert (fitted.posterior_[2:].max(axis=1) < 0.99).all()
    assert fitted.spans_["confidence"].is_between(0, 1).all()


@pytest.mark.parametrize("name", SEQUENCES)
def test_fifty_types_and_positions_with_gaps(name: str) -> None:
    tags = [f"B-{k}" for k in range(50)]
    fitted = make(name).fit(TokenVotes.from_arrays([1] * 50, [3 * k - 7 for k in range(50)], ["a"] * 50, tags))
    assert fitted.labels_.tolist() == tags
    assert fitted.spans_["start"].to_list() == [3 * k - 7 for k in range(50)]


@pytest.mark.parametrize("name", SEQUENCES)
def test_classes_that_can_go_on_but_not_begin_are_refused(name: str) -> None:
    tags = TokenVotes.from_arrays([1, 1], [1, 2], ["a", "a"], ["I-X", "O"], classes=["I-X", "O"])
    with pytest.raises(InputError, match="'I-X' and no 'B-X'"):
        make(name).fit(tags)
    assert make(name).set_params(bio=False).fit(tags).labels_.tolist() == ["I-X", "O"]


def test_positions_are_whole_numbers_however_they_are_written() -> None:
    assert TokenVotes.from_arrays([1, 1], ["1.0", "2.0"], ["a", "a"], ["O", "O"]).position.tolist() == [1, 2]
    with pytest.raises(InputError, match=r"row 1: position '1\.5'"):
        TokenVotes.from_arrays([1, 1], [1.0, 1.5], ["a", "a"], ["O", "O"])


def test_label_sets_of_odd_labels_go_out_and_come_back() -> None:
    answers = LabelSets.from_arrays([1, 2, 3], ["a", "a", "b"], [["x|y", "=z"], [], ["[😀"]])
    back = LabelSets.from_frame(answers.to_frame())
    assert back.labels.tolist() == answers.labels.tolist() == ["=z", "[😀", "x|y"]
    assert (back.answer.tolist(), back.label.tolist()) == (answers.answer.tolist(), answers.label.tolist())


def test_a_mark_without_a_label_is_an_error() -> None:
    with pytest.raises(InputError, match="row 1: a mark and no label"):
        LabelSets.from_arrays([1, 2], [1, 1], ["x", "!"])
    with pytest.raises(InputError, match="a mark and no class"):
        make("partial-dawid-skene").fit(Annotations.from_arrays([1, 2], [1, 1], ["x", "!"]))


def test_blanks_around_a_class_make_no_second_class() -> None:
    votes = Annotations.from_arrays([1, 2, 3, 4], [1, 1, 1, 1], ["cat", " cat", "cat ", "dog"])
    items = make("partial-dawid-skene").fit(votes).items_frame()
    assert items.columns[-2:] == ["p(cat)", "p(dog)"]
    assert items.select("p(cat)", "p(dog)").sum_horizontal().to_list() == pytest.approx([1] * 4)


def test_votes_against_the_only_class_are_refused() -> None:
    columns = np.repeat(range(4), 3), np.tile(range(3), 4), ["!cat"] * 6 + ["cat"] * 6
    with pytest.raises(InputError, match="no other class is named"):
        make("partial-dawid-skene").fit(Annotations.from_arrays(*columns))
    whole = Annotations.from_arrays(*columns, classes=["cat", "other", "!cat"])
    assert make("partial-dawid-skene").fit(whole).items_frame()["label"].to_list() == ["other", "other", "cat", "cat"]


@pytest.mark.parametrize("settings", [{}, {"kappa": 0}, {"class_shares": "shared"}])
def test_groups_of_one_item_and_fifty_classes(settings: dict[str, Any]) -> None:
    votes = Annotations.from_arrays(list("xy") * 2, list("aabb"), [0, 1, 0, 1])
    fitted = make("item-group-ds").set_params(**settings).fit(votes.with_groups({"x": "=1", "y": "😀"}))
    assert fitted.labels_.tolist() == [0, 1]
    many = Annotations.from_arrays(np.arange(100), ["a"] * 100, np.arange(100) % 50)
    fitted = make("item-group-ds").set_params(**settings).fit(many.with_groups([k % 3 for k in range(100)]))
    assert fitted.posterior_.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("name", ORDINAL)
def test_one_vote_one_class_and_fifty(name: str) -> None:
    with pytest.warns(DataWarning, match="only one class occurs"):
        assert make(name).fit(Annotations.from_arrays(["x"], ["a"], [3])).posterior_ == pytest.approx(1)
    one = make(name).fit(Annotations.from_arrays(["x"], ["a"], [1], classes=[1, 2]))
    assert one.labels_.tolist() == [1]
    many = make(name).fit(Annotations.from_arrays(np.arange(150) % 50, np.arange(150) // 50, np.arange(150) % 50))
    assert many.labels_.tolist() == list(range(50))
