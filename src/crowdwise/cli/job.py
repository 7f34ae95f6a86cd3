"""One run of a command: places are checked before any work, files are written whole after it, the main table last.

    job = Job(options, reads=(options.votes,), tables={"--annotators": options.annotators}, page=options.page)
    ...                                                      read, build, fit
    job.table("--annotators", result.annotators_frame, "annotator")
    job.main(result.items_frame(), "item", document=facts)   to -o, to a pipe as CSV, to a terminal, or as JSON
    job.say(lines)                                           on stderr, unless quiet

A command calls these for everything that it can write; what nobody asked for is neither made nor written. Users' own texts are
shown as they are, never as markup or control codes.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.options import QuietOptions
from crowdwise.errors import InputError, SettingError, did_you_mean
from crowdwise.report.text import count, number, one_line, some

if TYPE_CHECKING:
    import polars as pl

__all__ = ["TYPED", "Job", "among", "at_least", "bar", "between", "command_line", "count", "epochs", "iterations"]
__all__ += ["number", "one_line", "print_csv", "print_json", "print_pairs", "print_rows", "print_table", "rounded", "say"]
__all__ += ["some", "steps", "to_stdout"]


# A pipe has no width: wide enough that nothing is cut off.
_PIPE_WIDTH = 400


def say(line: str) -> None:
    """Print a line on stderr, where it never mixes with results."""
    print(line, file=sys.stderr)


# -- tables ------------------------------------------------------------------------------------


def print_table(frame: pl.DataFrame, title: str | None = None, limit: int | None = None) -> None:
    """Print the first `limit` rows of a frame; numbers are rounded and set to the right."""
    right = [name for name, dtype in frame.schema.items() if dtype.is_numeric()]
    print_rows(frame.columns, [list(row) for row in frame.head(limit or frame.height).rows()], title, right)


def print_rows(names: list[str], rows: list[list[Any]], title: str | None = None, right: list[str] | None = None) -> None:
    """Print rows below their column names."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title and Text(one_line(title)), box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in names:
        table.add_column(Text(one_line(name)), justify="right" if name in (right or []) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(number(cell)) for cell in row))
    if sys.stdout.isatty():
        Console(highlight=False, **_colours()).print(table)
        return
    text = StringIO()
    Console(file=text, width=_PIPE_WIDTH, color_system=None).print(table)
    print("\n".join(line.rstrip() for line in text.getvalue().strip("\n").splitlines()))


def _colours() -> dict[str, Any]:
    # rich keeps bold type under NO_COLOR; people who set it want plain text.
    return {"color_system": None if os.environ.get("NO_COLOR") else "auto"}


def print_pairs(pairs: dict[str, Any], indent: str = "") -> None:
    """Print names and values, a line each; nested pairs are indented below their name."""
    width = max((len(name) for name in pairs), default=0)
    for name, value in pairs.items():
        if isinstance(value, dict):
            print(f"{indent}{one_line(name)}")
            print_pairs(value, indent + "  ")
        else:
            print(f"{indent}{one_line(name):<{width}}  {number(value) or '-'}")


def bar(value: float, largest: float, width: int = 12) -> str:
    """Return a bar from the middle: to the right for positive values, to the left for negative ones."""
    size = 0 if largest <= 0 else round(abs(value) / largest * width)
    left, right = ("▇" * size, "") if value < 0 else ("", "▇" * size)
    return f"{left:>{width}}│{right:<{width}}"


# -- progress on stderr, only while a person is watching ---------------------------------------


@contextmanager
def iterations(estimator: Any, quiet: bool) -> Iterator[Callable[[int, float, float], None] | None]:
    """Give the callback of `fit`: iterations so far and how much the posterior still moves."""
    with steps(quiet, estimator.name) as show:
        total = estimator.get_params().get("max_iter")
        yield show and (lambda n, bound, change: show(f"{estimator.name}: change {change:.1e}", n, total))


@contextmanager
def epochs(estimator: Any, quiet: bool) -> Iterator[Callable[[int, float, float], None] | None]:
    """Give the callback of a classifier's `fit`: epochs so far and the score of held-out votes, or how much still moves."""
    with steps(quiet, estimator.name) as show:
        settings = estimator.get_params(deep=False)
        network = "epochs" in settings or getattr(estimator, "has_network", False)
        total = settings.get("epochs", settings.get("max_iter"))

        def text(score: float) -> str:
            # Held out is a loss per vote; without any, as in the last run on all items, it is not a number.
            return "training on all items" if score != score else f"held-out {-score:.4f}" if network else f"change {score:.1e}"

        yield show and (lambda n, objective, score: show(f"{estimator.name}: {text(score)}", n, total))


@contextmanager
def steps(quiet: bool, name: str = "") -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Give a callback for named steps: which is running, and how many are done of how many."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    # stdout may be a pipe whose bytes are the result: it is left alone.
    with Progress(*columns, console=Console(stderr=True, **_colours()), transient=True, redirect_stdout=False) as shown:
        task = shown.add_task(name, total=None)
        yield lambda what, done, total: shown.update(task, description=what, completed=done, total=total)


# -- places and outputs of a run ---------------------------------------------------------------

# What was typed after the name of the program, for the pages that say how they were made.
TYPED: ContextVar[tuple[str, ...]] = ContextVar("typed", default=())
PLOTS, PAGES = (".png", ".pdf", ".svg"), (".html", ".htm")


class Job:
    """Where one command writes; refuses, before any work, what could not be written or would destroy an input.

    Parameters
    ----------
    out : QuietOptions
        Its options on output, as far as the command has them.
    reads : sequence of paths
        What is read; None and stdin are left aside.
    tables : mapping
        Option -> path of further tables.
    page, plot, save : Path, optional
        A page (.html), a plot, the folder of the model.
    files : mapping
        Option -> path of files whose suffix the command checks itself.
    """

    def __init__(
        self,
        out: QuietOptions,
        reads: Sequence[str | Path | None] = (),
        *,
        tables: Mapping[str, Path | None] | None = None,
        page: Path | None = None,
        plot: Path | None = None,
        save: Path | None = None,
        files: Mapping[str, Path | None] | None = None,
    ) -> None:
        self.quiet, self.as_json = out.quiet, bool(getattr(out, "as_json", False))
        self.output: Path | None = getattr(out, "output", None)
        # Tables are opened in spreadsheets more often than by programs, and names in them come from strangers.
        self.safe = not getattr(out, "raw", False)
        tables, files = tables or {}, files or {}
        first = {} if "-o" in files else {"-o": self.output}
        self.places: dict[str, Path | None] = {**first, **tables, "--page": page, "--plot": plot, **files}
        if any(to_stdout(path) for option, path in self.places.items() if option != "-o"):
            raise SettingError("only -o can go to stdout")
        if self.as_json and to_stdout(self.output):
            raise SettingError("--json and -o - both ask for stdout; choose one")
        seen = {os.path.realpath(path): f"the input {path}" for path in reads if path is not None and str(path) != "-"}
        for option, path in self.places.items():
            if path is not None and not to_stdout(path):
                if option not in files:
                    _check_suffix(path, option)
                _check_place(path, option, seen)
        self.places["--save"] = save
        if save is not None and save.exists() and not save.is_dir():
            raise SettingError(f"--save: {save} is a file; name a folder")

    def table(self, option: str, make: Callable[[], pl.DataFrame], noun: str) -> None:
        """Write a further table, if it is asked for."""
        path = self.places[option]
        if path is not None:
            self._write(make(), path, noun)

    def file(self, option: str, write: Callable[[Path], Any]) -> None:
        """Write anything else, if it is asked for; `write` may return a text to say about it."""
        path = self.places[option]
        if path is not None:
            about = write(path)
            self.say([f"wrote {path}{f': {about}' if isinstance(about, str) else ''}"])

    def page(self, estimator: Any, parts: Callable[[], dict[str, Any]]) -> None:
        """Write a page of `crowdwise.report.answer_pages`, if it is asked for."""
        if self.places["--page"] is not None:
            from crowdwise import __version__
            from crowdwise.report import write_answers

            made = {"Command": command_line(), "Method with its settings": repr(estimator), "crowdwise": __version__}
            self.file("--page", lambda path: write_answers(path, method=estimator.name, made=made, **parts()))

    def main(
        self,
        frame: pl.DataFrame,
        noun: str,
        *,
        document: Callable[[], dict[str, Any]] | None = None,
        key: str = "items",
        rows: Callable[[], list[dict[str, Any]]] | None = None,
        screen: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
        limit: int = 20,
    ) -> None:
        """Send the main table to its file, to a pipe as CSV, the first rows of it to a terminal, or all to JSON.

        Parameters
        ----------
        document : function, optional
            What JSON says beside the rows, which it holds under `key` unless they have a file; without it, JSON is
            the rows alone. `rows` makes them where they are not those of the frame.
        screen : function, optional
            From the frame to what a terminal shows.
        """
        to_file = self.output is not None and not to_stdout(self.output)
        if to_file:
            self._write(frame, self.output, noun)  # type: ignore[arg-type]
        if self.as_json:
            listed = rows or frame.to_dicts
            print_json(listed() if document is None else document() | ({} if to_file else {key: listed()}))
        elif to_stdout(self.output) or (not to_file and not sys.stdout.isatty()):
            self.csv(frame)
        elif not to_file:
            print_table(frame if screen is None else screen(frame), limit=limit)
            if frame.height > limit:
                print(f"... and {count(frame.height - limit, noun)} more; write all with -o FILE")

    def csv(self, frame: pl.DataFrame) -> None:
        """Write CSV on stdout."""
        from crowdwise.io.writer import for_spreadsheets

        print_csv(for_spreadsheets(frame, "stdout") if self.safe else frame)

    def say(self, lines: Iterable[str]) -> None:
        """Print lines on stderr, unless quiet; lines of a generator are not made in vain."""
        if not self.quiet:
            for line in lines:
                say(line)

    def _write(self, frame: pl.DataFrame, path: Path, noun: str) -> None:
        from crowdwise.io import write_table

        write_table(rounded(frame, path), path, spreadsheet_safe=self.safe)
        self.say([f"wrote {path}: {count(frame.height, noun)}"])


def command_line() -> str:
    """What was typed, as a shell would take it."""
    return shlex.join(["crowdwise", *TYPED.get()])


def to_stdout(path: Path | None) -> bool:
    """Say whether the option asks for raw CSV on stdout."""
    return path is not None and str(path) == "-"


def among(option: str, value: str | None, known: Iterable[str], more: str = "") -> None:
    """Refuse a value that is not one of the known; None is fine."""
    names = list(known)
    if value is not None and value not in names:
        hint = did_you_mean(value, names)
        raise SettingError(f"{option}: there is no {value!r}{hint} (there are {', '.join(names)}{more})")


def between(option: str, value: float, low: float = 0, high: float = 1, closed: bool = False) -> None:
    """Refuse a number that does not lie between two others."""
    if not (low <= value <= high if closed else low < value < high):
        raise SettingError(f"{option} must lie between {low:g} and {high:g}; got {value}")


def at_least(option: str, value: float | None, least: float) -> None:
    """Refuse a number below the least; None is fine."""
    if value is not None and not least <= value < math.inf:
        raise SettingError(f"{option} must be at least {least:g}; got {value:g}")


def _check_suffix(path: Path, option: str) -> None:
    name = str(path).lower()
    if option == "--page" and not name.endswith(PAGES):
        raise SettingError(f"{option}: {path}: a page ends in .html")
    if option == "--plot" and not name.endswith(PLOTS):
        raise SettingError(f"{option}: {path}: a plot ends in {', '.join(PLOTS)}")
    if option not in ("--page", "--plot"):
        from crowdwise.io.writer import table_suffix

        try:
            table_suffix(path)
        except InputError as problem:
            raise SettingError(f"{option}: {problem}") from None


def _check_place(path: Path, option: str, seen: dict[str, str]) -> None:
    """Refuse a path whose folder does not exist, that is itself a folder, or that something else takes."""
    if not path.parent.is_dir():
        raise SettingError(f"{option}: the folder {str(path.parent)!r} does not exist; create it first")
    if path.is_dir():
        raise SettingError(f"{option}: {path} is a folder; name a file in it")
    if not os.access(path.parent, os.W_OK):
        raise SettingError(f"{option}: you may not write into the folder {str(path.parent)!r}; name another")
    other = seen.setdefault(os.path.realpath(path), f"the output of {option}")
    if other != f"the output of {option}":
        raise SettingError(f"{option}: {path} is also {other}; name another file")


def rounded(frame: pl.DataFrame, path: Path | None = None) -> pl.DataFrame:
    """A table for text with six digits of every fraction; binary files keep all."""
    import polars as pl
    from polars import selectors

    if path is not None and path.name.lower().removesuffix(".gz").endswith((".parquet", ".arrow", ".ipc", ".feather")):
        return frame
    value = selectors.float()
    return frame.with_columns(pl.when(value.abs() < 1).then(value.round_sig_figs(6)).otherwise(value.round(6)).name.keep())


def print_csv(frame: pl.DataFrame) -> None:
    """Write CSV on stdout, as UTF-8 whatever the locale, some rows at a time."""
    frame = rounded(frame)
    for index, part in enumerate(frame.iter_slices(100_000) if frame.height else [frame]):
        _write_stdout(part.write_csv(include_header=index == 0).encode())


def print_json(document: Any) -> None:
    """Write JSON on stdout; numbers that JSON lacks (NaN, infinity) become null."""
    text = json.dumps(_plain(document), ensure_ascii=False, indent=2, allow_nan=False)
    _write_stdout(text.encode("utf-8", "replace") + b"\n")


def _write_stdout(data: bytes) -> None:
    sys.stdout.flush()
    rest = memoryview(data)
    # With PYTHONUNBUFFERED, stdout is a raw file, and a raw write may stop half-way without an error.
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) :]


def _plain(value: Any) -> Any:
    """Python's own types, all the way down."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
