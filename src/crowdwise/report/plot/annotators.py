"""The map of annotators: those who answer alike lie together.

An annotator is the vector u_a = sqrt(prior_k R_akl) in R^(K L), with R the shares of the (expected, smoothed) counts, so
that the distance of two is the Hellinger distance of their joint distributions of class and label. The two directions of
largest variance among all votes (every annotator weighs as many) are the axes, so that few votes, whose matrices are noise,
do not define them. Two landmarks are drawn by the same axes: who is always right, and who answers blindly by the crowd's
own shares of labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.errors import InputError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats
from crowdwise.report.plot.axes import GOOD, INK, RULE, axes_of, label_of

__all__ = ["Positions", "annotator_map", "annotator_positions"]


@dataclass(frozen=True, eq=False)
class Positions:
    """Where annotators lie, [A, 2] (NaN without votes), the landmarks, [2] each, and the share of the variance shown."""

    place: Floats
    perfect: Floats
    blind: Floats
    shown: float


def annotator_positions(result: Result) -> Positions:
    """Lay annotators out by their confusion matrices; see the module."""
    votes, prior = result.votes, result.class_prior
    n_votes = votes.votes_per_annotator.astype(float)
    # From the counts: a model with one accuracy for all errors cannot say which ones are made.
    shares = result.concentration / result.concentration.sum(axis=2, keepdims=True)
    vectors = np.sqrt(prior[None, :, None] * shares).reshape(votes.n_annotators, -1)
    place = np.full((votes.n_annotators, 2), np.nan)
    voted = n_votes > 0
    if not voted.any():
        return Positions(place, np.zeros(2), np.zeros(2), 1.0)
    weight = n_votes[voted] / n_votes.sum()
    centre = weight @ vectors[voted]
    deviation = np.sqrt(weight)[:, None] * (vectors[voted] - centre)
    size, axes = np.linalg.svd(deviation, full_matrices=False)[1:]
    axes = np.concatenate([axes[:2], np.zeros((max(0, 2 - len(axes)), vectors.shape[1]))])
    usage = np.average(np.einsum("akl,k->al", shares, prior)[voted], axis=0, weights=weight)
    perfect = np.sqrt(prior[:, None] * np.eye(votes.n_classes)).ravel() - centre
    blind = np.sqrt(prior[:, None] * usage[None, :]).ravel() - centre
    # The sign of an axis is arbitrary: right is where the perfect annotator is, up where most of the crowd's odd ones are.
    axes[0] *= 1 if axes[0] @ (perfect - blind) >= 0 else -1
    place[voted] = (vectors[voted] - centre) @ axes.T
    skew = float((place[voted, 1] ** 3).sum())
    if skew < 0:
        axes[1] *= -1
        place[:, 1] *= -1
    total = float((size**2).sum())
    return Positions(place, axes @ perfect, axes @ blind, float((size[:2] ** 2).sum() / total) if total > 0 else 1.0)


def annotator_map(result: Result, *, groups: dict[Any, int] | None = None, names: int = 30, ax: Any = None) -> Any:
    """Draw annotators by how they answer; the larger the mark, the more votes.

    Parameters
    ----------
    groups : dict, optional
        Annotator -> group, as from `crowdwise.trust.crowd.groups.groups`: coloured alike.
    names : int
        How many annotators, those with most votes, are named.

    Returns
    -------
    axes
    """
    votes, found = result.votes, annotator_positions(result)
    n_votes = votes.votes_per_annotator
    voted = np.flatnonzero(n_votes > 0)
    if not len(voted):
        raise InputError("there is no annotator to draw")
    group = {str(name): number for name, number in (groups or {}).items()}
    # Colours 1 to 9 of matplotlib's cycle; blue is for those in no group.
    paint = [f"C{1 + (group[name] - 1) % 9}" if (name := str(votes.annotators[a])) in group else GOOD for a in voted.tolist()]
    ax = axes_of(ax, (5.6, 5.0))
    size = 20 + 180 * n_votes[voted] / n_votes.max()
    ax.scatter(*found.place[voted].T, s=size, c=paint, alpha=0.7, linewidths=0)
    for mark, place, word in (("*", found.perfect, "always right"), ("X", found.blind, "answers blindly")):
        ax.scatter(*place, s=120, marker=mark, color=INK)
        ax.annotate(word, place, textcoords="offset points", xytext=(8, -3), fontsize=8, color=INK)
    for a in voted[np.argsort(-n_votes[voted], kind="stable")[:names]].tolist():
        ax.annotate(
            label_of(votes.annotators[a]), found.place[a], textcoords="offset points", xytext=(5, 4), fontsize=7, color=INK
        )
    ax.axhline(0, color=RULE, linewidth=0.5, zorder=0)
    ax.set(xlabel=f"answers alike lie together ({found.shown:.0%} of the differences are shown)", xticks=[], yticks=[])
    ax.margins(0.18)
    return ax
