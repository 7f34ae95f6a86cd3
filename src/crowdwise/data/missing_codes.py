"""Numbers that usually mean "no answer" beside others that are answers: 99, -9, -1, as SPSS and many surveys write them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["missing_codes"]

_HIGH = {77, 88, 96, 97, 98, 99, 777, 888, 996, 997, 998, 999, 7777, 8888, 9998, 9999, 99999}
_LOW = {-7, -8, -9, -77, -88, -98, -99, -777, -888, -998, -999, -9999}
# By judgement: so many times the largest answer, and so many codes at most.
_FAR, _MOST = 5, 3


def missing_codes(values: Sequence[float]) -> list[float]:
    """Those of these sorted, distinct numbers that usually mean no answer, where the others leave little doubt of it.

    Codes such as 99 count if they are at least five times the largest other number; -9 and the like where no other number is
    below 0; a 9 above grades from 1 to 5 at most, and a -2 below grades from 0 or 1 up, only where no grade is left out.
    """
    answers = [value for value in values if value >= 0 and value not in _HIGH]
    if len(answers) < 2:
        return []
    found = [value for value in values if value in _HIGH and value >= _FAR * max(answers[-1], 1)]
    below = [value for value in values if value < 0]
    if (below == [-2] and _in_steps(answers) and answers[0] <= 1) or (
        len(below) <= _MOST and set(below) <= _LOW | {-1, -2} and _LOW & set(below)
    ):
        found += below
    grades = answers[:-1]
    if answers[-1] == 9 and len(grades) > 1 and grades[0] == 1 and grades[-1] <= _FAR and _in_steps(grades):
        found.append(9)
    return sorted(found)


def _in_steps(values: Sequence[float]) -> bool:
    return all(value == values[0] + step for step, value in enumerate(values))
