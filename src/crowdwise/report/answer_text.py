"""Rankings, numbers, clusters and spans in a few lines for people, and as data for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.report.text import count, number, one_line, some

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.methods.clusters.result import ClusterResult
    from crowdwise.methods.rank.result import Ranking
    from crowdwise.methods.sets.result import InferredSets
    from crowdwise.methods.tags.result import SequenceResult

__all__ = ["by_f1", "by_skill", "by_weight", "expected_lines"]
__all__ += ["cluster_lines", "number_document", "number_lines", "ranking_document", "ranking_lines", "set_lines", "span_lines"]


def ranking_lines(ranking: Ranking) -> Iterator[str]:
    """What was fitted, and whose votes deserve a look."""
    votes, people = ranking.votes, ranking.annotators_frame()
    dropped = f" ({count(votes.n_missing, 'row')} without an answer dropped)" if votes.n_missing else ""
    sizes = f"{count(votes.n_items, 'item')}, {count(votes.n_annotators, 'annotator')}"
    yield f"{ranking.method}: {count(votes.n_votes, 'comparison')}{dropped}, {sizes}"
    if "action" in people.columns:
        for action, how in (("flip", "in reverse"), ("drop", "at random, or too seldom to tell")):
            names = people.filter(people["action"] == action)["annotator"].to_list()
            if names:
                yield f"annotators who answer {how} ({len(names):,}): {some(names, 5)}{', ...' if len(names) > 5 else ''}"


def set_lines(result: Any) -> Iterator[str]:
    """What was fitted, and how it went."""
    state = "converged" if result.converged else "did not converge"
    sizes = f"{count(result.votes.n_items, 'item')}, {count(result.votes.n_annotators, 'annotator')}"
    yield f"{result.method}: {sizes}; {state} after {count(result.n_iter, 'iteration')}"


def ranking_document(ranking: Ranking) -> dict[str, Any]:
    """The run and its annotators."""
    votes = ranking.votes
    return {
        "method": ranking.method,
        "n_votes": votes.n_votes,
        "n_items": votes.n_items,
        "n_annotators": votes.n_annotators,
        "n_missing": votes.n_missing,
        "n_components": int(ranking.component.max()) + 1,
        "n_iter": ranking.n_iter,
        "converged": ranking.converged,
        "tie": ranking.tie,
        "annotators": ranking.annotators_frame().to_dicts(),
    }


def expected_lines(result: InferredSets) -> Iterator[str]:
    """How far sets of labels may be believed, which of them are known, and how the empty one is written."""
    known, unasked = result.votes.is_known, result.unasked
    if unasked.any():
        yield f"{count(int(unasked.sum()), 'item')} without answers: left without a label"
    if known.any():
        yield f"{count(int(known.sum()), 'item')} with gold: kept as their labels (see the column note)"
    empty = int((~result.chosen.any(axis=1) & ~unasked).sum())
    if empty:
        yield f"{count(empty, 'item')} to which no label applies, written []"
    judged = ~known & ~unasked
    if judged.any():
        probability = result.probability[judged]
        each, whole = np.maximum(probability, 1 - probability).mean(), result.set_probability[judged].mean()
        why = {"model": " and annotators too"}.get(result.confidence_source, "")
        yield (
            f"expected accuracy: {each:.0%} of the yes-no answers on labels, {whole:.0%} of the whole sets "
            f"if labels err independently{why}"
        )


def number_lines(estimator: Any, level: float, gold: bool) -> Iterator[str]:
    """What was fitted, how wide the intervals are and whom to look at."""
    result = estimator.result_
    values = result.votes
    dropped = f"; {count(values.n_missing, 'missing answer')} left out" if values.n_missing else ""
    sizes = ((values.n_votes, "value"), (values.n_items, "item"), (values.n_annotators, "annotator"))
    kept = f"; {count(int((result.scale == 0).all(axis=1).sum()), 'known value')} kept" if gold else ""
    yield f"{estimator.name}: {', '.join(count(n, noun) for n, noun in sizes)}{dropped}{kept}"
    low, high = result.interval(level)
    half = np.nanmedian((high - low) / 2, axis=0)
    named = [""] if values.n_dimensions == 1 else [f"{one_line(name)} " for name in values.names]
    widths = ", ".join(f"{name}±{number(float(width))}" for name, width in zip(named, half, strict=True))
    about = getattr(estimator, "about_interval", "")
    yield f"median {100 * level:g}% interval: {widths}{f', {about}' if about else ''}"
    if result.widened is not None and (result.widened > 1.005).any():
        times = ", ".join(f"{name}{factor:.2f} times" for name, factor in zip(named, result.widened, strict=True))
        yield f"intervals are {times} as wide as the model has them, because annotators who were held out are further off"
    if result.crowd_error is not None and (result.crowd_error > 0).any():
        errors = ", ".join(f"{name}±{number(float(sd))}" for name, sd in zip(named, result.crowd_error, strict=True))
        yield f"known values show errors of the whole crowd beyond that, now part of the intervals: {errors} (sd)"
    table = result.annotators_frame()
    if table.height > 1:
        worst = table.filter(table["n_votes"] > 0).sort("reliability").head(1)
        name, reliability = worst["annotator"][0], worst["reliability"][0]
        yield f"least reliable annotator: {one_line(name)}, reliability {number(reliability)}"


def number_document(estimator: Any, level: float) -> dict[str, Any]:
    """The run and its annotators."""
    values = estimator.result_.votes
    sizes = {name: getattr(values, name) for name in ("n_votes", "n_items", "n_annotators", "n_missing")}
    run = {"level": level, "n_iter": estimator.n_iter_, "converged": estimator.converged_}
    for name in ("widened", "crowd_error"):
        found = getattr(estimator.result_, name)
        run |= {name: None if found is None else [float(value) for value in found]}
    return {"method": estimator.name, **sizes, **run, "annotators": by_weight(estimator.result_).to_dicts()}


def cluster_lines(result: ClusterResult) -> Iterator[str]:
    """How many clusters, of which sizes, and how well annotators answer."""
    votes, size = result.votes, np.bincount(result.cluster, minlength=result.membership.shape[1] + 1)[1:]
    dropped = f" ({count(votes.n_missing, 'row')} without an answer dropped)" if votes.n_missing else ""
    answers = f"{count(votes.n_votes, 'answer')}{dropped} by {count(votes.n_annotators, 'annotator')}"
    yield f"{result.method}: {count(votes.n_items, 'item')} in {count(len(size), 'cluster')}, from {answers}"
    if result.held_out:
        scores = ", ".join(f"{k}: {value:.4f}" for k, value in result.held_out.items())
        yield f"log-probability of a held-out answer by number of clusters: {scores}"
    hit, alarm = number(float(result.hit.mean())), number(float(result.false_alarm.mean()))
    sizes = ", ".join(f"{n:,}" for n in size.tolist()[:20])
    yield f"sizes {sizes}; mean hit rate {hit}, mean false-alarm rate {alarm}"


def span_lines(result: SequenceResult, spans: pl.DataFrame) -> Iterator[str]:
    """How many spans of which types, and how sure they are."""
    tags = result.votes
    size = f"{count(tags.n_tokens, 'token')} of {count(tags.n_sequences, 'sequence')}"
    yield f"{result.method}: {count(spans.height, 'span')} in {size}, by {count(tags.votes.n_annotators, 'annotator')}"
    if spans.height:
        sizes = spans.group_by("type").len().sort("len", "type", descending=[True, False])
        kinds = ", ".join(f"{one_line(kind)} {size:,}" for kind, size in sizes.rows()[:10])
        unsure = spans.filter(spans["confidence"] < 0.5).height
        yield f"{kinds}; mean confidence {number(float(result.confidence.mean()))}, {unsure:,} below one half"


def by_skill(result: ClusterResult) -> pl.DataFrame:
    """Annotators of pairs, the most skilled first."""
    return result.annotators_frame().sort("skill", descending=True, maintain_order=True)


def by_weight(result: Any) -> pl.DataFrame:
    """Annotators of numbers, those who weigh most first."""
    frame: pl.DataFrame = result.annotators_frame().sort("weight", descending=True, maintain_order=True)
    return frame


def by_f1(result: SequenceResult) -> pl.DataFrame:
    """Annotators of tags, the best first."""
    return result.annotators_frame().sort("f1", "accuracy", descending=True, nulls_last=True, maintain_order=True)
