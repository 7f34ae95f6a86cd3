"""``crowdwise aggregate``: from votes to labels with confidence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli import answer_kinds, dependent, sharded
from crowdwise.cli.declare import argument, file, flag, option
from crowdwise.cli.display import count, iterations, say, some
from crowdwise.cli.fitting import DEFAULT_METHOD, STEADY_METHOD, build, check_explainable, fit_to, settings_of
from crowdwise.cli.inputs import STDIN, read_gold, read_votes
from crowdwise.cli.job import Job
from crowdwise.cli.options import ANNOTATORS, FDR, MORE, PAGE, MethodOptions, OutputOptions, ReadOptions
from crowdwise.cli.sharded import ScaleOptions
from crowdwise.errors import SettingError
from crowdwise.report.label_text import by_accuracy, choice_lines, facts, label_rows, narrow, ordinal_frame, summary_lines

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.base import Aggregator
    from crowdwise.estimator.result import Result

EXAMPLES = (
    "Example: crowdwise aggregate votes.csv -o labels.csv --annotators annotators.csv --page page.html\n\n"
    "Judges of a few families: crowdwise aggregate verdicts.jsonl --groups families.csv\n\n"
    "Ordered classes: crowdwise aggregate votes.csv --type ordinal --classes bad,ok,good\n\n"
    "Several labels per item: crowdwise aggregate answers.csv --type multilabel\n\n"
    "Many files, out of core: crowdwise aggregate 'votes/*.parquet' --engine local --work-dir work -o labels.parquet\n\n"
    "On a cluster: crowdwise aggregate votes/ --engine ray --address auto --shards 64 -o labels\n\n"
    "Incrementally: crowdwise aggregate monday.csv --save model -o labels.csv, "
    "then crowdwise aggregate tuesday.csv --warm-from model --save model -o labels.csv"
)
_VOTES = (
    "A table of votes or a platform's export; - reads stdin. Several tables, a folder of them, or a pattern such as "
    "'votes/*.parquet' are read as one."
)
# A smaller file fits in memory whatever it holds, so nobody need ask how many votes that are.
_SMALL_FILE = 100_000_000


@dataclass(frozen=True, kw_only=True)
class Options(answer_kinds.KindOptions, OutputOptions):
    """What is read and written."""

    votes: list[str] = argument("VOTES", _VOTES)
    annotators: Path | None = file("--annotators", ANNOTATORS, MORE)
    confusion: Path | None = file("--confusion", "Write the confusion matrix of every annotator.", MORE)
    save: Path | None = option("--save", "DIR", "Save the fitted model in this folder, to continue from it later.", panel=MORE)
    page: Path | None = file("--page", PAGE, MORE)
    warm_from: Path | None = option("--warm-from", "DIR", "Add these votes to those of a saved model and fit them together.")
    groups: Path | None = file(
        "--groups", "Annotators who belong together and count as one, such as judges of one model family: annotator, group."
    )
    drop_spammers: bool = flag("--drop-spammers", "Fit again without the votes of spammers, who are listed.")
    fdr: float = option("--fdr", "SHARE", "Share of wrong flags to expect among the spammers.", FDR)
    explain_choice: bool = flag("--explain-choice", "Print the comparison behind --method auto on stderr.")


def run(options: Options, read: ReadOptions, method: MethodOptions, scale: ScaleOptions) -> None:
    """Infer the label of every item from the votes of its annotators.

    Without -o the labels go to stdout as CSV; on a terminal, the first of them as a table.
    """
    answer_kinds.check_kind(options)
    dependent.check_groups(options.groups, options.kind, options.warm_from, method)
    small = scale == ScaleOptions() and _is_small(options.votes)
    engine = "memory" if small else sharded.chosen_engine(options.votes, scale, method.method, options.quiet)
    job = Job(
        # Labels of shards may go into a folder, which has a check of its own.
        options if engine == "memory" else sharded.without_output(options),
        (*options.votes, method.gold, method.history, options.groups),
        tables={"--annotators": options.annotators, "--confusion": options.confusion},
        page=options.page,
        save=options.save,
    )
    together = small or sharded.is_one_file(options.votes)
    if engine != "memory" or not together:
        from crowdwise.scale.places import check_places

        beside = (method.gold, method.history, options.groups)
        check_places({**job.places, "-o": options.output}, options.votes, beside, scale.work_dir)
    if engine != "memory" and options.groups is not None:
        raise SettingError("--groups needs the votes in memory; leave --engine out, or count the members as they are")
    if engine != "memory":
        sharded.aggregate(engine, options, read, method, scale, job)
    elif options.kind in answer_kinds.TASKS:
        answer_kinds.aggregate(options, read, method, job, together)
    else:
        _aggregate(options, read, method, job, together)


def _is_small(paths: list[str]) -> bool:
    """Whether there is one file, or stdin, that memory can hold for sure."""
    path = Path(paths[0])
    return len(paths) == 1 and (paths[0] == STDIN or (path.is_file() and path.stat().st_size < _SMALL_FILE))


def _aggregate(options: Options, read: ReadOptions, method: MethodOptions, job: Job, together: bool) -> None:
    """Fit to votes for one class per item and write what was asked for, the labels last."""
    if options.drop_spammers:
        from crowdwise.trust.crowd.report import check_level

        check_level(options.fdr)
    votes, estimator = _fitted(options, read, method, together)
    result: Result = estimator.result_
    # What is saved: the estimator, for online methods continue from a state that a result does not hold.
    saved: Aggregator | Result = estimator
    dropped: list[Any] = []
    if options.drop_spammers:
        result, dropped = _without_spammers(result, options.fdr)
        saved = result if dropped else estimator
    result, more = dependent.cautious(result)
    if saved is estimator:
        # What is opened later says the same as what is written now.
        estimator.keep_outcome(result)
    else:
        saved = result
    if votes is not None:
        more |= {"n_votes": votes.n_votes, "n_annotators": votes.n_annotators}
    items = ordinal_frame(result) if options.kind == answer_kinds.ORDINAL else result.items_frame()
    if votes is not None:
        items = dependent.counted(items, votes)
    if options.page is not None:
        from crowdwise.report import write_page

        job.file("--page", lambda path: write_page(result, path))
    job.file("--save", saved.save)
    job.table("--confusion", result.confusion_frame, "row")
    job.table("--annotators", lambda: by_accuracy(result), "annotator")
    if dropped:
        more["dropped_annotators"] = dropped
    job.main(
        items,
        "item",
        document=lambda: facts(result) | more | {"annotators": by_accuracy(result).to_dicts()},
        key="labels",
        rows=lambda: label_rows(result, items),
        screen=narrow,
        limit=10,
    )
    job.say(summary_lines(result, read=votes))
    # The table is asked for, quiet or not; stderr, as stdout is for labels.
    for line in choice_lines(estimator, not options.quiet, options.explain_choice):
        say(line)


def _fitted(
    options: Options, read: ReadOptions, method: MethodOptions, together: bool
) -> tuple[Annotations | None, Aggregator]:
    """The method fitted to the votes, or a saved model with the votes added; and the votes, where groups were made of them."""
    if options.warm_from is not None:
        if not together:
            raise SettingError("--warm-from reads one file; put these together first")
        return None, _update(options.warm_from, options, read, method)
    ordinal = options.kind == answer_kinds.ORDINAL
    default = answer_kinds.ORDINAL_METHOD if ordinal else STEADY_METHOD if options.drop_spammers else DEFAULT_METHOD
    estimator = build(method, default)
    check_explainable(estimator, options.explain_choice)
    data = read_votes(options.votes[0], read) if together else sharded.gathered(options.votes, read, options.quiet)
    answer_kinds.check_classes(data, read, ordinal)
    if options.groups is None:
        return None, fit_to(data, estimator, method, options.quiet)
    return data, fit_to(dependent.grouped(data, options.groups, options.quiet), estimator, method, options.quiet)


def _update(folder: Path, options: Options, read: ReadOptions, method: MethodOptions) -> Aggregator:
    """Fold votes into a saved model."""
    from crowdwise.estimator.loading import load
    from crowdwise.estimator.registry import label_methods

    if method.history is not None:
        raise SettingError("--history was part of the first fit and is kept; leave it out with --warm-from")
    estimator: Any = load(folder)
    if estimator.name not in label_methods():
        raise SettingError(f"{folder} holds a classifier ({estimator.name}); train it on all votes with crowdwise train")
    if method.method not in (None, estimator.name):
        raise SettingError(f"{folder} was fitted with {estimator.name}, so --method {method.method} cannot continue from it")
    check_explainable(estimator, options.explain_choice)
    estimator.set_params(**settings_of(method, list(estimator.get_params())))
    fresh = read_votes(options.votes[0], read)
    # Gold may be of items of earlier fits, so it is checked against all of them, by `update`.
    gold = read_gold(method.gold, None)
    with iterations(estimator, options.quiet) as progress:
        updated: Aggregator = estimator.update(fresh, gold=gold, progress=progress)
    return updated


def _without_spammers(result: Result, fdr: float) -> tuple[Result, list[Any]]:
    """Refit without the flagged annotators and name them, quiet or not: nobody is dropped silently."""
    from crowdwise.trust.crowd import spammers
    from crowdwise.trust.crowd.pruning import refit_without

    dropped = spammers.score(result, fdr=fdr).flagged
    if dropped:
        say(f"dropped {count(len(dropped), 'spammer')}: {some(dropped, len(dropped))}")
    return refit_without(result, dropped), dropped
