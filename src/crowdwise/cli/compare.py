"""``crowdwise compare``: which method is best on these votes."""

from __future__ import annotations

from pathlib import Path

from crowdwise import report, trust
from crowdwise.cli.answers import check_rows, read_features
from crowdwise.cli.declare import argument, file, group, option, output
from crowdwise.cli.fitting import parse_list, read_edges, read_gold, read_votes
from crowdwise.cli.job import Job, steps
from crowdwise.cli.options import EDGES, TRUTH_OR_GOLD, VOTES, MaybeFeatures, OutputOptions, ReadOptions
from crowdwise.cli.screen import print_tables
from crowdwise.errors import InputError

EXAMPLES = (
    "Example: crowdwise compare votes.csv --truth truth.csv --methods majority,dawid-skene\n\n"
    "Without true labels: crowdwise compare votes.csv -o table.html\n\n"
    "With classifiers: crowdwise compare votes.csv --features X.npz --methods bayes-gc,raykar,ccem\n\n"
    "With neighbours: crowdwise compare votes.csv --edges edges.csv --methods dawid-skene,graph-dawid-skene"
)
_RUN = "Running"


@group
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES)
    truth: Path | None = file("--truth", TRUTH_OR_GOLD)
    edges: Path | None = file("--edges", EDGES)
    methods: str | None = option("--methods -m", "A,B", "Methods to compare, comma-separated, or all.", shown="some quick ones")
    reference: str | None = option("--reference", "NAME", "Method that differences are taken to.", shown="the best")
    folds: int = option("--folds", "N", "Folds of held-out votes; 0 leaves them out.", 5, _RUN)
    jobs: int | None = option("--jobs", "N", "Methods at a time.", panel=_RUN, shown="one per core")
    time_limit: float = option("--time-limit", "SECONDS", "Most time for a method; 0 for no limit.", 600, _RUN, least=0)
    seed: int = option("--seed", "N", "Seed of random starts, folds and resamples.", 0, _RUN)
    output: Path | None = output(".csv .md .html .json ...")


def run(options: Options, read: ReadOptions, features: MaybeFeatures) -> None:
    """Run methods side by side and measure them, with intervals that show which differences are real.

    With true labels: accuracy, F1, log loss and calibration. Always: how well a method predicts
    votes that were held out of its fit, how far the methods agree, seconds and memory.
    """
    from crowdwise.kernels.numerics import n_threads

    job = Job(options, features, own=["-o"])
    if job.to_file:
        report.comparison.check_suffix(job.output)
    names = None if options.methods is None else [str(name) for name in parse_list(options.methods, "--methods")]
    # Before any file is read: two classes suit every method.
    trust.compare.choose.chosen(names, {}, 2, features.features is not None, options.edges is not None)
    rows = read_features(features, read.item)
    data = read_votes(options.votes, read)
    edges = None if options.edges is None else read_edges(options.edges, data.items)
    if rows is not None:
        check_rows(rows, data)
    known = data.gold_labels() if options.truth is None else read_gold(options.truth, data)
    with steps() as progress:
        found = trust.compare.comparison(
            data,
            known,
            names,
            features=None if rows is None else rows.table,
            items=None if rows is None else rows.items,
            edges=edges,
            random_state=options.seed,
            jobs=n_threads() if options.jobs is None else options.jobs,
            time_limit=options.time_limit or None,
            folds=options.folds,
            reference=options.reference,
            progress=progress,
        )
    if job.to_file:
        job.file("-o", lambda path: report.comparison.write_comparison(found, path, raw=options.raw))
    if options.as_json or not job.to_file:
        job.answer(
            found.wide(), lambda: report.comparison.document(found), lambda: print_tables(report.comparison.tables(found))
        )
    if found.table["error"].null_count() == 0:
        raise InputError("no method could be measured; the table says why of each")
