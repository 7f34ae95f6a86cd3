"""A classifier from its options, and features in the form in which it takes them; `train`, `suggest` and races share this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from crowdwise.errors import InputError, SettingError, did_you_mean

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.io.features import Features
    from crowdwise.methods.classify.base import CrowdClassifier

__all__ = ["CAMPAIGN_CLASSIFIER", "DEFAULT_CLASSIFIER", "ClassifierOptions", "build_classifier", "check_all_rows", "taken_by"]

DEFAULT_CLASSIFIER = "auto-classifier"
# Of campaigns, which fit again and again.
CAMPAIGN_CLASSIFIER = "ccem"


class ClassifierOptions(Protocol):
    """Options that name a classifier and its settings."""

    @property
    def method(self) -> str | None: ...  # noqa: D102
    @property
    def set(self) -> list[str] | None: ...  # noqa: D102
    @property
    def seed(self) -> int | None: ...  # noqa: D102
    @property
    def worker_prior(self) -> str | None: ...  # noqa: D102


def build_classifier(options: ClassifierOptions, default: str = DEFAULT_CLASSIFIER) -> CrowdClassifier:
    """Make the chosen classifier with its settings, checked before any file is read."""
    from crowdwise.cli.inputs import seeded_settings, unnamed
    from crowdwise.estimator.registry import make_classifier
    from crowdwise.estimator.settings import check_settings

    estimator: CrowdClassifier = make_classifier(options.method or default)
    known = list(estimator.get_params(deep=False))
    given = seeded_settings(options.set, options.seed, known, options.worker_prior)
    # Settings of a part, such as classifier__C, are checked by the part.
    for name in (name for name in given if "__" not in name and name not in known):
        problem = SettingError(
            f"{estimator.name} has no setting {name!r}{did_you_mean(name, known)} (it has {', '.join(known)})"
        )
        raise problem if options.method is not None or default != DEFAULT_CLASSIFIER else unnamed(problem)
    try:
        estimator.set_params(**given)
    except ValueError as wrong:
        raise SettingError(str(wrong)) from wrong
    check_settings(estimator)
    return estimator


def taken_by(estimator: CrowdClassifier, rows: Features) -> Any:
    """Features in the one form in which training and prediction take them, so that the same rows are the same numbers."""
    import numpy as np
    import polars as pl

    X = rows.X
    if rows.names is not None:
        return pl.DataFrame(X, schema=rows.names, orient="row")
    # Only networks read from disk as they go, and they take whole numbers from there as they are (or as pixels);
    # a table in memory is turned into fractions first.
    if isinstance(X, np.memmap) and X.ndim == 2 and (X.dtype.kind != "f" or not estimator.takes_images):
        return np.array(X)
    return X


def check_all_rows(rows: Features, votes: Annotations, quiet: bool) -> None:
    """Refuse features without a row for every item, with votes or not: anything may be asked about."""
    from crowdwise.cli.inputs import check_rows
    from crowdwise.data.encode import translate

    check_rows(rows, votes, quiet)
    if rows.items is not None:
        lost = votes.items[translate(votes.items, rows.items) < 0].tolist()
        if lost:
            raise InputError(f"{rows.source}: no row for {len(lost):,} items of the pool, such as {lost[0]!r}; add their rows")
