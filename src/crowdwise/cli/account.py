"""A short account of a fit for people, and the same as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.cli.text import count, number, one_line, say

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.estimator.label_outcome import LabelOutcome
    from crowdwise.estimator.result import Result
    from crowdwise.methods.classify.base import CrowdClassifier
    from crowdwise.scale.outcome import ShardedResult

__all__ = ["facts", "rank_annotators", "tell", "training"]


def rank_annotators(result: LabelOutcome) -> pl.DataFrame:
    """The annotators' table, most accurate first."""
    return result.annotators_frame().sort("accuracy", descending=True, nulls_last=True, maintain_order=True)


def facts(result: Result | ShardedResult) -> dict[str, Any]:
    """What was run, on what, and how it went."""
    votes = result.votes
    return {
        "method": result.method,
        "settings": result.settings,
        "n_items": votes.n_items,
        "n_annotators": votes.n_annotators,
        "n_votes": votes.n_votes,
        "n_missing": votes.n_missing,
        "n_gold": votes.n_gold,
        "classes": votes.classes,
        "class_prior": result.class_prior,
        "n_iter": result.n_iter,
        "converged": result.converged,
        "bound": sum(result.bound.values()) if result.bound else None,
    }


def training(estimator: CrowdClassifier) -> dict[str, Any]:
    """How the training of a network went; empty for classifiers without one.

    The held-out score is the log-likelihood per vote of votes that were not trained on, at the best epoch.
    """
    history = getattr(estimator, "history_", None)
    if not history:
        return {}
    best, held_out = history["best_epoch"], history["held_out"]
    return {
        "n_epochs": len(history["loss"]),
        "best_epoch": best,
        "held_out_score": -held_out[best - 1] if held_out else None,
    }


def tell(result: Result, estimator: CrowdClassifier | None = None) -> None:
    """Print the account on stderr; of a classifier with how its training went."""
    from crowdwise.data.agreement import pairwise_agreement

    votes = result.votes
    sizes = (count(votes.n_votes, "vote"), count(votes.n_items, "item"), count(votes.n_annotators, "annotator"))
    agreement = number(pairwise_agreement(votes)) or "unknown (no item has two annotators)"
    say(f"{sizes[0]} on {sizes[1]} by {sizes[2]}, {count(votes.n_classes, 'class')}; pairwise agreement {agreement}")
    if votes.n_missing:
        say(f"dropped {count(votes.n_missing, 'missing label')}")
    without = int((votes.votes_per_item == 0).sum())
    if without:
        by = "the class shares" if estimator is None else "their features"
        say(f"{count(without, 'item')} without votes: labelled by {by} alone")
    if votes.gold is not None:
        say(f"{count(votes.n_gold, 'known label')} kept fixed")
    run = training(estimator) if estimator is not None else {}
    # What was chosen is what was run; that it was chosen is said in a line of its own.
    method = result.method.removeprefix("auto: ").removeprefix("auto-classifier: ")
    if run:
        score = run["held_out_score"]
        judged = "" if score is None else f", held-out score {number(score)} (log-likelihood per vote)"
        say(f"{method}: {count(run['n_epochs'], 'epoch')}, best {run['best_epoch']}{judged}")
    elif result.trace:
        state = "converged" if result.converged else "NOT converged"
        # One pass over the votes is all that online methods make.
        how = f"{state} after {count(result.n_iter, 'iteration')}" if result.n_iter != 1 or not result.converged else "done"
        say(f"{method}: {how}")
    else:
        say(f"{method}: done")
    doubtful = _unreliable(result)
    if doubtful:
        say(f"least reliable annotators: {', '.join(doubtful)}")


def _unreliable(result: Result, most: int = 3) -> list[str]:
    """The worst of those who are no better than chance or far below the crowd; nobody on the strength of two votes."""
    from crowdwise.trust.crowd.grades import crowd_of

    votes, accuracy = result.votes, result.accuracy
    return [
        f"{one_line(votes.annotators[a])} (accuracy {accuracy[a]:.2f}, {count(int(votes.votes_per_annotator[a]), 'vote')})"
        for a in crowd_of(result).unreliable[:most]
    ]
