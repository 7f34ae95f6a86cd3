"""Answers other than one class per item, and features beside answers or votes: options, the method, reading and the fit."""

from __future__ import annotations

from functools import partial
from typing import Any

import crowdwise
from crowdwise import campaign, io, methods
from crowdwise.cli import fitting
from crowdwise.cli.job import naming, note, progress_of, say
from crowdwise.cli.options import FileOptions, KnownOptions, MaybeFeatures, MethodOptions, TaskOptions
from crowdwise.errors import SettingError
from crowdwise.estimator.registry import classifiers, find, make, make_classifier, select
from crowdwise.report.text import match_line

__all__ = ["QUICK_CLASSIFIER", "build_campaign", "build_classifier", "build_task", "check_rows", "fit_answers", "fit_rows"]
__all__ += ["check_policy", "learns", "read_answers", "read_features"]

# Several processes train one network.
QUICK_CLASSIFIER = "ccem"
# Policies of items that ask a classifier.
_OF_CLASSIFIERS = ("predictive-entropy", "predictive-margin", "bald")


def build_task(options: TaskOptions, family: str, default: str, features: str | None = None) -> Any:
    """Make the chosen method for answers of another kind, checked before any file is read; `features` is their file."""
    methods = select(family=family)
    method = find(options.method or default, methods)
    if method.features and features is None:
        raise SettingError(f"{method.name} learns from features: add --features FILE")
    if features is not None and not method.features:
        others = " or ".join(name for name, other in methods.items() if other.features)
        raise SettingError(f"{method.name} takes answers alone; leave --features out, or name --method {others}")
    return fitting.set_up(make(method.name), options)


def read_answers(path: str, kind: Any, files: FileOptions, options: Any = None, names: str = "", **columns: Any) -> Any:
    """Read answers of another kind, such as comparisons; columns are named by options of these `names`, and by `columns`."""
    reader = partial(io.read, kind=kind, **fitting.named(options, names), **columns, **fitting.opening_of(files))
    return io.streams.from_stdin(reader) if path == fitting.STDIN else reader(path)


def fit_answers(estimator: Any, answers: Any, features: MaybeFeatures, **more: Any) -> Any:
    """Fit to answers, and to features where there are any."""
    rows = read_features(features)
    if rows is None:
        return estimator.fit(answers, **more)
    note(io.feature_rows.check_answer_rows(rows, answers))
    return estimator.fit(rows.X, answers, items=rows.items, **more)


def read_features(options: MaybeFeatures, votes_item: str | None = None) -> io.features.Features | None:
    """Read features, if any are named; the votes' own name for the item column serves where the file has it too."""
    if options.features is None:
        return None
    item = options.features_item
    if item is None and votes_item is not None and votes_item in io.features.names_in(options.features):
        item = votes_item
    return io.read_features(options.features, item=item, key=options.key)


def check_rows(rows: io.features.Features, votes: crowdwise.Annotations, all_items: bool = False) -> None:
    """Refuse features that lack a row of an item with votes, or of any item, and say when order decides."""
    note((io.feature_rows.check_all_rows if all_items else io.feature_rows.check_rows)(rows, votes))


def build_classifier(options: TaskOptions, default: str = fitting.DEFAULT_CLASSIFIER) -> Any:
    """Make the chosen classifier with its settings, checked before any file is read."""
    return fitting.set_up(make_classifier(options.method or default), options)


def build_campaign(method: MethodOptions, rows: io.features.Features | None = None) -> Any:
    """Make the method of a campaign: a classifier where there are `rows` to train one on."""
    if rows is None:
        return fitting.build(method, "dawid-skene")
    model = build_classifier(method) if method.method else fitting.set_up(campaign.learner.default_model(rows.X), method)
    return campaign.learner.from_shares(model)


def learns(method: MethodOptions, features: str | None) -> bool:
    """Whether a classifier is trained; options that do not go together are refused."""
    chosen = method.method in classifiers() or (method.method is None and features is not None)
    if chosen and features is None:
        raise SettingError(f"{method.method} learns from features: give them with --features FILE")
    if chosen and (method.history is not None or method.class_prior is not None):
        raise SettingError("--history and --class-prior are for methods without features")
    return chosen


def check_policy(option: str, name: str, trains: bool) -> None:
    """Refuse a policy that does not exist, and one that asks a classifier where none is trained."""
    with naming(option):
        policy = campaign.policy_of(name)
    if not trains and getattr(policy, "item", None) in _OF_CLASSIFIERS:
        raise SettingError(
            f"{option}: {name} asks a classifier about items: give their features with --features FILE, and no --method that "
            "counts votes alone"
        )


def fit_rows(
    rows: io.features.Features, votes: crowdwise.Annotations, estimator: Any, method: KnownOptions, **more: Any
) -> Any:
    """Fit a classifier to features and votes; returns the features in the form in which it took them."""
    if votes.anonymous:
        raise SettingError(f"{estimator.name} learns about annotators, and nobody knows who gave these votes")
    X, known = methods.classify.rows.taken_by(estimator, rows), fitting.read_gold(method.gold, votes)
    votes, known, truth = fitting.gold_by_use(votes, known, method.gold_is)
    with progress_of(estimator) as progress:
        estimator.fit(X, votes, items=rows.items, gold=known, progress=progress, **more)
    say(match_line(estimator.result_, truth))
    return X
