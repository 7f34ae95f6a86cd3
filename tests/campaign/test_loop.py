"""A campaign in one process: questions, answers, limits, the end."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import edges

from crowdwise.campaign.loop import ActiveLoop
from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.methods.labels.bayes_gc import BayesGC
from crowdwise.methods.labels.majority import MajorityVote
from crowdwise.methods.online.streaming import StreamingDawidSkene

ITEMS, PEOPLE, CLASSES = [f"i{n}" for n in range(6)], ["x", "y", "z"], ["cat", "dog"]


def cold(model: Any = None, **options: Any) -> ActiveLoop:
    given: dict[str, Any] = {"items": ITEMS, "annotators": PEOPLE, "classes": CLASSES, "explore": 0.0} | options
    return ActiveLoop(BayesGC() if model is None else model, **given)


def answers(questions: pl.DataFrame, label: str = "cat") -> pl.DataFrame:
    return questions.select("item", "annotator").with_columns(label=pl.lit(label))


def one(item: str, annotator: str, label: str = "cat") -> dict[str, list[str]]:
    return {"item": [item], "annotator": [annotator], "label": [label]}


def pairs(frame: pl.DataFrame) -> set[tuple[str, str]]:
    return set(frame.select("item", "annotator").rows())


# -- cold start -----------------------------------------------------------------------------------


def test_a_campaign_starts_without_any_vote() -> None:
    loop = cold()
    questions = loop.ask(6)
    assert questions.columns == ["item", "annotator", "score", "cost"]
    assert sorted(questions["item"].to_list()) == ITEMS
    assert loop.tell(answers(questions)) == 6
    assert loop.result.labels.tolist() == ["cat"] * 6
    assert loop.votes.n_votes == 6


def test_without_votes_it_must_be_said_what_there_is() -> None:
    with pytest.raises(SettingError, match=r"needs items=\.\.\., classes=\.\.\."):
        ActiveLoop(BayesGC(), items=ITEMS)


def test_nobody_to_ask_is_an_empty_table_and_a_reason_to_stop() -> None:
    loop = cold(annotators=[])
    assert loop.ask(5).height == 0
    assert loop.stop().startswith("nobody is left to ask about anything; expected accuracy unknown")


def test_new_items_and_annotators_beside_votes_are_asked() -> None:
    votes = Annotations.from_arrays(["p", "p", "q"], ["x", "y", "x"], ["cat", "cat", "dog"], classes=CLASSES)
    loop = ActiveLoop(BayesGC(), "information", votes, items=["q", "new"], capacity={"y": 1, "w": 5}, explore=0)
    assert {item for item, _ in pairs(loop.ask(4))} == {"q", "new"}
    loop.tell(answers(loop.open))
    # Nobody has more capacity than was given, and x has none.
    for _ in range(3):
        loop.tell(answers(loop.ask(4)))
    assert loop.votes.to_frame().filter(pl.col("annotator") == "w").height == 2
    assert loop.votes.n_items == 3


def test_items_and_annotators_that_come_later() -> None:
    loop = cold()
    loop.tell(answers(loop.ask(3)))
    loop.extend(items=["i9", "i0"], annotators=["w"])
    assert loop.votes.n_items == 7
    while loop.ask(7).height:
        loop.tell(answers(loop.open))
    assert edges(loop.votes) == sorted(((i, a, "cat") for i in [*ITEMS, "i9"] for a in [*PEOPLE, "w"]), key=repr)


def test_a_fitted_model_brings_its_votes_and_its_history() -> None:
    votes = Annotations.from_arrays(["p", "q"], ["x", "y"], ["cat", "dog"])
    model = BayesGC().fit(votes, history={"x": (90, 10), "y": (50, 50)})
    loop = ActiveLoop(model, items=["r", "p"], explore=0)
    assert loop.votes.items.tolist() == ["p", "q", "r"]
    # The history outlives the new item: x, who was right in 90 of 100, is worth more than y.
    assert loop.ask(1)["annotator"].to_list() == ["x"]
    assert loop.result.history is not None


def test_an_update_that_is_broken_off_keeps_the_history() -> None:
    votes = Annotations.from_arrays(["p", "q"], ["x", "y"], ["cat", "dog"])
    loop = ActiveLoop(BayesGC().fit(votes, history={"x": (90, 10), "y": (50, 50)}), items=["r", "p"], explore=0)
    loop.tell(one("r", "y"))
    loop._result = None
    assert loop.result.history is not None
    assert loop.result.history.sum() == pytest.approx(200)


# -- open questions -------------------------------------------------------------------------------


def test_open_questions_are_not_asked_again_and_count_against_capacity() -> None:
    loop = cold(per_item=3, capacity=4)
    first, second, third = loop.ask(7), loop.ask(7), loop.ask(7)
    assert not pairs(first) & pairs(second)
    assert first.height + second.height == 12
    assert third.height == 0
    assert pairs(loop.open) == pairs(first) | pairs(second)
    assert max(loop.open["annotator"].value_counts()["count"]) == 4


def test_answered_questions_are_closed_and_their_capacity_stays_used() -> None:
    loop = cold(per_item=3, capacity=2)
    questions = loop.ask(4)
    loop.tell(answers(questions[:3]))
    assert pairs(loop.open) == pairs(questions[3:])
    rest = loop.ask(10)
    assert rest.height == 2
    assert not pairs(rest) & pairs(questions)


def test_withdrawn_questions_give_their_capacity_back() -> None:
    loop = cold(capacity=1)
    questions = loop.ask(3)
    assert loop.withdraw(questions[:1]) == 1
    assert loop.open.height == 2
    assert loop.withdraw(questions[:1]) == 0
    assert loop.ask(3)["annotator"].to_list() == questions["annotator"].to_list()[:1]
    assert loop.withdraw() == 3
    assert loop.open.height == 0
    assert loop.ask(3).height == 3


def test_no_item_gets_more_than_most_with_open_questions_among_its_votes() -> None:
    loop = cold(per_item=2, most=2)
    loop.tell(one("i0", "x"))
    while loop.ask(5).height:
        pass
    asked = dict(loop.open["item"].value_counts().rows())
    assert asked == {"i0": 1} | dict.fromkeys(ITEMS[1:], 2)


def test_unasked_answers_are_welcome_too() -> None:
    loop = cold(capacity=2)
    assert loop.tell({"item": ["i0", "other"], "annotator": ["x", "x"], "label": ["cat", "dog"]}) == 2
    assert "other" in loop.votes.items.tolist()
    # Both answers were x's, who can give two.
    assert "x" not in loop.ask(6)["annotator"].to_list()
    # The pool is what it was.
    assert "other" not in loop.open["item"].to_list()


# -- told twice -----------------------------------------------------------------------------------


def test_answers_told_twice_count_once() -> None:
    loop = cold()
    votes = answers(loop.ask(4))
    assert loop.tell(votes) == 4
    with pytest.warns(DataWarning, match="4 of 4 answers were taken before"):
        assert loop.tell(votes) == 0
    assert loop.result.votes.n_votes == 4
    with pytest.warns(DataWarning, match="4 of 5 answers were taken before"):
        assert loop.tell(pl.concat([votes, pl.DataFrame(one("i0", "nobody"))])) == 1
    with pytest.warns(DataWarning, match="1 of 1"):
        loop.tell(one("i0", "nobody", "dog"))
    assert loop.votes.n_votes == 5


def test_twice_in_one_call_counts_once_too() -> None:
    loop = cold()
    with pytest.warns(DataWarning, match="1 of 2 answers"):
        assert loop.tell({"item": ["i0", "i0"], "annotator": ["x", "x"], "label": ["cat", "cat"]}) == 1


def test_a_token_is_taken_once_also_where_repeats_are_welcome() -> None:
    loop = cold(repeats=True)
    assert loop.tell(one("i0", "x"), token="monday") == 1
    with pytest.warns(DataWarning, match="'monday' were taken before"):
        assert loop.tell(one("i0", "x"), token="monday") == 0
    assert loop.tell(one("i0", "x"), token="tuesday") == 1
    assert loop.tell(one("i0", "x")) == 1
    assert loop.votes.n_votes == 3


def test_an_empty_answer_is_no_answer() -> None:
    loop = cold()
    assert loop.tell(pl.DataFrame(schema={"item": pl.String, "annotator": pl.String, "label": pl.String})) == 0


def test_labels_outside_the_classes_are_refused_and_nothing_changes() -> None:
    loop = cold()
    with pytest.raises(InputError, match="label 'cow' is not among the classes of the campaign: cat, dog"):
        loop.tell({"item": ["i0", "i1"], "annotator": ["x", "x"], "label": ["cat", "cow"]})
    assert loop.votes.n_votes == 0


def test_ids_may_come_back_as_text() -> None:
    loop = ActiveLoop(BayesGC(), items=[1, 2], annotators=["x"], classes=[0, 1], explore=0)
    questions = loop.ask(2)
    loop.tell({"item": questions["item"].cast(pl.String).to_list(), "annotator": ["x", "x"], "label": ["0", "1"]})
    assert loop.open.height == 0
    assert loop.result.votes.items.tolist() == [1, 2]
    with pytest.raises(InputError, match="item 'one' is str"):
        loop.tell(one("one", "x", "0"))


# -- the model ------------------------------------------------------------------------------------


def test_the_loop_ends_where_a_fit_to_all_votes_ends() -> None:
    loop = cold()
    for label in ("cat", "dog", "cat"):
        loop.tell(answers(loop.ask(5), label))
    assert loop.result.posterior == pytest.approx(BayesGC().fit(loop.votes).posterior_)


@pytest.mark.slow
def test_an_online_model_is_updated_and_knows_newcomers_without_votes() -> None:
    loop = cold(model=StreamingDawidSkene())
    told = 0
    for label in ("cat", "dog"):
        told += loop.tell(answers(loop.ask(5), label))
    loop.extend(items=["i9"], annotators=["w"])
    assert loop.result.votes.n_votes == told == 10
    assert "i9" in loop.result.votes.items.tolist()
    assert "w" in loop.result.votes.annotators.tolist()
    while loop.ask(9).height:
        loop.tell(answers(loop.open))
    assert loop.votes.n_votes == 7 * 4


def test_an_update_that_is_broken_off_loses_and_doubles_nothing() -> None:
    class Fragile(BayesGC):
        broken = False

        def update(self, votes: Any, *more: Any, **options: Any) -> Any:
            super().update(votes, *more, **options)
            if not self.broken:
                self.broken = True
                raise KeyboardInterrupt

    loop = cold(model=Fragile())
    loop.tell(answers(loop.ask(3)))
    with pytest.raises(KeyboardInterrupt):
        loop.ask(3)
    assert loop.ask(3).height == 3
    assert loop.result.votes.n_votes == 3


class Nearest:
    """A classifier in the form that the loop needs: shares of votes, by the sign of the feature."""

    def fit(self, X: Any, votes: Any, *, items: Any = None) -> Nearest:
        self.seen = X
        votes = votes.select(items=items)
        self.result_ = MajorityVote().fit(votes[[votes.items.tolist().index(item) for item in items]]).result_
        return self

    def predict_proba(self, X: Any) -> Any:
        right = 1 / (1 + np.exp(-X[:, 0]))
        return np.column_stack([right, 1 - right])


def test_a_classifier_is_asked_for_its_opinion_once_it_has_votes() -> None:
    features = np.array([[-3.0], [0.1], [2.0], [4.0], [-2.0], [1.0]])
    loop = cold(model=Nearest(), policy="predictive-entropy+accuracy", features=features, diverse=False)
    first = loop.ask(2)
    assert first.height == 2
    with pytest.raises(InputError, match="no votes to learn from yet"):
        _ = loop.result
    loop.tell(answers(first))
    # The feature nearest to zero is the least clear.
    assert loop.ask(6)["item"].to_list()[0] == "i1"
    assert loop.model.seen is features


def test_a_classifier_needs_features_and_they_need_to_fit() -> None:
    with pytest.raises(SettingError, match="learns from features"):
        cold(model=Nearest())
    with pytest.raises(InputError, match="features have 2 rows for 6 items"):
        cold(features=np.zeros((2, 1)))


def test_labels_come_from_features_and_votes_together() -> None:
    """Forty items in two places, each with one vote; three votes are wrong, and the place of their items says so."""
    side = np.repeat([-2.0, 2.0], 20)
    features = np.column_stack([side, np.linspace(-1, 1, 40) % 0.3])
    items = [f"i{n:02}" for n in range(40)]
    labels = ["cat" if place < 0 else "dog" for place in side]
    said = ["dog" if n in (3, 7) else "cat" if n == 30 else label for n, label in enumerate(labels)]
    told = {"item": items, "annotator": [PEOPLE[n % 3] for n in range(40)], "label": said}
    both = ActiveLoop(items=items, annotators=PEOPLE, classes=CLASSES, features=features)
    both.tell(told)
    assert type(both.model).__name__ == "Raykar"
    assert both.labels()["label"].to_list() == labels
    # A method of votes alone repeats the only vote of an item.
    alone = ActiveLoop(items=items, annotators=PEOPLE, classes=CLASSES)
    alone.tell(told)
    assert type(alone.model).__name__ == "DawidSkene"
    assert alone.labels()["label"].to_list() == said


def test_images_are_left_to_a_network() -> None:
    pytest.importorskip("torch")
    loop = ActiveLoop(items=ITEMS, annotators=PEOPLE, classes=CLASSES, features=np.zeros((6, 4, 4, 3)))
    assert type(loop.model).__name__ == "CCEM"


def test_fits_start_from_the_votes_unless_the_classifier_says_otherwise() -> None:
    from crowdwise.methods.classify.crowd_em import CrowdEM
    from crowdwise.methods.classify.raykar import Raykar

    features = np.arange(6.0)[:, None]
    assert cold(model=Raykar(), features=features).model.init == "majority"
    assert cold(model=CrowdEM(), features=features).model.init == "majority"
    assert cold(model=Raykar(init="one-coin"), features=features).model.init == "one-coin"
    start = np.full((6, 2), 0.5)
    assert cold(model=Raykar(init=start), features=features).model.init is start


def test_labels_hardly_fall_from_batch_to_batch() -> None:
    """Six campaigns with random answers, six batches each; from dawid-skene, labels lose a tenth of the items in between."""
    from tests.methods.classify.crowds import clouds
    from tests.methods.labels.helpers import quiet

    from crowdwise.methods.classify.raykar import Raykar

    falls: dict[str, list[float]] = {"loop": [], "dawid-skene": []}
    for seed in range(6):
        features, truth = clouds(seed, 120, 4, n_columns=8, gap=1.6)
        rng = np.random.default_rng(seed)
        right = rng.uniform(0.2, 0.9, 12) > rng.random((120, 12))
        said = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, 4, (120, 12))) % 4)
        item, annotator = np.divmod(rng.permutation(120 * 12), 12)
        loop = ActiveLoop(Raykar(), items=range(120), annotators=range(12), classes=range(4), features=features)
        share: dict[str, list[float]] = {name: [] for name in falls}
        for start in range(0, 360, 60):
            part = slice(start, start + 60)
            loop.tell(Annotations.from_arrays(item[part], annotator[part], said[item[part], annotator[part]]))
            with quiet():
                fitted = {"loop": loop.result, "dawid-skene": Raykar().fit(features, loop.votes).result_}
            for name, result in fitted.items():
                share[name].append(float((result.posterior.argmax(axis=1) == truth).mean()))
        for name, values in share.items():
            falls[name].append(float(np.maximum(-np.diff(values), 0).max()))
    assert max(falls["loop"]) < 0.05
    assert max(falls["dawid-skene"]) > 0.1


def test_new_items_of_a_classifier_bring_their_features() -> None:
    features = np.array([[-3.0], [0.1], [2.0], [4.0], [-2.0], [1.0]])
    loop = cold(model=Nearest(), policy="predictive-entropy+accuracy", features=features, diverse=False)
    loop.tell(answers(loop.ask(6)))
    with pytest.raises(SettingError, match=r"need features: extend\(items, features=\.\.\.\)"):
        loop.extend(items=["i9"])
    with pytest.raises(InputError, match="features have 1 rows for 2 new items"):
        loop.extend(items=["i8", "i9"], features=[[0.0]])
    with pytest.raises(InputError, match=r"have the shape \(2,\), and those there are \(1,\)"):
        loop.extend(items=["i9"], features=[[0.0, 1.0]])
    assert loop.votes.n_items == 6
    loop.extend(items=["i8", "i0", "i9"], features=np.array([[5.0], [0.0], [0.01]]))
    # i9 is the nearest to zero now; i0, which was known, keeps its row.
    assert loop.ask(8)["item"].to_list()[:2] == ["i9", "i1"]
    assert loop.result.votes.n_items == 8
    loop.extend(annotators=["w"])
    assert "w" in loop.votes.annotators.tolist()


@pytest.mark.parametrize("kind", ["frame", "sparse"])
def test_features_of_new_items_may_be_frames_or_sparse(kind: str) -> None:
    from scipy.sparse import csr_matrix

    def rows(values: list[float]) -> Any:
        return pl.DataFrame({"height": values}) if kind == "frame" else csr_matrix(np.array(values)[:, None])

    loop = cold(features=rows([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    loop.extend(items=["i9"], features=rows([7.0]))
    assert loop.ask(7).height == 7
    with pytest.raises(InputError, match="features of new items"):
        loop.extend(items=["i8"], features=pl.DataFrame({"width": [1.0]}) if kind == "frame" else np.zeros((1, 2)))
    with pytest.raises(SettingError, match="the campaign has no features"):
        cold().extend(items=["i9"], features=[[1.0]])


# -- the end --------------------------------------------------------------------------------------


def test_the_target_ends_a_campaign() -> None:
    loop = cold()
    assert loop.stop() == ""
    for label in ["cat", "cat", "cat"]:
        loop.tell(answers(loop.ask(6), label))
    said = loop.stop(target=0.5, probability=0.5)
    assert re.match(r"expected accuracy \d\d%, in nine of ten crowds between \d+% and \d+%: ", said)
    assert ": at least 50% are right with probability 0." in said
    assert loop.stop(target=None).startswith("nobody is left to ask about anything; expected accuracy ")


def test_a_gain_below_the_cost_ends_a_campaign() -> None:
    loop = cold(policy="information")
    # Nothing is known: a question gains as much as the prior of annotators allows, at most ln 2.
    assert loop.stop(target=None, least_gain=math.log(2)).startswith("the best question gains ")
    assert loop.stop(target=None, least_gain=1e-6) == ""
    # Random questions, with which the default begins, have no gain.
    assert cold().stop(target=None, least_gain=math.log(2)) == ""
    with pytest.raises(SettingError, match="least_gain compares gains"):
        cold(policy="entropy+ucb").stop(least_gain=0.1)


def test_the_best_question_is_looked_for_among_all() -> None:
    votes = Annotations.from_arrays(["p", "p", "s", "s"], ["u", "v", "x", "y"], ["cat", "cat", "dog", "dog"])
    model = BayesGC().fit(votes, history={"x": (950, 50), "y": (5000, 5000), "u": (55, 45), "v": (55, 45)})
    # x may be asked about p only, and p is surer than the nine items which only y, a coin, may be asked about.
    fresh = [f"i{n}" for n in range(9)]
    allowed = Annotations.from_arrays([*fresh, "p"], ["y"] * 9 + ["x"], ["cat"] * 10)
    loop = ActiveLoop(model, "information", items=[*fresh, "p"], allowed=allowed, explore=0)
    assert loop.stop(target=None, least_gain=0.1) == ""
    assert loop.stop(target=None, least_gain=0.65).startswith("the best question gains 0.")


def test_a_plan_of_the_rest() -> None:
    loop = cold()
    loop.tell(answers(loop.ask(6)))
    assert loop.plan(0.6, repeats=2).now == pytest.approx(loop.result.posterior.max(axis=1).mean())


# -- the same again -------------------------------------------------------------------------------


def test_the_same_seed_asks_the_same_and_another_does_not() -> None:
    asked = [cold(random_state=seed).ask(6).rows() for seed in (0, 0, 1)]
    assert asked[0] == asked[1] != asked[2]


@pytest.mark.parametrize(
    "options", [{"random_state": -1}, {"random_state": 0.5}, {"explore": 2}, {"per_item": 0}, {"capacity": -2}]
)
def test_wrong_settings_are_refused_at_once(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SettingError):
        cold(path=tmp_path / "c", **options)
    assert not (tmp_path / "c").exists()


Step = tuple[str, int]


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.sampled_from(["ask", "tell", "withdraw", "unasked"]), st.integers(1, 5)), max_size=7),
    st.integers(1, 3),
)
def test_whatever_happens_the_books_balance(steps: list[Step], capacity: int) -> None:
    loop = cold(capacity=capacity, per_item=2, most=3)
    told: list[tuple[str, str, str]] = []
    for k, (step, size) in enumerate(steps):
        if step == "ask":
            before = pairs(loop.open) | {vote[:2] for vote in told}
            assert not pairs(loop.ask(size)) & before
        elif step == "tell":
            frame = answers(loop.open.head(size), CLASSES[k % 2])
            assert loop.tell(frame) == frame.height
            told += frame.rows()
        elif step == "unasked":
            loop.tell(one(f"more{k}", "stranger"))
            told.append((f"more{k}", "stranger", "cat"))
        else:
            loop.withdraw(loop.open.head(size))
        assert edges(loop.votes) == sorted(told, key=repr)
        for person in PEOPLE:
            used = sum(vote[1] == person for vote in told) + loop.open.filter(pl.col("annotator") == person).height
            assert used <= capacity
        for item in ITEMS:
            assert sum(vote[0] == item for vote in told) + loop.open.filter(pl.col("item") == item).height <= 3


@pytest.mark.slow
def test_dalc_asks_those_who_know_the_item() -> None:
    pytest.importorskip("torch")
    from crowdwise.methods.classify.dalc import DALC

    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 2))
    truth, side = (features[:, 0] > 0).astype(int), (features[:, 1] > 0).astype(int)
    items = [f"i{n:02d}" for n in range(60)]

    def said(n: int, person: int) -> str:
        # x knows items above the axis and y those below; elsewhere they flip coins.
        return CLASSES[truth[n] if side[n] == person else rng.integers(2)]

    votes = Annotations.from_arrays(
        [items[n] for n in range(40) for _ in range(2)], ["y", "x"] * 40, [said(n, p) for n in range(40) for p in range(2)]
    )
    model = DALC(epochs=20, warmup=2, rank=2)
    loop = ActiveLoop(model, "dalc", votes, features=features, feature_items=items, items=items[40:], explore=0)
    asked = loop.ask(10)
    assert set(asked["item"].to_list()) <= set(items[40:])
    expertise = loop.model.expertise(features[40:])
    best = loop.result.votes.annotators[expertise.argmax(axis=1)]
    assert asked["annotator"].to_list() == [best[items.index(item) - 40] for item in asked["item"].to_list()]
