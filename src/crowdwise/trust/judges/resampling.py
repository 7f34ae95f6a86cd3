"""How much a fit to so few items overstates: votes drawn from the model, and the model fitted to them again.

Of a panel, each fit states an accuracy, and its labels have one under the model that the votes were drawn from. The mean
difference is what the first fit states too much, as far as the model is right, and the standard deviation of the differences
is that of the statement: a parametric bootstrap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import SingleAnswers, answers_of
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.judges.cells import Cells
from crowdwise.trust.judges.model import JudgeModel, Level

__all__ = ["Resamples", "drawn", "drawn_answers", "with_people"]

# Items on which labels of the fits are compared with the truth: a standard error of half a point.
_FRESH = 4_096


@dataclass(frozen=True, eq=False)
class Resamples:
    """Models fitted to drawn votes, and answers of all judges to fresh items with their truth, [D, A] and [D]."""

    models: tuple[JudgeModel, ...]
    answers: Integers
    truth: Integers

    @classmethod
    def of(cls, model: JudgeModel, votes: Annotations, n: int, seed: int = 0) -> Resamples:
        """Draw votes n times, each by whom and on what there are votes, with gold where there is gold."""
        rng = np.random.default_rng(seed)
        given, models = answers_of(votes), []
        for _ in range(n):
            label, truth = drawn_answers(model, given.item, given.annotator, votes.n_items, rng)
            codes = given.item, given.annotator, label, votes.items, votes.annotators, votes.classes
            gold = None if votes.gold is None else np.where(votes.gold >= 0, truth, -1).astype(np.int16)
            again = Annotations.from_codes(*codes, None, gold)
            models.append(JudgeModel.fit(again, model.codes, model.posterior(again))[0])
        return cls(tuple(models), *drawn(model, _FRESH, seed + 1))

    def of_judges(self, judges: Integers) -> Resamples:
        """The same of these judges alone."""
        return replace(self, models=tuple(model.of(judges) for model in self.models), answers=self.answers[:, judges])

    def with_people(self, confusion: Floats, n: int, seed: int = 0) -> Resamples:
        """With n more judges, who are independent and have one confusion matrix, [K, K], which is taken as known."""
        rng = np.random.default_rng(seed)
        said = np.column_stack([_picked(confusion[self.truth], rng) for _ in range(n)])
        models = tuple(with_people(model, confusion, n) for model in self.models)
        return replace(self, models=models, answers=np.column_stack([self.answers, said]))


def drawn(model: JudgeModel, n: int, seed: int = 0) -> tuple[Integers, Integers]:
    """Answers of all judges to n items of the model, [n, A], and the classes of these, [n]."""
    item, judge = np.repeat(np.arange(n), model.n_judges), np.tile(np.arange(model.n_judges), n)
    label, truth = drawn_answers(model, item, judge, n, np.random.default_rng(seed))
    return label.reshape(n, model.n_judges), truth


def drawn_answers(
    model: JudgeModel, item: Integers, judge: Integers, n_items: int, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Labels that these judges give to these items, [E], and the classes of all items, [n_items]."""
    state = rng.choice(len(model.prior_s), size=n_items, p=model.prior_s / model.prior_s.sum())
    nowhere = np.zeros((len(item), 0))
    cells = Cells.of(SingleAnswers(item, judge, nowhere, model.n_judges, 0, nowhere), model.codes, n_items)
    answer = _picked(model.levels[-1].own[cells.nodes[-1], state[cells.items[-1]]], rng)
    for d in reversed(range(len(model.levels) - 1)):
        level, node = model.levels[d], cells.nodes[d]
        own = _picked(level.own[node, state[cells.items[d]]], rng)
        answer = np.where(rng.random(len(node)) < level.lam[node], answer[cells.above[d]], own)
    return answer, state % model.n_classes


def with_people(model: JudgeModel, confusion: Floats, n: int) -> JudgeModel:
    """The model with n more judges, who are independent and have one confusion matrix, [K, K], on hard items too."""
    many = np.repeat(np.concatenate([confusion, confusion])[None], n, axis=0)
    more = [len(level.lam) + np.arange(n) for level in model.levels[1:]]
    levels = [Level(np.append(level.lam, np.zeros(n)), np.concatenate([level.own, many])) for level in model.levels]
    return replace(model, codes=np.column_stack([model.codes, more]), levels=tuple(levels))


def _picked(rows: Floats, rng: np.random.Generator) -> Integers:
    """One entry of every row, by its probability."""
    return np.asarray((rng.random(len(rows))[:, None] > np.cumsum(rows, axis=1)[:, :-1]).sum(axis=1))
