"""``crowdwise cluster``: from "same or different" answers to clusters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.options import Json, Output, Page, Quiet, SpreadsheetSafe, TaskOptions, column
from crowdwise.errors import InputError, SettingError

if TYPE_CHECKING:
    from crowdwise.data.similarities import Similarities
    from crowdwise.io.features import Features
    from crowdwise.methods.clusters.result import ClusterResult

EXAMPLES = (
    "Example: crowdwise cluster pairs.csv --clusters 5 -o clusters.csv --annotators annotators.csv\n\n"
    "With features: crowdwise cluster pairs.csv --clusters 5 --features X.npz -o clusters.csv"
)
_READ, _FEATURES = "Reading the answers", "Reading the features"


def run(
    pairs: Annotated[
        str, typer.Argument(metavar="PAIRS", help="A table: item_a, item_b, annotator, same (1 or 0); - reads stdin.")
    ],
    method: TaskOptions,
    clusters: Annotated[
        int | None,
        typer.Option("--clusters", "-k", metavar="K", help="Number of clusters; without it, held-out answers choose."),
    ] = None,
    output: Output = None,
    annotators: Annotated[
        Path | None, typer.Option("--annotators", metavar="FILE", help="Write a table of the annotators.")
    ] = None,
    page: Page = None,
    features: Annotated[
        str | None,
        typer.Option("--features", metavar="FILE", rich_help_panel=_FEATURES, help="One row per item: .npz .npy .csv ..."),
    ] = None,
    features_item: Annotated[
        str | None,
        typer.Option("--features-item", metavar="NAME", rich_help_panel=_FEATURES, help="Column or array of the ids."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="NAME", rich_help_panel=_FEATURES, help="Array of an .npz file to use.")
    ] = None,
    first: Annotated[str | None, column("--first", "one item", _READ)] = None,
    second: Annotated[str | None, column("--second", "the other item", _READ)] = None,
    annotator: Annotated[str | None, column("--annotator", "the annotators", _READ)] = None,
    same: Annotated[str | None, column("--same", "the answers", _READ)] = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Cluster items by answers to "are these two of one kind?", and measure who answers well.

    Answers are 1 or 0, yes or no, same or different. Clusters are counted from 1, the largest
    first. hit_rate is how often an annotator says "same" of two items of one cluster,
    false_alarm_rate how often of others; skill is the difference, 0 for guessing. With --features
    a network finds the clusters (crowd-clustering), without them the answers alone do
    (similarity-nmf).
    """
    from crowdwise.cli.inputs import build_task, from_path
    from crowdwise.cli.outputs import check_outputs, emit, print_json, to_stdout, write
    from crowdwise.cli.pages import write_answers_page
    from crowdwise.data.similarities import Similarities
    from crowdwise.io import read

    if to_stdout(annotators):
        raise SettingError("only -o can go to stdout")
    if as_json and to_stdout(output):
        raise SettingError("--json and -o - both ask for stdout; choose one")
    check_outputs({"-o": output, "--annotators": annotators, "--page": page}, (pairs, features))
    estimator = build_task(method, "similarity", "similarity-nmf" if features is None else "crowd-clustering")
    if clusters is not None:
        if clusters < 2:
            raise SettingError(f"--clusters must be at least 2; got {clusters}")
        estimator.set_params(clusters=clusters)
    if hasattr(estimator, "predict_proba") != (features is not None):
        fix = "name their file with --features" if features is None else "leave --features out, or use crowd-clustering"
        raise SettingError(f"{estimator.name} {'needs' if features is None else 'takes no'} features; {fix}")
    votes = from_path(
        pairs, lambda path: read(path, Similarities, first=first, second=second, annotator=annotator, answer=same)
    )
    rows = None
    if features is not None:
        from crowdwise.io.features import read_features

        rows = _matched(read_features(features, item=features_item, key=key), votes, quiet)
    result = (estimator.fit(votes) if rows is None else estimator.fit(rows, votes)).result_
    table = result.items_frame()
    if not as_json or output is not None:
        emit(table, output, "item", quiet=quiet, safe=spreadsheet_safe)
    if annotators is not None:
        write(
            result.annotators_frame().sort("skill", descending=True, maintain_order=True),
            annotators,
            "annotator",
            quiet,
            spreadsheet_safe,
        )
    write_answers_page(
        page,
        quiet,
        title="Clusters from same-or-different answers",
        estimator=estimator,
        facts={
            "Answers": votes.n_votes,
            "Items": votes.n_items,
            "Annotators": votes.n_annotators,
            "Clusters": result.membership.shape[1],
        },
        tables={"Items": table, "Annotators": result.annotators_frame().sort("skill", descending=True, maintain_order=True)},
    )
    if as_json:
        print_json(table.to_dicts())
    if not quiet:
        _tell(result)


def _matched(features: Features, votes: Similarities, quiet: bool) -> Any:
    """Rows of the features in the order of the items, by id, or by order where there are no ids."""
    import numpy as np

    from crowdwise.cli.text import say
    from crowdwise.data.encode import translate

    if features.items is None:
        if len(features) != votes.n_items:
            raise InputError(
                f"{features.source} has {len(features):,} rows and no ids, and the answers are on {votes.n_items:,} items; "
                "add the ids: an array 'items' beside the features in .npz, or a column 'item' in a table"
            )
        if not quiet:
            say(f"{features.source} has no ids: its rows are taken for the items in sorted order")
        return features.X
    place = translate(votes.items, features.items)
    lost = np.flatnonzero(place < 0)
    if len(lost):
        example = votes.items[lost[:1]].tolist()[0]
        raise InputError(
            f"{features.source}: no row for {len(lost):,} of the {votes.n_items:,} items, such as {example!r}; add their rows"
        )
    return features.X[place]


def _tell(result: ClusterResult) -> None:
    import numpy as np

    from crowdwise.cli.text import count, number, say

    votes, size = result.votes, np.bincount(result.cluster, minlength=result.membership.shape[1] + 1)[1:]
    dropped = f" ({count(votes.n_missing, 'row')} without an answer dropped)" if votes.n_missing else ""
    answers = f"{count(votes.n_votes, 'answer')}{dropped} by {count(votes.n_annotators, 'annotator')}"
    say(f"{result.method}: {count(votes.n_items, 'item')} in {count(len(size), 'cluster')}, from {answers}")
    if result.held_out:
        scores = ", ".join(f"{k}: {value:.4f}" for k, value in result.held_out.items())
        say(f"log-probability of a held-out answer by number of clusters: {scores}")
    sizes = ", ".join(f"{n:,}" for n in size.tolist()[:20])
    means = (
        f"mean hit rate {number(float(result.hit.mean()))}, mean false-alarm rate {number(float(result.false_alarm.mean()))}"
    )
    say(f"sizes {sizes}; {means}")
