"""The promises of every method that hold for the online ones too.

Theirs are not: an update ends where a fit to all votes ends (it ends near), and the number of iterations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.methods.labels import test_contract as contract
from tests.methods.labels.helpers import crowd, diagonal_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import label_methods

METHODS = label_methods()

NAMES = ("online-em", "streaming-ds")

pytestmark = pytest.mark.skipif(not set(NAMES) <= set(METHODS), reason="the online methods are not registered yet")
method = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def easy() -> Annotations:
    return crowd(7, 30, diagonal_crowd(5, 3, 0.85))[0]


@method
@pytest.mark.parametrize(
    "promise",
    [
        contract.test_any_votes_give_a_sound_result_that_predicts_and_explains_itself,
        contract.test_gold_is_respected,
        contract.test_row_order_does_not_matter_to_the_bit,
        contract.test_inputs_stay_as_they_were,
        contract.test_no_votes_at_all_give_uniform_labels,
        contract.test_one_class_is_allowed_with_a_warning,
        contract.test_a_hundred_classes,
        contract.test_unicode_and_integer_names,
        contract.test_history_moves_the_label_of_a_tied_item,
        contract.test_votes_in_every_usual_form,
        contract.test_make_repr_and_registry,
        contract.test_every_setting_is_documented,
    ],
)
def test_promises_about_any_votes(name: str, promise: Any) -> None:
    promise(name=name)


@method
@pytest.mark.parametrize(
    "promise",
    [
        contract.test_same_seed_same_result_to_the_bit,
        contract.test_class_prior_in_every_shape,
        contract.test_annotator_prior_in_every_shape,
        contract.test_annotator_prior_from_an_earlier_campaign,
        contract.test_params_and_clone,
        contract.test_strangers_do_not_crash,
        contract.test_prediction_does_not_depend_on_the_other_items,
        contract.test_prediction_takes_a_subset_of_the_classes_in_any_order,
        contract.test_update_keeps_the_history_of_annotators,
    ],
)
def test_promises_about_easy_votes(name: str, promise: Any, easy: Annotations) -> None:
    promise(name=name, easy=easy)


@method
def test_promises_about_the_truth(name: str, easy: Annotations) -> None:
    truth = crowd(7, 30, diagonal_crowd(5, 3, 0.85))[1]
    contract.test_score_with_labels_is_accuracy(name=name, easy=easy, easy_truth=truth)
    contract.test_grid_search_with_labels(name=name, easy=easy, easy_truth=truth)
    # Where a model has a likelihood, votes can be scored without labels: better than guessing among three classes.
    assert -np.log(3) < contract.fit(name, easy).score(easy) < 0


@method
def test_promises_about_settings(name: str, easy: Annotations) -> None:
    for setting, value in contract.out_of_range(name):
        contract.test_settings_out_of_range_are_named(name=name, setting=setting, value=value, easy=easy)


@method
def test_promises_about_saving(name: str, easy: Annotations, tmp_path: Path) -> None:
    contract.test_save_and_load_give_back_everything(name=name, easy=easy, tmp_path=tmp_path)
