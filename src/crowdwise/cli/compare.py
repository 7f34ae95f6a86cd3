"""``crowdwise compare``: which method is best on these votes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from crowdwise.cli.options import Json, Output, Quiet, ReadOptions, VotesPath
from crowdwise.errors import SettingError

EXAMPLES = "Example: crowdwise compare votes.csv --truth truth.csv --methods majority,dawid-skene"


def run(
    votes: VotesPath,
    read: ReadOptions,
    truth: Annotated[
        Path | None,
        typer.Option("--truth", metavar="FILE", help="True labels: item, label. May be left out if the votes carry gold."),
    ] = None,
    methods: Annotated[
        str | None, typer.Option("--methods", metavar="A,B", help="Methods to compare.", show_default="all")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of random starts.")] = 0,
    output: Output = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit every method and measure it against the truth: accuracy, F1, log loss, calibration, seconds."""
    from crowdwise.aggregate.registry import METHODS
    from crowdwise.cli.inputs import parse_list, read_votes
    from crowdwise.cli.outputs import check_outputs, emit, print_json
    from crowdwise.cli.progress import steps
    from crowdwise.compare import compare
    from crowdwise.errors import did_you_mean
    from crowdwise.io import read_gold
    from crowdwise.learn.registry import CLASSIFIERS

    check_outputs({"-o": output}, (votes, truth))
    names = None if methods is None else [str(name) for name in parse_list(methods, "--methods")]
    for name in names or []:
        if name in CLASSIFIERS:
            raise SettingError(
                f"{name} learns from features too, and compare takes methods that need votes alone; "
                "train the classifiers and compare their held-out scores"
            )
        if name not in METHODS:
            raise SettingError(f"no method {name!r}{did_you_mean(name, list(METHODS))} (there are {', '.join(METHODS)})")
    data = read_votes(votes, read)
    known: Any
    if truth is not None:
        known = read_gold(truth, data)
    elif data.gold is not None:
        known = [data.classes[code] if code >= 0 else None for code in data.gold]
    else:
        raise SettingError("give the true labels with --truth FILE (columns item and label)")
    with steps(quiet) as progress:
        table = compare(data, known, names, random_state=seed, progress=progress)
    if table["error"].null_count() == table.height:
        table = table.drop("error")
    if not as_json or output is not None:
        emit(table, output, "method", limit=100, quiet=quiet)
    if as_json:
        print_json(table.to_dicts())
