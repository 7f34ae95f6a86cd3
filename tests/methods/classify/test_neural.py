"""The estimators with a network: what they take, what they refuse before training, and that they learn."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from tests.engines.gradient.helpers import blobs, even, quiet, small_crowd, votes_on
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.errors import DivergedError, InputError, NotFittedError, SettingError
from crowdwise.methods.classify.aggnet import AggNet
from crowdwise.methods.classify.ccem import CCEM
from crowdwise.methods.classify.runs import counted_confusion
from crowdwise.methods.classify.start import attended_rows, crowd_confusion, start_confusion, start_posterior

FEATURES, VOTES = small_crowd()
FAST: dict[str, Any] = {"epochs": 3, "warmup": 1, "batch_size": 16, "init": "majority"}


def fitted(
    features: Any = FEATURES, votes: Any = VOTES, *, cls: Any = CCEM, fit: dict[str, Any] | None = None, **more: Any
) -> Any:
    with quiet():
        return cls(**(FAST | more)).fit(features, votes, **(fit or {}))


class Rows(Dataset):  # type: ignore[type-arg]
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index], "a label that is not used"


# -- every source of rows is the same fit ---------------------------------------------------------


def mapped(folder: Path, array: np.ndarray) -> Any:
    np.save(folder / "rows.npy", array)
    return np.load(folder / "rows.npy", mmap_mode="r")


@pytest.mark.parametrize("kind", ["float32", "read-only", "pandas", "list", "csr", "tensor", "tensor dataset", "dataset"])
def test_rows_from_anywhere_give_the_same_fit(kind: str) -> None:
    single = FEATURES.astype(np.float32)
    read_only = single.copy()
    read_only.setflags(write=False)
    make: dict[str, Any] = {
        "float32": lambda: single,
        "read-only": lambda: read_only,
        "pandas": lambda: pd.DataFrame(single, columns=list("abcd")),
        "list": lambda: single.tolist(),
        "csr": lambda: sp.csr_matrix(single),
        "tensor": lambda: torch.tensor(single),
        "tensor dataset": lambda: TensorDataset(torch.tensor(single)),
        "dataset": lambda: Rows(single),
    }
    features = make[kind]()
    model, reference = fitted(features, precision="float32"), fitted(single, precision="float32")
    np.testing.assert_allclose(model.posterior_, reference.posterior_, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(features), reference.predict_proba(single), atol=1e-5)


def test_rows_on_disk_are_learned_like_rows_in_memory(tmp_path: Path) -> None:
    """Their order of training differs, so the fit does; sorted by class as files often are, it must be as good."""
    features, truth = blobs(3, 600, 3, gap=5.0)
    order = np.argsort(truth, kind="stable")
    features, truth = features[order], truth[order]
    votes = votes_on(truth, even(3, 3, 0.75))
    model = fitted(mapped(tmp_path, features), votes, epochs=15, batch_size=64, learning_rate=0.01)
    assert (model.predict(features) == truth).mean() > 0.95


def images(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Bright upper halves are class 1."""
    rng = np.random.default_rng(seed)
    truth = np.arange(120) % 2
    pictures = rng.integers(0, 120, (120, 8, 8, 3))
    pictures[truth == 1, :4] += 130
    return pictures.astype(np.uint8), truth


@pytest.mark.parametrize("kind", ["bytes", "grey", "channels first", "floats", "mapped", "dataset"])
def test_images_are_learned(kind: str, tmp_path: Path) -> None:
    pictures, truth = images()
    make: dict[str, Any] = {
        "bytes": lambda: pictures,
        "grey": lambda: pictures[:, :, :, 0],
        "channels first": lambda: np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)),
        "floats": lambda: pictures.transpose(0, 3, 1, 2) / 255,
        "mapped": lambda: mapped(tmp_path, pictures),
        "dataset": lambda: Rows(pictures),
    }
    model = fitted(make[kind](), votes_on(truth, even(3, 2, 0.8)), epochs=10, learning_rate=0.01)
    assert any(isinstance(module, nn.Conv2d) for module in model.network_.modules())
    assert (model.predict(make[kind]()) == truth).mean() > 0.9


class Bag(nn.Module):
    """Mean of word vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.last = nn.Linear(8, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.last(self.words(tokens).mean(1))


@pytest.mark.parametrize("kind", ["array", "int32", "pandas", "mapped", "tensor", "dataset"])
def test_token_ids_are_embedded(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(100) % 2
    tokens = rng.integers(0, 25, (100, 6)) + 25 * truth[:, None]
    make: dict[str, Any] = {
        "array": lambda: tokens,
        "int32": lambda: tokens.astype(np.int32),
        "pandas": lambda: pd.DataFrame(tokens, columns=list("abcdef")),
        "mapped": lambda: mapped(tmp_path, tokens),
        "tensor": lambda: torch.tensor(tokens),
        "dataset": lambda: Rows(tokens),
    }
    model = fitted(make[kind](), votes_on(truth, even(3, 2, 0.9)), network=Bag, epochs=20, learning_rate=0.02)
    assert (model.predict(make[kind]()) == truth).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["array", "tensor", "dataset"])
@pytest.mark.parametrize("network", ["mlp", lambda: nn.Linear(3, 2)], ids=["built-in", "own"])
def test_whole_numbers_are_numbers_for_networks_that_compute_with_them(kind: str, network: Any) -> None:
    truth = np.arange(80) % 2
    counts = np.random.default_rng(0).poisson(2 + 6 * truth[:, None], (80, 3))
    make: dict[str, Any] = {"array": lambda: counts, "tensor": lambda: torch.tensor(counts), "dataset": lambda: Rows(counts)}
    model = fitted(make[kind](), votes_on(truth, even(3, 2, 0.9)), network=network, epochs=60, learning_rate=0.02)
    assert (model.predict(make[kind]()) == truth).mean() > 0.9


def test_whole_numbers_and_floats_of_the_same_value_give_the_same_fit() -> None:
    counts = np.random.default_rng(0).poisson(4, (60, 3))
    np.testing.assert_array_equal(fitted(counts).posterior_, fitted(counts.astype(float)).posterior_)


# -- bad input: a clear error, and no epoch is run ------------------------------------------------


def with_row(value: float) -> np.ndarray:
    features = FEATURES.copy()
    features[41, 2] = value
    return features


class Strange(nn.Module):
    def forward(self, rows: torch.Tensor) -> Any:
        return {"scores": rows}


BAD: dict[str, tuple[dict[str, Any], Any, str]] = {
    "fewer rows than items": ({"features": FEATURES[:50]}, InputError, "X has 50 rows but there are 60 items with votes"),
    "fewer labels than rows": ({"votes": [0, 1] * 20}, InputError, "X has 60 rows but there are 40 labels"),
    "ids that differ": ({"fit": {"items": range(100, 160)}}, InputError, "60 of 60 items have votes but no row of features"),
    "an id twice": ({"fit": {"items": [0, *range(59)]}}, InputError, "have votes but no row|stands for two rows"),
    "NaN": ({"features": with_row(np.nan)}, InputError, "NaN or infinity in row 41"),
    "infinity": ({"features": with_row(-np.inf)}, InputError, "NaN or infinity in row 41"),
    "NaN in a tensor": ({"features": torch.tensor(with_row(np.nan))}, InputError, "NaN or infinity in row 41"),
    "NaN in a tensor dataset": ({"features": TensorDataset(torch.tensor(with_row(np.nan)))}, InputError, "in row 41"),
    "NaN in a sparse matrix": ({"features": sp.csr_matrix(with_row(np.nan))}, InputError, "NaN or infinity in row 41"),
    "text": ({"features": np.full((60, 2), "a", dtype=object)}, ValueError, "could not convert string to float"),
    "objects": ({"features": np.full((60, 2, 2), None)}, InputError, "features must be numbers; got an array of object"),
    "nothing": ({"features": None}, ValueError, "Expected 2D array|got None|scalar"),
    "one column as a vector": ({"features": FEATURES[:, 0]}, ValueError, "Expected 2D array, got 1D array"),
    "one class": ({"votes": ["u"] * 60}, InputError, "at least two classes, and the votes have the class 'u' only"),
    "one class of votes": (
        {"votes": Annotations.from_arrays(range(60), ["a"] * 60, ["u"] * 60)},
        InputError,
        "the class 'u' only; one class leaves nothing to learn: name them all with classes=",
    ),
    "no votes": ({"votes": VOTES.take_votes(np.zeros(VOTES.n_votes, bool))}, InputError, "there is no vote to learn from"),
    "too few outputs": ({"network": nn.Linear(4, 2)}, InputError, r"logits of shape \[rows, 3\].*it returned shape \(2, 2\)"),
    "too many outputs": ({"network": lambda: nn.Linear(4, 7)}, InputError, r"it returned shape \(2, 7\)"),
    "outputs of another rank": (
        {"network": nn.Sequential(nn.Linear(4, 3), nn.Unflatten(1, (3, 1)))},
        InputError,
        "it returned",
    ),
    "one output for all rows": (
        {"network": nn.Sequential(nn.Flatten(0), nn.Linear(8, 3), nn.Unflatten(0, (1, 3)))},
        InputError,
        r"it returned shape \(1, 3\) for 2 rows",
    ),
    "no tensor": ({"network": Strange}, InputError, "it returned dict"),
    "another width": ({"network": nn.Linear(9, 3)}, InputError, r"the network cannot take rows of shape \(4,\): mat1 and mat2"),
    "an image network": ({"network": nn.Conv2d(3, 3, 1)}, InputError, r"the network cannot take rows of shape \(4,\)"),
    "tokens out of range": (
        {"features": np.full((60, 4), 99), "network": Bag, "votes": [0, 1] * 30},
        InputError,
        r"the network cannot take rows of shape \(4,\): index out of range",
    ),
    "floats for tokens": ({"network": Bag, "votes": [0, 1] * 30}, InputError, "the network cannot take rows"),
    "no network": (
        {"network": lambda: "mlp"},
        SettingError,
        "must be a torch module or a function that makes one; it made a str",
    ),
    "a network by a wrong name": ({"network": "nlp"}, SettingError, "did you mean 'mlp'"),
    "an unknown start": ({"init": "dawid-skeen"}, SettingError, "init: no start 'dawid-skeen'; did you mean 'dawid-skene'"),
    "an unknown start for one annotator": ({"init": "best", "votes": [0, 1] * 30}, SettingError, "init: no start 'best'"),
    "a start of another shape": ({"init": np.ones((60, 2)) / 2}, SettingError, r"a posterior of shape \(60, 3\)"),
    "a start that does not sum to one": ({"init": np.ones((60, 3))}, SettingError, "whose rows sum to one"),
    "a start with NaN": ({"init": np.full((60, 3), np.nan)}, SettingError, "whose rows sum to one"),
    "a checkpoint nowhere": ({"checkpoint": "/no/such/folder/run"}, InputError, "checkpoint: cannot write into"),
    "no such device": ({"device": "cuda:77"}, SettingError, "no torch device 'cuda:77' on this machine"),
    "no device at all": ({"device": "quantum"}, SettingError, "no torch device 'quantum'"),
    "a negative rate": ({"learning_rate": -1.0}, SettingError, "learning_rate must be above 0"),
    "no epochs": ({"epochs": 0}, SettingError, "epochs must be at least 1"),
    "dropout of everything": ({"dropout": 1.0}, SettingError, "dropout must be below 1"),
    "an unknown optimiser": ({"optimizer": "adamm"}, SettingError, "did you mean 'adam'"),
    "an unknown schedule": ({"scheduler": "cosin"}, SettingError, "did you mean 'cosine'"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("cls", [CCEM, AggNet])
def test_bad_input_is_a_clear_error_before_any_epoch(case: str, cls: Any) -> None:
    settings, kind, message = BAD[case]
    epochs: list[int] = []
    fit = {"progress": lambda *values: epochs.append(1)} | settings.get("fit", {})
    with pytest.raises(kind, match=message):
        fitted(cls=cls, **(settings | {"fit": fit}))
    assert epochs == []


def test_an_error_of_input_leaves_an_earlier_fit_alone() -> None:
    model = fitted()
    kept = model.posterior_.copy()
    with pytest.raises(InputError):
        model.fit(FEATURES[:50], VOTES)
    np.testing.assert_array_equal(model.posterior_, kept)
    np.testing.assert_array_equal(model.predict_proba(FEATURES).argmax(1), fitted().predict_proba(FEATURES).argmax(1))


def test_nan_in_a_dataset_is_found_by_the_loss() -> None:
    with pytest.raises(DivergedError, match="a dataset is not searched for NaN beforehand"):
        fitted(Rows(with_row(np.nan)), epochs=5)


# -- bad input at prediction ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (FEATURES[:, :3], "3 features, but CCEM is expecting 4 features"),
        (torch.zeros(5, 3), r"rows of shape \(3,\), but the model was fitted to rows of shape \(4,\)"),
        (np.zeros((5, 3, 8, 8)), r"rows of shape \(3, 8, 8\)"),
        (with_row(np.nan), "NaN or infinity in row 41"),
    ],
)
def test_rows_that_do_not_fit_are_refused_at_prediction(features: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted().predict(features)


def test_votes_with_unseen_classes_are_refused() -> None:
    model = fitted()
    strange = Annotations.from_arrays([0, 1], ["a", "a"], [0, 77], items=[0, 1])
    for use in (model.predict, model.predict_proba, model.score):
        with pytest.raises(InputError, match=r"labels \['77'\] occur in the votes or in gold but are not among the classes"):
            use(FEATURES[:2], strange)


def test_votes_on_another_number_of_items_are_refused() -> None:
    model = fitted()
    for use in (model.predict, model.score):
        with pytest.raises(InputError, match="X has 10 rows but there are 60 items with votes"):
            use(FEATURES[:10], VOTES)


def test_an_unfitted_model_says_so() -> None:
    for use in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(CCEM(), use)(FEATURES)
    with pytest.raises(NotFittedError):
        _ = CCEM().posterior_


# -- predictions ----------------------------------------------------------------------------------


def test_the_posterior_is_the_classifier_times_the_votes() -> None:
    model = fitted()
    f = model.predict_proba(FEATURES)
    expected = f.copy()
    for e in range(VOTES.n_votes):
        expected[VOTES.item[e]] *= model.confusion_[VOTES.annotator[e], :, VOTES.label[e]]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.result_.model_posterior, expected, rtol=1e-6)
    counted = counted_confusion(VOTES, expected).confusion()
    for e in range(VOTES.n_votes):
        f[VOTES.item[e]] *= counted[VOTES.annotator[e], :, VOTES.label[e]]
    f /= f.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.set_params(confidence="model").predict_proba(FEATURES, VOTES), f, rtol=1e-6)


def test_annotators_never_seen_have_the_crowds_matrix() -> None:
    model = fitted()
    counts = np.full((3, 3), 1 / 3)
    for e in range(VOTES.n_votes):
        counts[:, VOTES.label[e]] += model.result_.model_posterior[VOTES.item[e]]
    pooled = counts / counts.sum(axis=1, keepdims=True)
    new = Annotations.from_arrays([0, 1], ["stranger", "stranger"], [2, 0], items=[0, 1])
    f = model.predict_proba(FEATURES[:2])
    expected = f * np.stack([pooled[:, 2], pooled[:, 0]])
    np.testing.assert_allclose(
        model.predict_proba(FEATURES[:2], new), expected / expected.sum(axis=1, keepdims=True), rtol=1e-6
    )


def test_the_score_of_votes_is_their_log_probability_per_vote() -> None:
    model = fitted()
    f, total = model.predict_proba(FEATURES), 0.0
    confusion = counted_confusion(VOTES, model.result_.model_posterior).confusion()
    for n in range(60):
        own = range(VOTES.item_ptr[n], VOTES.item_ptr[n + 1])
        joint = [f[n, k] * np.prod([confusion[VOTES.annotator[e], k, VOTES.label[e]] for e in own]) for k in range(3)]
        total += np.log(sum(joint))
    assert model.score(FEATURES, VOTES) == pytest.approx(total / VOTES.n_votes, rel=1e-6)


def test_the_score_of_labels_is_their_accuracy() -> None:
    model = fitted()
    labels = np.arange(60) % 3
    assert model.score(FEATURES, labels) == np.mean(model.predict(FEATURES) == labels)


# -- starts ---------------------------------------------------------------------------------------


def test_the_crowds_matrix_by_hand() -> None:
    """Two classes; four right and one wrong vote on class 0, three right on class 1: 7 of 8, so right = 8/10."""
    votes = Annotations.from_arrays(range(8), ["a"] * 8, [0, 0, 0, 0, 1, 1, 1, 1], items=range(8), classes=[0, 1])
    truth = np.eye(2)[[0, 0, 0, 0, 0, 1, 1, 1]]
    rows = np.array([[4 + 2 * 0.8, 1 + 2 * 0.2], [0 + 2 * 0.2, 3 + 2 * 0.8]])
    np.testing.assert_allclose(crowd_confusion(votes, truth), rows / rows.sum(axis=1, keepdims=True), rtol=1e-12)


def test_starting_matrices_are_untransposed_and_shrunk_towards_the_crowd() -> None:
    rng = np.random.default_rng(0)
    confusion = rng.dirichlet(np.ones(3), (2, 3))
    truth = np.arange(6000) % 3
    votes = votes_on(truth, confusion)
    np.testing.assert_allclose(start_confusion(votes, np.eye(3)[truth]), confusion, atol=0.04)
    silent = votes.take_votes(votes.annotator == 0)
    got = start_confusion(silent, np.eye(3)[truth])
    np.testing.assert_allclose(got[1], crowd_confusion(silent, np.eye(3)[truth]), rtol=1e-12)


def test_the_identity_start_is_vote_shares() -> None:
    votes = Annotations.from_arrays([0, 0, 0, 1], list("abca"), ["u", "u", "v", "v"], items=[0, 1, 2])
    np.testing.assert_allclose(start_posterior(votes, "identity"), [[2 / 3, 1 / 3], [0, 1], [0.5, 0.5]])
    np.testing.assert_allclose(start_posterior(votes.with_gold({2: "v"}), "identity")[2], [0, 1])


def test_a_posterior_can_be_the_start() -> None:
    given = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    np.testing.assert_array_equal(start_posterior(VOTES, given), given)
    assert np.isfinite(fitted(init=given).posterior_).all()


def test_a_start_from_an_aggregation_survives_adversaries() -> None:
    """Two of five annotators always name the next class."""
    features, truth = blobs(8, 300, 3, gap=5.0)
    shift = np.roll(np.eye(3), 1, axis=1)
    votes = votes_on(truth, np.stack([*even(3, 3, 0.85), shift, shift]))
    model = fitted(features, votes, init="dawid-skene", epochs=20, batch_size=64, learning_rate=0.01, warmup=5)
    assert (model.labels_ == truth).mean() > 0.95
    assert (model.predict(features) == truth).mean() > 0.9
    # Observed is true + 1, not true - 1.
    np.testing.assert_allclose(model.confusion_[3], shift, atol=0.15)


def test_methods_are_exported() -> None:
    assert crowdwise.CCEM is CCEM
    assert crowdwise.AggNet is AggNet


def test_a_fit_on_ordinary_data_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CCEM(**FAST).fit(FEATURES, VOTES).predict(FEATURES)


# -- votes on new rows -----------------------------------------------------------------------------


def test_votes_on_new_rows_are_judged_by_counts_with_pseudo_votes_of_the_crowd() -> None:
    """Two annotators, three classes: the first is right six times out of six, the second calls 2 a 0 once in three."""
    truth = np.array([0, 0, 1, 1, 2, 2, 2])
    votes = Annotations.from_arrays(
        [0, 1, 2, 3, 4, 5, 0, 2, 4, 5, 6], [0] * 6 + [1] * 5, [0, 0, 1, 1, 2, 2, 0, 1, 2, 2, 0], items=range(7)
    )
    counts = np.zeros((2, 3, 3))
    np.add.at(counts, (votes.annotator, truth[votes.item], votes.label), 1)
    posterior = np.eye(3)[truth]
    pseudo = 3 * attended_rows(votes, posterior).transpose(0, 2, 1)
    found = counted_confusion(votes, posterior).confusion()
    np.testing.assert_allclose(found, (counts + pseudo) / (counts.sum(axis=2, keepdims=True) + 3), atol=1e-12)
    np.testing.assert_allclose(pseudo.sum(axis=2), 3)
    # The first was never seen to err, and is no oracle.
    assert (found[0] > 0).all()


def test_a_label_that_an_annotator_never_gave_does_not_decide_alone() -> None:
    """Annotators who were always right so far: trained as points, their word is final; one vote against a sure row is not."""
    features, truth = blobs(0, 60, 3, gap=8.0)
    votes = votes_on(truth, even(3, 3, 1.0))
    model = fitted(features, votes, epochs=60, confidence="model")
    row = int(np.flatnonzero(truth == 0)[0])
    against = Annotations.from_arrays([0], [0], [1], classes=[0, 1, 2], annotators=[0, 1, 2])
    believed = model.predict_proba(features[[row]], against)[0]
    who = model._annotators_on(features[[row]], np.array([0])).confusion()[0]
    plain = model.predict_proba(features[[row]])[0] * who[:, 1]
    np.testing.assert_allclose(believed, plain / plain.sum(), atol=1e-6)
    assert who[0, 1] > model.result_.confusion[0, 0, 1]
