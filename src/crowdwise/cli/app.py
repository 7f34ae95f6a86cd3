"""The app: one verb per job, each in a module of its own, and failures turned into exit codes.

A command is a plain function whose parameters are option groups (`crowdwise.cli.options`): their fields become options, and the
function gets the groups filled in.
"""

from __future__ import annotations

import gc
import inspect
import math
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import MISSING, fields
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from crowdwise import __version__, io
from crowdwise.cli.declare import LIMITS, NAME, OPTION
from crowdwise.cli.job import QUIET, TYPED, one_line, say
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning, SettingError

__all__ = ["PANEL_OF", "Group", "app", "build", "convert_plainly", "main", "paragraphs", "register"]


_SIZE = "Most that a compressed file or stdin may unfold to, such as 4GB."
MaxBytes = Annotated[str | None, typer.Option("--max-bytes", metavar="SIZE", help=_SIZE, show_default="1GiB")]
Debug = Annotated[bool, typer.Option("--debug", metavar="", envvar="CROWDWISE_DEBUG", help="Show the traceback of an error.")]


class _PlainHelp:
    """--help takes no value; typer would show the type <bool>."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        option.metavar = ""
        convert_plainly(option)
        return option


class _Command(_PlainHelp, TyperCommand):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for parameter in self.params:
            convert_plainly(parameter)
            if isinstance(parameter, TyperArgument):
                # Its name says what it is; typer would add the type <str>.
                vars(parameter)["display_type_rich"] = lambda ctx: None


class Group(_PlainHelp, TyperGroup):
    """All commands, each built when it is called; remembers what was typed, for the pages that say how they were made."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # typer looks for names like a mistyped one here.
        self.commands = dict.fromkeys(PANEL_OF)  # type: ignore[assignment]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command as the list of all shows it: its options would take a tenth of a second for all of them."""
        if cmd_name not in PANEL_OF:
            return None
        return _Command(name=cmd_name, help=paragraphs(_module(cmd_name).run), rich_help_panel=PANEL_OF[cmd_name])

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of the panels."""
        return list(PANEL_OF)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called, with its options."""
        name, found, rest = super().resolve_command(ctx, args)
        if name != "aggregate" and any(word.partition("=")[0] == "--type" for word in rest):
            ctx.fail("--type is an option of aggregate: crowdwise aggregate VOTES --type TYPE -o labels.csv --page page.html")
        return name, found and build(str(name)), rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take note of the arguments, which the parser takes apart, until the command has ended."""
        typed, rest = tuple(args), super().parse_args(ctx, args)
        TYPED.set(typed)
        ctx.call_on_close(lambda: TYPED.set(()))
        return rest


def register(app: typer.Typer, run: Callable[..., None], *, name: str, examples: str, panel: str) -> None:
    """Add `run` to the app as the command `name`, with examples at the end of its help; `panel` groups it with others."""
    hints = get_type_hints(run)
    groups: dict[str, Any] = {parameter: hints[parameter] for parameter in inspect.signature(run).parameters}
    parameters = [parameter for group in groups.values() for parameter in _parameters(group)]
    for parameter, kind, default in (("max_bytes", MaxBytes, None), ("debug", Debug, False)):
        parameters.append(inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))

    def command(*, max_bytes: str | None, debug: bool, **given: Any) -> None:
        QUIET.set(bool(given.get("quiet")))
        with _guarded(debug), _bounded(max_bytes):
            run(**{name: _filled(group, given) for name, group in groups.items()})
            # Here rather than at exit, where a full disk or a closed pipe could no longer be reported.
            sys.stdout.flush()

    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command(name, cls=_Command, help=paragraphs(run), epilog=examples, rich_help_panel=panel)(command)


def paragraphs(run: Callable[..., None]) -> str:
    """The docstring, one line per paragraph: typer would keep the line breaks of the source."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(run) or "")


def _parameters(group: Any) -> list[inspect.Parameter]:
    """The fields of a group as parameters that typer understands; a group's own stand before those of its bases."""
    hints, origins = get_type_hints(group), [vars(base).get("__annotations__", {}) for base in group.__mro__]
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=Annotated[hints[field.name], field.metadata[OPTION]],
        )
        for field in sorted(fields(group), key=lambda f: next(k for k, own in enumerate(origins) if f.name in own))
    ]


def _filled(group: Any, given: dict[str, Any]) -> Any:
    """A group with its values; numbers outside their limits are refused."""
    for entry in fields(group):
        value, (least, most) = given[entry.name], entry.metadata[LIMITS]
        if least is None or value is None:
            continue
        if most is not None and not least < value < most:
            raise SettingError(f"{entry.metadata[NAME]} must lie between {least:g} and {most:g}; got {value}")
        if not least <= value < math.inf:
            raise SettingError(f"{entry.metadata[NAME]} must be at least {least:g}; got {value:g}")
    return group(**{entry.name: given[entry.name] for entry in fields(group)})


def _bounded(max_bytes: str | None) -> AbstractContextManager[None]:
    """Set how much files may unfold to, where it is given: nothing is imported for the default."""
    return nullcontext() if max_bytes is None else io.limits.limited(io.limits.bytes_of(max_bytes))


@contextmanager
def _guarded(debug: bool) -> Iterator[None]:
    """Show warnings as one line each, and leave with the exit code of what went wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", CrowdwiseWarning)
        original, shown = warnings.showwarning, set()

        def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if not issubclass(category, CrowdwiseWarning):
                original(message, category, *place, **more)
            elif str(message) not in shown:
                shown.add(str(message))
                say(f"warning: {one_line(message)}")

        warnings.showwarning = show
        try:
            yield
        except BrokenPipeError:
            # Silently, as the shell's own tools do when `head` has seen enough; 128 + SIGPIPE.
            _leave("", 141, debug=False)
        except KeyboardInterrupt as stop:
            say(one_line(stop))
            # Files are replaced in one step, so an interrupted one is as it was.
            _leave("interrupted; unfinished files were left as they were", 130, debug)
        except SettingError as problem:
            _leave(f"error: {one_line(problem)}", 2, debug)
        except (CrowdwiseError, OSError) as problem:
            _leave(f"error: {one_line(problem)}", 1, debug)
        except MemoryError:
            _leave("error: out of memory; close other programs, or aggregate fewer votes at a time", 1, debug)


def _leave(line: str, code: int, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    if line:
        say(line)
    io.streams.settle_stdout()
    raise typer.Exit(code)


app = typer.Typer(
    name="crowdwise",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    # Python's own traceback: --debug is for people who report bugs, and they paste it.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: crowdwise demo\n\nThen: crowdwise aggregate votes.csv -o labels.csv",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"crowdwise {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Labels you can trust from the noisy votes of many annotators.

    Results go to stdout or to whole files; everything else to stderr. Exit codes: 0 fine, 1 the
    data or the run is at fault, 2 wrong usage, 130 interrupted.
    """


app.callback(help=paragraphs(_root))(_root)
# A command is a module of this package with `run` and `EXAMPLES`, but for those of the room of live campaigns.
_SERVE = {"serve": "crowdwise.serve.command", "label-studio": "crowdwise.serve.label_studio.command"}
_PANELS = {
    "Labels from votes": "aggregate annotators judges explain calibrate review audit report compare summary fairness",
    "Classifiers from features and votes": "train predict",
    "Answers that are not one class per item": "rank regress cluster spans",
    "Campaigns": "suggest plan simulate-campaign serve label-studio",
    "Files, methods, examples": "convert simulate methods demo",
}
PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names.split()}


def _module(name: str) -> Any:
    return import_module(_SERVE.get(name) or f"crowdwise.cli.{name.replace('-', '_')}")


@cache
def build(name: str) -> Any:
    """Build one command with its options."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    module = _module(name)
    register(alone, module.run, name=name, examples=module.EXAMPLES, panel=PANEL_OF[name])
    return typer.main.get_command(alone)


def main() -> None:
    """Run the command line; the console script and ``python -m crowdwise`` both start here."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        io.streams.open_streams()
    # What is imported lives to the end: looking through it for garbage, again and again, takes a tenth of a short run ...
    gc.set_threshold(50_000, 10, 10)
    try:
        app(prog_name="crowdwise")
    except OSError as problem:
        # Help and version are printed before a command, and its guard, begins.
        say(f"error: {one_line(problem)}")
        sys.exit(1)
    finally:
        # ... and at exit another: the system takes the memory back at once.
        gc.freeze()


def convert_plainly(parameter: Any) -> None:
    """Let a parameter of a command convert what is simple without typer.

    Later versions of typer convert through pydantic and build a schema for each option at every start, also for those that are
    not given: half as long as polars takes to start. What Python converts without a doubt is converted here; the rest, and what
    is wrong, goes to typer and its messages.
    """
    typers = getattr(parameter, "get_runtime_param", None)
    if typers is not None:  # earlier versions convert by the types of click
        vars(parameter)["get_runtime_param"] = lambda: SimpleNamespace(coerce=partial(_coerced, typers))


_TYPERS = object()


def _coerced(typers: Any, value: Any, param: Any, ctx: Any) -> Any:
    """Convert a value, a default or nothing; typer's own converter is asked where it must be."""
    several = param.multiple or param.nargs == -1
    found = (() if several else None) if value is None else _plain(value, param.type_descriptor.annotation)
    return typers().coerce(value, param=param, ctx=ctx) if found is _TYPERS else found


def _plain(value: Any, kind: Any) -> Any:
    if kind == list[str] and isinstance(value, list | tuple) and all(type(one) is str for one in value):
        return list(value)
    if type(value) is kind and kind in (str, int, float):
        return value
    # A default that help should show as 600, not as 600.0.
    if kind is float and type(value) is int:
        return float(value)
    # typer refuses files that may not be read.
    if kind is Path and isinstance(value, str | Path) and (os.access(value, os.R_OK) or not os.path.lexists(value)):
        return Path(value)
    if not isinstance(value, str):
        return _TYPERS
    if kind is int and re.fullmatch(r"-?[0-9]{1,18}", value):
        return int(value)
    if kind is float and re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", value):
        return float(value)
    return _TYPERS
