"""One run of a command: places are checked before any work, files are written whole after it, the main table last.

    job = Job(options, read, method)                         every path in these groups, by how it is declared
    ...                                                      read, build, fit
    job.table("--annotators", result.annotators_frame, "annotator")
    job.main(result.items_frame(), "item", document=facts)   to -o, to a pipe as CSV, to a terminal, or as JSON
    job.say(lines)                                           on stderr, unless quiet

A command calls these for everything that it can write; what nobody asked for is neither made nor written. Users' own texts are
shown as they are, never as markup or control codes.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crowdwise
from crowdwise import io, report
from crowdwise.cli.declare import INPUT, NAME, PLACE, SAVE
from crowdwise.cli.screen import colours, print_csv, print_json, print_tables
from crowdwise.errors import InputError, SettingError, did_you_mean
from crowdwise.io.advice import TYPED
from crowdwise.report.text import by_accuracy, count, facts, framed, label_rows, narrow, number, one_line, some

if TYPE_CHECKING:
    import polars as pl

__all__ = ["QUIET", "TYPED", "Job", "among", "command_line", "count", "naming", "note", "number"]
__all__ += ["one_line", "refuse", "say", "some", "steps", "to_stdout"]

# Whether the command was asked to say less.
QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


def say(*lines: str) -> None:
    """Print lines on stderr, where they never mix with results; nothing for an empty one."""
    for line in filter(None, lines):
        print(line, file=sys.stderr)


def note(*lines: str) -> None:
    """The same, unless quiet."""
    if not QUIET.get():
        say(*lines)


@contextmanager
def progress_of(estimator: Any) -> Iterator[Callable[[int, float, float], None] | None]:
    """Give the callback of `fit`: rounds so far, and how much still moves or, of a network, the score of held-out votes."""
    with steps(estimator.name) as show:
        settings = estimator.get_params(deep=False)
        network = "epochs" in settings or getattr(estimator, "has_network", False)
        total = settings.get("epochs", settings.get("max_iter"))

        def text(score: float) -> str:
            # Held out is a loss per vote; without any, as in the last run on all items, it is not a number.
            return "training on all items" if score != score else f"held-out {-score:.4f}" if network else f"change {score:.1e}"

        yield show and (lambda n, objective, score: show(f"{estimator.name}: {text(score)}", n, total))


@contextmanager
def steps(name: str = "") -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Give a callback for named steps: which is running, and how many are done of how many."""
    if QUIET.get() or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    # stdout may be a pipe whose bytes are the result: it is left alone.
    with Progress(*columns, console=Console(stderr=True, **colours()), transient=True, redirect_stdout=False) as shown:
        task = shown.add_task(name, total=None)
        yield lambda what, done, total: shown.update(task, description=what, completed=done, total=total)


class Job:
    """Where one command writes; refuses, before any work, what could not be written or would destroy an input.

    Parameters
    ----------
    *groups : groups of options
        What is read and written, by how their fields are declared.
    own : sequence of str
        Options whose suffix the command checks itself.
    """

    def __init__(self, *groups: Any, own: Sequence[str] = ()) -> None:
        entries = [(entry, getattr(group, entry.name)) for group in groups for entry in fields(group)]
        given = {entry.name: value for entry, value in entries}
        self.as_json: bool = given.get("as_json", False)
        self.output: Any = given.get("output")
        # Tables are opened in spreadsheets more often than by programs, and names in them come from strangers.
        self.safe = not given.get("raw")
        places = [(entry.metadata[PLACE], entry.metadata[NAME], value) for entry, value in entries]
        read = [path for kind, _, path in places if kind == INPUT and path is not None]
        self.reads = [str(path) for found in read for path in (found if isinstance(found, list) else [found])]
        self.places = {option: path for kind, option, path in places if kind not in (INPUT, None)}
        if any(to_stdout(path) for option, path in self.places.items() if option != "-o"):
            raise SettingError("only -o can go to stdout")
        if self.as_json and to_stdout(self.output):
            raise SettingError("--json and -o - both ask for stdout; choose one")
        seen = {os.path.realpath(path): f"the input {path}" for path in self.reads if path != "-"}
        for kind, option, path in places:
            if kind in (INPUT, None) or path is None or to_stdout(path):
                continue
            if kind != SAVE:
                if option not in own:
                    io.writer.check_suffix(path, option, kind)
                io.writer.check_place(path, option, seen)
            elif path.exists() and not path.is_dir():
                raise SettingError(f"{option}: {path} is a file; name a folder")

    @property
    def to_file(self) -> bool:
        """Whether the main table has a file."""
        return self.output is not None and not to_stdout(self.output)

    def table(self, option: str, make: Callable[[], pl.DataFrame], noun: str) -> None:
        """Write a further table, if it is asked for."""
        path = self.places[option]
        if to_stdout(path):
            self.csv(make())
        elif path is not None:
            self._write(make(), path, noun)

    def file(self, option: str, write: Callable[[Path], Any]) -> None:
        """Write anything else, if it is asked for; `write` may return a text to say about it."""
        path = self.places[option]
        if path is not None:
            about = write(path)
            self.say([f"wrote {path}{f': {about}' if isinstance(about, str) else ''}"])

    def page(self, method: Any, parts: Callable[[], dict[str, Any]], how: dict[str, str] | None = None) -> None:
        """Write a page of answers by an estimator, if it is asked for; or by a method of this name, with `how` it was run."""
        run = {"Method with its settings": repr(method)} if how is None else how
        made = {"Command": command_line(), **run, "crowdwise": crowdwise.__version__}
        name = getattr(method, "name", method)
        self.file("--page", lambda path: report.write_answers(path, method=name, made=made, **parts()))

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
        if self.to_file:
            self._write(frame, self.output, noun)
            if not self.as_json:
                return
        listed = rows or frame.to_dicts

        def everything() -> Any:
            return listed() if document is None else document() | ({} if self.to_file else {key: listed()})

        def show() -> None:
            print_tables([framed((frame if screen is None else screen(frame)).head(limit))])
            if frame.height > limit:
                print(f"... and {count(frame.height - limit, noun)} more; write all with -o FILE")

        self.answer(frame, everything, show)

    def labels(
        self,
        result: crowdwise.Result,
        items: pl.DataFrame,
        more: dict[str, Any],
        people_of: Callable[[crowdwise.Result], pl.DataFrame] | None = None,
    ) -> None:
        """Write the table of annotators and send the labels of a fit, which JSON has with the probabilities by class.

        `people_of` makes the table of annotators where it is not the result's own.
        """
        people = cache(lambda: by_accuracy(result, None if people_of is None else people_of(result)))
        self.table("--annotators", people, "annotator")
        document, rows = lambda: facts(result) | more | {"annotators": people().to_dicts()}, partial(label_rows, result, items)
        self.main(items, "item", document=document, key="labels", rows=rows, screen=narrow, limit=10)

    def answer(self, frame: pl.DataFrame, document: Callable[[], Any], show: Callable[[], None]) -> None:
        """Print on stdout: JSON where it is asked for, a table as CSV into a pipe, or what a person reads on a terminal."""
        if self.as_json:
            print_json(document())
        elif to_stdout(self.output) or not sys.stdout.isatty():
            self.csv(frame)
        else:
            show()

    def csv(self, frame: pl.DataFrame) -> None:
        """Write CSV on stdout."""
        print_csv(io.writer.rounded(io.writer.for_spreadsheets(frame, "stdout") if self.safe else frame))

    def say(self, lines: Iterable[str]) -> None:
        """Print lines on stderr, unless quiet; lines of a generator are not made in vain."""
        if not QUIET.get():
            say(*lines)

    def _write(self, frame: pl.DataFrame, path: Path, noun: str) -> None:
        io.write_table(io.writer.rounded(frame, path), path, spreadsheet_safe=self.safe)
        self.say([f"wrote {path}: {count(frame.height, noun)}"])


def command_line() -> str:
    """What was typed, as a shell would take it."""
    return shlex.join(["crowdwise", *TYPED.get()])


@contextmanager
def naming(option: str) -> Iterator[None]:
    """Name the option in what is refused about its value."""
    try:
        yield
    except (InputError, SettingError) as problem:
        # As what it is: a file that cannot be used is not wrong usage, and exits differently.
        raise type(problem)(f"{option}: {str(problem).removeprefix(option.partition(': ')[2] + ': ')}") from None


def to_stdout(path: Path | None) -> bool:
    """Say whether the option asks for raw CSV on stdout."""
    return path is not None and str(path) == "-"


def among(option: str, value: str | None, known: Iterable[str], more: str = "") -> None:
    """Refuse a value that is not one of the known; None is fine."""
    names = list(known)
    if value is not None and value not in names:
        hint = did_you_mean(value, names)
        raise SettingError(f"{option}: there is no {value!r}{hint} (there are {', '.join(names)}{more})")


def refuse(reason: str, *groups: tuple[Any, Iterable[str]]) -> None:
    """Refuse options that were given: of every group the fields of these names; {} in the reason is the option's name."""
    for group, names in groups:
        for entry in fields(group):
            if entry.name in names and getattr(group, entry.name) not in (None, False):
                raise SettingError(reason.format(entry.metadata[NAME]))
