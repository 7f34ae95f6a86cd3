"""From options to a method with its settings, and to a fit."""

from __future__ import annotations

import json
import warnings
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.display import epochs, iterations
from crowdwise.cli.inputs import is_saved, read_gold, read_history, read_votes
from crowdwise.cli.options import MethodOptions, ReadOptions, TaskOptions
from crowdwise.errors import DataWarning, MissingExtraError, SettingError, did_you_mean

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.aggregator import Aggregator
    from crowdwise.estimator.outcome import Result
    from crowdwise.io.features import Features

__all__ = ["CAMPAIGN_CLASSIFIER", "DEFAULT_CLASSIFIER", "DEFAULT_METHOD", "STEADY_METHOD", "build", "build_classifier"]
__all__ += ["build_task", "check_explainable", "fit", "fit_rows", "fit_to", "learns", "result_of", "settings_of"]

DEFAULT_METHOD, DEFAULT_CLASSIFIER = "auto", "auto-classifier"
# Where no choice is made: campaigns fit again and again, and flags of annotators rest on confusion matrices.
STEADY_METHOD, CAMPAIGN_CLASSIFIER = "dawid-skene", "ccem"
_PRIOR = "annotator_prior"


# -- settings ----------------------------------------------------------------------------------


def settings_of(options: TaskOptions, known: list[str]) -> dict[str, Any]:
    """Settings from --set, --seed, --class-prior and --annotator-prior; a seed is nothing to methods that draw no numbers."""
    settings: dict[str, Any] = {}
    for pair in options.set or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingError(f"--set needs NAME=VALUE, such as --set tol=1e-8; got {pair!r}")
        try:
            settings[name.strip().replace("-", "_")] = json.loads(value)
        except ValueError:
            settings[name.strip().replace("-", "_")] = value
    prior: str | None = getattr(options, "annotator_prior", None)
    if prior is not None:
        if _PRIOR in settings:
            raise SettingError(f"--annotator-prior and --set {_PRIOR}= say the same thing; give one of them")
        settings[_PRIOR] = _annotator_prior(prior, known)
    if options.seed is not None and "random_state" in known:
        settings["random_state"] = options.seed
    shares: str | None = getattr(options, "class_prior", None)
    return settings if shares is None else settings | {"class_prior": _class_prior(shares)}


def _annotator_prior(text: str, known: list[str]) -> str:
    """The prior, if the method takes one and this is one."""
    from crowdwise.parts.priors.abilities import ability_prior

    if _PRIOR not in known:
        raise SettingError(f"--annotator-prior: this method has no such prior; {', '.join(_with_prior())} have")
    try:
        with warnings.catch_warnings():
            # What it means for these votes, whose classes are not known yet, is said later.
            warnings.simplefilter("ignore", DataWarning)
            ability_prior(text, None, 2)
    except SettingError as problem:
        raise SettingError(f"--annotator-prior: {problem}") from None
    return text


def _with_prior() -> list[str]:
    """Methods with such a prior, as far as they can be imported."""
    from crowdwise.estimator.registry import select

    found = []
    for name, method in select(answers="labels").items():
        try:
            found += [name] if _PRIOR in {f.name for f in fields(method.cls)} else []
        except MissingExtraError:
            continue
    return found


def _class_prior(text: str) -> Any:
    if text in ("learn", "uniform"):
        return text
    try:
        return json.loads(text if text.lstrip()[:1] in ("[", "{") else f"[{text}]")
    except ValueError:
        raise SettingError(f"--class-prior must be learn, uniform or shares such as 0.2,0.8; got {text!r}") from None


# -- methods -----------------------------------------------------------------------------------


def build(options: TaskOptions, default: str = DEFAULT_METHOD) -> Aggregator:
    """Make the chosen method for votes with its settings, checked before any file is read."""
    from crowdwise.estimator.registry import classifiers, make_aggregator

    if options.method in classifiers():
        raise SettingError(
            f"{options.method} learns from features too: crowdwise train VOTES --features FILE --method {options.method}"
        )
    estimator: Aggregator = _set_up(make_aggregator(options.method or default), options)
    return estimator


def build_classifier(options: TaskOptions, default: str = DEFAULT_CLASSIFIER) -> Any:
    """Make the chosen classifier with its settings, checked before any file is read."""
    from crowdwise.estimator.registry import make_classifier

    return _set_up(make_classifier(options.method or default), options)


def build_task(options: TaskOptions, family: str, default: str) -> Any:
    """Make the chosen method for annotations that are no class votes, checked before any file is read."""
    from crowdwise.estimator.registry import find, make, select

    return _set_up(make(find(options.method or default, select(family=family)).name), options)


def _set_up(estimator: Any, options: TaskOptions) -> Any:
    """Give an estimator its settings; one that it does not know is refused with those that it does."""
    from crowdwise.estimator.estimator import check_settings

    known = list(estimator.get_params(deep=False))
    given = settings_of(options, known)
    try:
        # Settings of a part, such as classifier__C, are checked by the part.
        for name in (name for name in given if "__" not in name and name not in known):
            hint = did_you_mean(name, known)
            raise SettingError(f"{estimator.name} has no setting {name!r}{hint} (it has {', '.join(known)})")
        estimator.set_params(**given)
    except ValueError as problem:
        chosen = options.method is None and estimator.name in (DEFAULT_METHOD, DEFAULT_CLASSIFIER)
        more = "; no method is named, and auto chooses one by itself: name it with --method to set it up"
        raise SettingError(f"{problem}{more if chosen else ''}") from problem
    check_settings(estimator)
    return estimator


def check_explainable(estimator: Any, asked: bool) -> None:
    """Refuse --explain-choice before any work where nothing is chosen."""
    if asked and not hasattr(type(estimator), "choice_"):
        raise SettingError(f"--explain-choice needs --method auto; {estimator.name} chooses nothing")


def learns(method: MethodOptions, features: str | None) -> bool:
    """Whether a classifier is trained; options that do not go together are refused."""
    from crowdwise.estimator.registry import classifiers

    chosen = method.method in classifiers() or (method.method is None and features is not None)
    if chosen and features is None:
        raise SettingError(f"{method.method} learns from features: give them with --features FILE")
    if chosen and (method.history is not None or method.class_prior is not None):
        raise SettingError("--history and --class-prior are for methods without features")
    return chosen


# -- fits --------------------------------------------------------------------------------------


def fit_to(votes: Annotations, estimator: Aggregator, options: MethodOptions, quiet: bool = False) -> Aggregator:
    """Fit with whatever is known beside the votes, and show how far it is."""
    gold, history = read_gold(options.gold, votes), read_history(options.history)
    with iterations(estimator, quiet) as progress:
        return estimator.fit(votes, gold=gold, history=history, progress=progress)


def fit_rows(rows: Features, votes: Annotations, estimator: Any, gold: Path | None, quiet: bool = False, **more: Any) -> Any:
    """Fit a classifier to features and votes; returns the features in the form in which it took them."""
    from crowdwise.methods.classify.rows import taken_by

    X, known = taken_by(estimator, rows), read_gold(gold, votes)
    with epochs(estimator, quiet) as progress:
        estimator.fit(X, votes, items=rows.items, gold=known, progress=progress, **more)
    return X


def fit(path: str, read: ReadOptions, options: MethodOptions, quiet: bool = False, default: str = DEFAULT_METHOD) -> Aggregator:
    """Read votes and fit the chosen method."""
    estimator = build(options, default)
    return fit_to(read_votes(path, read), estimator, options, quiet)


def result_of(
    path: str, read: ReadOptions, options: MethodOptions, quiet: bool = False, default: str = DEFAULT_METHOD
) -> Result:
    """Open a saved result, or fit to votes."""
    if not is_saved(path):
        return fit(path, read, options, quiet, default).result_
    if options != type(options)() or read != ReadOptions():
        raise SettingError(f"{path} is a saved result, so options of reading and of the method do not apply")
    from crowdwise.estimator.outcome import Result

    return Result.load(path)
