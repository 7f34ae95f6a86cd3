"""Published numbers: Dawid & Skene's table, accuracies on public sets, and crowd-kit's EM, iteration by iteration."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd, quiet

from crowdwise.data.annotations import Annotations
from crowdwise.data.datasets import dawid_skene_1979
from crowdwise.estimator.registry import make
from crowdwise.trust.metrics import accuracy


def fit(name: str, votes: Annotations, **options: Any) -> Any:
    with quiet():
        return make(name, **options).fit(votes)


# -- Dawid & Skene (1979) -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def patients() -> Any:
    return fit("dawid-skene", dawid_skene_1979(), smoothing=0, tol=1e-12, max_iter=5000)


def test_class_shares_and_likelihood_of_1979(patients: Any) -> None:
    # Maximum likelihood from vote shares; recomputed independently and confirmed by enumeration.
    np.testing.assert_allclose(patients.prior_, [0.400, 0.422, 0.112, 0.067], atol=6e-4)
    assert patients.trace_[-1] == pytest.approx(-192.891, abs=1e-3)


def test_the_typed_table_is_the_shared_one(shared_data: Path) -> None:
    table = pl.read_csv(shared_data / "dawid_skene_1979" / "annotations.csv")
    assert Annotations.from_frame(table).to_frame().equals(dawid_skene_1979().to_frame())


def test_likelihood_of_1979_is_that_of_its_own_parameters(patients: Any) -> None:
    votes = dawid_skene_1979()
    likelihood = np.ones((45, 4)) * patients.prior_
    for e in range(votes.n_votes):
        likelihood[votes.item[e]] *= patients.confusion_[votes.annotator[e], :, votes.label[e]]
    assert np.log(likelihood.sum(axis=1)).sum() == pytest.approx(patients.trace_[-1], abs=1e-9)
    # The M-step's fixed point: class shares are mean posteriors.
    np.testing.assert_allclose(patients.result_.model_posterior.mean(axis=0), patients.prior_, atol=1e-6)


# -- public sets ----------------------------------------------------------------------------------

# Deduplicated votes, ties split. Measured with reference code written before this library: majority,
# Dawid-Skene with smoothing .01, one-coin under Beta(2, 1), variational Bayes with prior 4/1.
SETTINGS = {
    "majority": {},
    "dawid-skene": {"smoothing": 0.01},
    "one-coin": {"right": 1, "wrong": 0, "class_prior": "uniform"},
    "bayes-gc": {"diagonal": 4.0, "off_diagonal": 1.0, "alpha0": 1.0},
}
ACCURACY = {
    "bluebird": {"majority": 0.7593, "dawid-skene": 0.8981, "one-coin": 0.7222, "bayes-gc": 0.8889},
    "dog": {"majority": 0.8222, "dawid-skene": 0.8426, "one-coin": 0.8290, "bayes-gc": 0.8389},
    "rte": {"majority": 0.8969, "dawid-skene": 0.9275, "one-coin": 0.9275, "bayes-gc": 0.9275},
    "web": {"majority": 0.7307, "dawid-skene": 0.8217, "one-coin": 0.8379, "bayes-gc": 0.7497},
    "sentence_polarity": {"majority": 0.8859, "dawid-skene": 0.9148, "one-coin": 0.9168, "bayes-gc": 0.9150},
    "product": {"majority": 0.8966, "dawid-skene": 0.9396, "one-coin": 0.9280, "bayes-gc": 0.9383},
}
SIZES = {  # items, annotators, classes, votes
    "bluebird": (108, 39, 2, 4212),
    "dog": (807, 109, 4, 8070),
    "rte": (800, 164, 2, 8000),
    "web": (2665, 177, 5, 15567),
    "sentence_polarity": (4999, 203, 2, 27746),
    "product": (8315, 176, 2, 24945),
}


@lru_cache
def public_set(folder: Path) -> tuple[Annotations, np.ndarray]:
    votes = Annotations.from_frame(pl.read_csv(folder / "annotations.csv")).deduplicate()
    truth = votes.with_gold(pl.read_csv(folder / "truth.csv")).gold
    return votes, truth


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("dataset", ACCURACY)
def test_accuracy_on_public_sets(shared_data: Path, dataset: str, name: str) -> None:
    votes, truth = public_set(shared_data / dataset)
    assert (votes.n_items, votes.n_annotators, votes.n_classes, votes.n_votes) == SIZES[dataset]
    found = accuracy(fit(name, votes, **SETTINGS[name]).result_.model_posterior, truth)
    assert found == pytest.approx(ACCURACY[dataset][name], abs=0.001 if name == "majority" else 0.005)


# -- crowd-kit ------------------------------------------------------------------------------------


def crowd_kit_reference(votes: Annotations, n_iter: int) -> np.ndarray:
    """crowd-kit's published loop in plain numpy: majority start, M-step clipped at 1e-10, E-step in base 2."""
    n_items, n_annotators, n_classes = votes.n_items, votes.n_annotators, votes.n_classes
    counts = np.zeros((n_items, n_classes))
    np.add.at(counts, (votes.item, votes.label), 1)
    probas = counts / counts.sum(axis=1, keepdims=True)
    for _ in range(n_iter):
        priors = np.maximum(probas.mean(axis=0), 1e-10)
        errors = np.zeros((n_annotators, n_classes, n_classes))  # worker, observed, true
        np.add.at(errors, (votes.annotator, votes.label), probas[votes.item])
        seen = np.zeros((n_annotators, n_classes), bool)  # only (worker, label) pairs that occur have a row there
        seen[votes.annotator, votes.label] = True
        errors = np.where(seen[:, :, None], np.maximum(errors, 1e-10), 0)
        errors /= errors.sum(axis=1, keepdims=True)
        scores = np.tile(np.log2(priors), (n_items, 1))
        np.add.at(scores, votes.item, np.log2(errors[votes.annotator, votes.label]))
        probas = np.exp2(scores - scores.max(axis=1, keepdims=True))
        probas /= probas.sum(axis=1, keepdims=True)
    return probas


def crowd_kit_problems() -> dict[str, Annotations]:
    return {
        "1979": dawid_skene_1979(),
        "three classes": crowd(1, 80, diagonal_crowd(6, 3, 0.6))[0],
        "sparse": crowd(2, 120, diagonal_crowd(10, 2, 0.7), votes_per_item=4)[0],
    }


@pytest.mark.parametrize("n_iter", [1, 2, 5, 20])
@pytest.mark.parametrize("problem", crowd_kit_problems())
def test_posteriors_equal_crowd_kits_loop_at_every_iteration(problem: str, n_iter: int) -> None:
    votes = crowd_kit_problems()[problem]
    ours = fit("dawid-skene", votes, smoothing=0, max_iter=n_iter, tol=1e-300).result_.model_posterior
    np.testing.assert_allclose(ours, crowd_kit_reference(votes, n_iter), atol=1e-6)


@pytest.mark.parametrize("n_iter", [1, 5, 20])
@pytest.mark.parametrize("problem", crowd_kit_problems())
def test_posteriors_equal_crowd_kit_itself(problem: str, n_iter: int) -> None:
    crowdkit = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not a dependency")
    votes = crowd_kit_problems()[problem]
    table = votes.to_frame().to_pandas().rename(columns={"item": "task", "annotator": "worker"})
    # A negative tolerance never stops early, so the iteration counts agree.
    theirs = crowdkit.DawidSkene(n_iter=n_iter, tol=-1e9).fit_predict_proba(table)
    theirs = theirs.loc[votes.items.tolist(), votes.classes.tolist()].to_numpy()
    ours = fit("dawid-skene", votes, smoothing=0, max_iter=n_iter, tol=1e-300).result_.model_posterior
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
