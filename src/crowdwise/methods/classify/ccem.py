"""CCEM: a network and confusion matrices by coupled cross-entropy, alone or with a penalty that makes them identifiable.

    min over theta, R of  -(1/E) sum_e log sum_k f(x_n)_k R_a[k, y_e]  +  penalty,     rows of R_a on the simplex

    registry name    penalty
    ccem             none
    trace-reg        "trace"     + strength x sum_a trace(R_a)
    geocrowdnet-f    "volume-f"  - strength x log det(F F^T / B)         F = class probabilities of the batch, [K, B]
    geocrowdnet-w    "volume-w"  - strength x log det(sum_a R_a R_a^T)   confusion matrices of all annotators

Notes
-----
The trace is *minimised*: if the average matrix is diagonally dominant and the votes are fitted exactly, the noisiest matrices
that explain them are the true ones. Where the fit is not exact the penalty biases the matrices towards noise, hence the small
default, and a start without it. Volume F needs no expert annotators, but many items, some of them clear-cut; it is largest for
confident and *equally frequent* classes: under imbalance set ``balanced=False``, which removes that pull (without the proof of
identifiability), or a smaller strength. Volume W needs annotators who are experts of their class, and few items.

References
----------
Ibrahim, Nguyen and Fu (2023), Deep learning from crowdsourced labels: coupled cross-entropy minimization, identifiability, and
regularization, ICLR. Tanno, Saeedi, Sankaranarayanan, Alexander and Silberman (2019), Learning from noisy labels by regularized
estimation of annotator confusion, CVPR.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.parts.heads.confusion import ConfusionHead, Penalty
from crowdwise.parts.heads.penalties import ConfusionVolume, PredictionVolume, Trace

__all__ = ["CCEM"]

_NAMES = {None: "ccem", "trace": "trace-reg", "volume-f": "geocrowdnet-f", "volume-w": "geocrowdnet-w"}
# Weight, epochs before the penalty and epochs over which it grows, where they are not set.
_DEFAULTS = {"trace": (1e-3, 10, 0), "volume-f": (0.1, 5, 5), "volume-w": (1e-2, 5, 5)}


@dataclass(eq=False, repr=False, kw_only=True)
class CCEM(NeuralClassifier):
    """Network x confusion matrices, coupled cross-entropy, with or without a penalty."""

    likelihood: str = setting(
        "votes",
        "votes: every vote on its own, as published; items: the votes of an item share its label.",
        choices=("votes", "items"),
    )
    penalty: str | None = setting(
        None,
        "None, trace (smallest trace of the matrices), volume-f (largest volume of the predictions) or volume-w (of the "
        "matrices).",
        choices=tuple(_DEFAULTS),
        optional=True,
    )
    strength: float | None = setting(
        None,
        "Weight of the penalty; by default 0.001 for the trace (summed over annotators), 0.1 for volume-f, 0.01 for volume-w.",
        low=0,
        optional=True,
    )
    penalty_from: int | None = setting(
        None,
        "Epochs before the penalty begins; by default 10 for the trace, 5 for volumes.",
        low=0,
        whole=True,
        optional=True,
    )
    rise: int | None = setting(
        None,
        "Epochs over which the penalty grows; by default 0 for the trace, 5 for volumes.",
        low=0,
        whole=True,
        optional=True,
    )
    balanced: bool = setting(True, "With volume-f: prefer classes of equal size, as published.")

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in the registry, which the penalty decides."""
        return _NAMES[self.penalty]

    def _head(self, votes: Annotations, start: Start) -> ConfusionHead:
        return ConfusionHead(start.confusion, self._penalties(votes), likelihood=self.likelihood)

    def _penalties(self, votes: Annotations) -> list[Penalty]:
        given = (self.strength, self.penalty_from, self.rise)
        if self.penalty is None:
            if given != (None, None, None):
                raise SettingError(
                    "strength, penalty_from and rise belong to a penalty; set penalty to trace, volume-f or volume-w"
                )
            return []
        strength, begin, rise = (
            default if own is None else own for own, default in zip(given, _DEFAULTS[self.penalty], strict=True)
        )
        begin, rise = int(begin), int(rise)
        if self.penalty == "trace":
            return [Trace(strength, begin, rise)]
        if self.penalty == "volume-w":
            return [ConfusionVolume(strength, begin, rise)]
        # A Gram matrix of fewer than some ten rows per class is mostly noise, and singular below one.
        rows = min(self.batch_size, votes.n_items)
        if rows < 2 * votes.n_classes:
            warnings.warn(
                f"batches of {rows} items are small for the volume of {votes.n_classes} classes; "
                f"set batch_size to {10 * votes.n_classes} or more",
                DataWarning,
                stacklevel=5,
            )
        return [PredictionVolume(strength, begin, rise, balanced=self.balanced)]
