"""A small crowd for every kind of answers, and a quick fit of every registered method to it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from crowdwise import Annotations, Comparisons, LabelSets, Ratings, Similarities, TokenVotes
from crowdwise.errors import CrowdwiseWarning
from crowdwise.estimator.registry import METHODS, Method, make, select

KINDS: dict[str, Any] = {
    "labels": Annotations,
    "partial labels": Annotations,
    "label sets": LabelSets,
    "tags": TokenVotes,
    "ratings": Ratings,
    "comparisons": Comparisons,
    "similarities": Similarities,
}
N_ITEMS, N_ANNOTATORS = 24, 5
# Enough steps for promises that hold after any number of them; each method takes those that it has.
QUICK = {"epochs": 2, "warmup": 1, "batch_size": 16, "folds": 2, "clusters": 3, "max_iter": 20}
QUICK_WITH_FEATURES = {"max_iter": 3}
FAST = (
    "majority", "dawid-skene", "online-em", "eigen", "item-group-ds", "raykar", "mean", "gaussian-crowd", "bradley-terry",
    "similarity-nmf", "hmm-crowd", "label-wise", "partial-dawid-skene",
)  # fmt: skip
CANDIDATES = {"auto": ["majority", "dawid-skene"], "auto-classifier": ["two-stage", "raykar"]}


def parameters(**wanted: Any) -> Any:
    """Every method with these capabilities, as parameters; the fast suite runs one or two of each kind."""
    names = select(**wanted)
    return pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in names])


every_method = parameters()


@dataclass(frozen=True)
class Crowd:
    """Answers of a few annotators by column, in the order of `from_arrays`, with what a fit needs besides."""

    method: Method
    columns: Mapping[str, NDArray[Any]]
    items: NDArray[Any]
    truth: NDArray[Any]
    features: NDArray[np.float64] | None = None
    groups: Mapping[Any, Any] | None = None

    @property
    def answer(self) -> str:
        """Name of the column with what annotators said."""
        return list(self.columns)[-1]

    def answers(self, **changed: Any) -> Any:
        """The answers as the kind of data that the method takes; `changed` replaces columns."""
        return self.read({**self.columns, **changed})

    def read(self, columns: Mapping[str, Any], **vocabularies: Any) -> Any:
        """These columns as the kind of data that the method takes."""
        found = KINDS[self.method.answers].from_arrays(*columns.values(), **vocabularies)
        return found if self.groups is None else found.with_groups(self.groups)

    def rows(self, keep: Any) -> dict[str, NDArray[Any]]:
        """Some rows of the columns."""
        return {name: column[keep] for name, column in self.columns.items()}

    def fit(self, data: Any = None, *, settings: Mapping[str, Any] | None = None, **given: Any) -> Any:
        """Fit the method to these answers, or to the crowd's own, with few steps and without warnings."""
        data = self.answers() if data is None else data
        model = make(self.method.name, **quick(self.method) | dict(settings or {}))
        with quiet():
            if self.features is None:
                return model.fit(data, **given)
            return model.fit(self.features, data, **{"items": self.items} | given)


def quick(method: Method) -> dict[str, Any]:
    """Settings under which a fit takes a moment."""
    known = {f.name for f in fields(method.cls)}
    wanted = QUICK | (QUICK_WITH_FEATURES if method.features else {})
    if method.name in CANDIDATES:
        wanted = wanted | {"methods": CANDIDATES[method.name]}
    return {name: value for name, value in wanted.items() if name in known}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Few steps on few answers rightly make methods warn; those warnings have tests of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        yield


def answers_of(name: str, seed: int = 0) -> Crowd:
    """Draw answers for a method, by the kind it takes: annotators right in five of six cases, every item answered by all."""
    method = METHODS[name]
    rng = np.random.default_rng(seed)
    items = np.array([f"item-{n:02d}" for n in range(N_ITEMS)], dtype=object)
    if method.answers in ("comparisons", "similarities"):
        columns, truth = _pairs(method, rng, items)
    else:
        columns, truth = _single(method, rng, items)
    features = _features(truth, rng) if method.features else None
    groups = {item: ("north", "south")[n % 2] for n, item in enumerate(items)} if method.groups else None
    return Crowd(method, columns, items, truth, features, groups)


def _single(method: Method, rng: np.random.Generator, items: NDArray[Any]) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Every annotator answers every item once."""
    item, who = (index.ravel() for index in np.indices((N_ITEMS, N_ANNOTATORS)))
    annotator = _names(who)
    n_classes = 2 if method.binary_only else 3
    # Every class begins a sentence of six tokens somewhere, so that BIO tags are valid.
    truth = np.arange(N_ITEMS) % n_classes
    said = np.where(rng.random(len(item)) < 5 / 6, truth[item], rng.integers(0, n_classes, len(item)))
    both = {"item": items[item], "annotator": annotator}
    if method.answers == "ratings":
        value = item + rng.normal(size=N_ANNOTATORS)[who] + rng.normal(0, 0.4, len(item))
        return both | {"value": value}, np.arange(N_ITEMS, dtype=float)
    if method.answers == "tags":
        tags = np.array(["O", "B-x", "I-x"], dtype=object)
        sentence = np.array([f"s{n}" for n in range(4)], dtype=object)[item // 6]
        return {"sequence": sentence, "position": item % 6, "annotator": annotator, "label": tags[said]}, tags[truth]
    if method.answers == "label sets":
        shown = [np.array(["a", "b", "c"])[np.arange(3) <= k] for k in said]
        return both | {"label": np.array(["|".join(labels) for labels in shown], dtype=object)}, truth
    words = np.array(["ant", "bee", "cat"], dtype=object)
    label = words[said]
    if method.answers == "partial labels":
        against = rng.random(len(item)) < 0.2
        label = np.where(against, np.array([f"!{word}" for word in words[(said + 1) % 3]], dtype=object), label)
    return both | {"label": label}, words[truth]


def _pairs(method: Method, rng: np.random.Generator, items: NDArray[Any]) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Annotators compare random pairs; every item is met."""
    n_rows = 160
    first = np.concatenate([np.arange(N_ITEMS), rng.integers(0, N_ITEMS, n_rows - N_ITEMS)])
    second = (first + np.where(np.arange(n_rows) < N_ITEMS, 1, rng.integers(1, N_ITEMS, n_rows))) % N_ITEMS
    right = rng.random(n_rows) < 5 / 6
    columns = {"item_a": items[first], "item_b": items[second], "annotator": _names(rng.integers(0, N_ANNOTATORS, n_rows))}
    if method.answers == "comparisons":
        winner = np.where((first > second) == right, "left", "right").astype(object)
        return columns | {"winner": winner}, np.arange(N_ITEMS, dtype=float)
    return columns | {"same": ((first % 3 == second % 3) == right).astype(int)}, np.arange(N_ITEMS) % 3


def _names(who: NDArray[Any]) -> NDArray[Any]:
    return np.array(["Ada", "Ben", "Cleo", "Dan", "Eve"], dtype=object)[who]


def _features(truth: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
    """Three columns that say what the truth is, up to noise."""
    code = np.unique(truth, return_inverse=True)[1]
    return np.stack([np.cos(code), np.sin(code), np.zeros(len(code))], axis=1) * 3 + rng.normal(0, 0.3, (len(code), 3))


@cache
def watched(name: str) -> tuple[Any, list[tuple[Any, ...]]]:
    """A fit that tests share, and the steps it reported."""
    steps: list[tuple[Any, ...]] = []
    return answers_of(name).fit(progress=lambda *step: steps.append(step)), steps


def fitted(name: str) -> Any:
    """A fit that tests share: look, do not touch. Others are compared with it, so that watching a fit changes none."""
    return watched(name)[0]


def arrays(value: Any, path: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """Every array that a user could reach through fields, mappings and lists."""
    if isinstance(value, np.ndarray):
        yield path, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from arrays(entry, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for position, entry in enumerate(value):
            yield from arrays(entry, f"{path}[{position}]")
    elif is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            yield from arrays(getattr(value, f.name, None), f"{path}.{f.name}")


def bits(value: Any) -> dict[str, Any]:
    """The content of every array, in a form that compares NaN with NaN."""
    return {
        path: (array.dtype.str, array.shape, array.tolist() if array.dtype == object else array.tobytes())
        for path, array in arrays(value)
    }


def numbers(value: Any) -> dict[str, Any]:
    """`bits` of all but ids."""
    return {path: content for path, content in bits(value).items() if content[0] not in ("|O",) and content[0][1] not in "UST"}


def same(first: Any, second: Any) -> None:
    """Two fits are equal to the bit, wherever a user could look."""
    assert bits(first.result_) == bits(second.result_)
    assert first.items_frame().equals(second.items_frame(), null_equal=True)
    assert first.annotators_frame().equals(second.annotators_frame(), null_equal=True)
    assert (first.n_iter_, first.converged_) == (second.n_iter_, second.converged_)


def predictions(model: Any, crowd: Crowd) -> Any:
    """What a model predicts, where it predicts: from features, or for answers."""
    if not hasattr(model, "predict"):
        return None
    ask = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    with quiet():
        return np.asarray(ask(crowd.answers() if crowd.features is None else crowd.features))
