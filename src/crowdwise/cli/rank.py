"""``crowdwise rank``: scores of items from pairwise comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.declare import argument, column, file, option
from crowdwise.cli.display import count, some
from crowdwise.cli.fitting import build_task
from crowdwise.cli.inputs import read_answers, read_features
from crowdwise.cli.job import Job, among, interval_rows
from crowdwise.cli.options import ANNOTATORS, MORE, PAGE, MaybeFeatures, OutputOptions, TaskOptions
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.methods.rank.result import Ranking

EXAMPLES = (
    "Example: crowdwise rank comparisons.csv -o scores.csv --annotators annotators.csv\n\n"
    "Preferences for training: crowdwise rank comparisons.csv --preferences preferences.jsonl\n\n"
    "Without annotators: crowdwise rank games.csv --method bradley-terry --set ties=davidson\n\n"
    "From features: crowdwise rank comparisons.csv --features X.npz --plot scores.png"
)
_READ = "Reading the comparisons"
_NETWORK, _DEFAULT = "rank-network", "crowd-bt"
_WINNER = "Name of the column of the winner: an id, a side (a, b, left, right, 1, 2) or tie."


@dataclass(frozen=True, kw_only=True)
class Options(OutputOptions):
    """What is read and written."""

    comparisons: str = argument("COMPARISONS", "A table: item_a, item_b, annotator, winner; - reads stdin.")
    annotators: Path | None = file("--annotators", ANNOTATORS, MORE)
    preferences: Path | None = file("--preferences", "Write the consensus of every pair (.jsonl).", MORE)
    evidence: str = option("--evidence", "WORD", "What preferences rest on: posterior, scores or votes.", "posterior", MORE)
    plot: Path | None = file("--plot", "Draw the scores (.png .pdf .svg); needs matplotlib.", MORE)
    page: Path | None = file("--page", PAGE, MORE)
    first: str | None = column("--first", "first item", _READ)
    second: str | None = column("--second", "second item", _READ)
    annotator: str | None = column("--annotator", "annotator", _READ)
    winner: str | None = option("--winner", "COLUMN", _WINNER, panel=_READ, shown="found by its name")
    weight: str | None = option("--weight", "COLUMN", "Name of the weight column.", panel=_READ, shown="every vote counts 1")


def run(options: Options, method: TaskOptions, features: MaybeFeatures) -> None:
    """Rank items by pairwise comparisons, and learn whose comparisons to trust.

    Scores are log-strengths: a lead of 1 wins 73% of comparisons. They come with standard errors
    and with ranges of ranks. The default is crowd-bt, or rank-network with --features.
    """
    from crowdwise.data.comparisons import Comparisons
    from crowdwise.methods.rank.preferences import EVIDENCE, preferences

    job = Job(
        options,
        (options.comparisons, features.features),
        tables={"--annotators": options.annotators, "--preferences": options.preferences},
        page=options.page,
        plot=options.plot,
    )
    among("--evidence", options.evidence, EVIDENCE)
    name = method.method or (_DEFAULT if features.features is None else _NETWORK)
    if (name == _NETWORK) != (features.features is not None):
        raise SettingError("--features goes with --method rank-network, and that needs --features")
    if options.evidence == "votes" and name == "bradley-terry":
        raise SettingError("--evidence votes: bradley-terry does not model annotators; use --method crowd-bt")
    estimator = build_task(method, "ranking", name)
    names: dict[str, Any] = {role: getattr(options, role) for role in ("first", "second", "annotator", "weight")}
    votes = read_answers(options.comparisons, Comparisons, answer=options.winner, **names)
    rows = read_features(features)
    if rows is None:
        estimator.fit(votes)
    else:
        estimator.fit(votes, rows.X, items=rows.items)
    ranking: Ranking = estimator.result_
    job.table("--annotators", ranking.annotators_frame, "annotator")
    job.table("--preferences", lambda: preferences(ranking, options.evidence), "pair")
    if options.plot is not None:
        from crowdwise.report.plot.ranking import save_plot

        job.file("--plot", partial(save_plot, ranking))
    items = ranking.frame()
    if options.page is not None:
        _write_page(job, estimator)
    shown = ["rank", "item", "score", "lower", "upper", "rank_lower", "rank_upper", "n_comparisons"]
    job.main(items, "item", document=lambda: _document(ranking), screen=lambda frame: frame.select(shown))
    job.say(_summary_lines(ranking))


def _write_page(job: Job, estimator: Any) -> None:
    ranking: Ranking = estimator.result_
    votes, items = ranking.comparisons, ranking.frame()
    job.page(
        "Ranking from comparisons",
        estimator,
        {
            "Comparisons": votes.n_votes,
            "Items": votes.n_items,
            "Annotators": votes.n_annotators,
            "Separate parts": int(ranking.component.max(initial=-1)) + 1,
        },
        {"Items, best first": items, "Annotators": ranking.annotators_frame()},
        ["A score is a log-strength: a lead of 1 wins 73% of comparisons. Items of separate parts cannot be compared."],
        interval_rows(items, "Scores, best first", "score", ("lower", "score", "upper")),
    )


def _document(ranking: Ranking) -> dict[str, Any]:
    votes = ranking.comparisons
    return {
        "method": ranking.method,
        "n_comparisons": votes.n_votes,
        "n_items": votes.n_items,
        "n_annotators": votes.n_annotators,
        "n_missing": votes.n_missing,
        "n_components": int(ranking.component.max()) + 1,
        "n_iter": ranking.n_iter,
        "converged": ranking.converged,
        "tie": ranking.tie,
        "annotators": ranking.annotators_frame().to_dicts(),
    }


def _summary_lines(ranking: Ranking) -> Iterator[str]:
    """What was fitted, and whose votes deserve a look."""
    votes, people = ranking.comparisons, ranking.annotators_frame()
    dropped = f" ({count(votes.n_missing, 'row')} without an answer dropped)" if votes.n_missing else ""
    sizes = f"{count(votes.n_items, 'item')}, {count(votes.n_annotators, 'annotator')}"
    yield f"{ranking.method}: {count(votes.n_votes, 'comparison')}{dropped}, {sizes}"
    if "action" in people.columns:
        for action, how in (("flip", "in reverse"), ("drop", "at random, or too seldom to tell")):
            names = people.filter(people["action"] == action)["annotator"].to_list()
            if names:
                yield f"annotators who answer {how} ({len(names):,}): {some(names, 5)}{', ...' if len(names) > 5 else ''}"
