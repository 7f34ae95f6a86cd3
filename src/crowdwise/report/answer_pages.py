"""What the pages of rankings, numbers, clusters, spans and sets show: the parts of `crowdwise.report.write_answers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crowdwise.report.answer_text import by_f1, by_skill, by_weight

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.methods.clusters.result import ClusterResult
    from crowdwise.methods.rank.result import Ranking
    from crowdwise.methods.tags.result import SequenceResult
    from crowdwise.report.answers import Intervals

__all__ = ["cluster_page", "number_page", "ranking_page", "set_page", "span_page"]


def ranking_page(ranking: Ranking) -> dict[str, Any]:
    """Scores with their intervals, best first."""
    votes, items = ranking.votes, ranking.by_rank()
    facts = {"Comparisons": votes.n_votes, "Items": votes.n_items, "Annotators": votes.n_annotators}
    facts["Separate parts"] = int(ranking.component.max(initial=-1)) + 1
    return {
        "title": "Ranking from comparisons",
        "facts": facts,
        "tables": {"Items, best first": items, "Annotators": ranking.annotators_frame()},
        "notes": [
            "A score is a log-strength: a lead of 1 wins 73% of comparisons. Items of separate parts cannot be compared."
        ],
        "intervals": _intervals(items, "Scores, best first", "score", ("lower", "score", "upper")),
    }


def number_page(result: Any, level: float) -> dict[str, Any]:
    """Estimates, of one number those with the widest intervals first."""
    values, items = result.votes, result.items_frame(level)
    heading, drawn = "Items", None
    if values.n_dimensions == 1:
        items = items.sort(items["high"] - items["low"], descending=True, nulls_last=True)
        heading, unit = "Items, the widest intervals first", f"value, with {100 * level:g}% intervals"
        drawn = _intervals(items, "Estimates with the widest intervals", unit, ("low", "estimate", "high"))
    return {
        "title": "Numbers from many annotators",
        "facts": {"Values": values.n_votes, "Items": values.n_items, "Annotators": values.n_annotators},
        "tables": {heading: items, "Annotators": by_weight(result)},
        "notes": ["Without known values nothing can tell a crowd that is too high or too low as a whole."],
        "intervals": drawn,
    }


def cluster_page(result: ClusterResult) -> dict[str, Any]:
    """Items with their clusters."""
    votes = result.votes
    facts = {"Answers": votes.n_votes, "Items": votes.n_items, "Annotators": votes.n_annotators}
    return {
        "title": "Clusters from same-or-different answers",
        "facts": facts | {"Clusters": result.membership.shape[1]},
        "tables": {"Items": result.items_frame(), "Annotators": by_skill(result)},
    }


def span_page(result: SequenceResult, spans: pl.DataFrame) -> dict[str, Any]:
    """Spans, the least certain first."""
    tags = result.votes
    unsure = spans.filter(spans["confidence"] < 0.5).height
    facts: Mapping[str, int] = {"Spans": spans.height, "Below one half": unsure, "Tokens": tags.n_tokens}
    return {
        "title": "Spans from tagged tokens",
        "facts": {**facts, "Sequences": tags.n_sequences, "Annotators": tags.votes.n_annotators},
        "tables": {"Spans, the least certain first": spans.sort("confidence"), "Annotators": by_f1(result)},
        "notes": ["Confidence is the probability that exactly these tokens are a span of this type."],
    }


def set_page(title: str, items: pl.DataFrame, people: pl.DataFrame) -> dict[str, Any]:
    """Sets of labels or classes, the least certain first."""
    sure = items.sort("confidence", maintain_order=True)
    sizes = {"Items": items.height, "Annotators": people.height}
    return {"title": title, "facts": sizes, "tables": {"Items, the least certain first": sure, "Annotators": people}}


def _intervals(frame: pl.DataFrame, title: str, unit: str, columns: tuple[str, str, str]) -> Intervals:
    """The items of a frame as a picture; `columns` are those of lower ends, estimates and upper ends."""
    low, middle, high = (frame[column].cast(float).to_numpy() for column in columns)
    # The page itself is loaded for those who ask for one.
    from crowdwise.report.answers import Intervals

    return Intervals(title, unit, frame["item"].to_list(), low, middle, high)
