"""How long networks train: small sets are not stopped before they have learned, and what judges is the classifier alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import quiet, small_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.stopping import Judge, even_size, most_epochs, patient_epochs, warm_epochs
from crowdwise.methods.classify.ccem import CCEM
from crowdwise.methods.classify.runs import split_items, without_votes
from crowdwise.methods.classify.start import start_confusion, start_posterior
from crowdwise.parts.heads.batch import VoteList, n_batches

FEATURES, VOTES = small_crowd()


def many_annotators(seed: int, n_items: int) -> tuple[Any, Annotations, Any, Any]:
    """Ten classes, three votes per item by sixty annotators: a handful of votes for a matrix of a hundred numbers."""
    rng = np.random.default_rng(seed)
    centre, truth = rng.normal(size=(10, 20)), rng.integers(10, size=n_items + 500)
    rows = centre[truth] + rng.normal(size=(len(truth), 20))
    who = rng.integers(60, size=3 * n_items)
    item = np.repeat(np.arange(n_items), 3)
    right = rng.random(len(item)) < rng.uniform(0.3, 0.6, 60)[who]
    label = np.where(right, truth[item], rng.integers(10, size=len(item)))
    votes = Annotations.from_arrays(item=item, annotator=who, label=label, classes=list(range(10)))
    return rows[:n_items], votes, rows[n_items:], truth[n_items:]


def test_a_small_set_is_trained_until_its_network_has_learned() -> None:
    """Stopped by the likelihood of the whole model, after twenty epochs of a step each, it was no better than chance."""
    rows, votes, new, truth = many_annotators(1, 100)
    with quiet():
        model = CCEM(random_state=0).fit(rows, votes)
    assert (model.predict(new) == truth).mean() > 0.7


def test_a_judge_sums_the_labels_of_items_out_and_takes_known_ones() -> None:
    rng = np.random.default_rng(0)
    confusion = rng.dirichlet(np.ones(3), size=(VOTES.n_annotators, 3))
    log_f = np.log(rng.dirichlet(np.ones(3), size=VOTES.n_items))
    known = np.where(np.arange(VOTES.n_items) % 4, -1, np.arange(VOTES.n_items) % 3)
    expected = 0.0
    for n in range(VOTES.n_items):
        own = range(VOTES.item_ptr[n], VOTES.item_ptr[n + 1])
        joint = [
            np.exp(log_f[n, k]) * np.prod([confusion[VOTES.annotator[e], k, VOTES.label[e]] for e in own]) for k in range(3)
        ]
        if len(own):
            expected -= np.log(sum(joint) if known[n] < 0 else joint[known[n]])
    votes, items = VoteList(VOTES, torch.float64, torch.device("cpu")), torch.arange(VOTES.n_items)
    judge = Judge(torch.tensor(confusion), votes, items, torch.tensor(known))
    found = sum(judge.loss(torch.tensor(log_f)[batch.rows], batch) for batch in votes.batches(items, 7))
    assert found == pytest.approx(expected, rel=1e-9)


def test_annotators_that_are_trained_have_no_part_in_the_judgement() -> None:
    """What decides follows from the network and the votes that teach, whatever the head has learned."""
    with quiet():
        model = CCEM(epochs=3, init="majority", batch_size=16, head_learning_rate=0.5, validation=0.3, refit=False, warmup=0)
        model.fit(FEATURES, VOTES)
    _, held_out = split_items(VOTES, 0.3, 0)
    confusion = start_confusion(without_votes(VOTES, held_out), start_posterior(VOTES, "majority"))
    total, n_votes = 0.0, 0
    for n in held_out:
        own = range(VOTES.item_ptr[n], VOTES.item_ptr[n + 1])
        f = model.predict_proba(FEATURES[n : n + 1])[0]
        total += np.log(
            sum(f[k] * np.prod([confusion[VOTES.annotator[e], k, VOTES.label[e]] for e in own]) for k in range(VOTES.n_classes))
        )
        n_votes += len(own)
    best = model.history_["best_epoch"] - 1
    assert model.history_["judged"][best] == pytest.approx(-total / n_votes, rel=1e-9)
    assert model.history_["judged"][best] != pytest.approx(model.history_["held_out"][best])


def test_small_sets_get_more_epochs_and_settings_mean_what_they_say() -> None:
    assert [most_epochs(None, n, 128) for n in (100, 300, 3_000, 100_000)] == [1000, 334, 100, 100]
    assert [most_epochs(None, n, 100, 50, 100) for n in (0, 30, 100, 150, 250, 3_000)] == [100, 100, 100, 50, 50, 50]
    assert [patient_epochs(None, n, 128) for n in (100, 300, 3_000)] == [100, 34, 20]
    assert [warm_epochs(5, 100, n, 128) for n in (100, 1_000, 10_000)] == [25, 7, 5]
    assert (most_epochs(7, 100, 128), patient_epochs(3, 100, 128), warm_epochs(0, 100, 100, 128)) == (7, 3, 0)


@pytest.mark.parametrize("n_items", [130, 142, 300, 1_000, 1_281])
def test_an_epoch_has_as_many_steps_before_the_refit_as_in_it(n_items: int) -> None:
    n_training = n_items - int(0.1 * n_items)
    assert n_batches(n_training, even_size(n_training, n_items, 128)) == n_batches(n_items, 128)
    assert even_size(n_training, n_items, 128) <= 128
