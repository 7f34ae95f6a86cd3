"""How every registered method is made, named, copied and shown, before it has seen any data."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from tests.contract.crowds import answers_of, every_method, quick

import crowdwise
from crowdwise.errors import ArgumentError, NotFittedError, SettingError
from crowdwise.estimator.registry import METHODS, make

# Gold may stand where scikit-learn's tools put `y`.
WITHOUT_FEATURES = ["self", "data", "gold", "history", "progress", "engine", "other"]
WITH_FEATURES = ["self", "X", "y", "items", "gold", "progress", "engine", "other"]


@every_method
def test_a_method_is_made_by_name_and_by_class(name: str) -> None:
    """Otherwise the command line and a script would run different methods under one name."""
    line = METHODS[name]
    made = make(name)
    assert type(made) is line.cls
    assert made.name == name
    by_class = line.cls(**line.settings)
    assert by_class.name == name
    assert by_class.get_params() == made.get_params()
    assert getattr(crowdwise, line.cls.__name__) is line.cls
    assert line.summary
    assert line.reference


@every_method
def test_a_misspelt_name_is_answered_with_the_right_one(name: str) -> None:
    """Otherwise a typo costs a look into the docs."""
    with pytest.raises(SettingError, match=f"did you mean '{name}'"):
        make(name + "x")


@every_method
def test_fit_has_one_of_two_signatures(name: str) -> None:
    """Otherwise code that fits one method cannot fit another."""
    parameters = inspect.signature(METHODS[name].cls.fit).parameters
    assert list(parameters) == (WITH_FEATURES if METHODS[name].features else WITHOUT_FEATURES)
    for position, parameter in enumerate(parameters.values()):
        keyword = parameter.VAR_KEYWORD if parameter.name == "other" else parameter.KEYWORD_ONLY
        assert parameter.kind is (parameter.POSITIONAL_OR_KEYWORD if position < 3 else keyword)
        needed = position == 0 or parameter.name in ("data", "X", "y", "other")
        assert parameter.default is (parameter.empty if needed else None)


@every_method
def test_an_argument_that_there_is_not_is_refused_in_words(name: str) -> None:
    """Otherwise a typo, or what another library's `fit` takes, ends in Python's own message, which names no way on."""
    crowd = answers_of(name)
    with pytest.raises(ArgumentError, match="takes no progres; did you mean 'progress'"):
        crowd.fit(progres=print)
    way = r"fit\(X\[rows\], votes\[rows\]\)" if METHODS[name].features and METHODS[name].answers == "labels" else "weight=..."
    with pytest.raises(TypeError, match=f"takes no sample_weight.*{way}"):
        crowd.fit(sample_weight=np.ones(3))


@every_method
def test_what_is_no_engine_is_refused(name: str) -> None:
    """Otherwise its missing method is what the message is about."""
    with pytest.raises(SettingError, match="engine"):
        answers_of(name).fit(engine="local")


@every_method
def test_settings_are_given_by_keyword_alone(name: str) -> None:
    """Otherwise a setting added in the middle changes the meaning of code that exists."""
    parameters = list(inspect.signature(METHODS[name].cls).parameters.values())
    assert {parameter.kind for parameter in parameters} <= {inspect.Parameter.KEYWORD_ONLY}
    assert {parameter.name for parameter in parameters} == set(make(name).get_params())
    assert all(parameter.default is not parameter.empty for parameter in parameters)


@every_method
def test_the_seed_is_a_number_and_is_fixed_unless_asked(name: str) -> None:
    """Otherwise two runs of one script differ, or two methods want seeds of different kinds."""
    model = make(name)
    if "random_state" not in model.get_params():
        return
    assert model.random_state == 0
    crowd = answers_of(name)
    crowd.fit(settings={"random_state": None})
    for wrong in (-1, "seed"):
        with pytest.raises(SettingError, match="random_state"):
            crowd.fit(settings={"random_state": wrong})


@every_method
def test_every_setting_is_documented(name: str) -> None:
    """Otherwise `help`, the command line's options and the docs have a hole."""
    for f in fields(METHODS[name].cls):
        assert f.default is not MISSING, f.name
        assert f.metadata["about"].endswith("."), f.name
        assert len(f.metadata["about"]) > 10, f.name
        assert f.name in (METHODS[name].cls.__doc__ or ""), f"help() does not list {f.name}"


@every_method
def test_settings_are_read_and_changed_by_name(name: str) -> None:
    """Otherwise a search over settings cannot run."""
    model = make(name)
    assert model.set_params(**model.get_params()) is model
    assert model.get_params() == make(name).get_params()
    with pytest.raises(SettingError, match=r"'colour'"):
        model.set_params(colour=1)
    for setting in list(model.get_params())[:1]:
        with pytest.raises(SettingError, match=f"did you mean '{setting}'"):
            model.set_params(**{setting + "x": 1})
    with pytest.raises(SettingError, match="'colour'"):
        make(name, colour=1)
    with pytest.raises(TypeError, match="colour"):
        METHODS[name].cls(colour=1)


@every_method
def test_a_method_is_cloned_copied_hashed_and_pickled(name: str) -> None:
    """Otherwise scikit-learn, caches and processes cannot hold it."""
    model = make(name, **quick(METHODS[name]))
    for other in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert (type(other), other.name, other.get_params()) == (type(model), name, model.get_params())
        assert other != model
    assert len({model, model, clone(model)}) == 2


@every_method
def test_the_text_of_a_method_makes_it_again(name: str) -> None:
    """Otherwise a notebook's output cannot be pasted into a script."""
    for model in (make(name), make(name, **quick(METHODS[name]))):
        again = eval(repr(model), dict(vars(crowdwise)) | {type(model).__name__: type(model)})
        assert type(again) is type(model)
        assert again.get_params() == model.get_params()
    line = METHODS[name]
    given = ", ".join(f"{key}={value!r}" for key, value in line.settings.items())
    assert repr(line.cls()) == f"{line.cls.__name__}()"
    assert repr(make(name)) in (f"{line.cls.__name__}({given})", f"{line.cls.__name__}()")


@every_method
def test_what_only_a_fit_can_say_is_refused_before_it(name: str) -> None:
    """Otherwise a forgotten `fit` ends in an error about a name nobody wrote."""
    model = make(name)
    for attribute in ("items_", "annotators_", "trace_", "n_iter_", "converged_"):
        with pytest.raises(NotFittedError, match="not fitted"):
            getattr(model, attribute)
    for frame in (model.items_frame, model.annotators_frame):
        with pytest.raises(NotFittedError, match="not fitted"):
            frame()
    with pytest.raises(NotFittedError, match="not fitted"):
        model.save("nowhere")


def out_of_range(name: str) -> list[tuple[str, Any]]:
    """Every declared range of a method's settings, crossed."""
    cases: list[tuple[str, Any]] = []
    for f in fields(METHODS[name].cls):
        rule = f.metadata
        if rule["low"] is not None:
            cases += [(f.name, rule["low"] - 1)]
        if rule["above"] is not None:
            cases += [(f.name, rule["above"]), (f.name, rule["above"] - 0.5)]
        if rule["whole"]:
            cases += [(f.name, 2.5)]
        if isinstance(f.default, bool):
            cases += [(f.name, "yes"), (f.name, 2)]
        elif isinstance(f.default, int | float) and not rule["free"]:
            cases += [(f.name, value) for value in ("many", math.nan, math.inf, True)]
            cases += [] if rule["optional"] else [(f.name, None)]
        if rule["choices"]:
            cases += [(f.name, "nonsense")]
    names = {f.name for f in fields(METHODS[name].cls)}
    if "init" in names and METHODS[name].answers == "labels" and not METHODS[name].features:
        cases += [("init", value) for value in (3, ["a"], [[1.0, 0.0]], None)]
    if "off_diagonal" in names:
        cases += [("off_diagonal", value) for value in (0, -1, "high", math.nan, math.inf)]
    if "class_prior" in names:
        cases += [
            ("class_prior", value) for value in ("guess", [0.5], [1, -1, 1], [0, 0, 0], [np.nan, 1, 1], {0: 1.0}, 3, None)
        ]
    return cases


@every_method
def test_settings_out_of_range_are_refused_by_name(name: str) -> None:
    """Otherwise a typo runs for an hour, or ends in an error about an array."""
    crowd = answers_of(name)
    data = crowd.answers()
    for setting, value in out_of_range(name):
        with pytest.raises(SettingError, match=setting):
            crowd.fit(data, settings={setting: value})
