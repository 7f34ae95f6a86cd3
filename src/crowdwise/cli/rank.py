"""``crowdwise rank``: scores of items from pairwise comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.declare import argument, column, file, option
from crowdwise.cli.fitting import build_task, read_answers, read_features
from crowdwise.cli.job import Job, among
from crowdwise.cli.options import ANNOTATORS, MORE, PAGE, FileOptions, MaybeFeatures, OutputOptions, TaskOptions
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
_COMPARISONS = "A table: item_a, item_b, annotator, winner; or battles, AlpacaEval or MT-Bench judgments; - reads stdin."
_NETWORK, _DEFAULT = "rank-network", "crowd-bt"
_WINNER = "Name of the column of the winner: an id, a side (a, b, left, right, 1, 2), tie, or a degree from 1 to 2."


@dataclass(frozen=True, kw_only=True)
class Options(OutputOptions):
    """What is read and written."""

    comparisons: str = argument("COMPARISONS", _COMPARISONS)
    annotators: Path | None = file("--annotators", ANNOTATORS, MORE)
    preferences: Path | None = file("--preferences", "Write the consensus of every pair (.jsonl).", MORE)
    evidence: str = option("--evidence", "WORD", "What preferences rest on: posterior, scores or votes.", "posterior", MORE)
    plot: Path | None = file("--plot", "Draw the scores (.png .pdf .svg); needs matplotlib.", MORE)
    page: Path | None = file("--page", PAGE, MORE)
    first: str | None = column("--first", "first item", _READ)
    second: str | None = column("--second", "second item", _READ)
    annotator: str | None = column("--annotator", "annotator", _READ)
    winner: str | None = option("--winner", "COLUMN", _WINNER, panel=_READ, shown="found by its name")
    question: str | None = option("--question", "NAME", "Which question of a platform's export to read.", panel=_READ)
    weight: str | None = option("--weight", "COLUMN", "Name of the weight column.", panel=_READ, shown="every vote counts 1")


def run(options: Options, method: TaskOptions, features: MaybeFeatures, files: FileOptions) -> None:
    """Rank items by pairwise comparisons, and learn whose comparisons to trust.

    Scores are log-strengths: a lead of 1 wins 73% of comparisons. They come with standard errors
    and with ranges of ranks. The default is crowd-bt, or rank-network with --features.
    """
    from crowdwise.data.comparisons import Comparisons
    from crowdwise.methods.rank.preferences import EVIDENCE, preferences
    from crowdwise.report.answer_pages import ranking_page
    from crowdwise.report.answer_text import ranking_document, ranking_lines

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
    names: dict[str, Any] = {role: getattr(options, role) for role in ("first", "second", "annotator", "weight", "question")}
    votes = read_answers(options.comparisons, Comparisons, files, answer=options.winner, **names)
    rows = read_features(features)
    if rows is None:
        estimator.fit(votes)
    else:
        estimator.fit(rows.X, votes, items=rows.items)
    ranking: Ranking = estimator.result_
    job.table("--annotators", ranking.annotators_frame, "annotator")
    job.table("--preferences", lambda: preferences(ranking, options.evidence), "pair")
    if options.plot is not None:
        from crowdwise.report.plot.ranking import save_plot

        job.file("--plot", partial(save_plot, ranking))
    items = ranking.by_rank()
    job.page(estimator, lambda: ranking_page(ranking))
    shown = ["rank", "item", "score", "lower", "upper", "rank_lower", "rank_upper", "n_votes"]
    job.main(items, "item", document=lambda: ranking_document(ranking), screen=lambda frame: frame.select(shown))
    job.say(ranking_lines(ranking))
