"""Several labels per item, and votes for and against classes: ``crowdwise aggregate --type multilabel`` and ``partial``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise import data, report
from crowdwise.cli.answers import build_task, read_answers
from crowdwise.cli.fitting import noted, parse_list, read_costs, read_votes, ways_of_reading
from crowdwise.cli.job import Job, refuse
from crowdwise.cli.options import MethodOptions, ReadOptions, TaskOptions
from crowdwise.errors import SettingError
from crowdwise.report.text import narrow

if TYPE_CHECKING:
    from crowdwise.cli.aggregate import Options

__all__ = ["aggregate"]

# Kind -> family of its methods, default method, title of the page.
_TASKS = {
    "multilabel": ("several labels", "consensus-sets", "Sets of labels"),
    "partial": ("partial votes", "partial-dawid-skene", "Classes from votes for and against them"),
}


def aggregate(options: Options, read: ReadOptions, method: MethodOptions, job: Job, together: bool) -> None:
    """Infer sets of labels, or classes from partial votes, and write tables of items and annotators."""
    kind = str(options.kind)
    if not together:
        raise SettingError(f"--type {kind} reads one file; put these together first")
    several = kind == "multilabel"
    refuse(
        f"{{}} does not go with --type {kind}",
        (options, ["save", "warm_from", "drop_spammers", "explain_choice", "confusion"]),
        (method, ["gold", "gold_is", "history", "class_prior", "annotator_prior", "trusted"]),
        (read, ["weight", "repeats", "one_label"] if several else []),
    )
    family, default, title = _TASKS[kind]
    estimator = build_task(TaskOptions(method=method.method, set=method.set, seed=method.seed), family, default)
    if options.threshold is not None:
        estimator.set_params(threshold=options.threshold)
    votes = _read_sets(options.votes[0], read, options.separator) if several else read_votes(options.votes[0], read, "keep")
    result = estimator.fit(votes).result_
    items = result.items_frame(separator=options.separator or "|") if several else result.items_frame()
    costs = None if several else read_costs(options, estimator.classes_)
    if costs is not None:
        items = costs.applied(items, result.posterior)
    people = result.annotators_frame().sort("n_votes", descending=True, maintain_order=True)
    job.table("--annotators", lambda: people, "annotator")
    job.page(estimator, lambda: report.set_page(title, items, people))
    facts = {"method": estimator.name, "iterations": estimator.n_iter_, "converged": estimator.converged_}
    job.main(items, "item", document=lambda: facts | {"annotators": people.to_dicts()}, screen=narrow, limit=10)
    job.say(report.set_lines(result))
    if several:
        job.say(report.expected_lines(result))


def _read_sets(path: str, read: ReadOptions, separator: str | None) -> Any:
    abstain = (*data.label_sets.ABSTAIN, *(read.missing or ()))
    how: dict[str, Any] = {"separator": separator, "abstain": abstain} | ways_of_reading(read)
    if read.classes:
        how["labels"] = parse_list(read.classes, "--classes")
    with noted() as notes:
        return read_answers(path, data.label_sets.LabelSets, read, **how, notes=notes)
