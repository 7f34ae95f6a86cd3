"""Which judges belong together, and their votes as one each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import answers_of
from crowdwise.kernels.types import Integers
from crowdwise.trust.crowd.fusion import fused

__all__ = ["PEOPLE", "Families", "by_code", "by_name", "decided", "one_vote_each"]

# Families that are people where nobody says who is.
PEOPLE = ("people", "human", "humans")


@dataclass(frozen=True, eq=False)
class Families:
    """Family of every annotator, and who is a person.

    Attributes
    ----------
    code : [A]
        Family of every annotator; whoever stands alone, and every person, has one of their own.
    name : [A]
        Its name; "" for those who stand alone.
    person : [A]
        Whether the annotator is a person: independent of all others, and what human votes are measured by.
    """

    code: Integers
    name: list[str]
    person: np.ndarray[Any, np.dtype[np.bool_]]

    @classmethod
    def of(cls, votes: Annotations, given: Mapping[str, str], people: Iterable[str] = PEOPLE) -> Families:
        """From annotator -> family; `people` are names of families or of annotators."""
        annotators, human = [str(name) for name in votes.annotators], set(people)
        name = [given.get(who, "") for who in annotators]
        person = np.array([who in human or family in human for who, family in zip(annotators, name, strict=True)], bool)
        code, known = np.zeros(len(annotators), np.int64), dict[str, int]()
        for a, family in enumerate(name):
            key = f"alone {a}" if person[a] or not family else f"family {family}"
            code[a] = known.setdefault(key, len(known))
        return cls(code, name, person)

    def people(self, votes: Annotations) -> list[str]:
        """Names of the people."""
        return [str(name) for name, is_person in zip(votes.annotators, self.person, strict=True) if is_person]

    def fused(self, votes: Annotations) -> Annotations:
        """The votes in which every family is one annotator, with their gold."""
        code = self.fused_code
        return votes if code.max(initial=-1) < 0 else replace(fused(votes, code, self.fused_names), gold=votes.gold)

    @property
    def n_voices(self) -> int:
        """How many err independently of each other: families, and annotators without one."""
        return int(self.code.max(initial=-1)) + 1

    @property
    def fused_code(self) -> Integers:
        """The code that `crowdwise.trust.crowd.fusion.fused` takes: -1 for those who stand alone, [A]."""
        size = np.bincount(self.code, minlength=self.n_voices)
        together = np.flatnonzero(size > 1)
        new = np.full(self.n_voices, -1)
        new[together] = np.arange(len(together))
        return np.asarray(new[self.code])

    @property
    def fused_names(self) -> list[str]:
        """Names of these groups."""
        code = self.fused_code
        return [self.name[int(np.flatnonzero(code == j)[0])] for j in range(int(code.max(initial=-1)) + 1)]


def by_name(annotators: Iterable[Any], mark: str) -> dict[str, str]:
    """Annotator -> what stands before the mark: model/prompt/0.7 is of the family "model". Others have no family."""
    names = [str(name) for name in annotators]
    return {name: name.partition(mark)[0].strip() for name in names if mark in name}


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
