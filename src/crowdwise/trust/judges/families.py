"""Which judges belong together, and their votes as one each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import answers_of
from crowdwise.kernels.types import Flags, Integers
from crowdwise.trust.crowd.fusion import joined

__all__ = ["PEOPLE", "Families", "by_code", "by_name", "decided", "one_vote_each"]

# Families that are people where nobody says who is.
PEOPLE = ("people", "human", "humans")


@dataclass(frozen=True, eq=False)
class Families:
    """Family of every annotator, groups within families, and who is a person.

    Attributes
    ----------
    code : [A]
        Family of every annotator; whoever stands alone, and every person, has one of their own.
    name : [A]
        Its name; "" for those who stand alone.
    person : [A]
        Whether the annotator is a person: independent of all others, and what human votes are measured by.
    inner, inner_name : tuple of [A]
        The same of groups within families, such as prompts of one model, the smallest groups first.
    """

    code: Integers
    name: list[str]
    person: Flags
    inner: tuple[Integers, ...] = ()
    inner_name: tuple[list[str], ...] = ()

    @classmethod
    def of(cls, votes: Annotations, given: Mapping[str, str | Sequence[str]], people: Iterable[str] = PEOPLE) -> Families:
        """From annotator -> family, or family, model and so on, the largest group first; `people` are families or annotators.

        Groups of one name in two families are two groups. Without a family, "", a model is one.
        """
        annotators, human = [str(name) for name in votes.annotators], set(people)
        paths = [_path(given.get(who, ())) for who in annotators]
        name = [path[0] if path else "" for path in paths]
        person = np.array([who in human or family in human for who, family in zip(annotators, name, strict=True)], bool)
        depth = max([1, *(len(path) for path, alone in zip(paths, person, strict=True) if not alone)])
        levels = [_coded(paths, person, size) for size in range(depth, 0, -1)]
        names = [[path[size - 1] if len(path) >= size else "" for path in paths] for size in range(depth, 1, -1)]
        return cls(levels[-1], name, person, tuple(levels[:-1]), tuple(names))

    def people(self, votes: Annotations) -> list[str]:
        """Names of the people."""
        return [str(name) for name, is_person in zip(votes.annotators, self.person, strict=True) if is_person]

    def fused(self, votes: Annotations) -> Annotations:
        """The votes in which every family is one annotator, with their gold: the smallest groups are made one first."""
        together, place = votes, np.arange(votes.n_annotators)
        for code, name in zip(self.codes, (*self.inner_name, self.name), strict=True):
            now, names = np.zeros(together.n_annotators, np.int64), np.full(together.n_annotators, "", object)
            now[place], names[place] = code, name
            group, first = _several(now)
            together, moved = joined(together, group, [str(each) for each in names[first]])
            place = moved[place]
        return votes if together is votes else replace(together, gold=votes.gold)

    @property
    def codes(self) -> Integers:
        """Codes of all levels, [L, A]: the smallest groups first, families last."""
        return np.stack([*self.inner, self.code])

    @property
    def n_voices(self) -> int:
        """How many err independently of each other: families, and annotators without one."""
        return int(self.code.max(initial=-1)) + 1

    @property
    def fused_code(self) -> Integers:
        """Code of the families of several, -1 for those who stand alone, [A]."""
        return _several(self.code)[0]

    @property
    def fused_names(self) -> list[str]:
        """Names of these families."""
        return [self.name[a] for a in _several(self.code)[1]]


def _path(given: str | Sequence[str]) -> tuple[str, ...]:
    """Names of groups, the largest first, without empty ones."""
    return tuple(name for name in ((given,) if isinstance(given, str) else given) if name)


def _coded(paths: Sequence[tuple[str, ...]], person: Flags, size: int) -> Integers:
    """A code of the groups that so many names tell apart, [A]; whoever has fewer names, and every person, stands alone."""
    known: dict[object, int] = {}
    keys = [a if alone or len(path) < size else path[:size] for a, (path, alone) in enumerate(zip(paths, person, strict=True))]
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


def _several(code: Integers) -> tuple[Integers, Integers]:
    """Groups of several, numbered without gaps, -1 for everybody else, [A]; and the first member of each."""
    size = np.bincount(code)
    together = np.flatnonzero(size > 1)
    new = np.full(len(size), -1)
    new[together] = np.arange(len(together))
    return np.asarray(new[code]), np.unique(code, return_index=True)[1][size[size > 0] > 1]


def by_name(annotators: Iterable[Any], mark: str, levels: int = 1) -> dict[str, tuple[str, ...]]:
    """Annotator -> what stands before the first marks: model/prompt/0.7 is of the family "model".

    With two levels, maker/model/0.7 is of the model "model" in the family "maker". Names without a mark have no family.
    """
    parts = {name: [part.strip() for part in name.split(mark)] for name in map(str, annotators)}
    return {name: tuple(each[: min(levels, len(each) - 1)]) for name, each in parts.items() if len(each) > 1}


def by_code(annotators: Iterable[Any], code: Integers) -> dict[str, str]:
    """Annotator -> family 1, family 2, ... of this code, [A]; those of code -1 have no family."""
    return {str(name): f"family {int(j) + 1}" for name, j in zip(annotators, code, strict=True) if j >= 0}


def one_vote_each(votes: Annotations) -> Annotations:
    """Votes in which several of one annotator on one item, such as repeated samples, are one soft vote: their shares."""
    answers = answers_of(votes)
    row, label = np.nonzero(answers.share_cl)
    if votes.soft or len(row) == votes.n_votes:
        return votes
    codes = answers.item[row], answers.annotator[row], label, votes.items, votes.annotators, votes.classes
    more: dict[str, Any] = {"n_missing": votes.n_missing, "groups": votes.groups}
    soft = len(row) > len(answers.item)
    return Annotations.from_codes(*codes, answers.share_cl[row, label] if soft else None, votes.gold, soft=soft, **more)


def decided(votes: Annotations) -> Annotations:
    """The most probable label of every soft vote, without votes that are evenly split: two of these would seem to agree."""
    if not votes.soft:
        return votes
    answers = answers_of(votes)
    top = np.sort(answers.share_cl, axis=1)
    clear = top[:, -1] > (top[:, -2] if top.shape[1] > 1 else 0.0) + 1e-9
    return votes.hardened().take_votes(clear)
