"""Numbers and counts as people read them, and what a fit of class labels leaves: as data for JSON, and in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.outcome import LabelOutcome, Result
    from crowdwise.scale.outcome import ShardedResult, Written
    from crowdwise.scale.store import Store

__all__ = ["Table", "beside", "by_accuracy", "choice_lines", "count", "dropped_lines", "facts", "framed", "label_rows"]
__all__ += ["match_line", "narrow", "number", "one_line", "ordinal_frame", "pair_lines", "sharded_lines", "some"]
__all__ += ["store_lines", "summary_lines", "training"]

# What a terminal shows: a title, names of columns, rows, and the columns that stand to the right.
Table: TypeAlias = tuple[str, list[str], Sequence[Sequence[Any]], list[str]]


def one_line(text: Any) -> str:
    """Return text with line breaks and other control characters escaped; an id could move the cursor otherwise."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def number(value: Any) -> str:
    """Return a number as people read it: four digits after the point at most, nothing for a missing one."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        if abs(value) < 1e-15:
            # What is left of a difference of equal numbers.
            return "0"
        small = abs(value) < 1e-3
        if 0.99995 <= value < 1:
            return ">0.9999"
        return f"{value:.2g}" if small else f"{value:.4f}".rstrip("0").rstrip(".")
    return one_line(value)


def count(n: int, noun: str) -> str:
    """Return "1 item", "1,234 items", "2 classes"."""
    plural = noun if n == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{n:,} {plural}"


def some(names: Any, most: int) -> str:
    """Return the first `most` names, comma-separated."""
    return ", ".join(one_line(name) for name in names[:most])


def pair_lines(pairs: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Names and values, a line each; nested pairs are indented below their name."""
    width = max((len(name) for name in pairs), default=0)
    for name, value in pairs.items():
        if isinstance(value, dict):
            yield f"{indent}{one_line(name)}"
            yield from pair_lines(value, indent + "  ")
        else:
            yield f"{indent}{one_line(name):<{width}}  {number(value) or '-'}"


def framed(frame: pl.DataFrame, title: str = "") -> Table:
    """A frame as a table for a terminal; numbers stand to the right."""
    return title, frame.columns, frame.rows(), [name for name, dtype in frame.schema.items() if dtype.is_numeric()]


def by_accuracy(result: LabelOutcome, people: pl.DataFrame | None = None) -> pl.DataFrame:
    """The annotators' table, most accurate first; `people` is another one of the same fit."""
    return (result.annotators_frame() if people is None else people).sort(
        "accuracy", descending=True, nulls_last=True, maintain_order=True
    )


def beside(items: pl.DataFrame, about: pl.DataFrame | None) -> pl.DataFrame:
    """The table of items with what is known of them after the ids; a name that is taken gets "kept_" before it."""
    if about is None:
        return items
    kept = about.rename({name: f"kept_{name}" for name in about.columns if name in items.columns})
    return items.select("item").hstack(kept.get_columns()).hstack(items.drop("item").get_columns())


def narrow(items: pl.DataFrame) -> pl.DataFrame:
    """The table of items without the probability of every class, and without what stands below it."""
    return items.select(name for name in items.columns if not name.startswith("p(") and name != "confidence_source")


def label_rows(result: Result, items: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows of the table of items, with the probabilities by class."""
    names = [str(name) for name in result.votes.classes]
    shares = result.posterior.tolist()
    rows = zip(narrow(items).to_dicts(), shares, strict=True)
    return [row | {"probabilities": dict(zip(names, share, strict=True))} for row, share in rows]


def facts(result: Result | ShardedResult) -> dict[str, Any]:
    """What was run, on what, and how it went."""
    votes = result.votes
    edges = {name: getattr(result.prior, name) for name in ("coupling", "association")} if _on_edges(result) else {}
    return {
        "method": result.method,
        "settings": result.settings,
        "n_items": votes.n_items,
        "n_annotators": votes.n_annotators,
        "n_votes": getattr(votes, "n_answers", votes.n_votes),
        "n_missing": votes.n_missing,
        "n_gold": votes.n_gold,
        "classes": votes.classes,
        "class_prior": result.class_prior,
        "n_iter": result.n_iter,
        "converged": result.converged,
        "confidence_source": getattr(result, "confidence_source", None) if votes.n_classes > 1 else None,
        "bound": sum(result.bound.values()) if result.bound else None,
        **edges,
    }


def _on_edges(result: LabelOutcome) -> bool:
    """Whether neighbours have a say in the labels."""
    return hasattr(result.prior, "coupling")


def _edge_lines(result: LabelOutcome) -> Iterator[str]:
    """Whether neighbours are alike, and how much that counts."""
    if _on_edges(result):
        alike = f"{result.prior.association:.1f} standard deviations more alike than any two items"
        if result.prior.coupling:
            yield f"neighbours are {alike}; an edge adds {result.prior.coupling:.2f} to the log-odds of the neighbour's class"
        elif result.prior.association > 0:
            yield f"neighbours are {alike}, but edges do not help to predict the votes, so they were left aside"
        else:
            yield "neighbours are no more alike than any two items, so edges were left aside"


def training(estimator: Any) -> dict[str, Any]:
    """How the training of a network went; empty for classifiers without one.

    The held-out score is the log-likelihood per vote of votes that were not trained on, at the best epoch. Of a Gaussian
    process also what it chose, and the bound over all items where it has one: what is traced is the loss per item.
    """
    history = getattr(estimator, "history_", None)
    if not history:
        return {}
    best, held_out = history["best_epoch"], history["held_out"]
    score = -held_out[best - 1] if held_out else None
    own = {name: value for name in ("likelihood", "scaling") if (value := getattr(estimator, f"{name}_", None)) is not None}
    if "bound" in history:
        own["bound"] = sum(history["bound"].values())
    return {"n_epochs": len(history["loss"]), "best_epoch": best, "held_out_score": score, **own}


def _fit_line(result: Result, run: dict[str, Any]) -> str:
    """How the fit went; `run` is what `training` has of it."""
    # What was chosen is what was run; that it was chosen is said in a line of its own.
    method = result.method.removeprefix("auto: ").removeprefix("auto-classifier: ")
    state = "converged" if result.converged else "NOT converged"
    if not run:
        # One pass over the votes is all that online methods make.
        once = not result.trace or (result.n_iter == 1 and result.converged)
        return f"{method}: done" if once else f"{method}: {state} after {count(result.n_iter, 'iteration')}"
    score, epochs = run["held_out_score"], count(run["n_epochs"], "epoch")
    judged = "" if score is None else f", held-out score {number(score)} (log-likelihood per vote)"
    if "likelihood" not in run:
        return f"{method}: {epochs}, best {run['best_epoch']}{judged}"
    return f"{method}: {state} after {epochs}{judged}; likelihood {run['likelihood']}, scaling {run['scaling']}"


def summary_lines(
    result: Result,
    estimator: Any = None,
    read: Annotations | None = None,
    fill_unvoted: bool = False,
    by_cost: bool = False,
    in_doubt: bool = False,
) -> Iterator[str]:
    """What was read, how the fit went, and who deserves a look; of a classifier with how its training went.

    `read` are the votes as they were read, where those of the result were made from them. With `by_cost`, labels are not the
    most probable classes, of which the result speaks. Where the fit is `in_doubt`, it names nobody: one that follows those who
    share errors finds the others unreliable.
    """
    from crowdwise.data.meetings import pairwise_agreement

    votes = result.votes if read is None else read
    agree = pairwise_agreement(votes)
    agreement = number(agree) or "unknown (no item has two annotators)"
    sizes = (count(votes.n_answers, "anonymous vote" if votes.anonymous else "vote"), count(votes.n_items, "item"))
    people = "" if votes.anonymous else f" by {count(votes.n_annotators, 'annotator')}"
    yield f"{sizes[0]} on {sizes[1]}{people}, {count(votes.n_classes, 'class')}; pairwise agreement {agreement}"
    yield from _chance_lines(votes, agree)
    by = "their features alone" if estimator is not None else "the most frequent class" if fill_unvoted else None
    unvoted = _EMPTY if by is None else f"labelled by {by}"
    # Gold labels an item that nobody voted on, and so do neighbours.
    empty = (votes.votes_per_item == 0) & ~votes.is_known
    beside = int((empty & ~result.unasked).sum()) if estimator is None else 0
    if beside:
        yield f"{count(beside, 'item')} without votes: labelled by {'its' if beside == 1 else 'their'} neighbours"
    yield from dropped_lines(votes.n_missing, votes.n_gold, int(empty.sum()) - beside, unvoted)
    yield _fit_line(result, training(estimator) if estimator is not None else {})
    yield from _edge_lines(result)
    yield from _confidence_lines(result, "the most probable classes" if by_cost else "the labels")
    untold = int(result.untold.sum())
    if untold:
        yield f"{count(untold, 'item')} that nobody could tell, by how the votes fall (see the column note)"
    weak = [] if in_doubt else _unreliable(result, votes)
    if weak:
        yield f"least reliable annotators: {', '.join(weak)}"


def _chance_lines(votes: Annotations, agree: float) -> Iterator[str]:
    """That people agree hardly more than the classes' shares alone would make them: often columns were mistaken."""
    import numpy as np

    if votes.soft or votes.n_votes < _FEWEST:
        return
    chance = float(((np.bincount(votes.label) / votes.n_votes) ** 2).sum())
    if agree - chance <= _LEAST_BEYOND_CHANCE * (1 - chance) and chance < 1:
        yield (
            f"warning: annotators agree hardly more than by chance ({number(agree)}; chance {number(chance)}); are the columns "
            "of items, annotators and labels the right ones (--item, --annotator, --label)?"
        )


def _confidence_lines(result: Result, what: str = "the labels") -> Iterator[str]:
    """How many labels are expected to be right, and what that rests on."""
    judged = (result.votes.votes_per_item > 0) & ~result.votes.is_known
    if not judged.any():
        return
    if result.votes.n_classes < 2:
        # Confidence is 1 where there is nothing to confuse; that is no accuracy.
        yield f"expected accuracy of {what}: unknown, because only one class occurs (--classes names the others)"
        return
    if result.untested:
        yield f"expected accuracy of {what}: unknown, because no item has two annotators; to measure it: crowdwise audit"
        return
    source = result.confidence_source
    mean, low = (float(x[judged].mean()) for x in (result.confidence, result.confidence_in(0.9)))
    yield _expected_line(what, source, mean, low, (result.votes.votes_per_item[judged] <= 1).mean() > 0.5)


def _expected_line(what: str, source: str, mean: float, low: float, single: bool) -> str:
    """Mean confidence with its low end, unless most items have a `single` vote, and what it rests on."""
    expected, least = f"expected accuracy of {what}: {mean:.0%}", f"{low:.0%}"
    if source == "experience":
        # Confidence that was lowered for shared errors may lie below the range already.
        same = expected.endswith(f" {least}")
        spread = "" if single or same else f", in nine of ten crowds like these at least {least}"
        return f"{expected}{spread}; to measure it: crowdwise audit"
    if source == "model":
        return f"{expected}, if annotators err independently, as the model takes them to"
    return f"{expected} (by {source})"


# Votes from which on agreement is more than luck; and the least agreement beyond chance (as in kappa) that goes without a
# warning: 0 is chance itself. Judgement, with real sets in view, of which none gets the warning.
_FEWEST, _LEAST_BEYOND_CHANCE = 100, 0.05
_EMPTY = "left without a label (--fill-unvoted takes the most frequent class)"


def dropped_lines(n_missing: int, n_gold: int, n_unvoted: int, unvoted: str = _EMPTY) -> Iterator[str]:
    """What of the votes did not count as one, and what became of items without any."""
    if n_missing:
        yield f"dropped {count(n_missing, 'missing label')}"
    if n_unvoted:
        yield f"{count(n_unvoted, 'item')} without votes: {unvoted}"
    if n_gold:
        yield f"{count(n_gold, 'known label')} kept fixed"


def store_lines(store: Store, work_dir: Any) -> Iterator[str]:
    """What was noticed while encoding, what was encoded (by an earlier run where it stands in a folder), what gold decides."""
    by = f"{count(store.n_annotators, 'annotator')}, {count(store.n_classes, 'class')}"
    again = f"; encoded by an earlier run, in {one_line(work_dir)}" if work_dir else ""
    yield from store.notes
    yield f"{count(store.n_votes, 'vote')} on {count(store.n_items, 'item')} by {by}{again}"
    if 2 * (store.n_gold or 0) > store.n_items:
        yield f"gold in the files decides {store.n_gold:,} of {store.n_items:,} labels"


def sharded_lines(result: ShardedResult, place: str, work_dir: Any, first: int | None, written: Written) -> Iterator[str]:
    """How a fit to votes in shards went, what is expected of the labels, and what ran where.

    `first` is the first iteration of this run.
    """
    votes = result.votes
    yield from dropped_lines(votes.n_missing, votes.n_gold, votes.n_unvoted)
    state = "done" if not result.trace else "converged" if result.converged else "NOT converged"
    after = f" after {count(result.n_iter, 'iteration')}" if result.trace and result.n_iter > 1 else ""
    if after and first is None:
        after += ", all of them in an earlier run"
    elif after and first is not None and first > 1:
        after += f", {first - 1} of them in an earlier run"
    kept = f"; encoded votes are kept in {one_line(work_dir)}" if work_dir else ""
    yield f"{result.method}: {state}{after}"
    yield from _edge_lines(result)
    if written.n_judged and votes.n_classes > 1:
        source = "experience" if result.settings.get("confidence") == "experience" else "model"
        unmet = written.n_single == written.n_judged
        unknown = "expected accuracy of the labels: unknown, because no item has two annotators; to measure it: crowdwise audit"
        single = 2 * written.n_single > written.n_judged
        yield unknown if unmet else _expected_line("the labels", source, written.confidence, written.low, single)
    yield f"ran on {place}, {count(votes.n_shards, 'shard')}{kept}"


def _unreliable(result: Result, read: Annotations, most: int = 3) -> list[str]:
    """The worst of those who are no better than chance or far below the crowd; nobody on the strength of two votes.

    Who is not among those who gave the votes that were read is a group of them.
    """
    from crowdwise.estimator.judgement import crowd_of

    votes, accuracy, found = result.votes, result.accuracy, []
    people = None if read is votes else {str(name) for name in read.annotators}
    for a in crowd_of(result).unreliable[:most]:
        alone = people is None or str(votes.annotators[a]) in people
        size = count(int(votes.answers_per_annotator[a]), "vote") if alone else "a group"
        found.append(f"{one_line(votes.annotators[a])} (accuracy {accuracy[a]:.2f}, {size})")
    return found


def match_line(result: Result, truth: Any) -> str:
    """How many labels of items with votes and a known class are that class; nothing where no class was held back."""
    if truth is None:
        return ""
    known = (truth >= 0) & (result.votes.votes_per_item > 0)
    right, n = int((result.codes[known] == truth[known]).sum()), int(known.sum())
    return f"compared with gold, which the fit did not see: {right:,} of {n:,} labels are right ({right / max(n, 1):.1%})"


def choice_lines(estimator: Any, reason: bool, table: bool) -> Iterator[str]:
    """What `auto` chose and why, and the table behind it; nothing for a method that chooses nothing."""
    if hasattr(type(estimator), "choice_"):
        if reason:
            yield f"chose {estimator.reason_}"
        if table:
            yield from _aligned(estimator.choice_)


def _aligned(table: pl.DataFrame) -> list[str]:
    """The table as aligned text."""

    def shown(value: Any) -> str:
        return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else one_line(value)

    rows = [table.columns, *([shown(value) for value in row] for row in table.rows())]
    widths = [max(len(row[k]) for row in rows) for k in range(table.width)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def ordinal_frame(result: Result, fill_unvoted: bool = False) -> pl.DataFrame:
    """The table of items, with the median class and the expected rank from 1."""
    import polars as pl

    from crowdwise.data.encode import series_of
    from crowdwise.kernels.numerics import expected_rank, median_class

    frame = result.items_frame(fill_unvoted=fill_unvoted)
    median = series_of(result.votes.classes)[median_class(result.posterior)]
    more = [pl.Series("median", median), pl.Series("expected_rank", expected_rank(result.posterior))]
    names = frame.columns
    return frame.with_columns(more).select(*names[:3], "median", "expected_rank", *names[3:])
