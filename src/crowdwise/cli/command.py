"""What all commands share: option groups spread into options, and failures turned into exit codes.

A command is a plain function. A parameter whose type is a dataclass is an option group: its
fields become options, and the function gets the group filled in. So options that several commands
share are defined once, in `crowdwise.cli.options`.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from crowdwise.cli.options import FLAG
from crowdwise.cli.text import one_line, say
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning, SettingError

__all__ = ["paragraphs", "register"]

Debug = Annotated[bool, typer.Option("--debug", metavar=FLAG, envvar="CROWDWISE_DEBUG", help="Show the traceback of an error.")]


def register(app: typer.Typer, run: Callable[..., None], *, name: str, examples: str, panel: str) -> None:
    """Add `run` to the app as the command `name`, with examples at the end of its help; `panel` groups it with others."""
    hints = get_type_hints(run, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for parameter in inspect.signature(run).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind):
            groups[parameter.name] = kind  # type: ignore[assignment]
            parameters += _spread(kind)  # type: ignore[arg-type]
        else:
            parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
    parameters.append(inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug))

    def command(*, debug: bool, **given: Any) -> None:
        with _guarded(debug):
            for group, kind in groups.items():
                given[group] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            run(**given)
            # Here rather than at exit, where a full disk or a closed pipe could no longer be reported.
            sys.stdout.flush()

    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command(name, help=paragraphs(run), epilog=examples, rich_help_panel=panel)(command)


def paragraphs(run: Callable[..., None]) -> str:
    """The docstring, one line per paragraph: typer would keep the line breaks of the source."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(run) or "")


def _spread(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


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
        except KeyboardInterrupt:
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
    _settle_stdout()
    raise typer.Exit(code)


def _settle_stdout() -> None:
    """Drop what stdout refuses to take: Python would try once more at exit, and complain in its own words."""
    try:
        sys.stdout.flush()
    except OSError:
        # A stream without a descriptor (in tests) has no such last attempt.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
