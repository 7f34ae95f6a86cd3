"""Sets by the consensus on every label, and how far their probabilities may be believed."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.sets.test_label_wise import set_crowd

from crowdwise import make
from crowdwise.data.label_sets import LabelSets
from crowdwise.errors import InputError, SettingError
from crowdwise.methods.labels.consensus import Consensus
from crowdwise.methods.sets.believed import cooled, on_its_side
from crowdwise.methods.sets.consensus_sets import ConsensusSets


@pytest.mark.slow
def test_every_label_is_the_consensus_on_its_votes() -> None:
    answers, *_ = set_crowd(3, 40)
    result = ConsensusSets(confidence="model").fit(answers).result_
    for k in range(answers.n_labels):
        alone = Consensus(confidence="model").fit(answers.binary(k)).result_
        np.testing.assert_array_equal(result.probability[:, k], alone.posterior[:, 1])
        np.testing.assert_array_equal(result.sensitivity[:, k], alone.confusion[:, 1, 1])
    right = np.where(result.chosen, result.probability, 1 - result.probability)
    np.testing.assert_allclose(result.set_probability, [np.prod(row) for row in right])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["consensus-sets", "label-wise"])
def test_experience_lowers_probabilities_but_never_across_a_half_or_the_share(name: str) -> None:
    answers, *_ = set_crowd(4, 60)
    result = make(name).fit(answers).result_
    model, believed, share = result.inferred, result.probability, result.share
    assert result.confidence_source == "experience"
    assert (np.maximum(believed, 1 - believed) <= np.maximum(np.maximum(model, 1 - model), 1 - share) + 1e-9).all()
    assert ((model - 0.5) * (believed - 0.5) >= -1e-12).all()
    assert ((model - share) * (believed - share) >= -1e-12).all()


def test_probabilities_cool_by_the_votes_on_a_label() -> None:
    # Odds 9 with 16 votes and exponent 1/2: the fourth root; a label without votes stays as it is.
    q = cooled(np.array([[0.9, 0.2]]), np.array([[16.0, 0.0]]), 0.5)
    np.testing.assert_allclose(q, [[9**0.25 / (1 + 9**0.25), 0.2]])
    moved = on_its_side(np.array([[0.2, 0.2, 0.6]]), np.array([[0.01, 0.3, 0.95]]), np.array([0.1, 0.1, 0.7]))
    np.testing.assert_allclose(moved, [[0.1, 0.2, 0.7]])


@pytest.mark.slow
def test_known_sets_stay_join_items_and_labels_and_teach_annotators() -> None:
    answers, truth, *_ = set_crowd(5, 50)
    names = answers.labels
    known = LabelSets.from_arrays(
        [*range(30), 999], ["expert"] * 31, [*([*names[row]] for row in truth[:30]), ["new"]], labels=[*names.tolist(), "new"]
    )
    joined = answers.with_gold(known)
    assert joined.n_items == 51
    assert joined.labels.tolist() == [*names.tolist(), "new"]
    assert joined.is_known.sum() == 31
    result = ConsensusSets().fit(joined).result_
    np.testing.assert_array_equal(result.chosen[:30, :-1], truth[:30])
    assert result.sets[50] == {"new"}
    frame = result.items_frame()
    assert frame["confidence_source"].to_list() == ["gold"] * 30 + ["experience"] * 20 + ["gold"]
    # What annotators are like is learned from the known items too.
    assert not np.allclose(result.sensitivity[:, :-1], ConsensusSets().fit(answers).result_.sensitivity)
    kept = joined.take_items(np.arange(10))
    np.testing.assert_array_equal(kept.known_sets, joined.known_sets[:10])
    again = joined.take_items(np.arange(25)).concat(joined.take_items(np.arange(25, 51)))
    np.testing.assert_array_equal(again.known_sets, joined.known_sets)


def test_errors_name_the_fix() -> None:
    with pytest.raises(InputError, match="labels="):
        ConsensusSets().fit(LabelSets.from_arrays(["x"], ["a"], ["none"]))
    with pytest.raises(SettingError, match="threshold"):
        ConsensusSets(threshold=1.5).fit(LabelSets.from_arrays(["x"], ["a"], ["cat"]))
    with pytest.raises(InputError, match="one for an item"):
        LabelSets.from_arrays(["x"], ["a"], ["cat"]).with_gold(LabelSets.from_arrays(["x", "x"], ["e", "f"], ["cat", "cat"]))
