"""From paths and options to votes, features and what is known beside them, to a method with its settings, and to a fit."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from crowdwise.cli.job import QUIET, among, epochs, iterations, one_line, say
from crowdwise.cli.options import FileOptions, KeepOptions, MaybeFeatures, MethodOptions, ReadOptions, TaskOptions
from crowdwise.errors import CrowdwiseError, DataWarning, InputError, MissingExtraError, SettingError, did_you_mean

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.aggregator import Aggregator
    from crowdwise.estimator.outcome import Result
    from crowdwise.io.features import Features

__all__ = ["CAMPAIGN_CLASSIFIER", "CAMPAIGN_METHOD", "DEFAULT_CLASSIFIER", "DEFAULT_METHOD", "SAVED", "STDIN", "build"]
__all__ += ["build_classifier", "build_task", "check_explainable", "check_known", "check_own_column", "fit", "fit_rows"]
__all__ += ["fit_to", "from_path", "gold_of", "is_saved", "learns", "noted", "opening_of", "parse_list"]
__all__ += ["read_answers", "read_features", "read_gold", "read_history", "read_kept", "read_times", "read_votes", "result_of"]
__all__ += ["settings_of", "ways_of_reading"]


T = TypeVar("T")

STDIN = "-"
# What --save writes; a test compares it with the name that the storage uses, which loads all that can be stored.
SAVED = "result.zip"
# Whether the votes were read with --fold-case, which holds for gold beside them too.
_FOLDS: ContextVar[bool] = ContextVar("folds", default=False)
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def read_votes(path: str, options: ReadOptions, several: str | None = None) -> Annotations:
    """Read votes from a file, a folder or stdin, and say what was taken for what."""
    from crowdwise.io import FORMATS, read

    if options.format is not None and options.format not in FORMATS:
        hint = did_you_mean(options.format, list(FORMATS))
        raise SettingError(f"no format {options.format!r}{hint} (there are {', '.join(FORMATS)})")
    given = ways_of_reading(options)
    given |= {name: getattr(options, name) for name in ("weight", "predictions")}
    given |= {name: getattr(options, name) for name in ("probabilities", "sure") if getattr(options, name) is not None}
    given |= {"time": options.time_column, "repeats": options.repeated_votes or "all"}
    given["several"] = several or ("keep" if options.one_label else "refuse")
    given |= {"classes": options.classes and parse_list(options.classes, "--classes"), "missing": options.missing or ()}
    if is_saved(path):
        raise InputError(f"{path}: a saved model; this command reads votes, so name the file that holds them")
    _FOLDS.set(options.fold_case)
    with noted() as notes:
        votes = from_path(path, partial(read, **given, **opening_of(options), notes=notes))
    return votes.deduplicate() if options.deduplicate else votes


def ways_of_reading(options: ReadOptions) -> dict[str, Any]:
    """The options of `crowdwise.read` that say how a file is read."""
    names = ("format", "item", "annotator", "label", "question", "fold_case", "spelling", "exclude", "transposed")
    given = {name: getattr(options, name) for name in (*names, "workflow_version")}
    return given | {"annotators": options.annotator_columns, "header": not options.no_header}


@contextmanager
def noted() -> Iterator[list[str]]:
    """Give a list for notes of a reader, which are said afterwards, also where it failed."""
    notes: list[str] = []
    try:
        yield notes
    finally:
        for line in () if QUIET.get() else notes:
            say(one_line(line))


def from_path(path: str, read: Callable[[str | Path], T]) -> T:
    """What `read` makes of a path; - is stdin, which goes through a file."""
    if path != STDIN:
        return read(path)
    from crowdwise.io.leftovers import held_folder
    from crowdwise.io.limits import copied

    with held_folder() as folder:
        # Without a suffix the content decides, so JSON lines and Parquet can be piped in as well.
        file = folder / "stdin"
        with file.open("wb") as copy:
            copied(sys.stdin.buffer, copy, "stdin")
        try:
            return read(file)
        except CrowdwiseError as problem:
            told = str(problem).replace(f"crowdwise aggregate {file}", "crowdwise aggregate -").replace(str(file), "stdin")
            raise type(problem)(told) from problem


def opening_of(options: FileOptions) -> dict[str, Any]:
    """How to open files, as options of `crowdwise.io.read`."""
    return {"encoding": options.encoding, "sheet": options.sheet, "skip_rows": options.skip_rows}


def read_answers(path: str, kind: Any, files: FileOptions, **columns: Any) -> Any:
    """Read answers of another kind than votes for classes, such as comparisons; `columns` are the users' names of them."""
    from crowdwise.io import read

    return from_path(path, lambda file: read(file, kind, **columns, **opening_of(files)))


def read_kept(path: str, options: KeepOptions, read: ReadOptions, votes: Annotations) -> Any:
    """What the file of votes says of the items, a frame with a row per item; None where nothing is asked for."""
    if options.keep is None:
        return None
    from crowdwise.io import read_kept
    from crowdwise.io.opening import opening

    check_own_column(path, "--keep", "name that file instead of stdin or a saved model")
    with opening(**opening_of(read)):
        return read_kept(path, options.keep, votes, item=read.item)


def is_saved(path: str | Path) -> bool:
    """Say whether a path is a folder that `--save` wrote; nothing is opened or imported for that."""
    return str(path) != STDIN and (Path(path) / SAVED).is_file()


def parse_list(text: str, option: str) -> list[Any]:
    """Read "a,b,c" or a JSON list; whole numbers become numbers, so that they equal those of the votes."""
    if text.lstrip().startswith("["):
        try:
            values = json.loads(text)
        except ValueError as problem:
            raise SettingError(f"{option} looks like JSON but is not: {problem}") from problem
        return list(values)
    parts = [part.strip() for part in text.split(",")]
    if "" in parts:
        raise SettingError(f"{option} has an empty entry: {text!r}")
    return [int(part) for part in parts] if all(_WHOLE.fullmatch(part) for part in parts) else parts


# -- what is known beside the votes ------------------------------------------------------------


def read_gold(path: Path | None, votes: Annotations | None) -> Any:
    """Read known labels, or None without a path."""
    if path is None:
        return None
    from crowdwise.io import read_gold

    return read_gold(path, votes, fold_case=_FOLDS.get())


def gold_of(votes: Annotations) -> list[Any] | None:
    """The known labels that votes carry, one per item, or None without any."""
    if votes.gold is None or not (votes.gold >= 0).any():
        return None
    return [votes.classes[code] if code >= 0 else None for code in votes.gold]


def read_history(path: Path | None) -> Any:
    """Read annotators' earlier record: a saved result or a table."""
    if path is None:
        return None
    if is_saved(path):
        from crowdwise.estimator.outcome import Result

        return Result.load(path)
    import polars as pl

    from crowdwise.io.source import open_source
    from crowdwise.io.votes import read_columns

    source = open_source(path)
    frame = read_columns(source, source.columns).frame
    # Delimited text is read as text: ids stay as they are written, these four are numbers.
    measured = [name for name in ("right", "wrong", "accuracy", "n_votes") if name in frame.columns]
    try:
        return frame.with_columns(pl.col(measured).cast(pl.Float64))
    except pl.exceptions.PolarsError:
        raise InputError(f"{path}: {', '.join(measured)} must be numbers; correct the cells that are not") from None


def check_own_column(path: str, option: str, instead: str) -> None:
    """Refuse an option that names a column of the votes where there is no file of votes."""
    if path == STDIN or is_saved(path):
        raise SettingError(f"{option} reads a column of the file of votes; {instead}")


def read_times(path: str, options: ReadOptions, column: str | None) -> Any:
    """Read when each vote was given: item, annotator, label and time, from the table of votes; None without a column."""
    if column is None:
        return None
    from crowdwise.data.columns import columns_by_role
    from crowdwise.io.file_columns import FileColumns

    check_own_column(path, "--time", "name that file instead of stdin or a saved model")
    roles = {"item": options.item, "annotator": options.annotator, "label": options.label, "time": column}
    return columns_by_role(FileColumns(path), roles)[0]


# -- features ----------------------------------------------------------------------------------


def read_features(options: MaybeFeatures, votes_item: str | None = None) -> Features | None:
    """Read features, if any are named; the votes' own name for the item column serves where the file has it too."""
    if options.features is None:
        return None
    from crowdwise.io.features import names_in, read_features

    item = options.features_item
    if item is None and votes_item is not None and votes_item in names_in(options.features):
        item = votes_item
    return read_features(options.features, item=item, key=options.key)


def check_rows(rows: Features, votes: Annotations, quiet: bool, all_items: bool = False) -> None:
    """Refuse features that lack a row of an item with votes, or of any item, and say when order decides."""
    from crowdwise.io import feature_rows

    line = (feature_rows.check_all_rows if all_items else feature_rows.check_rows)(rows, votes)
    if line and not quiet:
        say(line)


DEFAULT_METHOD, DEFAULT_CLASSIFIER = "consensus", "auto-classifier"
# Campaigns fit again and again.
CAMPAIGN_METHOD, CAMPAIGN_CLASSIFIER = "dawid-skene", "ccem"
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
    if text in ("learn", "anchored", "uniform"):
        return text
    try:
        return json.loads(text if text.lstrip()[:1] in ("[", "{") else f"[{text}]")
    except ValueError:
        raise SettingError(f"--class-prior must be learn, anchored, uniform or shares such as 0.2,0.8; got {text!r}") from None


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
        more = f"; no method is named, so it is {estimator.name}: name another with --method"
        raise SettingError(f"{problem}{more if chosen else ''}") from problem
    check_settings(estimator)
    return estimator


def check_known(votes: Annotations, asked: dict[str, Any]) -> None:
    """Refuse what is about annotators where nobody knows who voted."""
    given = [option for option, value in asked.items() if value]
    if votes.anonymous and given:
        raise SettingError(f"{given[0]} is about annotators, and nobody knows who gave these votes")


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
    return fit_and_measure(votes, estimator, options, quiet)[0]


def fit_and_measure(
    votes: Annotations, estimator: Aggregator, options: MethodOptions, quiet: bool = False
) -> tuple[Aggregator, Any]:
    """The same, and the class codes that the fit did not see (--gold-is truth), or None."""
    gold, history = read_gold(options.gold, votes), read_history(options.history)
    votes, gold, truth = gold_by_use(votes, gold, options.gold_is, quiet)
    with iterations(estimator, quiet) as progress:
        estimator.fit(votes, gold=gold, history=history, progress=progress)
    say_matches(estimator.result_, truth)
    return estimator, truth


def gold_by_use(votes: Annotations, gold: Any, use: str | None, quiet: bool) -> tuple[Annotations, Any, Any]:
    """Votes and gold that a fit may see, and the class codes that it may not; says when gold decides most labels."""
    among("--gold-is", use, ("known", "truth"))
    if use == "truth":
        known = votes if gold is None else votes.with_gold(gold)
        if not known.n_gold:
            raise SettingError("--gold-is truth: there is no gold in the votes and no --gold FILE beside them")
        return replace(votes, gold=None), None, known.gold
    if use is None and gold is None and 2 * votes.n_gold > votes.n_items and not quiet:
        say(
            f"gold in the file decides {votes.n_gold:,} of {votes.n_items:,} labels; to measure the votes against it instead, "
            "add --gold-is truth (--gold-is known says that this is meant)"
        )
    return votes, gold, None


def say_matches(result: Result, truth: Any) -> None:
    """Say how many labels of items with votes and a known class are that class; nothing where no class was held back."""
    if truth is not None:
        known = (truth >= 0) & (result.votes.votes_per_item > 0)
        right, n = int((result.posterior.argmax(axis=1)[known] == truth[known]).sum()), int(known.sum())
        say(f"compared with gold, which the fit did not see: {right:,} of {n:,} labels are right ({right / max(n, 1):.1%})")


def fit_rows(rows: Features, votes: Annotations, estimator: Any, method: Any, quiet: bool = False, **more: Any) -> Any:
    """Fit a classifier to features and votes; returns the features in the form in which it took them.

    Of `method`, the options of a command, `gold` and `gold_is` are used.
    """
    from crowdwise.methods.classify.rows import taken_by

    if votes.anonymous:
        raise SettingError(f"{estimator.name} learns about annotators, and nobody knows who gave these votes")
    X, known = taken_by(estimator, rows), read_gold(method.gold, votes)
    votes, known, truth = gold_by_use(votes, known, method.gold_is, quiet)
    with epochs(estimator, quiet) as progress:
        estimator.fit(X, votes, items=rows.items, gold=known, progress=progress, **more)
    say_matches(estimator.result_, truth)
    return X


def fit(path: str, read: ReadOptions, options: MethodOptions, quiet: bool = False, default: str = DEFAULT_METHOD) -> Aggregator:
    """Read votes and fit the chosen method; confidence is lowered where annotators seem to share errors."""
    from crowdwise.cli.dependent import careful

    estimator = build(options, default)
    return careful(fit_to(read_votes(path, read), estimator, options, quiet), options.trusted)


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
