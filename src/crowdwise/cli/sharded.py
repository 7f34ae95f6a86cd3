"""Votes in many files, and votes that are too many for memory: ``crowdwise aggregate --engine``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli import fitting
from crowdwise.cli.declare import option, panel
from crowdwise.cli.job import Job, among, count, note, one_line, progress_of, refuse, say, steps, to_stdout
from crowdwise.cli.options import MethodOptions, ReadOptions
from crowdwise.cli.screen import print_json
from crowdwise.errors import SettingError
from crowdwise.report.text import by_accuracy, facts, sharded_lines, store_lines

if TYPE_CHECKING:
    from crowdwise.cli.aggregate import Options
    from crowdwise.data.annotations import Annotations
    from crowdwise.data.edges import Edges
    from crowdwise.scale.engine import Engine
    from crowdwise.scale.store import Store

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


def chosen_engine(paths: Sequence[str], scale: ScaleOptions, method: str | None) -> str:
    """The engine asked for, by name or by its options; otherwise memory, unless there are very many votes."""
    among("--engine", scale.engine, ENGINES)
    engine = scale.engine or ("ray" if scale.address else "local" if scale.shards or scale.work_dir else None)
    if engine == "memory" and (scale.shards or scale.work_dir or scale.address):
        raise SettingError("--shards, --work-dir and --address are for --engine local and --engine ray")
    if engine == "local" and scale.address is not None:
        raise SettingError("--address names a Ray cluster; add --engine ray, or leave it out")
    if engine is not None:
        return engine
    from crowdwise.estimator.registry import select

    if method is not None and method not in select(shards=True):
        return "memory"
    from crowdwise.scale.places import rows_of

    n_votes = rows_of(paths)
    if n_votes <= _IN_MEMORY:
        return "memory"
    note(f"about {count(n_votes, 'vote')}: read out of core; --engine memory does otherwise")
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


def _encode(engine: Engine, paths: Sequence[str], read: ReadOptions, gold: Path | None, edges: Edges | None) -> Store:
    from crowdwise.io.votes import Request
    from crowdwise.scale.inputs import columns_line

    others = [entry.name for entry in fields(read) if entry.name not in _READ]
    way = "read one file in memory (--engine memory), or convert it first: crowdwise convert FILE {0} ... -o votes.parquet"
    refuse(f"several files and engines read tables with a row per vote, so {{0}} does not apply; {way}", (read, others))
    if fitting.STDIN in paths:
        raise SettingError("stdin cannot be read out of core; name files")
    request = Request(
        *(read.item, read.annotator, read.label, read.weight, read.question), several="keep" if read.one_label else "refuse"
    )
    note(one_line(columns_line(list(paths), request)))
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


def gathered(paths: Sequence[str], read: ReadOptions) -> Annotations:
    """Votes of several files in memory."""
    from crowdwise.scale.collecting import collected

    with _engine("local", ScaleOptions()) as engine:
        store = _encode(engine, paths, read, None, None)
        votes = collected(store)
    note(*map(one_line, store.notes))
    return votes


def aggregate(name: str, options: Options, read: ReadOptions, method: MethodOptions, scale: ScaleOptions, job: Job) -> None:
    """Fit to votes in shards, by the engine of this name, and write labels and tables of annotators."""
    from crowdwise.report.dependence_text import dependence_lines
    from crowdwise.scale.doubts import doubts_of, found_in
    from crowdwise.scale.engine import check_method
    from crowdwise.scale.labels import check_target

    whole = ["save", "warm_from", "drop_spammers", "explain_choice", "kind", "page", "groups"]
    whole += ["fuse_groups", "drop_colluders", "readings"]
    measured = ["gold_is"] if method.gold_is == "truth" else []
    words = f"{{}} needs all votes in memory, which --engine {name} avoids"
    refuse(words, (options, whole), (method, measured))
    if options.output is None or to_stdout(options.output):
        raise SettingError(f"--engine {name} writes labels as they come: name a file (-o labels.parquet) or folder (-o labels)")
    check_target(options.output)
    estimator: Any = fitting.build(method, edges=options.edges is not None)
    check_method(estimator, name == "local")
    edges = None
    if options.edges is not None:
        edges = fitting.read_edges(options.edges)
        estimator.set_params(edges=edges)
    history = fitting.read_history(method.history)
    with _engine(name, scale) as engine:
        earlier = scale.work_dir is not None and (scale.work_dir / "store.json").exists()
        store = _encode(engine, options.votes, read, method.gold, edges)
        found, doubts = doubts_of(*found_in(store), estimator, history, method.trusted or ())
        say(*dependence_lines(found, store))
        costs = fitting.read_costs(options, store.classes)
        job.say(store_lines(store, scale.work_dir if earlier else None))
        first = _fit(estimator, store, history, engine)
        result = estimator.result_
        job.table("--confusion", result.confusion_frame, "row")
        job.table("--annotators", lambda: by_accuracy(result), "annotator")
        kept = {"spreadsheet_safe": not options.raw, "fill_unvoted": options.fill_unvoted}
        n_rows = result.write_labels(options.output, doubts=doubts, costs=costs, **kept)
        job.say([f"wrote {options.output}: {count(n_rows, 'item')}"])
        if options.as_json:
            print_json(facts(result) | {"ran_on": engine.place, "annotators": by_accuracy(result).to_dicts()})
        job.say(sharded_lines(result, engine.place, scale.work_dir, first))


def _fit(estimator: Any, store: Store, history: Any, engine: Engine) -> int | None:
    """Fit, and return the first iteration of this run, which may continue an earlier one."""
    seen: list[int] = []
    with progress_of(estimator) as shown:

        def progress(number: int, bound: float, change: float) -> None:
            seen.append(number)
            if shown is not None:
                shown(number, bound, change)

        estimator.fit(store, history=history, progress=progress, engine=engine)
    return seen[0] if seen else None
