"""What a fit leaves, in a few lines."""

from __future__ import annotations

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make
from crowdwise.report.text import beside, facts, match_line, summary_lines
from crowdwise.report.trust_text import prediction_lines


def test_labels_are_compared_where_there_are_votes_and_a_known_class() -> None:
    votes = Annotations.from_arrays(["i", "j", "k"], ["a"] * 3, ["x", "y", "x"], items=["i", "j", "k", "silent"])
    result = make("majority").fit(votes).result_
    line = match_line(result, np.array([0, 0, -1, 1]))
    assert line == "compared with gold, which the fit did not see: 1 of 2 labels are right (50.0%)"
    assert match_line(result, None) == ""


def test_what_neighbours_say_is_part_of_a_summary() -> None:
    votes = Annotations.from_arrays([0, 0, 1, 1, 2, 2], ["a", "b"] * 3, ["x", "x", "y", "y", "x", "y"])
    alone = make("dawid-skene").fit(votes).result_
    joined = make("graph-dawid-skene", edges=[(0, 1), (1, 2)]).fit(votes).result_
    assert not any(line.startswith("neighbours") for line in summary_lines(alone))
    assert sum(line.startswith("neighbours are") for line in summary_lines(joined)) == 1
    assert {"coupling", "association"} & set(facts(alone)) == set()
    assert facts(joined)["coupling"] == joined.prior.coupling


def test_what_is_known_of_items_stands_beside_their_ids_if_anything_is() -> None:
    items = pl.DataFrame({"item": [1], "label": ["x"]})
    assert beside(items, None) is items
    assert beside(items, pl.DataFrame({"text": ["a"], "label": ["b"]})).columns == ["item", "text", "kept_label", "label"]


def test_predictions_are_measured_where_something_is_known() -> None:
    assert list(prediction_lines({"n_items": 3}, [])) == []
    scores = {"n_known": 2, "accuracy": 0.5, "auc": 0.5, "log_loss": 1.0, "brier": 0.25, "ece": 0.125, "ece_debiased": -0.05}
    assert list(prediction_lines({"n_items": 3, "n_rows_with_votes": 1} | scores, ["age"])) == [
        "ignored columns that the model was not trained on: age",
        "votes on 1 of 3 rows; the others have the classifier's own answer",
        "accuracy 0.5, AUC 0.5, log-loss 1, Brier 0.25, ECE 0.125 (-0.05 without chance) on 2 known labels",
    ]
