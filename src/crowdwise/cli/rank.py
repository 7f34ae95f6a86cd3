"""``crowdwise rank``: scores of items from pairwise comparisons."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.options import Json, Output, Page, Quiet, SpreadsheetSafe, TaskOptions, column
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.data.comparisons import Comparisons
    from crowdwise.methods.rank.result import Ranking

EXAMPLES = (
    "Example: crowdwise rank comparisons.csv -o scores.csv --annotators annotators.csv\n\n"
    "Preferences for training: crowdwise rank comparisons.csv --preferences preferences.jsonl\n\n"
    "Without annotators: crowdwise rank games.csv --method bradley-terry --set ties=davidson\n\n"
    "From features: crowdwise rank comparisons.csv --features X.npz --plot scores.png"
)
_MORE, _READ = "More results", "Reading the comparisons"
_NETWORK, _DEFAULT = "rank-network", "crowd-bt"


def _file(option: str, what: str) -> Any:
    return typer.Option(option, metavar="FILE", rich_help_panel=_MORE, help=what)


def run(
    comparisons: Annotated[
        str, typer.Argument(metavar="COMPARISONS", help="A table: item_a, item_b, annotator, winner; - reads stdin.")
    ],
    method: TaskOptions,
    output: Output = None,
    annotators: Annotated[Path | None, _file("--annotators", "Write a table of the annotators.")] = None,
    preferences: Annotated[Path | None, _file("--preferences", "Write the consensus of every pair (.jsonl).")] = None,
    evidence: Annotated[
        str,
        typer.Option(
            "--evidence", metavar="WORD", rich_help_panel=_MORE, help="What preferences rest on: posterior, scores or votes."
        ),
    ] = "posterior",
    plot: Annotated[Path | None, _file("--plot", "Draw the scores (.png .pdf .svg); needs matplotlib.")] = None,
    page: Page = None,
    features: Annotated[
        Path | None,
        typer.Option("--features", metavar="FILE", help="Features of the items, for rank-network: .npz .npy .csv ..."),
    ] = None,
    first: Annotated[str | None, column("--first", "the first item", _READ)] = None,
    second: Annotated[str | None, column("--second", "the second item", _READ)] = None,
    annotator: Annotated[str | None, column("--annotator", "the annotators", _READ)] = None,
    winner: Annotated[
        str | None, column("--winner", "the winner: an id, a side (a, b, left, right, 1, 2) or tie", _READ)
    ] = None,
    weight: Annotated[str | None, column("--weight", "the votes' weights", _READ)] = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Rank items by pairwise comparisons, and learn on the way whose comparisons to trust.

    Scores are log-strengths: a lead of 1 wins 73% of comparisons. They come with standard errors
    and with ranges of ranks. The default is crowd-bt, or rank-network with --features.
    """
    from crowdwise.cli.inputs import build_task, from_path
    from crowdwise.cli.outputs import emit, to_stdout, write, wrote
    from crowdwise.cli.pages import interval_rows, write_answers_page
    from crowdwise.data.comparisons import Comparisons
    from crowdwise.io import read
    from crowdwise.methods.rank.preferences import preferences as preferences_of

    name = method.method or (_DEFAULT if features is None else _NETWORK)
    outputs = {"-o": output, "--annotators": annotators, "--preferences": preferences, "--page": page}
    _check(outputs, plot, (comparisons, features), evidence)
    if as_json and to_stdout(output):
        raise SettingError("--json and -o - both ask for stdout; choose one")
    if (name == _NETWORK) != (features is not None):
        raise SettingError("--features goes with --method rank-network, and that needs --features")
    if evidence == "votes" and name == "bradley-terry":
        raise SettingError("--evidence votes: bradley-terry does not model annotators; use --method crowd-bt")
    estimator = build_task(method, "ranking", name)
    names: dict[str, Any] = {"first": first, "second": second, "annotator": annotator, "answer": winner, "weight": weight}
    votes = from_path(comparisons, lambda path: read(path, Comparisons, **names))
    if features is None:
        estimator.fit(votes)
    else:
        from crowdwise.io.features import read_features

        rows = read_features(features)
        estimator.fit(votes, rows.X, items=rows.items)
    ranking: Ranking = estimator.result_

    # The scores come last: where they are, everything else is too.
    if annotators is not None:
        write(ranking.annotators_frame(), annotators, "annotator", quiet, spreadsheet_safe)
    if preferences is not None:
        write(preferences_of(ranking, evidence), preferences, "pair", quiet, spreadsheet_safe)
    if plot is not None:
        from crowdwise.report.plot.ranking import save_plot

        save_plot(ranking, plot)
        wrote(plot, quiet)
    items = ranking.frame()
    write_answers_page(
        page,
        quiet,
        title="Ranking from comparisons",
        estimator=estimator,
        facts={
            "Comparisons": votes.n_votes,
            "Items": votes.n_items,
            "Annotators": votes.n_annotators,
            "Separate parts": int(ranking.component.max(initial=-1)) + 1,
        },
        tables={"Items, best first": items, "Annotators": ranking.annotators_frame()},
        notes=["A score is a log-strength: a lead of 1 wins 73% of comparisons. Items of separate parts cannot be compared."],
        intervals=interval_rows(items, "Scores, best first", "score", "item", ("lower", "score", "upper")),
    )
    if as_json:
        if output is not None:
            write(items, output, "item", quiet, spreadsheet_safe)
        _print_json(ranking, with_items=output is None)
    elif output is None and sys.stdout.isatty():
        shown = ["rank", "item", "score", "lower", "upper", "rank_lower", "rank_upper", "n_comparisons"]
        emit(items.select(shown), None, "item", limit=20)
    else:
        emit(items, output, "item", quiet=quiet, safe=spreadsheet_safe)
    if not quiet:
        _tell(ranking, votes)


def _check(outputs: dict[str, Path | None], plot: Path | None, inputs: tuple[str | Path | None, ...], evidence: str) -> None:
    from crowdwise.cli.outputs import check_outputs, to_stdout
    from crowdwise.methods.rank.preferences import EVIDENCE
    from crowdwise.report.plot.figure_file import SUFFIXES

    if to_stdout(outputs["--annotators"]) or to_stdout(outputs["--preferences"]):
        raise SettingError("only -o can go to stdout")
    if evidence not in EVIDENCE:
        raise SettingError(f"--evidence must be one of {', '.join(EVIDENCE)}; got {evidence!r}")
    check_outputs(outputs, inputs)
    if plot is not None:
        if not str(plot).lower().endswith(SUFFIXES):
            raise SettingError(f"--plot: {plot}: a plot ends in {', '.join(SUFFIXES)}")
        check_outputs({"--plot": plot}, (*inputs, *outputs.values()), tables=False)


def _tell(ranking: Ranking, votes: Comparisons) -> None:
    """Say on stderr what was fitted, and whose votes deserve a look."""
    from crowdwise.cli.text import count, one_line, say

    dropped = f" ({count(votes.n_missing, 'row')} without an answer dropped)" if votes.n_missing else ""
    sizes = f"{count(votes.n_items, 'item')}, {count(votes.n_annotators, 'annotator')}"
    say(f"{ranking.method}: {count(votes.n_votes, 'comparison')}{dropped}, {sizes}")
    people = ranking.annotators_frame()
    if "action" in people.columns:
        for action, advice in (("flip", "in reverse"), ("drop", "at random, or too seldom to tell")):
            names = people.filter(people["action"] == action)["annotator"].to_list()
            if names:
                some = ", ".join(one_line(who) for who in names[:5]) + (", ..." if len(names) > 5 else "")
                say(f"annotators who answer {advice} ({len(names):,}): {some}")


def _print_json(ranking: Ranking, with_items: bool) -> None:
    from crowdwise.cli.outputs import print_json

    votes = ranking.comparisons
    document: dict[str, Any] = {
        "method": ranking.method,
        "n_comparisons": votes.n_votes,
        "n_items": votes.n_items,
        "n_annotators": votes.n_annotators,
        "n_missing": votes.n_missing,
        "n_components": int(ranking.component.max()) + 1,
        "n_iter": ranking.n_iter,
        "converged": ranking.converged,
        "tie": ranking.tie,
    }
    if with_items:
        document["items"] = ranking.frame().to_dicts()
    print_json(document | {"annotators": ranking.annotators_frame().to_dicts()})
