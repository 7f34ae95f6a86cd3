"""Votes in many files, and votes that are too many for memory: ``crowdwise aggregate --engine``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crowdwise
from crowdwise import io, report, scale
from crowdwise.cli import fitting
from crowdwise.cli.declare import option, panel
from crowdwise.cli.job import Job, among, count, note, one_line, progress_of, refuse, say, steps, to_stdout
from crowdwise.cli.options import MethodOptions, ReadOptions
from crowdwise.cli.screen import print_json
from crowdwise.errors import SettingError
from crowdwise.estimator.registry import select
from crowdwise.report.text import by_accuracy, facts, sharded_lines, store_lines

if TYPE_CHECKING:
    from crowdwise.cli.aggregate import Options

__all__ = ["ENGINES", "ScaleOptions", "aggregate", "chosen_engine", "gathered"]

_LARGE = "Many votes"
ENGINES = ("memory", "local", "ray")
# What tables with a row per vote, read some rows at a time, know of the options of reading.
_READ = {"item", "annotator", "label", "weight", "question", "classes", "missing", "deduplicate", "one_label"}
# Beyond so many votes, reading them into memory takes several GB.
_IN_MEMORY = 20_000_000
_ENGINE = "Where the fit runs: memory, local (out of core) or ray (a cluster). See the methods' column 'on shards'."


@panel(_LARGE)
class ScaleOptions:
    """Where a fit to many votes runs."""

    engine: str | None = option("--engine", "NAME", _ENGINE, shown="memory, or local above 20 million votes")
    shards: int | None = option("--shards", "N", "Parts to cut votes into.", shown="one per 4 million votes", least=1)
    work_dir: Path | None = option(
        "--work-dir", "DIR", "Keep encoded votes here; after an interruption, the same command resumes."
    )
    address: str | None = option("--address", "HOST:PORT", "Ray cluster to join; auto finds the one on this machine.")


def chosen_engine(paths: Sequence[str], where: ScaleOptions, method: str | None) -> str:
    """The engine asked for, by name or by its options; otherwise memory, unless there are very many votes."""
    among("--engine", where.engine, ENGINES)
    engine = where.engine or ("ray" if where.address else "local" if where.shards or where.work_dir else None)
    if engine == "memory" and (where.shards or where.work_dir or where.address):
        raise SettingError("--shards, --work-dir and --address are for --engine local and --engine ray")
    if engine == "local" and where.address is not None:
        raise SettingError("--address names a Ray cluster; add --engine ray, or leave it out")
    if engine is not None:
        return engine
    if method is not None and method not in select(shards=True):
        return "memory"
    n_votes = scale.places.rows_of(paths)
    if n_votes <= _IN_MEMORY:
        return "memory"
    note(f"about {count(n_votes, 'vote')}: read out of core; --engine memory does otherwise")
    return "local"


def _request(read: ReadOptions) -> io.votes.Request:
    named = (read.item, read.annotator, read.label, read.weight, read.question)
    return io.votes.Request(*named, several="keep" if read.one_label else "refuse")


def _encode(
    engine: scale.engine.Engine, paths: Sequence[str], read: ReadOptions, gold: Path | None, edges: crowdwise.Edges | None
) -> scale.Store:
    others = [entry.name for entry in fields(read) if entry.name not in _READ]
    way = "read one file in memory (--engine memory), or convert it first: crowdwise convert FILE {0} ... -o votes.parquet"
    refuse(f"several files and engines read tables with a row per vote, so {{0}} does not apply; {way}", (read, others))
    if fitting.STDIN in paths:
        raise SettingError("stdin cannot be read out of core; name files")
    request = _request(read)
    note(one_line(scale.inputs.columns_line(list(paths), request)))
    with steps() as progress:
        return engine.encode(
            list(paths),
            request=request,
            classes=read.classes and fitting.parse_list(read.classes, "--classes"),
            missing=read.missing or (),
            deduplicate=read.deduplicate,
            gold=fitting.read_gold(gold, None),
            edges=edges,
            progress=progress,
        )


def gathered(paths: Sequence[str], read: ReadOptions) -> crowdwise.Annotations:
    """Votes of several files in memory."""
    with scale.places.running("local", shards=None, work_dir=None, address=None) as engine:
        store = _encode(engine, paths, read, None, None)
        votes = scale.collecting.collected(store)
    note(*map(one_line, store.notes))
    return votes


def aggregate(name: str, options: Options, read: ReadOptions, method: MethodOptions, where: ScaleOptions, job: Job) -> None:
    """Fit to votes in shards, by the engine of this name, and write labels and tables of annotators."""
    whole = ["save", "warm_from", "drop_spammers", "explain_choice", "kind", "page", "groups"]
    whole += ["fuse_groups", "drop_colluders", "readings"]
    measured = ["gold_is"] if method.gold_is == "truth" else []
    words = f"{{}} needs all votes in memory, which --engine {name} avoids"
    refuse(words, (options, whole), (method, measured))
    if options.output is None or to_stdout(options.output):
        raise SettingError(f"--engine {name} writes labels as they come: name a file (-o labels.parquet) or folder (-o labels)")
    scale.labels.check_target(options.output)
    estimator: Any = fitting.build(method, edges=options.edges is not None)
    scale.engine.check_method(estimator)
    edges = None
    if options.edges is not None:
        edges = fitting.read_edges(options.edges, partial(scale.batches.items_named, options.votes, _request(read)))
        estimator.set_params(edges=edges)
    history = fitting.read_history(method.history)
    with scale.places.running(name, shards=where.shards, work_dir=where.work_dir, address=where.address) as engine:
        earlier = where.work_dir is not None and (where.work_dir / "store.json").exists()
        store = _encode(engine, options.votes, read, method.gold, edges)
        found, doubts = scale.doubts.doubts_of(*scale.doubts.found_in(store), estimator, history, method.trusted or ())
        say(*report.dependence_lines(found, store))
        costs = fitting.read_costs(options, store.classes)
        job.say(store_lines(store, where.work_dir if earlier else None))
        with progress_of(estimator) as progress:
            estimator.fit(store, history=history, progress=progress, engine=engine)
        result = estimator.result_
        job.table("--confusion", result.confusion_frame, "row")
        job.table("--annotators", lambda: by_accuracy(result), "annotator")
        kept = {"spreadsheet_safe": not options.raw, "fill_unvoted": options.fill_unvoted}
        n_rows = result.write_labels(options.output, doubts=doubts, costs=costs, **kept)
        job.say([f"wrote {options.output}: {count(n_rows, 'item')}"])
        if options.as_json:
            print_json(facts(result) | {"ran_on": engine.place, "annotators": by_accuracy(result).to_dicts()})
        job.say(sharded_lines(result, engine.place, where.work_dir, engine.first_round, n_rows))
