"""From paths and options to votes, features and what is known beside them, to a method with its settings, and to a fit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import crowdwise
from crowdwise import engines, io, report
from crowdwise.cli.job import QUIET, among, naming, note, one_line, progress_of, refuse, say, steps
from crowdwise.cli.options import FileOptions, KeepOptions, MethodOptions, ReadOptions, TaskOptions
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.registry import METHODS, aggregators, classifiers, make_aggregator, with_setting
from crowdwise.io.advice import parse_list, parse_settings, parse_shares
from crowdwise.report.text import choice_lines, match_line

__all__ = ["ANONYMOUS", "DEFAULT_CLASSIFIER", "DEFAULT_METHOD", "SAVED", "STDIN", "build", "careful", "cautious"]
__all__ += ["check_explainable", "check_groups", "check_own_column", "fit_to", "gold_by_use", "is_saved", "named", "noted"]
__all__ += ["opened", "opening_of", "parse_list", "read_costs", "read_edges", "read_gold", "read_grouped", "read_history"]
__all__ += ["read_kept", "read_times", "read_votes", "result_of", "say_choice", "set_up", "settings_of"]
__all__ += ["ways_of_reading"]

STDIN = "-"
# What --save writes; a test compares it with the name that the storage uses, which loads all that can be stored.
SAVED = "result.zip"
ANONYMOUS = "{} is about annotators, and nobody knows who gave these votes"
# Whether the votes were read with --fold-case, which holds for gold beside them too.
_FOLDS: ContextVar[bool] = ContextVar("folds", default=False)


def read_votes(path: str, options: ReadOptions, several: str | None = None) -> crowdwise.Annotations:
    """Read votes from a file, a folder or stdin, and say what was taken for what."""
    among("--format", options.format, io.FORMATS)
    if is_saved(path):
        raise InputError(f"{path}: a saved model; this command reads votes, so name the file that holds them")
    given = ways_of_reading(options) | opening_of(options) | named(options, "weight predictions probabilities sure")
    given |= {"repeats": options.repeats or "all", "time": options.time_column, "missing": options.missing or ()}
    given |= {"several": several or ("keep" if options.one_label else "refuse")}
    given |= {"classes": options.classes and parse_list(options.classes, "--classes")}
    _FOLDS.set(options.fold_case)
    with noted() as notes, warnings.catch_warnings():
        # Commands that fit say it themselves, with the option that does otherwise.
        warnings.simplefilter("ignore", crowdwise.data.gold.GoldDecides)
        reader = partial(io.read, **given, notes=notes)
        votes: crowdwise.Annotations = io.streams.from_stdin(reader) if path == STDIN else reader(path)
    return votes.deduplicate() if options.deduplicate else votes


def ways_of_reading(options: ReadOptions) -> dict[str, Any]:
    """The options of `crowdwise.read` that say how a file is read."""
    given = named(options, "format item annotator label question fold_case spelling exclude transposed workflow_version")
    return given | {"annotators": options.annotator_columns, "header": not options.no_header}


def opening_of(options: FileOptions) -> dict[str, Any]:
    """How to open files, as options of `crowdwise.io.read`."""
    return named(options, "encoding sheet skip_rows")


def opened(options: FileOptions) -> AbstractContextManager[None]:
    """Open files so, in this block."""
    return io.opening.opening(**opening_of(options))


def named(options: Any, names: str) -> dict[str, Any]:
    """Options by name."""
    return {name: getattr(options, name) for name in names.split()}


@contextmanager
def noted() -> Iterator[list[str]]:
    """Give a list for notes of a reader, which are said afterwards, also where it failed."""
    notes: list[str] = []
    try:
        yield notes
    finally:
        note(*map(one_line, notes))


def read_kept(path: str, options: KeepOptions, read: ReadOptions, votes: crowdwise.Annotations) -> Any:
    """What the file of votes says of the items, a frame with a row per item; None where nothing is asked for."""
    if options.keep is None:
        return None
    check_own_column(path, "--keep", "name that file instead of stdin or a saved model")
    with opened(read):
        return io.read_kept(path, options.keep, votes, item=read.item)


def is_saved(path: str | Path) -> bool:
    """Say whether a path is a folder that `--save` wrote; nothing is opened or imported for that."""
    return str(path) != STDIN and (Path(path) / SAVED).is_file()


def read_gold(path: Path | None, votes: crowdwise.Annotations | None) -> Any:
    """Read known labels, or None without a path."""
    return None if path is None else io.read_gold(path, votes, fold_case=_FOLDS.get())


def read_history(path: Path | None) -> Any:
    """Read annotators' earlier record: a saved result or a table."""
    if path is None:
        return None
    return crowdwise.Result.load(path) if is_saved(path) else io.annotator_tables.read_record(path)


def read_edges(path: Path, items: Any) -> crowdwise.Edges:
    """Edges between items, from a table; says where its first row joins two of these `items` and is no row of names."""
    with naming("--edges"), noted() as notes:
        return io.edge_tables.read_edges(path, items, notes)


def read_costs(options: Any, classes: Any) -> crowdwise.estimator.Costs | None:
    """Read what mistakes cost, and what no label costs; None without either."""
    if options.costs is None and options.abstain is None:
        return None
    with naming("--abstain" if options.costs is None else f"--costs: {options.costs}"):
        return crowdwise.estimator.Costs.of(
            None if options.costs is None else io.file_columns.FileColumns(options.costs), classes, options.abstain
        )


def check_own_column(path: str, option: str, instead: str) -> None:
    """Refuse an option that names a column of the votes where there is no file of votes."""
    if path == STDIN or is_saved(path):
        raise SettingError(f"{option} reads a column of the file of votes; {instead}")


def read_times(path: str, options: ReadOptions, column: str | None) -> Any:
    """Read when each vote was given: item, annotator, label and time, from the table of votes; None without a column."""
    if column is None:
        return None
    check_own_column(path, "--time", "name that file instead of stdin or a saved model")
    roles = {"item": options.item, "annotator": options.annotator, "label": options.label, "time": column}
    return io.file_columns.read_roles(path, roles)


DEFAULT_METHOD, DEFAULT_CLASSIFIER = "consensus", "auto-classifier"
_ON_EDGES, _PRIOR = "graph-dawid-skene", "annotator_prior"


def settings_of(options: TaskOptions, known: list[str]) -> dict[str, Any]:
    """Settings from --set, --seed, --class-prior and --annotator-prior; a seed is nothing to methods that draw no numbers."""
    settings = parse_settings(options.set) if options.set else {}
    prior: str | None = getattr(options, "annotator_prior", None)
    if prior is not None:
        if _PRIOR in settings:
            raise SettingError(f"--annotator-prior and --set {_PRIOR}= say the same thing; give one of them")
        settings[_PRIOR] = _annotator_prior(prior, known)
    if options.seed is not None and "random_state" in known:
        settings["random_state"] = options.seed
    shares: str | None = getattr(options, "class_prior", None)
    return settings if shares is None else settings | {"class_prior": parse_shares(shares)}


def _annotator_prior(text: str, known: list[str]) -> str:
    """The prior, if the method takes one and this is one."""
    from crowdwise.parts.priors.abilities import named_prior

    if _PRIOR not in known:
        raise SettingError(f"--annotator-prior: this method has no such prior; {', '.join(with_setting(_PRIOR))} have")
    # What it means for these votes, whose classes are not known yet, is said later.
    with naming("--annotator-prior"):
        named_prior(text, 2)
    return text


def build(options: TaskOptions, default: str | None = None, edges: bool = False) -> crowdwise.estimator.Aggregator:
    """Make the chosen method for votes with its settings, checked before any file is read; `edges` will be among them."""
    if options.method in classifiers():
        raise SettingError(
            f"{options.method} learns from features too: crowdwise train VOTES --features FILE --method {options.method}"
        )
    usual = default or (_ON_EDGES if edges else DEFAULT_METHOD)
    estimator: crowdwise.estimator.Aggregator = set_up(make_aggregator(options.method or usual), options)
    if METHODS[estimator.name].edges and not edges:
        raise SettingError(f"{estimator.name} needs the edges between items: crowdwise aggregate VOTES --edges edges.csv")
    if edges and not METHODS[estimator.name].edges:
        able = ", ".join(name for name, method in aggregators().items() if method.edges)
        raise SettingError(f"--edges: {estimator.name} takes no edges; leave --method out, or name one that does ({able})")
    return estimator


def set_up(estimator: Any, options: TaskOptions) -> Any:
    """Give an estimator its settings; one that it does not know is refused with those that it does."""
    known = list(estimator.get_params(deep=False))
    given = settings_of(options, known)
    try:
        # Settings of a part, such as classifier__C, are checked by the part.
        for name in (name for name in given if "__" not in name and name not in known):
            raise SettingError(crowdwise.estimator.no_setting(estimator.name, name, known))
        estimator.set_params(**given)
    except ValueError as problem:
        chosen = options.method is None and estimator.name in (DEFAULT_METHOD, DEFAULT_CLASSIFIER)
        more = f"; no method is named, so it is {estimator.name}: name another with --method"
        raise SettingError(f"{problem}{more if chosen else ''}") from problem
    crowdwise.estimator.check_settings(estimator)
    return estimator


def say_choice(estimator: Any, table: bool) -> None:
    """Say what `auto` chose, unless quiet, and print the table behind it: it is asked for, and stdout is for labels."""
    say(*choice_lines(estimator, not QUIET.get(), table))


def check_explainable(estimator: Any, asked: bool) -> None:
    """Refuse --explain-choice before any work where nothing is chosen."""
    if asked and not hasattr(type(estimator), "choice_"):
        raise SettingError(f"--explain-choice needs --method auto; {estimator.name} chooses nothing")


def fit_to(
    votes: crowdwise.Annotations, estimator: crowdwise.estimator.Aggregator, options: MethodOptions
) -> crowdwise.estimator.Aggregator:
    """Fit with whatever is known beside the votes, and show how far it is."""
    gold, history = read_gold(options.gold, votes), read_history(options.history)
    votes, gold, truth = gold_by_use(votes, gold, options.gold_is)
    with progress_of(estimator) as progress:
        estimator.fit(votes, gold=gold, history=history, progress=progress)
    say(match_line(estimator.result_, truth))
    return estimator


def gold_by_use(votes: crowdwise.Annotations, gold: Any, use: str | None) -> tuple[crowdwise.Annotations, Any, Any]:
    """Votes and gold that a fit may see, and the class codes that it may not; says when gold decides most labels."""
    among("--gold-is", use, ("known", "truth"))
    if use == "truth":
        known = votes if gold is None else votes.with_gold(gold)
        if not known.n_gold:
            raise SettingError("--gold-is truth: there is no gold in the votes and no --gold FILE beside them")
        return replace(votes, gold=None), None, known.gold
    if use is None and gold is None and votes.n_gold:
        note(crowdwise.data.gold.decided_by_gold(votes, "add --gold-is truth (--gold-is known says that this is meant)"))
    return votes, gold, None


def cautious(
    result: crowdwise.Result,
    trusted: Sequence[str] | None,
    *,
    fuse: bool = False,
    drop: bool = False,
    given: bool = False,
    fdr: float | None = None,
) -> report.Heeded | None:
    """Look for annotators who share errors; where there are, say so before any number, quiet or not, and lower confidence.

    `fuse` counts every group as one annotator, `drop` leaves those out who work against the others. Some groups may be `given`
    and count as one already. With `fdr`, spammers are dropped.
    """
    with steps("looking for annotators who share errors"):
        found = engines.independence.find(result.votes)
    if not (found or trusted or fuse or drop or fdr is not None):
        return None
    heeded = report.heed(result, found, trusted or (), say, fuse=fuse, drop=drop, given=given)
    if not heeded.found and (fuse or drop):
        note("no annotators seem to share errors: labels are as fitted")
    return heeded if fdr is None else heeded.without_spammers(fdr, say)


def check_groups(method: MethodOptions, *others: tuple[Any, list[str]]) -> None:
    """Refuse options about single annotators beside --groups."""
    words = "{} is about single annotators, and --groups makes several of them one; leave one out"
    refuse(words, *others, (method, ["history", "trusted"]))


def read_grouped(votes: crowdwise.Annotations, path: Path) -> report.Grouped:
    """Make one annotator of every group of the table, and say which."""
    families = io.annotator_tables.read_families(path)
    with naming(f"--groups: {path}"), noted() as notes:
        return report.grouped_by(votes, families, path, notes)


def careful(
    votes: crowdwise.Annotations, estimator: crowdwise.estimator.Aggregator, options: MethodOptions
) -> crowdwise.estimator.Aggregator:
    """Fit, and lower the confidence that the estimator shows where annotators seem to share errors."""
    heeded = cautious(fit_to(votes, estimator, options).result_, options.trusted)
    if heeded is not None:
        estimator.keep_outcome(heeded.result)
    return estimator


def sharing(path: str, result: crowdwise.Result) -> bool:
    """Whether annotators seem to share errors; a saved model keeps its confidence as it is."""
    # What the fit looked for is remembered.
    return not is_saved(path) and bool(engines.independence.find(result.votes))


def result_of(path: str, read: ReadOptions, options: MethodOptions) -> crowdwise.Result:
    """Open a saved result, or fit to votes."""
    if not is_saved(path):
        estimator = build(options)
        return careful(read_votes(path, read), estimator, options).result_
    if options != type(options)() or read != ReadOptions():
        raise SettingError(f"{path} is a saved result, so options of reading and of the method do not apply")
    return crowdwise.Result.load(path)
