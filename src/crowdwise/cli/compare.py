"""``crowdwise compare``: which method is best on these votes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.campaign_options import MaybeFeatures
from crowdwise.cli.options import Json, Quiet, ReadOptions, VotesPath
from crowdwise.errors import InputError, SettingError

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations

EXAMPLES = (
    "Example: crowdwise compare votes.csv --truth truth.csv --methods majority,dawid-skene\n\n"
    "Without true labels: crowdwise compare votes.csv -o table.html\n\n"
    "With classifiers: crowdwise compare votes.csv --features X.npz --methods bayes-gc,raykar,ccem"
)
_RUN = "Running"


def run(
    votes: VotesPath,
    read: ReadOptions,
    features: MaybeFeatures,
    truth: Annotated[
        Path | None,
        typer.Option("--truth", metavar="FILE", help="True labels: item, label. May be left out if the votes carry gold."),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option("--methods", metavar="A,B", help="Methods to compare, or all.", show_default="some quick ones"),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", metavar="NAME", help="Method that differences are taken to.", show_default="the best"),
    ] = None,
    folds: Annotated[
        int,
        typer.Option("--folds", metavar="N", rich_help_panel=_RUN, help="Folds of held-out votes; 0 leaves them out."),
    ] = 5,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", rich_help_panel=_RUN, help="Methods at a time.", show_default="one per core"),
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option("--time-limit", metavar="SECONDS", rich_help_panel=_RUN, help="Most time for a method; 0 for no limit."),
    ] = 600,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", rich_help_panel=_RUN, help="Seed of random starts, folds and resamples.")
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write here (.csv .md .html .json ...); - is stdout, as CSV."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run methods side by side and measure them, with intervals that show which differences are real.

    With true labels: accuracy, F1, log loss and calibration. Always: how well a method foretells
    votes that were held out of its fit, how far the methods agree, seconds and memory.
    """
    from crowdwise.cli.comparison import check_suffix, document, print_comparison, write_comparison
    from crowdwise.cli.inputs import check_rows, parse_list, read_features, read_votes
    from crowdwise.cli.outputs import check_outputs, print_csv, print_json, to_stdout, wrote
    from crowdwise.cli.progress import steps
    from crowdwise.io.writer import escape_formulas
    from crowdwise.kernels.votes import n_threads
    from crowdwise.trust.compare import comparison
    from crowdwise.trust.compare.choose import chosen

    check_outputs({"-o": output}, (votes, truth, features.features), tables=False)
    if output is not None and not to_stdout(output):
        check_suffix(output)
    if as_json and to_stdout(output):
        raise SettingError("--json and -o - both ask for stdout; choose one")
    if time_limit < 0:
        raise SettingError(f"--time-limit must be at least 0; got {time_limit:g}")
    names = None if methods is None else [str(name) for name in parse_list(methods, "--methods")]
    # Before any file is read: two classes suit every method.
    chosen(names, {}, 2, features.features is not None)
    rows = None if features.features is None else read_features(features.given(), read.item)
    data = read_votes(votes, read)
    if rows is not None:
        check_rows(rows, data, quiet)
    with steps(quiet) as progress:
        found = comparison(
            data,
            _known(truth, data),
            names,
            features=None if rows is None else _table(rows),
            items=None if rows is None else rows.items,
            random_state=seed,
            jobs=n_threads() if jobs is None else jobs,
            time_limit=time_limit or None,
            folds=folds,
            reference=reference,
            progress=progress,
        )
    if output is not None and not to_stdout(output):
        write_comparison(found, output)
        wrote(output, quiet)
    elif not as_json and (to_stdout(output) or not sys.stdout.isatty()):
        print_csv(escape_formulas(found.wide()))
    elif not as_json:
        print_comparison(found)
    if as_json:
        print_json(document(found))
    if found.table["error"].null_count() == 0:
        raise InputError("no method could be measured; the table says why of each")


def _known(truth: Path | None, votes: Annotations) -> Any:
    """True labels from their file, or those among the votes; None without any."""
    from crowdwise.io import read_gold

    if truth is not None:
        return read_gold(truth, votes)
    if votes.gold is not None and (votes.gold >= 0).any():
        return [votes.classes[code] if code >= 0 else None for code in votes.gold]
    return None


def _table(rows: Any) -> Any:
    """Features under the names of their columns, where they have any."""
    import polars as pl

    return rows.X if rows.names is None else pl.DataFrame(rows.X, schema=rows.names, orient="row")
