"""What is done about annotators who share errors, or who answer at random."""

from __future__ import annotations

from crowdwise.data.datasets import demo
from crowdwise.estimator.registry import make
from crowdwise.report.heeding import without_spammers


def test_most_of_a_crowd_is_never_dropped_as_spammers() -> None:
    said: list[str] = []
    result = make("majority").fit(demo().votes).result_
    names = result.votes.annotators.tolist()
    assert without_spammers(result, names[:7], False, said.append) == (result, [])
    assert "no spammers are dropped: 7 of 12 annotators look like some" in said.pop()
    kept, dropped = without_spammers(result, names[:1], False, said.append)
    assert dropped == names[:1]
    assert kept.votes.n_annotators == 11
    assert said == [f"dropped 1 spammer: {names[0]}"]
    assert without_spammers(result, [], False, said.append)[1] == []
    assert len(said) == 1
