"""What judges favour, beside the table of judges."""

import math

import polars as pl

from crowdwise.trust.judges import with_biases

JUDGES = pl.DataFrame({"annotator": ["b", "silent", "a"], "n_votes": [4, 0, 4]})


def test_rows_keep_their_order_and_say_what_each_judge_favours():
    # a always says "first"; b prefers x wherever it stands.
    judge = ["a"] * 4 + ["b"] * 4
    pair, in_order = ["p", "p", "q", "q"] * 2, [True, False] * 4
    frame = with_biases(JUDGES, judge, pair, in_order, [1.0] * 4 + [1.0, 0.0] * 2)
    assert frame["annotator"].to_list() == ["b", "silent", "a"]
    assert frame["consistency"].to_list() == [1.0, None, 0.0]
    assert frame["first_advantage"].to_list() == [0.0, None, 1.0]
    assert frame["first_share"].to_list() == [0.5, None, 1.0]
    assert "length_slope" not in frame.columns


def test_lengths_count_where_they_differ_and_truth_beside_them_where_it_is_known():
    judge, pair = ["a"] * 8, list("ppqqrrss")
    doublings = [1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1.0, -1.0]
    longer = [1.0 if d > 0 else 0.0 for d in doublings]
    order = [True, False] * 4
    same = with_biases(JUDGES, judge, pair, order, longer, doublings=[0.0] * 8)
    assert "length_slope" not in same.columns
    frame = with_biases(JUDGES, judge, pair, order, longer, doublings=doublings, truth=[1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0])
    slopes = dict(zip(frame["annotator"], frame["length_slope"], strict=True))
    assert slopes["a"] > 0.5
    assert slopes["b"] is None
    assert math.isfinite(frame.filter(pl.col("annotator") == "a")["length_slope_given_truth"].item())
