"""What every registered classifier promises, whichever it is."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.contract.crowds import CANDIDATES
from tests.engines.gradient.helpers import blobs, even, quiet, votes_on

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import classifiers, make_classifier

CLASSIFIERS = classifiers()


def there() -> list[str]:
    names = []
    for name, method in CLASSIFIERS.items():
        try:
            _ = method.cls
        except ImportError:
            continue
        names.append(name)
    return names


# For two classes only; tests/methods/classify/test_binary_gps.py has their contract.
BINARY = ("vgpcr", "rff", "vff", "rodr14")
NAMES = [name for name in there() if name not in BINARY]
# The fast suite runs one of each kind: end to end, EM with a network, EM with a table.
FAST_ONES = ("ccem", "aggnet", "raykar")
method = pytest.mark.parametrize(
    "name", [name if name in FAST_ONES else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
)
slow_method = pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in NAMES])

# Enough for easy data; each method takes those that it has.
QUICK: dict[str, Any] = {"epochs": 6, "warmup": 2, "batch_size": 32, "learning_rate": 0.02, "max_iter": 10}
QUICK |= {"inducing": 20, "measured": 10, "layers": 3}


def quick(name: str, **more: Any) -> Any:
    has = {f.name for f in fields(CLASSIFIERS[name].cls)}
    settings = QUICK | ({"methods": CANDIDATES[name]} if name in CANDIDATES else {}) | more
    settings |= {"hidden": 20} if name == "gpnetcr" else {}
    return make_classifier(name, **{key: value for key, value in settings.items() if key in has})


def given(name: str) -> dict[str, Any]:
    """Settings, for those who would choose them by three more fits; test_chosen_settings.py has their choice."""
    chosen = {"likelihood": "robust-max", "scaling": "columns"}
    return chosen if quick(name).get_params().get("likelihood") == "auto" else {}


def fit(name: str, features: Any, votes: Any, fit: dict[str, Any] | None = None, **more: Any) -> Any:
    with quiet():
        return quick(name, **more).fit(features, votes, **(fit or {}))


FEATURES, TRUTH = blobs(0, 90, 3, gap=5.0)
VOTES = votes_on(TRUTH, even(4, 3, 0.8), share=0.8)


@cache
def easy(name: str) -> Any:
    """A fit that tests share: look, do not touch."""
    return fit(name, FEATURES, VOTES, epochs=15, **given(name))


def is_sound(model: Any, features: Any) -> None:
    votes = model.result_.votes
    assert model.posterior_.shape == (votes.n_items, votes.n_classes)
    assert model.confusion_.shape == (votes.n_annotators, votes.n_classes, votes.n_classes)
    proba = model.predict_proba(features)
    assert proba.shape == (len(features), votes.n_classes)
    for rows in (model.posterior_, model.confusion_, proba, model.prior_):
        assert np.isfinite(rows).all()
        assert (rows >= 0).all()
        np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-5)
    assert set(model.predict(features)) <= set(model.classes_.tolist())
    assert len(model.labels_) == votes.n_items
    assert model.n_iter_ >= 1
    assert np.isfinite(model.trace_).all()
    # Reports are made of these.
    assert len(model.result_.items_frame()) == votes.n_items
    assert len(model.result_.annotators_frame()) == votes.n_annotators


def test_most_methods_are_there() -> None:
    """A method that does not import would silently leave this file."""
    assert set(FAST_ONES) <= set(NAMES)


@method
def test_easy_data_are_learned(name: str) -> None:
    model = easy(name)
    assert (model.labels_ == TRUTH).mean() > 0.9
    assert (model.predict(FEATURES) == TRUTH).mean() > 0.85
    assert (model.predict(FEATURES, VOTES) == TRUTH).mean() > 0.9
    assert model.score(FEATURES, TRUTH) > 0.85


@method
def test_rows_and_votes_are_matched_by_id(name: str) -> None:
    """Text ids in any script, rows in another order than the items, and rows without votes."""
    ids = np.array([f"目 {n} éß" for n in range(90)], dtype=object)
    order = np.random.default_rng(0).permutation(90)
    some = VOTES.take_votes(VOTES.item % 5 != 0)
    named = Annotations.from_arrays(
        ids[some.item], np.array(["Ä", "Ω", "ж", "🙂"], dtype=object)[some.annotator], np.array(["丙", "甲", "乙"])[some.label]
    )
    model = fit(name, FEATURES[order], named, {"items": ids[order]}, epochs=10, **given(name))
    is_sound(model, FEATURES)
    assert model.items_.tolist() == ids[order].tolist()
    words = np.array(["丙", "甲", "乙"])
    voted = order % 5 != 0
    assert (model.labels_ == words[TRUTH[order]])[voted].mean() > 0.85
    assert (model.predict(FEATURES) == words[TRUTH]).mean() > 0.8


def crowds() -> dict[str, tuple[np.ndarray, Any]]:
    """Features and votes at the edges of what is allowed, beside those of test_shapes.py."""
    rng = np.random.default_rng(0)
    items = np.arange(48)
    features, truth, votes = FEATURES[:48], TRUTH[:48], VOTES[:48]
    cases: dict[str, tuple[np.ndarray, Any]] = {
        "one label per row": (features, truth),
        "half the items without votes": (features, votes.take_votes(votes.item % 2 == 0)),
        "weights, some zero": (
            features,
            Annotations.from_arrays(
                votes.item, votes.annotator, votes.label, rng.integers(0, 3, votes.n_votes).astype(float), items=items
            ),
        ),
        "a class without votes": (features, votes.with_classes([0, 1, 2, 3])),
        "one item per class": (features[:3], Annotations.from_arrays([0, 1, 2], [0, 0, 0], [0, 1, 2], items=range(3))),
        "two items": (features[:2], Annotations.from_arrays([0, 1], [0, 1], [0, 1], items=range(2))),
        "one annotator per item": (features, Annotations.from_arrays(items, [f"a{n:02d}" for n in items], truth, items=items)),
        "everyone disagrees": (
            features,
            Annotations.from_arrays(np.repeat(items, 3), np.tile([0, 1, 2], 48), np.tile([0, 1, 2], 48), items=items),
        ),
        "one feature": (features[:, :1], votes),
        "constant features": (np.ones((48, 4)), votes),
    }
    two = truth % 2
    cases["two classes"] = (features, votes_on(two, even(3, 2, 0.8)))
    many = items % 30
    cases["thirty classes"] = (features, votes_on(many, even(3, 30, 0.8)))
    return cases


CROWDS = crowds()
CHOSEN = ("one label per row", "half the items without votes", "a class without votes", "one item per class", "two items")


@method
def test_odd_crowds_give_sound_fits(name: str) -> None:
    for case, (features, votes) in CROWDS.items():
        # What is chosen by held-out votes is one function, and half of the crowds are odd to it: svgpcr lets it choose there.
        chosen = name == "svgpcr" and case in CHOSEN
        try:
            is_sound(fit(name, features, votes, epochs=2, warmup=1, **({} if chosen else given(name))), features)
        except Exception as problem:
            raise AssertionError(f"{case}: {problem!r}") from problem


@method
def test_memory_nobody_wrote_is_never_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from numpy import empty

    def poisoned(*args: Any, **settings: Any) -> Any:
        fresh = empty(*args, **settings)
        if fresh.dtype == np.float64:
            fresh.view(np.uint64).fill(0x7FF0000000000001)  # a signalling NaN: arithmetic on it warns
        return fresh

    monkeypatch.setattr(np, "empty", poisoned)
    monkeypatch.setattr(np, "empty_like", lambda like, *args, **settings: poisoned(like.shape, like.dtype))
    model = fit(name, FEATURES, VOTES, epochs=3, **given(name))
    is_sound(model, FEATURES)
    assert np.isfinite(model.predict_proba(FEATURES, VOTES)).all()
    assert np.isfinite(model.score(FEATURES, VOTES))


@method
def test_annotators_never_seen_are_given_the_population(name: str) -> None:
    model = easy(name)
    new = Annotations.from_arrays([0, 0, 1], ["new", "newer", "new"], [2, 2, 0], items=[0, 1, 2])
    proba = model.predict_proba(FEATURES[:3], new)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-9)
    alone = model.predict_proba(FEATURES[:3])
    # A vote of a crowd that is mostly right moves its item towards the label; no vote moves nothing.
    assert proba[0, 2] >= alone[0, 2]
    assert proba[1, 0] >= alone[1, 0]
    np.testing.assert_allclose(proba[2], alone[2], atol=1e-9)


@slow_method
def test_two_liars_of_five_do_not_fool_the_default_start(name: str) -> None:
    features, truth = blobs(5, 180, 3, gap=5.0)
    shift = np.roll(np.eye(3), 1, axis=1)
    votes = votes_on(truth, np.stack([*even(3, 3, 0.85), shift, shift]))
    model = fit(name, features, votes, epochs=14, warmup=5, batch_size=36, **given(name))
    assert (model.labels_ == truth).mean() > 0.85
    assert (model.predict(features) == truth).mean() > 0.85
    # They name the next class: observed = true + 1 in rows of the true class.
    assert model.confusion_[3].diagonal().mean() < 0.5


@slow_method
def test_the_start_of_the_papers_runs(name: str) -> None:
    if "init" not in {f.name for f in fields(CLASSIFIERS[name].cls)}:
        pytest.skip(f"{name} has no start to choose")
    choices = next(f.metadata["choices"] for f in fields(CLASSIFIERS[name].cls) if f.name == "init")
    if choices is not None and "identity" not in choices:
        pytest.skip(f"{name} starts from labels, not from matrices")
    model = fit(name, FEATURES, VOTES, init="identity", epochs=10, **given(name))
    is_sound(model, FEATURES)
    assert (model.labels_ == TRUTH).mean() > 0.85


@method
def test_votes_can_be_scored_and_explained(name: str) -> None:
    model = easy(name)
    assert model.score(FEATURES, VOTES) < 0
    why = model.explain(VOTES.items[0])
    assert why.label == model.labels_[0]
    assert why.rows["contribution"].sum() == pytest.approx(why.total, abs=1e-6)
