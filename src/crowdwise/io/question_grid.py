"""Columns of a wide table that cross questions with annotators: toxic_1, toxic_2, hate_1, hate_2."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crowdwise.io.roles import words_of

__all__ = ["questions_of"]

_PARTS = re.compile(r"(.+?)[ _.:-]*(\d+)|(.+)[ _.:-]([^ _.:-]+)")
_PERSON_FIRST = re.compile(r"([^\W\d_]+[ _.-]?\d+)[ _.:-]+(.*[^\W\d_].*)")
_PEOPLE = {"annotator", "ann", "anno", "worker", "rater", "coder", "judge", "user", "labeler", "labeller", "expert", "experts"}
_PEOPLE |= {
    "person",
    "crowd",
    "novice",
    "novices",
    "student",
    "students",
    "model",
    "llm",
    "human",
    "author",
    "turker",
    "reviewer",
}
_SAID = {"label", "labels", "vote", "votes", "answer", "response", "rating", "annotation"}


def questions_of(names: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]] | None:
    """The columns of each question, by its part of their names, where names are two parts that cross each other in full.

    Returned first is the likelier way to tell questions from annotators, then the other. Which part names the annotator is
    seen by a number, by a word for annotators, or by a question mark in the other; else there are more annotators than
    questions. Where the first parts are words for annotators, all are annotators of several groups (expert_1, expert_2,
    crowd_1, crowd_2).
    """
    told = _of_people(names)
    if told is not None:
        return told
    parts = [_cut(name) for name in names]
    if len(names) < 4 or any(part is None for part in parts):
        return None
    cut = [part for part in parts if part is not None]
    firsts, seconds = (list(dict.fromkeys(part[k] for part in cut)) for k in (0, 1))
    if len(firsts) < 2 or len(seconds) < 2 or len(firsts) * len(seconds) != len(set(cut)) or len(cut) != len(set(cut)):
        return None
    numbered = all(second.isdigit() for second in seconds)
    if numbered and all((_PEOPLE | _SAID) & set(words_of(first)) for first in firsts):
        return None
    people_first = any(_PEOPLE & set(words_of(first)) for first in firsts) or any(part.endswith("?") for part in seconds)
    axis = 0 if numbered else 1 if people_first or len(firsts) > len(seconds) else 0
    ways = [
        {each: [name for name, part in zip(names, cut, strict=True) if part[k] == each] for each in (firsts, seconds)[k]}
        for k in (axis, 1 - axis)
    ]
    return ways[0], ways[1]


def _cut(name: str) -> tuple[str, str] | None:
    found = _PARTS.fullmatch(name.strip())
    return None if found is None else (found[1], found[2]) if found[2] else (found[3], found[4])


def _of_people(names: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]] | None:
    """The same where every name is an annotator with a number and what was asked, as rater1_domain1 and rater1_domain2.

    They need not cross in full.
    """
    cut = [_PERSON_FIRST.fullmatch(name.strip()) for name in names]
    questions: dict[str, list[str]] = {}
    people: dict[str, list[str]] = {}
    for name, parts in zip(names, cut, strict=True):
        if parts is None or not _PEOPLE & set(words_of(parts[1])):
            return None
        questions.setdefault(parts[2], []).append(name)
        people.setdefault(parts[1], []).append(name)
    return (questions, people) if len(questions) > 1 and len(people) > 1 else None
