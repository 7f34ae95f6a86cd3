"""``crowdwise rank``: scores of items from pairwise comparisons."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import crowdwise
from crowdwise import methods, report
from crowdwise.cli.answers import build_task, fit_answers, read_answers
from crowdwise.cli.declare import argument, column, group, option, plot, table
from crowdwise.cli.job import Job, among
from crowdwise.cli.options import ANSWERS, MORE, AnswerOptions, FileOptions, MaybeFeatures, TaskOptions, WeightOptions
from crowdwise.errors import SettingError

EXAMPLES = (
    "Example: crowdwise rank comparisons.csv -o scores.csv --annotators annotators.csv\n\n"
    "Preferences for training: crowdwise rank comparisons.csv --preferences preferences.jsonl\n\n"
    "Without annotators: crowdwise rank games.csv --method bradley-terry --set ties=davidson\n\n"
    "From features: crowdwise rank comparisons.csv --features X.npz --plot scores.png"
)
_COMPARISONS = "A table: item_a, item_b, annotator, winner; or battles, AlpacaEval or MT-Bench judgments; - reads stdin."
_WINNER = "Name of the column of the winner: an id, a side (a, b, left, right, 1, 2), tie, or a degree from 1 to 2."


@group
class Options(WeightOptions, AnswerOptions):
    """What is read and written."""

    comparisons: str = argument("COMPARISONS", _COMPARISONS)
    preferences: Path | None = table("--preferences", "Write the consensus of every pair (.jsonl).", MORE)
    evidence: str = option("--evidence", "WORD", "What preferences rest on: posterior, scores or votes.", "posterior", MORE)
    plot: Path | None = plot("the scores", MORE)
    first: str | None = column("--first", "first item", ANSWERS)
    second: str | None = column("--second", "second item", ANSWERS)
    winner: str | None = option("--winner", "COLUMN", _WINNER, panel=ANSWERS, shown="found by its name")


def run(options: Options, method: TaskOptions, features: MaybeFeatures, files: FileOptions) -> None:
    """Rank items by pairwise comparisons, and learn whose comparisons to trust.

    Scores are log-strengths: a lead of 1 wins 73% of comparisons. They come with standard errors
    and with ranges of ranks. The default is crowd-bt, or rank-network with --features.
    """
    job = Job(options, features)
    among("--evidence", options.evidence, methods.rank.preferences.EVIDENCE)
    estimator = build_task(method, "ranking", "crowd-bt" if features.features is None else "rank-network", features.features)
    if options.evidence == "votes" and estimator.name == "bradley-terry":
        raise SettingError("--evidence votes: bradley-terry does not model annotators; use --method crowd-bt")
    names = "first second annotator weight question"
    votes = read_answers(options.comparisons, crowdwise.Comparisons, files, options, names, answer=options.winner)
    ranking: methods.rank.result.Ranking = fit_answers(estimator, votes, features).result_
    job.table("--annotators", ranking.annotators_frame, "annotator")
    job.table("--preferences", lambda: methods.rank.preferences.preferences(ranking, options.evidence), "pair")
    job.file("--plot", partial(report.plot.save_plot, ranking))
    job.page(estimator, lambda: report.ranking_page(ranking))
    shown = ["rank", "item", "score", "lower", "upper", "rank_lower", "rank_upper", "n_votes"]
    document = partial(report.ranking_document, ranking)
    job.main(ranking.by_rank(), "item", document=document, screen=lambda frame: frame.select(shown))
    job.say(report.ranking_lines(ranking))
