"""``crowdwise predict``: labels of new items from a saved classifier."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.options import FeatureOptions, Json, Output, Quiet, ReadOptions, SpreadsheetSafe
from crowdwise.errors import InputError, SettingError

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.data.annotations import Annotations
    from crowdwise.io.features import Features

EXAMPLES = (
    "Example: crowdwise predict model --features new.npz -o predicted.csv\n\n"
    "With votes on them: crowdwise predict model --features new.npz --votes new_votes.csv -o predicted.csv"
)
# Rows of a memory-mapped array that are predicted together.
_CHUNK = 65_536


def run(
    model: Annotated[Path, typer.Argument(metavar="DIR", help="A folder written by crowdwise train --save.")],
    features: FeatureOptions,
    read: ReadOptions,
    votes: Annotated[
        str | None, typer.Option("--votes", metavar="FILE", help="Votes on the new items: labels are inferred from both.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option("--truth", metavar="FILE", help="True labels of these items, to measure: item, label.")
    ] = None,
    output: Output = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict the class of every row of features, with the probability of each class.

    Items are the ids of the features, or row numbers from 0 where the file has none.
    """
    from crowdwise.cli.inputs import read_features
    from crowdwise.cli.outputs import check_outputs, emit, print_json, to_stdout
    from crowdwise.cli.text import count, number, say
    from crowdwise.estimator.loading import load
    from crowdwise.estimator.registry import label_methods

    check_outputs({"-o": output}, (features.features, votes, truth))
    if as_json and to_stdout(output):
        raise SettingError("--json and -o - both ask for stdout; choose one")
    if votes is None and read != ReadOptions():
        raise SettingError("options of reading the votes do not apply without --votes")
    estimator = load(model)
    if estimator.name in label_methods():
        raise InputError(f"{model} holds {estimator.name}, which knows votes alone; crowdwise train --save makes a classifier")
    rows = read_features(features, read.item)
    X = _fitting(estimator, rows, quiet)
    given = None if votes is None else _votes_on(estimator, rows, votes, read, quiet)
    probabilities = _probabilities(estimator, X, given)
    frame = _table(estimator, rows, probabilities, given)
    if getattr(estimator.model_, "n_draws", 1) > 1:
        frame = frame.with_columns(disagreement=_disagreement(estimator, X))
    measured = {} if truth is None else _measured(estimator, rows, probabilities, truth)
    if output is None and not as_json and sys.stdout.isatty():
        emit(frame.select(name for name in ("item", "label", "confidence", "n_votes") if name in frame.columns), None, "item")
    elif not as_json or output is not None:
        emit(frame, output, "item", quiet=quiet, safe=spreadsheet_safe)
    if as_json:
        facts = {"method": estimator.name, "classes": estimator.classes_, "n_items": len(rows)} | measured
        print_json(facts if output is not None else facts | {"labels": frame.to_dicts()})
    if measured and not quiet:
        known = count(measured["n_known"], "known label")
        say(f"accuracy {number(measured['accuracy'])}, log-loss {number(measured['log_loss'])} on {known}")


def _fitting(estimator: Any, rows: Features, quiet: bool) -> Any:
    """The features in the form that the classifier was trained on; columns are matched by name where both have names."""
    import polars as pl

    from crowdwise.cli.classifier import taken_by
    from crowdwise.cli.text import one_line, say

    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is not None and rows.names is not None:
        absent = [name for name in fitted if name not in rows.names]
        if absent:
            some = ", ".join(repr(name) for name in absent[:5])
            raise InputError(f"{rows.source}: no column {some}, which the model was trained on; it has {_listed(rows.names)}")
        more = [name for name in rows.names if name not in set(fitted)]
        if more and not quiet:
            say(f"ignored columns that the model was not trained on: {', '.join(one_line(name) for name in more[:5])}")
        return pl.DataFrame(rows.X, schema=rows.names, orient="row").select(list(fitted))
    shape = getattr(estimator, "row_shape_", None) or getattr(estimator, "n_features_in_", None)
    wanted = (shape,) if isinstance(shape, int) else shape
    if wanted is not None and tuple(rows.X.shape[1:]) != tuple(wanted):
        got, fit = (" x ".join(map(str, size)) for size in (rows.X.shape[1:], wanted))
        raise InputError(f"{rows.source}: rows of {got} features, and the model was trained on {fit}")
    if fitted is not None:
        return pl.DataFrame(_dense(rows.X), schema=list(fitted), orient="row")
    return rows.X if rows.names is not None else taken_by(estimator, rows)


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:10]) + (", ..." if len(names) > 10 else "")


def _votes_on(estimator: Any, rows: Features, path: str, read: ReadOptions, quiet: bool) -> Annotations:
    """Votes on the new items, in the order of the rows and with the classes of the model."""
    from crowdwise.cli.inputs import check_rows, read_votes
    from crowdwise.methods.classify.align import aligned_votes

    votes = read_votes(path, read).with_classes(estimator.classes_.tolist())
    check_rows(rows, votes, quiet)
    return aligned_votes(rows.X, votes, rows.items, None)


def _probabilities(estimator: Any, X: Any, votes: Annotations | None) -> Any:
    """[N, K]."""
    return _in_parts(estimator, X, lambda rows, part: estimator.predict_proba(rows, None if votes is None else votes[part]))


def _disagreement(estimator: Any, X: Any) -> Any:
    """How far the networks of an ensemble, or passes with dropout, disagree on each row, [N]."""
    return _in_parts(estimator, X, lambda rows, part: estimator.uncertainty(rows).disagreement)


def _in_parts(estimator: Any, X: Any, answer: Callable[[Any, slice], Any]) -> Any:
    """What `answer` says of all rows; a memory-mapped array is read a part at a time."""
    import numpy as np

    if not isinstance(X, np.memmap):
        return answer(X, slice(None))
    parts = [slice(start, start + _CHUNK) for start in range(0, len(X), _CHUNK)]
    # One trained on a table in memory knows the number of its columns and takes such tables.
    table = hasattr(estimator, "n_features_in_")
    return np.concatenate([answer(np.array(X[part]) if table else X[part], part) for part in parts])


def _measured(estimator: Any, rows: Features, probabilities: Any, path: Path) -> dict[str, Any]:
    """How right the predictions are where the truth is known; truth of other items is left aside."""
    import numpy as np
    import polars as pl

    from crowdwise.cli.inputs import read_gold
    from crowdwise.data.annotations import Annotations
    from crowdwise.data.encode import codes_of, series_of, tidy
    from crowdwise.data.gold import encode_gold
    from crowdwise.trust.metrics import score

    items = np.arange(len(rows)) if rows.items is None else rows.items
    known = read_gold(path, None)
    known = known.filter(pl.Series(codes_of(tidy(known["item"]), tidy(series_of(items))) >= 0))
    if not known.height:
        raise InputError(f"{path}: names no item of {rows.source}; check that both use the same ids")
    everyone = Annotations.from_arrays([], [], [], items=items.tolist(), annotators=[], classes=estimator.classes_.tolist())
    return score(probabilities, encode_gold(everyone, known))


def _table(estimator: Any, rows: Features, probabilities: Any, votes: Annotations | None) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    from crowdwise.data.encode import series_of
    from crowdwise.kernels.numerics import best_class

    codes = best_class(probabilities, estimator.prior_)
    columns: dict[str, Any] = {
        "item": np.arange(len(rows)) if rows.items is None else series_of(rows.items),
        "label": series_of(estimator.classes_)[codes],
        "confidence": probabilities[np.arange(len(codes)), codes],
    }
    if votes is not None:
        columns["n_votes"] = votes.votes_per_item
    return pl.DataFrame(columns | {f"p({name})": probabilities[:, k] for k, name in enumerate(estimator.classes_)})
