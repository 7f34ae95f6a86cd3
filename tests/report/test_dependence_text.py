"""What is said where annotators seem to share errors."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.independence import Dependence
from crowdwise.engines.readings import Reading, SharedErrors
from crowdwise.estimator.registry import make
from crowdwise.report.dependence_text import dependence_lines, labeling_lines

VOTES = Annotations.from_matrix(np.array([[0, 0, 1, 1], [1, 1, 0, 1], [0, 0, 0, 0]]), annotators=list("abcd"))
PAIR = Reading(
    (
        SharedErrors(
            np.array([0, 1]), excess=0.8, confirmed=0.8, ratio=8.0, p_value=1e-6, share=0.5, outside=0.4, outside_sd=0.05
        ),
    ),
    np.array([0, 0, -1, -1]),
)
NOBODY = Reading((), np.full(4, -1))


def test_a_reading_without_groups_is_said_in_words() -> None:
    result = make("majority").fit(VOTES).result_
    found = Dependence((PAIR, NOBODY))
    lines = "\n".join(dependence_lines(found, VOTES))
    assert lines.startswith("warning: 2 annotators seem to share errors: a, b (")
    assert "the votes can also be read so that nobody shares errors;" in lines
    labels = list(labeling_lines(found, VOTES, [result, result]))
    assert labels[0].startswith("reading 1, where a, b share errors: ")
    assert labels[1].startswith("reading 2, where nobody shares errors: ")
    # What is known may prefer it.
    turned = "\n".join(dependence_lines(Dependence((NOBODY, PAIR)), VOTES))
    assert turned.startswith("warning: annotators may share errors, though")
    assert "the votes can also be read so that a, b share errors;" in turned


def test_labels_to_check_are_those_that_choose_between_the_readings() -> None:
    disputed = "check some labels in which the readings differ"
    for done in ("fitted", "fused", "undecided"):
        assert disputed in "\n".join(dependence_lines(Dependence((PAIR, NOBODY)), VOTES, done)), done
    alone = "\n".join(dependence_lines(Dependence((PAIR,)), VOTES))
    assert disputed not in alone
    assert "check some labels: crowdwise audit" in alone
