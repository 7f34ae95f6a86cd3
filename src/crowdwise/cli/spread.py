"""Votes in many files, and votes that are too many for memory: ``crowdwise aggregate --engine``."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.inputs import STDIN, STEADY_METHOD, build, is_saved, parse_list, read_gold, read_history
from crowdwise.cli.options import MethodOptions, ReadOptions
from crowdwise.cli.text import count, one_line, say
from crowdwise.errors import InputError, SettingError, did_you_mean

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.base import Aggregator
    from crowdwise.scale.engine import Engine
    from crowdwise.scale.outcome import ShardedResult
    from crowdwise.scale.store import Store

__all__ = ["ENGINES", "ScaleOptions", "VotesPaths", "aggregate_spread", "chosen_engine", "gathered", "is_one_file"]

_LARGE = "Many votes"
ENGINES = ("memory", "local", "ray")
# Beyond so many votes, reading them into memory takes several GB.
_IN_MEMORY = 20_000_000
# Below so many bytes no file holds as many votes as that, so nothing need be counted.
_SMALL_FILE = 100_000_000


def _large(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_LARGE, **more)


VotesPaths = Annotated[
    list[str],
    typer.Argument(
        metavar="VOTES",
        help="A table of votes or a platform's export; - reads stdin. Several tables, a folder of them, "
        "or a pattern such as 'votes/*.parquet' are read as one.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ScaleOptions:
    """Where a fit to many votes runs."""

    engine: Annotated[
        str | None,
        _large(
            "--engine",
            metavar="NAME",
            show_default="memory, or local above 20 million votes",
            help="memory; local: out of core, on this machine; ray: on a cluster. See the methods' column 'on shards'.",
        ),
    ] = None
    shards: Annotated[
        int | None, _large("--shards", metavar="N", help="Parts to cut votes into.", show_default="one per 4 million votes")
    ] = None
    work_dir: Annotated[
        Path | None,
        _large(
            "--work-dir",
            metavar="DIR",
            help="Keep encoded votes here; the same command goes on from there after an interruption.",
        ),
    ] = None
    address: Annotated[
        str | None, _large("--address", metavar="HOST:PORT", help="Ray cluster to join; auto finds the one on this machine.")
    ] = None


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
    if scale.engine is not None and scale.engine not in ENGINES:
        hint = did_you_mean(scale.engine, list(ENGINES))
        raise SettingError(f"no engine {scale.engine!r}{hint} (there are {', '.join(ENGINES)})")
    engine = scale.engine or ("ray" if scale.address else "local" if scale.shards or scale.work_dir else None)
    if engine == "memory" and (scale.shards or scale.work_dir or scale.address):
        raise SettingError("--shards, --work-dir and --address are for --engine local and --engine ray")
    if engine == "local" and scale.address is not None:
        raise SettingError("--address names a Ray cluster; add --engine ray, or leave it out")
    if scale.shards is not None and scale.shards < 1:
        raise SettingError(f"--shards must be at least 1; got {scale.shards}")
    if engine is not None:
        return engine
    from crowdwise.estimator.registry import select

    if method is not None and method not in select(shards=True):
        return "memory"
    n_votes = _rows_of(paths)
    if n_votes <= _IN_MEMORY:
        return "memory"
    if not quiet:
        say(f"about {count(n_votes, 'vote')}: read out of core; --engine memory does otherwise")
    return "local"


def _rows_of(paths: Sequence[str]) -> int:
    """Votes in these files, nearly; 0 for what is no table, or for a file too small to matter."""
    from crowdwise.scale.batches import n_votes_of
    from crowdwise.scale.inputs import find_inputs

    if is_one_file(paths) and (not Path(paths[0]).is_file() or Path(paths[0]).stat().st_size < _SMALL_FILE):
        return 0
    try:
        return n_votes_of(find_inputs(paths))
    except InputError:
        if is_one_file(paths):
            return 0  # no table; the readers of other formats may know it
        raise


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Leave on SIGTERM as on any error, so that temporary folders are removed."""

    def leave(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    before = None
    # Only the main thread may say what a signal does.
    with suppress(ValueError):
        before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _engine(name: str, scale: ScaleOptions) -> Iterator[Engine]:
    from crowdwise.scale import Local, Ray

    options: dict[str, Any] = {"shards": scale.shards, "work_dir": scale.work_dir}
    with _ending_in_order(), Ray(address=scale.address, **options) if name == "ray" else Local(**options) as engine:
        try:
            yield engine
        except KeyboardInterrupt:
            if scale.work_dir is not None:
                done = "the encoded votes and the last iteration" if (scale.work_dir / "store.json").exists() else "nothing yet"
                say(f"{one_line(scale.work_dir)} keeps {done}; the same command goes on from there")
            raise


def _encode(engine: Engine, paths: Sequence[str], read: ReadOptions, gold: Path | None, quiet: bool) -> Store:
    from crowdwise.cli.progress import steps
    from crowdwise.io.export import Request

    refused = {"--format": read.format, "--predictions": read.predictions}
    _refuse(refused, "several files and engines read tables with a row per vote, so {} does not apply")
    if STDIN in paths:
        raise SettingError("stdin cannot be read out of core; name files")
    with steps(quiet) as progress:
        return engine.encode(
            list(paths),
            request=Request(read.item, read.annotator, read.label, read.weight, read.question),
            classes=read.classes and parse_list(read.classes, "--classes"),
            missing=read.missing or (),
            deduplicate=read.deduplicate,
            gold=read_gold(gold, None),
            progress=progress,
        )


def gathered(paths: Sequence[str], read: ReadOptions, quiet: bool) -> Annotations:
    """Votes of several files in memory."""
    from crowdwise.scale.collecting import collected

    with _engine("local", ScaleOptions()) as engine:
        return collected(_encode(engine, paths, read, None, quiet))


def aggregate_spread(
    name: str,
    paths: Sequence[str],
    read: ReadOptions,
    method: MethodOptions,
    scale: ScaleOptions,
    tables: Mapping[str, Path | None],
    refused: Mapping[str, Any],
    spreadsheet_safe: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit to votes in shards, and write labels and tables of annotators.

    Parameters
    ----------
    name : str
        The engine.
    tables : mapping
        -o, --annotators and --confusion.
    refused : mapping
        Options that need all votes in memory, with what was given.
    """
    from crowdwise.cli.outputs import write
    from crowdwise.cli.progress import iterations
    from crowdwise.scale.engine import check_method
    from crowdwise.scale.labels import check_target

    _refuse(refused, f"{{}} needs all votes in memory, which --engine {name} avoids")
    output, annotators, confusion = (tables[option] for option in ("-o", "--annotators", "--confusion"))
    if output is None or str(output) == "-":
        raise SettingError(f"--engine {name} writes labels as they come: name a file (-o labels.parquet) or folder (-o labels)")
    check_target(output)
    estimator = build(method, STEADY_METHOD)
    check_method(estimator)
    history = read_history(method.history)
    if method.method is None and not quiet:
        say(f"method: {STEADY_METHOD} (auto, the default in memory, needs all votes there)")
    with _engine(name, scale) as engine:
        encoded_before = scale.work_dir is not None and (scale.work_dir / "store.json").exists()
        store = _encode(engine, paths, read, method.gold, quiet)
        if not quiet:
            by = f"{count(store.n_annotators, 'annotator')}, {count(store.n_classes, 'class')}"
            again = f"; encoded before, in {one_line(scale.work_dir)}" if encoded_before else ""
            say(f"{count(store.n_votes, 'vote')} on {count(store.n_items, 'item')} by {by}{again}")
        with iterations(estimator, quiet) as shown:
            seen: list[int] = []

            def progress(number: int, bound: float, change: float) -> None:
                seen.append(number)
                if shown is not None:
                    shown(number, bound, change)

            estimator.fit(store, history=history, progress=progress, engine=engine)
        result: ShardedResult = estimator.result_  # type: ignore[assignment]
        if confusion is not None:
            write(result.confusion_frame(), confusion, "row", quiet, spreadsheet_safe)
        if annotators is not None:
            from crowdwise.cli.account import rank_annotators

            write(rank_annotators(result), annotators, "annotator", quiet, spreadsheet_safe)
        n_rows = result.write_labels(output, spreadsheet_safe=spreadsheet_safe)
        if not quiet:
            say(f"wrote {output}: {count(n_rows, 'item')}")
        if as_json:
            _print_facts(result, engine)
        if not quiet:
            _tell(estimator, engine, scale, seen[0] if seen else None)


def _print_facts(result: ShardedResult, engine: Engine) -> None:
    from crowdwise.cli.account import facts, rank_annotators
    from crowdwise.cli.outputs import print_json

    print_json(facts(result) | {"ran_on": engine.place, "annotators": rank_annotators(result).to_dicts()})


def _tell(estimator: Aggregator, engine: Engine, scale: ScaleOptions, first: int | None) -> None:
    """How the fit went, and what ran where; `first` is the first iteration of this run."""
    result = estimator.result_
    votes: Any = result.votes
    if votes.n_missing:
        say(f"dropped {count(votes.n_missing, 'missing label')}")
    if votes.n_gold:
        say(f"{count(votes.n_gold, 'known label')} kept fixed")
    if votes.n_unvoted:
        say(f"{count(votes.n_unvoted, 'item')} without votes: labelled by the class shares alone")
    state = "done" if not result.trace else "converged" if result.converged else "NOT converged"
    after = f" after {count(result.n_iter, 'iteration')}" if result.trace and result.n_iter > 1 else ""
    if after and first is None:
        after += ", all of them in an earlier run"
    elif after and first is not None and first > 1:
        after += f", {first - 1} of them in an earlier run"
    kept = f"; encoded votes are kept in {one_line(scale.work_dir)}" if scale.work_dir else ""
    say(f"{result.method}: {state}{after}")
    say(f"ran on {engine.place}, {count(votes.n_shards, 'shard')}{kept}")


def _refuse(options: Mapping[str, Any], reason: str) -> None:
    given = [option for option, value in options.items() if value]
    if given:
        raise SettingError(reason.format(given[0]))
