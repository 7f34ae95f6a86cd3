from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, InputError

VOTES = Annotations.from_arrays(["p", "q", "r"], ["a", "a", "b"], ["no", "yes", "no"])
NAN = float("nan")


@pytest.mark.parametrize(
    "gold",
    [
        {"p": "yes", "r": "no"},
        {"p": "yes", "q": None, "r": "no"},
        {"p": "yes", "q": NAN, "r": "no"},
        {"item": ["p", "r"], "label": ["yes", "no"]},
        pd.DataFrame({"item": ["r", "p"], "label": ["no", "yes"]}),
        pd.DataFrame({"task": ["r", "p"], "truth": ["no", "yes"]}),
        pl.DataFrame({"item": ["r", "p", "p"], "gold": ["no", "yes", "yes"]}),
        pa.table({"item": ["r", "p", "q"], "Ground Truth": ["no", "yes", None]}),
        pd.Series(["yes", "no"], index=["p", "r"]),
        pd.Series({"p": "yes", "q": None, "r": "no"}),
        ["yes", None, "no"],
        np.array(["yes", None, "no"], object),
        pl.Series(["yes", None, "no"]),
        ("yes", "", "no"),
    ],
    ids=lambda gold: type(gold).__name__,
)
def test_every_shape_of_gold(gold):
    encoded = VOTES.with_gold(gold).gold
    assert encoded.tolist() == [1, -1, 0]
    assert encoded.dtype == np.int16


def test_gold_follows_the_order_of_classes_and_items():
    votes = Annotations.from_arrays(["p", "q"], ["a", "a"], ["no", "yes"], items=["q", "p"], classes=["yes", "no"])
    assert votes.with_gold({"p": "no", "q": "yes"}).gold.tolist() == [0, 1]


def test_ids_and_labels_match_by_their_text():
    votes = Annotations.from_arrays([1, 2], ["a", "a"], [0, 1])
    assert votes.with_gold({"1": "1"}).gold.tolist() == [1, -1]
    assert votes.with_gold([0.0, NAN]).gold.tolist() == [0, -1]


def test_no_gold_at_all():
    assert VOTES.with_gold({}).gold.tolist() == [-1, -1, -1]
    assert VOTES[[]].with_gold([]).gold.tolist() == []


def test_gold_replaces_gold_and_leaves_votes_alone():
    first = VOTES.with_gold({"p": "yes"})
    assert first.with_gold({"q": "yes"}).gold.tolist() == [-1, 1, -1]
    assert VOTES.gold is None
    assert first.label is VOTES.label


def test_gold_of_unknown_items_is_ignored_with_a_warning():
    with pytest.warns(DataWarning, match="2 gold labels are of items without votes"):
        votes = VOTES.with_gold({"p": "yes", "s": "no", "t": "never heard of"})
    assert votes.gold.tolist() == [1, -1, -1]


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ({"p": "yess"}, "gold label 'yess' of item 'p' is not among the classes no, yes; did you mean 'yes'"),
        (["yes"], "1 labels for 3 items"),
        (pd.DataFrame({"item": ["p", "p"], "label": ["yes", "no"]}), "item 'p' two different labels"),
        (pd.DataFrame({"item": ["p"], "colour": ["yes"]}), "no truth column.*Rename it to 'truth'"),
        (pd.DataFrame({"name": ["p"], "label": ["yes"]}), "no item column"),
        (3, "gold must be a mapping"),
    ],
)
def test_bad_gold_is_named(gold, message):
    with pytest.raises(InputError, match=message):
        VOTES.with_gold(gold)


def test_none_takes_gold_away() -> None:
    assert VOTES.with_gold({"p": "yes"}).with_gold(None).gold is None
