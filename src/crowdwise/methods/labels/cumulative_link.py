"""Cumulative link: ordered classes as stretches of one scale, which every annotator cuts at thresholds of its own.

Model      class k is the stretch from k - 1/2 to k + 1/2 of a scale; an item lies at one of its nodes, all alike
           P(vote <= j | position x) = sigmoid(offset_aj + slope_a (j + 1/2 - x)) for an annotator who looks
           with probability lapse_a it does not look, and gives a label as often as it gives it in general
           offset_aj ~ N(0, offset_sd^2),  slope_a ~ N(slope, slope_sd^2),  lapse_a ~ Beta(1 + careless, 1 + careful)
M-step     Newton steps on each annotator's ordered logistic regression, which is concave; lapses in closed form

Notes
-----
K + 1 numbers per annotator where Dawid-Skene learns K (K - 1): a bias towards high labels, a narrow middle class, noise and
carelessness are one or two each. Items near a border of their class are harder than those in the middle, and annotators err
on them together, so that five votes say less than five independent ones would. Where the borders are, only the annotators
know: `offset_sd` says how far they may differ, and with it how far the borders may drift. The order is that of
`votes.classes`. A precision below zero turns the scale round: such an annotator is used upside down. A MAP estimate; cost
per iteration O(E S) for S nodes, and memory N S.

References
----------
McCullagh (1980), Regression models for ordinal data, JRSS B 42(2); Uebersax and Grove (1993), A latent trait finite mixture
model for the analysis of rating agreement, Biometrics 49(3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import announce, setting
from crowdwise.kernels.cumulative import Ridge
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.parts.annotators.cumulative import CumulativeLink as Part
from crowdwise.parts.annotators.cumulative import label_habits

__all__ = ["CumulativeLink"]

# Of a fit, per vote and node: some two hundred iterations.
_OPERATIONS = 8000.0


@dataclass(eq=False, repr=False, kw_only=True)
class CumulativeLink(IterativeAggregator):
    """A common scale, and per annotator thresholds on it and noise; for ordered classes."""

    nodes: int = setting(
        30,
        "About how many nodes the scale has: every class gets an odd number, three or more; 1 puts items amid their class.",
        low=1,
        whole=True,
    )
    smoothing: float | None = setting(
        None, "Pseudo-votes for the right label, per class and annotator; by default 1 / K.", above=0, optional=True
    )
    offset_sd: float = setting(
        1.0, "How far thresholds of annotators differ from the common ones, in units of their noise.", above=0
    )
    slope: float = setting(3.0, "Typical precision: one over the noise of an annotator, in classes.", above=0)
    slope_sd: float = setting(2.0, "Spread of the precision among annotators.", above=0)

    careless: float = setting(1.0, "Pseudo-count of careless votes per annotator (Beta prior).", above=0)
    careful: float = setting(9.0, "Pseudo-count of careful votes per annotator (Beta prior).", above=0)

    name: ClassVar[str] = "cumulative-link"

    def _fit(self, problem: Problem) -> Fit:
        votes = problem.votes
        n_classes = votes.n_classes
        pseudo = (1 / n_classes if self.smoothing is None else self.smoothing) * np.eye(n_classes)[None]
        if problem.history is not None:
            pseudo = pseudo + problem.history
        per_class = 1 if self.nodes == 1 else max(self.nodes // n_classes // 2 * 2 + 1, 3)
        n_nodes = per_class * n_classes
        announce(
            self.name,
            operations=_OPERATIONS * votes.n_votes * n_nodes,
            memory=4.0 * 8 * n_nodes * (votes.n_items + votes.n_annotators * n_classes),
            advice="use ordinal-binary, or set nodes=1",
        )
        ridge = Ridge(self.offset_sd, self.slope, self.slope_sd)
        model = Part.start(pseudo, label_habits(votes), per_class, ridge, self.careless, self.careful)
        return self.alternate(problem, problem.marginals(pseudo_count=1.0), model)
