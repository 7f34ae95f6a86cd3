from __future__ import annotations

import numpy as np

from crowdwise.data import datasets
from crowdwise.data.annotations import Annotations
from crowdwise.estimator.judgement import ABOVE, GRADES, UNJUDGED, can_tell, crowd_of
from crowdwise.estimator.registry import make
from crowdwise.trust.crowd.draws import told_from_chance
from crowdwise.trust.crowd.table import examine


def names(votes: Annotations, method: str = "dawid-skene") -> dict[str, str]:
    crowd = crowd_of(make(method).fit(votes).result_)
    return {str(votes.annotators[a]): GRADES[crowd.grade[a]].name for a in crowd.order.tolist()}


def test_demo_spammers_and_adversary_are_found_and_nobody_else() -> None:
    found = names(datasets.demo().votes)
    assert list(found)[:3] == ["annotator-12", "annotator-10", "annotator-11"]
    assert list(found.values())[:3] == ["worse than chance", "no better than chance", "always the same label"]
    assert set(list(found.values())[3:]) == {"clearly above chance"}


def test_one_vote_is_not_judged() -> None:
    item = [n for n in range(40) for _ in range(3)] + [0]
    annotator = ["x", "y", "z"] * 40 + ["new"]
    label = [("cat", "dog")[n % 2] for n in range(40) for _ in range(3)] + ["dog"]
    assert names(Annotations.from_arrays(item, annotator, label), "majority")["new"] == "too few votes to tell"


def test_chance_is_that_of_blind_answers() -> None:
    # Class shares 3/4 and 1/4; whoever always says "a" is right 3/4 of the time, and chance knows it.
    truth = np.tile(["a", "a", "a", "b"], 25)
    item = np.repeat(np.arange(100), 4)
    label = np.stack([truth, truth, truth, np.full(100, "a")], axis=1).ravel()
    votes = Annotations.from_arrays(item, ["w", "x", "y", "constant"] * 100, label.tolist())
    result = make("dawid-skene").fit(votes).result_
    crowd = crowd_of(result)
    constant = votes.annotators.tolist().index("constant")
    assert abs(crowd.accuracy[constant] - 0.75) < 0.02
    assert abs(crowd.chance[constant] - 0.75) < 0.02
    assert names(votes)["constant"] == "always the same label"
    # By hand, for a perfect annotator: 0.75^2 + 0.25^2.
    assert abs(crowd.chance[votes.annotators.tolist().index("x")] - 0.625) < 0.02


def test_annotators_without_votes_are_left_out() -> None:
    votes = Annotations.from_arrays(["i", "i", "j"], ["x", "y", "x"], ["cat", "cat", "dog"], annotators=["x", "y", "idle"])
    assert set(names(votes, "majority")) == {"x", "y"}


def test_pages_and_the_table_of_annotators_say_the_same_of_few_votes() -> None:
    # Thirty items, five regulars, and one person each with a single vote, who is right.
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 30)
    rows = [(n, f"r{a}", int(truth[n]) ^ int(rng.random() < 0.1)) for n in range(30) for a in range(5)]
    rows += [(n, f"once{n}", int(truth[n])) for n in range(10)]
    result = make("consensus").fit(Annotations.from_arrays(*zip(*rows, strict=True))).result_
    crowd = told_from_chance(crowd_of(result), result)
    flags = dict(examine(result).table.select("annotator", "flags").rows())
    for a, name in enumerate(result.votes.annotators.tolist()):
        assert (crowd.grade[a] == UNJUDGED) == (flags[name] == "unknown"), name
    assert (crowd.grade == ABOVE).sum() >= 5


def test_one_vote_is_never_above_chance_however_good_the_crowd() -> None:
    # Where everybody is right, the model expects it of a newcomer too: the interval lies above chance on one vote.
    truth = [("cat", "dog")[n % 2] for n in range(60)]
    rows = [(n, who, truth[n]) for n in range(60) for who in "wxyz"]
    rows += [(n, f"{size} votes", truth[n]) for size in (1, 4, 30) for n in range(size)]
    result = make("consensus").fit(Annotations.from_arrays(*zip(*rows, strict=True))).result_
    crowd, flags = crowd_of(result), dict(examine(result).table.select("annotator", "flags").rows())
    who = result.votes.annotators.tolist()
    for name, grade, flag in (("1 votes", UNJUDGED, "unknown"), ("4 votes", UNJUDGED, "unknown"), ("30 votes", ABOVE, "")):
        assert crowd.low[who.index(name)] > crowd.chance[who.index(name)]
        assert crowd.grade[who.index(name)] == told_from_chance(crowd, result).grade[who.index(name)] == grade
        assert flags[name] == flag


def test_votes_that_can_tell() -> None:
    # By hand: 0.5^5 = 0.031 is more than a fortieth, 0.5^6 = 0.016 less; four votes never tell.
    assert can_tell(np.array([1, 5, 6]), np.full(3, 0.5)).tolist() == [False, False, True]
    assert can_tell(np.array([4, 5]), np.full(2, 0.01)).tolist() == [False, True]


def test_answers_of_earlier_count_as_votes() -> None:
    rows = [(n, who, "cd"[n % 2]) for n in range(40) for who in "xyz"] + [(0, "new", "c")]
    votes = Annotations.from_arrays(*zip(*rows, strict=True))
    for history, grade, flag in ((None, UNJUDGED, "unknown"), ({"new": (90, 10)}, ABOVE, "")):
        result = make("dawid-skene").fit(votes, history=history).result_
        new = votes.annotators.tolist().index("new")
        assert crowd_of(result).grade[new] == told_from_chance(crowd_of(result), result).grade[new] == grade
        assert dict(examine(result).table.select("annotator", "flags").rows())["new"] == flag
