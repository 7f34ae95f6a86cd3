"""Sums over answers that choose several labels, without a row for every label that was not chosen.

Most labels are left out of most answers. What leaving out says depends on the annotator and the label alone, so it is summed
by a sparse product over (item, annotator); only what is said by name is corrected one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from crowdwise.data.label_sets import LabelSets
from crowdwise.kernels.numerics import ratio, segment_sum
from crowdwise.kernels.types import Floats

__all__ = ["Evidence"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Answers, made ready for sums: `left_out` [N, A] counts complete answers."""

    answers: LabelSets
    left_out: csr_array

    @classmethod
    def of(cls, answers: LabelSets) -> Evidence:
        """Prepare."""
        whole = answers.complete
        shape = (answers.n_items, answers.n_annotators)
        counts = csr_array((np.ones(whole.sum()), (answers.item[whole], answers.annotator[whole])), shape=shape)
        return cls(answers, counts)

    def log_lik(self, log_chosen_al: Floats, log_refused_al: Floats) -> Floats:
        """Log-probability of what is said of every item and label, [N, K]."""
        answers = self.answers
        total = np.asarray(self.left_out @ log_refused_al)
        who, what = answers.annotator[answers.answer], answers.label
        refused = log_refused_al[who, what]
        named = np.where(answers.chosen, log_chosen_al[who, what], refused)
        # A complete answer was counted as if it had left everything out.
        named -= np.where(answers.complete[answers.answer], refused, 0.0)
        cell = answers.item[answers.answer].astype(np.int64) * answers.n_labels + what
        return total + segment_sum(cell, named, total.size).reshape(total.shape)

    def counts(self, weight_nl: Floats) -> tuple[Floats, Floats]:
        """Sums of `weight_nl` over answers that choose a label, and over all that say anything of it, two of [A, K]."""
        answers = self.answers
        who, what = answers.annotator[answers.answer].astype(np.int64), answers.label
        value, cell = weight_nl[answers.item[answers.answer], what], who * answers.n_labels + what
        shape = (answers.n_annotators, answers.n_labels)
        chosen = segment_sum(cell, np.where(answers.chosen, value, 0.0), shape[0] * shape[1]).reshape(shape)
        apart = np.where(answers.complete[answers.answer], 0.0, value)
        asked = np.asarray(self.left_out.T @ weight_nl) + segment_sum(cell, apart, shape[0] * shape[1]).reshape(shape)
        return chosen, asked

    def asked(self) -> Floats:
        """Number of answers that say anything of a label of an item, [N, K]."""
        ones = np.ones((self.answers.n_annotators, self.answers.n_labels))
        return self.log_lik(ones, ones)

    def shares(self) -> Floats:
        """Share of the answers on an item that choose a label, [N, K]; the label's overall share where nothing is said."""
        answers = self.answers
        ones = np.ones((answers.n_annotators, answers.n_labels))
        asked, chosen = self.asked(), self.log_lik(ones, 0 * ones)
        overall = (chosen.sum(axis=0) + 0.5) / (asked.sum(axis=0) + 1)
        return ratio(chosen, asked, overall)
