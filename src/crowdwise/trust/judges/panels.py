"""What a panel of judges is worth: its expected accuracy, in human votes, and the cheapest one that is good enough.

The expected accuracy of a panel S is that of the best label given its answers, under a `JudgeModel`:

    sum over v_S of max_k p_k P(v_S | k)

P(v_S | k) keeps what families share. Up to `EXACT` patterns of answers are enumerated; larger panels take the mean of
max_k P(k | v_S) over `DRAWS` patterns drawn from the model with a fixed seed, the same for all panels, so that differences
between panels are not those of the draws. A fit to few items takes its own errors for skill, and states too much; `Resamples`
say how much, and it is subtracted; from their scatter comes what the accuracy is at least in nine of ten draws (`Panel.low`),
by Student's distribution of a further one. Draws know nothing of how far the model itself is off. A panel of n people with one
confusion matrix is enumerated by how many gave each label.

`cheapest` looks at all panels in the order of their price, where these are at most `MOST_PANELS`. Beyond, it adds the judge
with most accuracy per price, and then leaves out whom it does not need: good, not surely the cheapest. `best` likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement
from math import lgamma

import numpy as np
from scipy.special import stdtrit

from crowdwise.data.meetings import SingleAnswers
from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.judges.cells import Cells, log_sum
from crowdwise.trust.judges.model import JudgeModel
from crowdwise.trust.judges.resampling import Resamples, drawn

__all__ = ["DRAWS", "EXACT", "MOST_PANELS", "MOST_PEOPLE", "Panel", "Panels", "accuracy_of_people", "in_human_votes"]

EXACT, DRAWS, MOST_PANELS = 4_096, 4_096, 1_024
# Votes of people that a panel is compared with at most.
MOST_PEOPLE = 25
# Two accuracies closer than this are one; those by draws may be off by this.
_SAME, _LUCK = 1e-9, 0.01
# In nine of ten draws.
_SURE = 0.9


@dataclass(frozen=True)
class Panel:
    """Codes of the judges, what a label by them costs, and its expected accuracy.

    `sd` is its standard deviation, `low` what it is at least in nine of ten draws; both NaN where they are not known.
    """

    members: tuple[int, ...]
    price: float
    accuracy: float
    sd: float = float("nan")
    low: float = float("nan")


class Panels:
    """Panels of the judges of a model; every accuracy is computed once.

    Parameters
    ----------
    model : JudgeModel
    price : [A]
        Of one vote of every judge; ones, if there are no prices.
    n_alike : int
        The last so many judges are alike (`with_people`), so that of panels with equally many of them one is looked at.
    resamples : Resamples, optional
        Fits to votes drawn from the model, of the same judges.
    measure : function, optional
        From codes of judges to their expected accuracy, where it is not that of single labels: of soft votes.
    """

    def __init__(
        self,
        model: JudgeModel,
        price: Floats | None = None,
        n_alike: int = 0,
        resamples: Resamples | None = None,
        measure: Callable[[tuple[int, ...]], float] | None = None,
    ) -> None:
        self.model, self.resamples, self.measure = model, resamples, measure
        self.price = np.ones(model.n_judges) if price is None else price
        self.n_alike = n_alike
        self._accuracy: dict[tuple[int, ...], float] = {}
        self._corrected: dict[tuple[int, ...], tuple[float, float]] = {}
        self._drawn: Integers | None = None

    def panel(self, members: Sequence[int]) -> Panel:
        """The panel of these judges, with its accuracy as the model has it."""
        chosen = tuple(sorted(int(a) for a in members))
        if chosen not in self._accuracy:
            self._accuracy[chosen] = self._expected(chosen)
        return Panel(chosen, float(self.price[list(chosen)].sum()), self._accuracy[chosen])

    def corrected(self, panel: Panel) -> Panel:
        """The same with what fits to drawn votes state too much subtracted, and its standard deviation; see `Resamples`."""
        if self.resamples is None or not self.resamples.models:
            return panel
        if panel.members not in self._corrected:
            again = [Panels(model) for model in self.resamples.models]
            answers, truth = self.resamples.answers[:, list(panel.members)], self.resamples.truth
            said, labels = zip(*(of._weighed(panel.members, answers) for of in (self, *again)), strict=True)
            own, *theirs = ((label == truth).mean() for label in labels)
            # Against the labels of this model on the same items, so that the luck of these items cancels.
            stated = np.array(said[1:]) - self.panel(panel.members).accuracy
            over = stated - (np.array(theirs) - own)
            self._corrected[panel.members] = max(float(np.mean(over)), 0.0), float(np.std(over, ddof=1))
        bias, sd = self._corrected[panel.members]
        # Never below the most frequent class, which takes no judge.
        least = float(self.model.prior_k.max())
        accuracy = max(self.panel(panel.members).accuracy - bias, least)
        n = len(self.resamples.models)
        low = max(accuracy - sd * float(stdtrit(n - 1, _SURE)) * np.sqrt(1 + 1 / n), least)
        return replace(panel, accuracy=accuracy, sd=sd, low=low)

    def best(self, size: int) -> Panel:
        """The most accurate panel of so many judges, the cheaper of equal ones; of too many judges grown one by one."""
        if self._few:
            found = [self.panel(who) for who in self._subsets() if len(who) == size]
        else:
            held = self.best(size - 1).members if size > 1 else ()
            found = [self.panel((*held, a)) for a in range(self.model.n_judges) if a not in held]
        return min(found, key=lambda panel: (-round(panel.accuracy, 9), panel.price, panel.members))

    def cheapest(self, target: float, *, sure: bool = False) -> Panel | None:
        """The cheapest panel whose expected accuracy reaches the target, the more accurate of equal ones; None if none does.

        With `sure`, the cheapest that reaches it in nine of ten draws (`Panel.low`).
        """
        if self.panel(range(self.model.n_judges)).accuracy < target - _LUCK:
            # Nobody makes the best label less accurate, so that no other panel reaches it either.
            return None
        if not self._few:
            return self._grown(target, sure)
        reached: list[Panel] = []
        for members in self._by_price():
            price = float(self.price[list(members)].sum())
            if reached and price > reached[0].price + _SAME:
                break
            panel = self.panel(members)
            if self._reaches(panel, target, sure):
                reached.append(self.corrected(panel))
        return max(reached, key=lambda panel: (round(panel.accuracy, 9), -len(panel.members)), default=None)

    @property
    def _few(self) -> bool:
        """Whether all panels can be looked at."""
        return 2.0 ** (self.model.n_judges - self.n_alike) * (self.n_alike + 1) <= MOST_PANELS

    def _subsets(self) -> Iterator[tuple[int, ...]]:
        """All panels; of those with equally many judges who are alike, one."""
        single = self.model.n_judges - self.n_alike
        for size in range(single + 1):
            for who in combinations(range(single), size):
                for alike in range(self.n_alike + 1):
                    if size + alike:
                        yield (*who, *range(single, single + alike))

    def _by_price(self) -> list[tuple[int, ...]]:
        return sorted(self._subsets(), key=lambda who: (float(self.price[list(who)].sum()), len(who), who))

    def _reaches(self, panel: Panel, target: float, sure: bool) -> bool:
        """Whether a panel is good enough; what the model alone says is looked at first, for it takes no resamples."""
        if panel.accuracy < target:
            return False
        found = self.corrected(panel)
        return (found.low if sure else found.accuracy) >= target

    def _grown(self, target: float, sure: bool) -> Panel | None:
        held: tuple[int, ...] = ()
        now = float(self.model.prior_k.max())
        while not held or not self._reaches(self.panel(held), target, sure):
            if len(held) == self.model.n_judges:
                return None
            rest = [a for a in range(self.model.n_judges) if a not in held]
            gain = {a: (self.panel((*held, a)).accuracy - now) / max(self.price[a], _SAME) for a in rest}
            held = (*held, max(rest, key=lambda a: gain[a]))
            now = self.panel(held).accuracy
        for a in sorted(held, key=lambda a: -self.price[a]):
            without = tuple(b for b in held if b != a)
            if without and self._reaches(self.panel(without), target, sure):
                held = without
        return self.corrected(self.panel(held))

    def _expected(self, members: tuple[int, ...]) -> float:
        """The expected accuracy of the best label given the answers of these judges."""
        if self.measure is not None:
            return self.measure(members)
        log_pk = self._patterns(members)
        if log_pk is not None:
            return float(np.exp(log_pk.max(axis=1)).sum())
        if self._drawn is None:
            self._drawn = drawn(self.model, DRAWS)[0]
        log_pk = self.log_joint(members, self._drawn[:, list(members)])
        return float(np.exp(log_pk.max(axis=1) - log_sum(log_pk)).mean())

    def _weighed(self, members: tuple[int, ...], answers: Integers) -> tuple[float, Integers]:
        """The expected accuracy of a panel, and the best labels by answers of it, [D]."""
        log_pk = self._patterns(members)
        if log_pk is None:
            return self._expected(members), self.log_joint(members, answers).argmax(axis=1)
        pattern = np.ravel_multi_index(tuple(answers.T), (self.model.n_classes,) * len(members))
        return float(np.exp(log_pk.max(axis=1)).sum()), log_pk.argmax(axis=1)[pattern]

    def _patterns(self, members: tuple[int, ...]) -> Floats | None:
        """log P(k, answers) of all patterns of answers, [P, K], where they can be enumerated."""
        shape = (self.model.n_classes,) * len(members)
        if float(self.model.n_classes) ** len(members) > EXACT:
            return None
        return self.log_joint(members, np.stack([index.ravel() for index in np.indices(shape)], axis=1))

    def log_joint(self, members: tuple[int, ...], answers: Integers) -> Floats:
        """log P(k, answers) of every row of answers of these judges, [P, K]."""
        model, size = self.model.of(np.array(members, np.int64)), len(members)
        given = SingleAnswers(
            np.repeat(np.arange(len(answers)), size),
            np.tile(np.arange(size), len(answers)),
            answers.ravel(),
            size,
            model.n_classes,
            np.ones(answers.size),
        )
        cells = Cells.of(given, model.codes, len(answers))
        log_ps = model.scores(cells, model.upward(cells).log_ms)
        return np.logaddexp(log_ps[:, : model.n_classes], log_ps[:, model.n_classes :])


def accuracy_of_people(prior_k: Floats, confusion: Floats, n: int) -> float:
    """Expected accuracy of the best label by n independent votes with one confusion matrix, [K, K]; exact."""
    n_classes = len(prior_k)
    answers = np.array(list(combinations_with_replacement(range(n_classes), n)), np.int64).reshape(-1, n)
    count_pl = (answers[:, :, None] == np.arange(n_classes)).sum(axis=1)
    ways = np.array([lgamma(n + 1) - sum(lgamma(c + 1) for c in row) for row in count_pl.tolist()])
    log_pk = log_floored(prior_k) + count_pl @ log_floored(confusion).T
    return float(np.exp(ways + log_pk.max(axis=1)).sum())


def in_human_votes(accuracy: float, prior_k: Floats, confusion: Floats) -> float:
    """How many independent human votes are expected to be as accurate; infinity beyond `MOST_PEOPLE`.

    Between two numbers of votes by a straight line. A vote that cannot change the label, as the second of two between two
    classes, counts only with the next.
    """
    votes, reached = 0, float(prior_k.max())
    if accuracy <= reached + _SAME:
        return 0.0
    for n in range(1, _most_people(len(prior_k)) + 1):
        by_people = accuracy_of_people(prior_k, confusion, n)
        if accuracy <= by_people + _SAME:
            return votes + (n - votes) * (accuracy - reached) / (by_people - reached)
        if by_people > reached + _SAME:
            votes, reached = n, by_people
    return float("inf")


def _most_people(n_classes: int) -> int:
    """So many votes that counts of labels can still be enumerated."""
    n, patterns = 1, float(n_classes)
    while n < MOST_PEOPLE and patterns < 20_000:
        n += 1
        patterns *= (n_classes + n - 1) / n
    return n
