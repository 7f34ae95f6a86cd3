"""``crowdwise compare``: which method is best on these votes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.declare import TABLE, argument, file, flag, option
from crowdwise.cli.fitting import gold_of, parse_list, read_gold, read_votes
from crowdwise.cli.job import Job, steps
from crowdwise.cli.options import RAW, VOTES, MaybeFeatures, ReadOptions, ScreenOptions
from crowdwise.cli.rows import check_rows, read_features
from crowdwise.cli.screen import print_rows, print_table
from crowdwise.errors import InputError

if TYPE_CHECKING:
    from crowdwise.trust.compare import Comparison

EXAMPLES = (
    "Example: crowdwise compare votes.csv --truth truth.csv --methods majority,dawid-skene\n\n"
    "Without true labels: crowdwise compare votes.csv -o table.html\n\n"
    "With classifiers: crowdwise compare votes.csv --features X.npz --methods bayes-gc,raykar,ccem"
)
_RUN = "Running"
# What a terminal of 100 columns has room for.
_SHOWN = ("accuracy", "log_loss", "held_out")
_TRUTH = "True labels: item, label. May be left out if the votes carry gold."


@dataclass(frozen=True, kw_only=True)
class Options(ScreenOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES)
    truth: Path | None = file("--truth", _TRUTH)
    methods: str | None = option("--methods -m", "A,B", "Methods to compare, comma-separated, or all.", shown="some quick ones")
    reference: str | None = option("--reference", "NAME", "Method that differences are taken to.", shown="the best")
    folds: int = option("--folds", "N", "Folds of held-out votes; 0 leaves them out.", 5, _RUN)
    jobs: int | None = option("--jobs", "N", "Methods at a time.", panel=_RUN, shown="one per core")
    time_limit: float = option("--time-limit", "SECONDS", "Most time for a method; 0 for no limit.", 600.0, _RUN, least=0)
    seed: int = option("--seed", "N", "Seed of random starts, folds and resamples.", 0, _RUN)
    output: Path | None = option(
        "-o --output",
        "FILE",
        "Write the table here (.csv .md .html .json ...); - is stdout, as CSV.",
        shown="stdout",
        place=TABLE,
    )
    raw: bool = flag("--raw", RAW)


def run(options: Options, read: ReadOptions, features: MaybeFeatures) -> None:
    """Run methods side by side and measure them, with intervals that show which differences are real.

    With true labels: accuracy, F1, log loss and calibration. Always: how well a method predicts
    votes that were held out of its fit, how far the methods agree, seconds and memory.
    """
    from crowdwise.kernels.numerics import n_threads
    from crowdwise.report.comparison import check_suffix, document, write_comparison
    from crowdwise.trust.compare import comparison
    from crowdwise.trust.compare.choose import chosen

    job = Job(options, features, own=["-o"])
    if job.to_file:
        check_suffix(job.output)
    names = None if options.methods is None else [str(name) for name in parse_list(options.methods, "--methods")]
    # Before any file is read: two classes suit every method.
    chosen(names, {}, 2, features.features is not None)
    rows = read_features(features, read.item)
    data = read_votes(options.votes, read)
    if rows is not None:
        check_rows(rows, data)
    known = gold_of(data) if options.truth is None else read_gold(options.truth, data)
    with steps() as progress:
        found = comparison(
            data,
            known,
            names,
            features=None if rows is None else _table(rows),
            items=None if rows is None else rows.items,
            random_state=options.seed,
            jobs=n_threads() if options.jobs is None else options.jobs,
            time_limit=options.time_limit or None,
            folds=options.folds,
            reference=options.reference,
            progress=progress,
        )
    if job.to_file:
        job.file("-o", lambda path: write_comparison(found, path, raw=options.raw))
    if options.as_json or not job.to_file:
        job.answer(found.wide(), lambda: document(found), lambda: _print_comparison(found))
    if found.table["error"].null_count() == 0:
        raise InputError("no method could be measured; the table says why of each")


def _table(rows: Any) -> Any:
    """Features under the names of their columns, where they have any."""
    import polars as pl

    return rows.X if rows.names is None else pl.DataFrame(rows.X, schema=rows.names, orient="row")


def _print_comparison(found: Comparison) -> None:
    """Print the overview and, where there are any, the differences."""
    from crowdwise.report.comparison import differences, level, overview

    print_table(overview(found))
    measures = [name for name in _SHOWN if name in found.measures]
    rows = differences(found, measures, "{} {}".format)
    if rows:
        # Not as the table's title, which would be broken at the table's width.
        print(f"Difference to {found.reference}, with its {level(found)} interval over items; * where that leaves out 0")
        print_rows(["method", *measures], [list(row) for row in rows], right=measures)
