"""What an online method remembers: votes in the order of their arrival, posteriors, and the counts they add up to.

Everything is appended to: an update never moves what is there, except when an array has run out of room and is copied, or when
a class appears that nobody has used before. Votes hang on their items as linked lists (see `crowdwise.methods.online.loops`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import translate, union
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.storage import npy_bytes
from crowdwise.io.limits import npy_of
from crowdwise.kernels.types import Array, Floats, Integers
from crowdwise.methods.online.loops import append, recount
from crowdwise.methods.online.records import Arrays, Memory
from crowdwise.methods.online.vocabulary import Vocabulary

__all__ = ["State"]


_VOTES, _ITEMS, _ANNOTATORS = "votes", "items", "annotators"
# Arrays that grow: along what, their type, and what fresh room holds.
_GROWING: dict[str, tuple[str, Any, int]] = {
    "before": (_VOTES, np.int64, -1),
    "annotator": (_VOTES, np.int32, 0),
    "label": (_VOTES, np.int16, 0),
    "weight": (_VOTES, np.float64, 1),
    "turn": (_VOTES, np.int32, 0),
    "item": (_VOTES, np.int32, 0),
    "head": (_ITEMS, np.int64, -1),
    "known": (_ITEMS, np.int16, -1),
    "arrival": (_ITEMS, np.int32, 0),
    "posterior": (_ITEMS, np.float64, 0),
    "counts": (_ANNOTATORS, np.float64, 0),
    "totals": (_ANNOTATORS, np.float64, 0),
    "used": (_ANNOTATORS, np.float64, 0),
    "turns": (_ANNOTATORS, np.int32, 0),
}
# What a saved state holds beside the votes and ids of its result; the lists are made again.
_SAVED = ("annotator", "label", "weight", "turn", "item", "known", "arrival", "posterior", "counts", "totals", "used", "turns")
# Arrays up to this length double; longer ones gain an eighth.
_SMALL = 4096
_DOCUMENT, _FOLDER, _VERSION = "online.json", "online/", 1


class State:
    """Votes, ids, posteriors and counts, all growing.

    Attributes
    ----------
    items, annotators : Vocabulary
    classes : [K]
    arrays : Arrays
        With room beyond what is used; `used` gives one of them without.
    n_votes, n_missing, n_updates, cursor : int
        `cursor` is the item that is revisited next.
    past : [A, L, K] or None
        Sums over time that can no longer be found from votes, which lie in shards (see `crowdwise.methods.online.sharded`).
    """

    def __init__(self, classes: Array) -> None:
        n_classes = len(classes)
        self.items, self.annotators, self.classes = Vocabulary(), Vocabulary(), classes
        self.n_votes = self.n_missing = self.n_updates = self.cursor = 0
        self.past: Floats | None = None
        tails = {"posterior": (n_classes,), "counts": (n_classes, n_classes), "totals": (n_classes,), "used": (n_classes,)}
        made: dict[str, Any] = {name: np.empty((0, *tails.get(name, ())), kind) for name, (_, kind, _) in _GROWING.items()}
        self.arrays = Arrays(**made, shares=np.zeros(n_classes), clock=np.zeros(1, np.int64))

    @classmethod
    def without_votes(cls, classes: Array, annotators: Array) -> State:
        """A state that knows annotators and has seen no vote."""
        state = cls(classes)
        state.annotators.add(annotators)
        state._make_room(weighted=False)
        return state

    # -- sizes and views -----------------------------------------------------------------------

    def _size(self, along: str) -> int:
        return {_VOTES: self.n_votes, _ITEMS: len(self.items), _ANNOTATORS: len(self.annotators)}[along]

    def used(self, name: str) -> Array:
        """One of the growing arrays without the room behind it."""
        array: Array = getattr(self.arrays, name)
        return array[: self._size(_GROWING[name][0])]

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays, room included; ids come on top."""
        return sum(array.nbytes for array in self.arrays)

    # -- growing -------------------------------------------------------------------------------

    def add(self, votes: Annotations) -> Integers:
        """Append votes with their items, annotators and classes; return the items to visit, each once."""
        self._widen(votes.classes)
        item, annotator = self.items.add(votes.items), self.annotators.add(votes.annotators)
        label = translate(votes.classes, self.classes)
        start, self.n_votes = self.n_votes, self.n_votes + votes.n_votes
        self.n_missing += votes.n_missing
        self._make_room(weighted=votes.weight is not None)
        arrays, new = self.arrays, slice(start, self.n_votes)
        arrays.item[new] = item[votes.item]
        arrays.annotator[new] = annotator[votes.annotator]
        arrays.label[new] = label[votes.label]
        if len(arrays.weight):
            arrays.weight[new] = 1.0 if votes.weight is None else votes.weight
        append(start, self.n_votes, arrays)
        news = np.empty(0, np.int64)
        if votes.gold is not None:
            given = np.flatnonzero(votes.gold >= 0)
            news = self.set_known(item[given], label[votes.gold[given]])
        # A vote that weighs nothing says nothing, and does not make an item one that was voted on.
        voted = arrays.item[new] if votes.weight is None else arrays.item[new][votes.weight > 0]
        return np.unique(np.concatenate([voted.astype(np.int64), news]))

    def set_known(self, items: Integers, classes: Integers) -> Integers:
        """Set the known classes of items; return those for which that is news."""
        news = self.arrays.known[items] != classes
        self.arrays.known[items] = classes
        return np.asarray(items[news], np.int64)

    def _widen(self, classes: Array) -> None:
        """Give classes that were never used a place behind the others."""
        wider = union([self.classes, classes], sort=False)
        if len(wider) == len(self.classes):
            return
        more, arrays = len(wider) - len(self.classes), self.arrays
        self.classes = wider
        self.arrays = arrays._replace(
            posterior=np.pad(arrays.posterior, ((0, 0), (0, more))),
            counts=np.pad(arrays.counts, ((0, 0), (0, more), (0, more))),
            totals=np.pad(arrays.totals, ((0, 0), (0, more))),
            used=np.pad(arrays.used, ((0, 0), (0, more))),
            shares=np.pad(arrays.shares, (0, more)),
        )

    def _make_room(self, weighted: bool) -> None:
        """Lengthen every array that is too short, and one that soon will be: all of them at once would hold up an update.

        Weights take no room while every vote weighs one.
        """
        grown: dict[str, Any] = {}
        weighted = weighted or len(self.arrays.weight) > 0
        for name, (along, _, fill) in _GROWING.items():
            array, size = getattr(self.arrays, name), self._size(along)
            soon = not grown and len(array) < size + size // 16
            if (len(array) < size or soon) and (name != "weight" or weighted):
                longer = np.empty((size + max(size // 8, min(size, _SMALL), 16), *array.shape[1:]), array.dtype)
                longer[: len(array)] = array
                longer[len(array) :] = fill
                grown[name] = longer
        self.arrays = self.arrays._replace(**grown)

    # -- to and from results -------------------------------------------------------------------

    def votes(self) -> tuple[Annotations, Integers, Integers]:
        """All votes, and the codes of its items and annotators here: those of a result are sorted."""
        items, annotators = self.items.order(), self.annotators.order()
        weight = self.used("weight") if len(self.arrays.weight) else None
        known = self.used("known")[items]
        made = Annotations.from_codes(
            _inverse(items)[self.used("item")],
            _inverse(annotators)[self.used("annotator")],
            self.used("label"),
            self.items.array()[items],
            self.annotators.array()[annotators],
            self.classes,
            None if weight is None else weight.copy(),
            known if (known >= 0).any() else None,
        )
        return replace(made, n_missing=self.n_missing), items, annotators

    @classmethod
    def from_result(cls, result: Result, memory: Memory) -> State:
        """The state in which every vote of `result` was counted once, with its posterior, in the order of the items."""
        state = cls(result.votes.classes)
        state.add(result.votes)
        arrays = state.arrays
        arrays.posterior[: len(state.items)] = result.model_posterior
        recount(state.n_votes, len(state.items), arrays, memory)
        return state

    def members(self) -> dict[str, bytes]:
        """The state as members of a saved result (see `crowdwise.estimator.storage`), which holds the ids."""
        plain = {name: getattr(self, name) for name in ("n_votes", "n_missing", "n_updates", "cursor")}
        plain |= {"crowdwise": _VERSION, "n_first": [self.items.n_first, self.annotators.n_first]}
        made = {_DOCUMENT: json.dumps(plain).encode()}
        for name in _SAVED:
            if name != "weight" or len(self.arrays.weight):
                made[f"{_FOLDER}{name}.npy"] = npy_bytes(self.used(name))
        for name, array in (("shares", self.arrays.shares), ("clock", self.arrays.clock)):
            made[f"{_FOLDER}{name}.npy"] = npy_bytes(array)
        for name in (_ITEMS, _ANNOTATORS):
            made[f"{_FOLDER}{name}.npy"] = npy_bytes(getattr(self, name).order())
        return made

    @classmethod
    def from_members(cls, result: Result, members: Mapping[str, bytes]) -> State | None:
        """The state that `members` wrote, to the bit; None where there is none."""
        if _DOCUMENT not in members:
            return None
        plain = json.loads(members[_DOCUMENT])
        if plain["crowdwise"] != _VERSION:
            raise ValueError(f"format {plain['crowdwise']}, expected {_VERSION}")
        found = {name.removeprefix(_FOLDER).removesuffix(".npy"): npy_of(c) for name, c in members.items() if name != _DOCUMENT}
        state = cls(result.votes.classes)
        for name, n_first in zip((_ITEMS, _ANNOTATORS), plain["n_first"], strict=True):
            vocabulary, ids = getattr(state, name), getattr(result.votes, name)
            if type(n_first) is not int or not np.array_equal(np.sort(found[name]), np.arange(len(ids))):
                raise ValueError("its arrays contradict each other")
            vocabulary.add(ids[_inverse(found[name])])
            vocabulary.n_first = n_first
        for name in ("n_votes", "n_missing", "n_updates", "cursor"):
            if type(plain[name]) is not int or not 0 <= plain[name] < 2**62:
                raise ValueError(f"{name} is no count")
            setattr(state, name, plain[name])
        if state.n_votes != len(found["annotator"]):
            raise ValueError("its arrays contradict each other")
        state._make_room(weighted="weight" in found)
        for name in _SAVED:
            if name in found:
                _check_alike(found[name], state.used(name))
                state.used(name)[:] = found[name]
        for name in ("shares", "clock"):
            _check_alike(found[name], getattr(state.arrays, name))
        state.arrays = state.arrays._replace(shares=found["shares"], clock=found["clock"])
        state._check()
        append(0, state.n_votes, state.arrays)
        return state

    def _check(self) -> None:
        """Compiled loops trust their indices, so those of a file are checked once here."""
        turns = self.used("turns")
        bounds = {
            "item": (0, len(self.items)),
            "annotator": (0, len(self.annotators)),
            "label": (0, len(self.classes)),
            "known": (-1, len(self.classes)),
            "arrival": (0, int(self.arrays.clock[0]) + 1),
            "turns": (0, self.n_votes + 1),
        }
        sound = self.arrays.shares.shape == (len(self.classes),) and self.arrays.clock.shape == (1,)
        sound = sound and 0 <= self.arrays.clock[0] <= len(self.items)
        for name, (low, stop) in bounds.items():
            values = self.used(name)
            sound = sound and bool(((values >= low) & (values < stop)).all())
        if not sound or not ((self.used("turn") >= 0) & (self.used("turn") <= turns[self.used("annotator")])).all():
            raise ValueError("its arrays contradict each other")


def _inverse(order: Integers) -> Integers:
    """Position of every code in `order`."""
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return inverse


def _check_alike(found: Array, own: Array) -> None:
    """An array of a file has the type and shape of our own, and finite numbers."""
    if found.dtype != own.dtype or found.shape != own.shape or not np.isfinite(found).all():
        raise ValueError("its arrays contradict each other")
