"""``crowdwise serve``: a live campaign; `crowdwise.cli.app` makes a command of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from crowdwise.errors import InputError, SettingError

EXAMPLES = (
    "Example: crowdwise serve --new campaign.toml; edit it; crowdwise serve campaign.toml\n\n"
    "A token for an annotator: crowdwise serve campaign.toml --token anna\n\n"
    "A new token for the lead: crowdwise serve campaign.toml --token lead --role lead"
)


def declared(made: Any, name: str, default: Any) -> Any:
    """A field of options, with the keys that `crowdwise.cli.declare` gives to its fields."""
    return field(default=default, metadata={"option": made, "name": name, "place": None, "limits": (None, None)})


def option(name: str, metavar: str, about: str, default: Any = None, shown: str | bool = True) -> Any:
    """A field that an option of the command line fills."""
    return declared(typer.Option(name, metavar=metavar, help=about, show_default=shown), name, default)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is served, and where."""

    campaign: Path = declared(
        typer.Argument(metavar="CAMPAIGN", help="The campaign's file (.toml)."), "CAMPAIGN", Path("campaign.toml")
    )
    new: bool = option("--new", "", "Write a commented campaign file and exit.", False)
    token: str | None = option("--token", "NAME", "Print a new token for NAME and exit; an earlier one is no longer valid.")
    role: str = option("--role", "ROLE", "What --token is for: annotator, tool (delivers and reads) or lead.", "annotator")
    host: str | None = option("--host", "ADDRESS", "Listen here instead of where the file says.", shown="127.0.0.1")
    port: int | None = option("--port", "N", "Listen at this port instead; 0 takes a free one.", shown="8765")


def run(options: Options) -> None:
    """Serve a live campaign: votes come in, labels with calibrated confidence and the next question go out.

    Annotators answer on a page or through your labelling tool; the dashboard shows labels, annotators and progress, and a lead
    checks labels there until they are certified. Votes are kept in one file (or in PostgreSQL) and survive a crash at any
    moment. Only this machine can connect unless the campaign's file says otherwise, and only with a token.
    """
    from crowdwise.serve.settings import ROLES, read_settings, write_template

    if options.new:
        write_template(options.campaign)
        _say(f"wrote {options.campaign}: name the classes and the items in it, then: crowdwise serve {options.campaign}")
        return
    if options.role not in ROLES:
        raise SettingError(f"--role must be one of {', '.join(ROLES)}; got {options.role!r}")
    settings = read_settings(options.campaign)
    try:
        from crowdwise.serve.running import serve, token_for
    except ModuleNotFoundError as problem:
        raise InputError(f"crowdwise serve needs {problem.name}: pip install 'crowdwise[serve]'") from problem
    if options.token is not None:
        # The one thing that goes to stdout, so that a script can take it.
        sys.stdout.write(token_for(settings, options.token, options.role) + "\n")
        return
    serve(settings, options.host, options.port, _say)


def _say(words: str) -> None:
    sys.stderr.write(words + "\n")
    sys.stderr.flush()
