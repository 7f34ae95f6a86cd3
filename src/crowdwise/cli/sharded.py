"""Votes in many files, and votes that are too many for memory: ``crowdwise aggregate --engine``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.declare import option
from crowdwise.cli.fitting import STDIN, build, is_saved, noted, parse_list, read_gold, read_history
from crowdwise.cli.job import Job, among, at_least, count, iterations, one_line, print_json, say, steps, to_stdout
from crowdwise.cli.options import MethodOptions, ReadOptions
from crowdwise.errors import SettingError
from crowdwise.report.text import by_accuracy, dropped_lines, facts

if TYPE_CHECKING:
    from crowdwise.cli.aggregate import Options
    from crowdwise.data.annotations import Annotations
    from crowdwise.io.votes import Request
    from crowdwise.scale.doubts import Doubt
    from crowdwise.scale.engine import Engine
    from crowdwise.scale.store import Store

__all__ = ["ENGINES", "ScaleOptions", "aggregate", "chosen_engine", "gathered", "is_one_file", "without_output"]

_LARGE = "Many votes"
ENGINES = ("memory", "local", "ray")
# Beyond so many votes, reading them into memory takes several GB.
_IN_MEMORY = 20_000_000
_ENGINE = "memory; local: out of core, on this machine; ray: on a cluster. See the methods' column 'on shards'."


@dataclass(frozen=True, kw_only=True)
class ScaleOptions:
    """Where a fit to many votes runs."""

    engine: str | None = option("--engine", "NAME", _ENGINE, panel=_LARGE, shown="memory, or local above 20 million votes")
    shards: int | None = option("--shards", "N", "Parts to cut votes into.", panel=_LARGE, shown="one per 4 million votes")
    work_dir: Path | None = option(
        "--work-dir", "DIR", "Keep encoded votes here; after an interruption, the same command resumes.", panel=_LARGE
    )
    address: str | None = option(
        "--address", "HOST:PORT", "Ray cluster to join; auto finds the one on this machine.", panel=_LARGE
    )


def is_one_file(paths: Sequence[str]) -> bool:
    """Whether there is nothing to put together: one file, stdin, a saved model, or a platform's folder."""
    if len(paths) > 1:
        return False
    path = paths[0]
    if path == STDIN or Path(path).is_file() or is_saved(path):
        return True
    if Path(path).is_dir():
        # Folders of JSON are platforms' exports, which have a reader of their own.
        return any(name.endswith((".json", ".jsonl")) for _, _, names in os.walk(path) for name in names)
    return not any(c in path for c in "*?[")


def chosen_engine(paths: Sequence[str], scale: ScaleOptions, method: str | None, quiet: bool) -> str:
    """The engine asked for, by name or by its options; otherwise memory, unless there are very many votes."""
    among("--engine", scale.engine, ENGINES)
    engine = scale.engine or ("ray" if scale.address else "local" if scale.shards or scale.work_dir else None)
    if engine == "memory" and (scale.shards or scale.work_dir or scale.address):
        raise SettingError("--shards, --work-dir and --address are for --engine local and --engine ray")
    if engine == "local" and scale.address is not None:
        raise SettingError("--address names a Ray cluster; add --engine ray, or leave it out")
    at_least("--shards", scale.shards, 1)
    if engine is not None:
        return engine
    from crowdwise.estimator.registry import select

    if method is not None and method not in select(shards=True):
        return "memory"
    from crowdwise.scale.places import rows_of

    n_votes = rows_of(paths, is_one_file(paths))
    if n_votes <= _IN_MEMORY:
        return "memory"
    if not quiet:
        say(f"about {count(n_votes, 'vote')}: read out of core; --engine memory does otherwise")
    return "local"


@contextmanager
def _engine(name: str, scale: ScaleOptions) -> Iterator[Engine]:
    from crowdwise.scale import Local, Ray
    from crowdwise.scale.places import ending_in_order

    options: dict[str, Any] = {"shards": scale.shards, "work_dir": scale.work_dir}
    with ending_in_order(), Ray(address=scale.address, **options) if name == "ray" else Local(**options) as engine:
        try:
            yield engine
        except KeyboardInterrupt:
            if scale.work_dir is not None:
                done = "the encoded votes and the last iteration" if (scale.work_dir / "store.json").exists() else "nothing yet"
                say(f"{one_line(scale.work_dir)} keeps {done}; the same command resumes there")
            raise


def _encode(engine: Engine, paths: Sequence[str], read: ReadOptions, gold: Path | None, quiet: bool) -> Store:
    from crowdwise.io.votes import Request

    refused: dict[str, Any] = {"--format": read.format, "--predictions": read.predictions, "--repeats": read.repeated_votes}
    refused |= {"--fold-case": read.fold_case, "--spelling": read.spelling, "--annotator-columns": read.annotator_columns}
    refused |= {"--not": read.exclude, "--no-header": read.no_header, "--transposed": read.transposed}
    refused |= {"--workflow-version": read.workflow_version, "--time-column": read.time_column}
    refused |= {"--sure": read.sure, "--probabilities": read.probabilities}
    refused |= {"--encoding": read.encoding, "--sheet": read.sheet, "--skip-rows": read.skip_rows}
    way = "read one file in memory (--engine memory), or convert it first: crowdwise convert FILE {0} ... -o votes.parquet"
    _refuse(refused, "several files and engines read tables with a row per vote, so {0} does not apply; " + way)
    if STDIN in paths:
        raise SettingError("stdin cannot be read out of core; name files")
    request = Request(
        *(read.item, read.annotator, read.label, read.weight, read.question), several="keep" if read.one_label else "refuse"
    )
    if not quiet:
        _say_columns(paths, request)
    with steps(quiet) as progress:
        return engine.encode(
            list(paths),
            request=request,
            classes=read.classes and parse_list(read.classes, "--classes"),
            missing=read.missing or (),
            deduplicate=read.deduplicate,
            gold=read_gold(gold, None),
            progress=progress,
        )


def _say_columns(paths: Sequence[str], request: Request) -> None:
    """Say which columns are taken as what, unless the user or the very names say so."""
    from crowdwise.scale.inputs import check_inputs, find_inputs

    columns = {role: column.name for role, column in check_inputs(find_inputs(list(paths)), request).columns.items()}
    given = {"item": request.item, "annotator": request.annotator, "label": request.label or request.question}
    guessed = [role for role, name in given.items() if name is None and columns[role] != role]
    if guessed:
        taken = ", ".join(f"{role} = {one_line(repr(name))}" for role, name in columns.items())
        say(f"{taken} (--{', --'.join(guessed)} choose otherwise)")


def gathered(paths: Sequence[str], read: ReadOptions, quiet: bool) -> Annotations:
    """Votes of several files in memory."""
    from crowdwise.scale.collecting import collected

    with _engine("local", ScaleOptions()) as engine:
        store = _encode(engine, paths, read, None, quiet)
        votes = collected(store)
    with noted() as notes:
        notes.extend(store.notes)
    return votes


def without_output(options: Options) -> Options:
    """The same options without -o, whose place is checked here."""
    return replace(options, output=None)


def aggregate(name: str, options: Options, read: ReadOptions, method: MethodOptions, scale: ScaleOptions, job: Job) -> None:
    """Fit to votes in shards, by the engine of this name, and write labels and tables of annotators."""
    from crowdwise.scale.engine import check_method
    from crowdwise.scale.labels import check_target

    memory: dict[str, Any] = {
        "--save": options.save,
        "--warm-from": options.warm_from,
        "--drop-spammers": options.drop_spammers,
    }
    memory |= {
        "--gold-is truth": method.gold_is == "truth",
        "--explain-choice": options.explain_choice,
        f"--type {options.kind}": options.kind,
        "--page": options.page,
    }
    _refuse(memory, f"{{}} needs all votes in memory, which --engine {name} avoids")
    if options.output is None or to_stdout(options.output):
        raise SettingError(f"--engine {name} writes labels as they come: name a file (-o labels.parquet) or folder (-o labels)")
    check_target(options.output)
    estimator: Any = build(method)
    check_method(estimator)
    history = read_history(method.history)
    with _engine(name, scale) as engine:
        earlier = scale.work_dir is not None and (scale.work_dir / "store.json").exists()
        store = _encode(engine, options.votes, read, method.gold, options.quiet)
        doubts = _doubts(store, estimator, history, method.trusted or ())
        by = f"{count(store.n_annotators, 'annotator')}, {count(store.n_classes, 'class')}"
        again = f"; encoded by an earlier run, in {one_line(scale.work_dir)}" if earlier else ""
        job.say([*store.notes, f"{count(store.n_votes, 'vote')} on {count(store.n_items, 'item')} by {by}{again}"])
        if 2 * (store.n_gold or 0) > store.n_items:
            job.say([f"gold in the files decides {store.n_gold:,} of {store.n_items:,} labels"])
        first = _fit(estimator, store, history, engine, options.quiet)
        result = estimator.result_
        job.table("--confusion", result.confusion_frame, "row")
        job.table("--annotators", lambda: by_accuracy(result), "annotator")
        n_rows = result.write_labels(
            options.output, spreadsheet_safe=not options.raw, fill_unvoted=options.fill_unvoted, doubts=doubts
        )
        job.say([f"wrote {options.output}: {count(n_rows, 'item')}"])
        if options.as_json:
            print_json(facts(result) | {"ran_on": engine.place, "annotators": by_accuracy(result).to_dicts()})
        job.say(_summary_lines(result, engine, scale, first))


def _doubts(store: Store, estimator: Any, history: Any, trusted: Sequence[str]) -> list[Doubt]:
    """Look for annotators who share errors; where there are, say so before any number."""
    from crowdwise.scale.doubts import doubts_of, found_in

    found, doubts = doubts_of(*found_in(store), estimator, history, trusted)
    if not found:
        return []
    from crowdwise.report.dependence_text import dependence_lines

    for line in dependence_lines(found, store):
        say(line)
    return doubts


def _fit(estimator: Any, store: Store, history: Any, engine: Engine, quiet: bool) -> int | None:
    """Fit, and return the first iteration of this run, which may continue an earlier one."""
    seen: list[int] = []
    with iterations(estimator, quiet) as shown:

        def progress(number: int, bound: float, change: float) -> None:
            seen.append(number)
            if shown is not None:
                shown(number, bound, change)

        estimator.fit(store, history=history, progress=progress, engine=engine)
    return seen[0] if seen else None


def _summary_lines(result: Any, engine: Engine, scale: ScaleOptions, first: int | None) -> Iterator[str]:
    """How the fit went, and what ran where; `first` is the first iteration of this run."""
    votes = result.votes
    yield from dropped_lines(votes.n_missing, votes.n_gold, votes.n_unvoted)
    state = "done" if not result.trace else "converged" if result.converged else "NOT converged"
    after = f" after {count(result.n_iter, 'iteration')}" if result.trace and result.n_iter > 1 else ""
    if after and first is None:
        after += ", all of them in an earlier run"
    elif after and first is not None and first > 1:
        after += f", {first - 1} of them in an earlier run"
    kept = f"; encoded votes are kept in {one_line(scale.work_dir)}" if scale.work_dir else ""
    yield f"{result.method}: {state}{after}"
    yield f"ran on {engine.place}, {count(votes.n_shards, 'shard')}{kept}"


def _refuse(options: Mapping[str, Any], reason: str) -> None:
    given = [option for option, value in options.items() if value]
    if given:
        raise SettingError(reason.format(given[0]))
