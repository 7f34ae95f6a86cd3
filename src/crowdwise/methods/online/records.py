"""What the compiled loops read and write, as named tuples of arrays: the one form of a record that they take."""

from __future__ import annotations

from typing import NamedTuple

from crowdwise.kernels.types import Floats, Integers

__all__ = ["Arrays", "Memory", "Rules"]


class Arrays(NamedTuple):
    """The growing arrays of a state; beyond the used part they hold room for more.

    before, annotator, label, weight, turn : [E]   votes; `weight` is empty while every vote weighs one
    item : [E]                                     item of every vote
    head, known, arrival : [N]                     latest vote, known class or -1, turn of the item (0: never counted)
    posterior : [N, K]                             of the last visit
    counts : [A, L, K], totals : [A, K]            weighted expected counts, and their sums over the observed label
    used : [A, L]                                  weighted votes for each label
    turns : [A]                                    votes of each annotator
    shares : [K], clock : [1]                      weighted expected items per class, and items counted
    """

    before: Integers
    annotator: Integers
    label: Integers
    weight: Floats
    turn: Integers
    item: Integers
    head: Integers
    known: Integers
    arrival: Integers
    posterior: Floats
    counts: Floats
    totals: Floats
    used: Floats
    turns: Integers
    shares: Floats
    clock: Integers


class Memory(NamedTuple):
    """Weights by turn, for votes and for items; empty tables mean one each, for ever."""

    gain: Floats
    fade: Floats
    item_gain: Floats
    item_fade: Floats


class Rules(NamedTuple):
    """How counts become evidence.

    expected_logs   E log pi of Dirichlet rows with parameters prior + counts; else log of rows (counts + prior / turns)
    hold            items before which the counts are not believed yet
    prior : [L, K], prior_total : [K]              pseudo-votes of every annotator
    own             further pseudo-votes of every row, which follow the annotator's own use of the labels
    history : [A or 0, L, K], history_total        those of single annotators
    class_prior : [K]                              pseudo-items
    fixed : [K or 0]                               log class shares, where they are given
    """

    expected_logs: bool
    hold: int
    own: float
    prior: Floats
    prior_total: Floats
    history: Floats
    history_total: Floats
    class_prior: Floats
    fixed: Floats
