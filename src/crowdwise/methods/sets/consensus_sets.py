"""Consensus of sets: every label is a yes-no question, and every question gets the consensus of its votes.

Votes      an answer votes 1 on the labels that it chooses and 0 on those that it rules out
Labels     `consensus` of every label, with class shares, annotators and discriminations of its own
Confidence as in `consensus`, with the votes on the label, and not across its share: see `crowdwise.methods.sets.believed`

Notes
-----
In `consensus`, whoever does not attend answers by habit, so that a label that is rarely chosen is rarely chosen by mistake. A
model whose annotators make false alarms at some typical rate takes the few votes for a rare label for these. Nothing is shared
between labels and nothing is to be set. Cost: that of `consensus` times the number of labels.

References
----------
See `crowdwise.methods.labels.consensus`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.data.label_sets import LabelSets
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.estimator import Estimator, announce, setting
from crowdwise.estimator.experience import CONFIDENCES
from crowdwise.kernels.types import Array
from crowdwise.methods.labels.consensus import Consensus
from crowdwise.methods.sets.believed import on_its_side
from crowdwise.methods.sets.result import InferredSets

if TYPE_CHECKING:
    from typing_extensions import Never, Self

    from crowdwise.engines.loop import Progress

__all__ = ["ConsensusSets"]


@dataclass(eq=False, repr=False, kw_only=True)
class ConsensusSets(Estimator):
    """Sets of labels by the consensus on every label, with a confidence that experience with real crowds supports.

    Examples
    --------
    >>> answers = LabelSets.from_arrays(["x", "x", "x", "y"], ["ann", "bob", "cleo", "ann"], ["cat|dog", "cat", "cat", "dog"])
    >>> [sorted(labels) for labels in ConsensusSets().fit(answers).result_.sets]
    [['cat'], ['dog']]
    """

    threshold: float = setting(0.5, "Probability from which a label is chosen.", above=0)
    confidence: str = setting(
        "experience", "What probabilities rest on: experience with real crowds, or the models alone.", choices=CONFIDENCES
    )
    max_iter: int = setting(100, "Most rounds of a member of the consensus on a label.", low=1, whole=True)
    tol: float = setting(1.5e-4, "Stop a member when the mean change of an item's probabilities is below this.", above=0)

    name: ClassVar[str] = "consensus-sets"

    def fit(
        self,
        data: Any,
        gold: Any = None,
        *,
        history: Any = None,
        progress: Progress | None = None,
        engine: Any = None,
        **other: Never,
    ) -> Self:
        """Fit to sets of labels.

        Parameters
        ----------
        data : LabelSets or frame
            A frame is one that `LabelSets.from_frame` takes. Known sets come with `LabelSets.with_gold`.
        gold, history, engine
            This method takes none of these yet.
        progress : callable, optional
            Called after every round of every label with (round, evidence, mean change).
        """
        self._check_fit(other, gold=gold, history=history, engine=engine)
        if not 0 < self.threshold < 1:
            raise SettingError(f"ConsensusSets: threshold must lie between 0 and 1; got {self.threshold!r}")
        answers = data if isinstance(data, LabelSets) else LabelSets.from_frame(data)
        if answers.n_labels == 0:
            raise InputError("no label is named in any answer; give all of them with labels=... or --classes")
        work = float(answers.n_votes) * answers.n_labels
        announce(self.name, operations=20000.0 * work, memory=60.0 * answers.n_votes, advice="use label-wise")
        model = Consensus(confidence=self.confidence, max_iter=self.max_iter, tol=self.tol)
        # A label at a time: the votes on all of them need not be in memory together.
        parts = [model.fit(answers.binary(k), progress=progress).result_ for k in range(answers.n_labels)]
        inferred = np.column_stack([part.model_posterior[:, 1] for part in parts])
        believed = np.column_stack([part.posterior[:, 1] for part in parts])
        share, lowered = np.array([part.class_prior[1] for part in parts]), self.confidence == "experience"
        rounds = {"votes": np.concatenate([part.trace["votes"] for part in parts])}
        self.result_ = InferredSets.of_labels(
            answers,
            self.threshold,
            inferred=inferred,
            probability=on_its_side(believed, inferred, share) if lowered else inferred,
            confidence_source="experience" if lowered else "model",
            method=self.name,
            settings=self.get_params(),
            trace=rounds,
            n_iter=len(rounds["votes"]),
            converged=all(part.converged for part in parts),
            sensitivity=np.column_stack([part.confusion[:, 1, 1] for part in parts]),
            specificity=np.column_stack([part.confusion[:, 0, 0] for part in parts]),
            share=share,
        )
        return self

    @property
    def classes_(self) -> Array:
        """The labels, [K]."""
        labels: Array = self._fitted().votes.labels
        return labels
