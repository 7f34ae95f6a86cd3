"""Dicts of arrays, datasets of dicts and streams as features of networks; and random changes of rows in training alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.methods.classify.crowds import clouds, diagonal_crowd, vote
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.methods.classify.soft_network import SoftNetwork

X, TRUTH = clouds(3, 60, 2)
X = X.astype(np.float32)
PLAIN = vote(4, TRUTH, diagonal_crowd(3, 2, 0.85))
NAMES = np.array([f"Ü-{n:02}" for n in range(60)], dtype=object)
VOTES = Annotations.from_arrays(NAMES[PLAIN.item], PLAIN.annotator, PLAIN.label)
FAST: dict[str, Any] = {
    "epochs": 6,
    "warmup": 1,
    "learning_rate": 0.05,
    "random_state": 0,
    "precision": "float32",
    "device": "cpu",
}


class TwoHalves(nn.Module):
    """Reads its columns in two parts, by name or side by side."""

    def __init__(self, result: str = "object") -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.result = result

    def forward(self, left: Tensor, right: Tensor | None = None, labels: Tensor | None = None) -> Any:
        assert labels is None
        logits = self.layer(left if right is None else torch.cat([left, right], 1))
        return {"object": type("Output", (), {"logits": logits}), "tuple": (logits, None), "tensor": logits}[self.result]


def fields(rows: np.ndarray = X) -> dict[str, Any]:
    return {"left": rows[:, :1], "right": torch.tensor(rows[:, 1:]), "labels": np.zeros(len(rows)), "text": ["a"] * len(rows)}


class Records(Dataset):  # type: ignore[type-arg]
    def __init__(self, ids: bool = False, transform: Any = None) -> None:
        self.ids, self.transform = ids, transform

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> Any:
        row = X[index] if self.transform is None else self.transform(X[index])
        record = {"left": row[:1], "right": row[1:].tolist(), "idx": index}
        return (record, NAMES[index]) if self.ids else record


def fitted(
    features: Any, y: Any = PLAIN, *, method: Any = crowdwise.CCEM, fit: dict[str, Any] | None = None, **more: Any
) -> Any:
    return method(**({"network": TwoHalves} | FAST | more)).fit(features, y, **(fit or {}))


# -- fields ------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", ["object", "tuple", "tensor"])
def test_fields_give_the_fit_of_the_same_columns_in_one_table(result: str) -> None:
    table = fitted(X)
    for features in (fields(), Records()):
        model = fitted(features, network=lambda: TwoHalves(result))
        np.testing.assert_array_equal(model.predict_proba(features), table.predict_proba(X))
        np.testing.assert_array_equal(model.posterior_, table.posterior_)
        assert model.history_ == table.history_
        assert model.score(features, TRUTH) == table.score(X, TRUTH) > 0.8


@pytest.mark.parametrize("method", [crowdwise.CoNAL, crowdwise.AggNet, crowdwise.MBEM, crowdwise.BayesDGC, crowdwise.AnnotMix])
def test_other_heads_take_fields_too(method: Any) -> None:
    np.testing.assert_allclose(
        fitted(fields(), method=method).predict_proba(fields()), fitted(X, method=method).predict_proba(X), atol=1e-6
    )


def test_two_stages_and_ensembles_take_fields() -> None:
    network = SoftNetwork(network=TwoHalves, **FAST)
    assert crowdwise.TwoStage(classifier=network).fit(fields(), PLAIN).score(fields(), TRUTH) > 0.9
    assert fitted(fields(), members=2).uncertainty(fields()).disagreement.shape == (60,)


def test_fields_are_saved_and_loaded(tmp_path: Path) -> None:
    model = fitted(fields())
    model.save(tmp_path / "model")
    again = crowdwise.load(tmp_path / "model", network=TwoHalves)
    np.testing.assert_array_equal(again.predict_proba(Records()), model.predict_proba(fields()))
    with pytest.raises(InputError, match="no field 'right', which the model was fitted to; X has 'left'"):
        again.predict({"left": X[:, :1]})
    with pytest.raises(InputError, match="'left' have 2 axes, but 1 in the fit"):
        again.predict(fields() | {"left": X[:, :1, None]})
    with pytest.raises(InputError, match="rows of one array, but the model was fitted to rows of fields"):
        again.predict(DataLoader(torch.tensor(X), batch_size=4))


@pytest.mark.parametrize("features", [fields, lambda: DataLoader(Records(ids=True), batch_size=16, shuffle=True)])
def test_an_interrupted_fit_resumes_to_the_same_bits(features: Any, tmp_path: Path) -> None:
    def stop(epoch: int, *rest: float) -> None:
        if epoch == 3:
            raise KeyboardInterrupt

    y = PLAIN if isinstance(features(), dict) else VOTES
    whole, more = fitted(features(), y), {"checkpoint": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        fitted(features(), y, fit={"progress": stop}, **more)
    resumed = fitted(features(), y, **more)
    np.testing.assert_array_equal(resumed.posterior_, whole.posterior_)


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "an empty dict": ({}, {}, "empty dict"),
    "lengths": ({"left": X[:, :1], "right": X[:5, 1:]}, {}, "different lengths: left 60, right 5"),
    "NaN": (
        fields() | {"left": np.where(np.arange(60)[:, None] == 7, np.nan, X[:, :1])},
        {},
        "'left' of X contains NaN.* row 7",
    ),
    "no network": (fields(), {"network": "auto"}, "need a network of your own"),
    "other names": ({"a": X[:, :1], "b": X[:, 1:]}, {}, "cannot take rows with the fields a, b"),
    "a method without a network": (
        fields(),
        {"method": lambda **_: crowdwise.Raykar()},
        "raykar takes a table.*a dict of arrays",
    ),
    "auto": (fields(), {"method": lambda **_: crowdwise.AutoClassifier()}, "need a network of your own"),
    "a process": (fields(), {"method": lambda **_: crowdwise.SVGPCR()}, "svgpcr takes a table"),
    "rows in tables": (fields(), {"method": crowdwise.DALC}, 'set reads="hidden"'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case: str) -> None:
    features, more, message = REFUSED[case]
    with pytest.raises((InputError, SettingError), match=message):
        fitted(features, **more)


def test_a_field_that_the_network_does_not_take_is_named() -> None:
    with pytest.warns(DataWarning, match="no parameter 'mask': left out"):
        fitted(fields() | {"mask": np.ones((60, 4))}, validation=0)


def test_a_frame_with_a_column_called_fields_is_a_table() -> None:
    frame = pd.DataFrame(X, columns=["fields", "item_ids", "shapes", "walk"])
    assert crowdwise.Raykar().fit(frame, PLAIN).score(frame, TRUTH) > 0.9


# -- streams -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [crowdwise.CCEM, crowdwise.AggNet, crowdwise.CoNAL])
def test_a_stream_of_one_batch_is_the_fit_of_its_rows(method: Any) -> None:
    # Only the order within the batch, and so the rounding of its sums, can differ.
    more = {"method": method, "batch_size": 60, "precision": "float64", "validation": 0}
    table = fitted(fields(), VOTES, fit={"items": NAMES}, **more)
    for shuffle in (False, True):
        loader = DataLoader(Records(ids=True), batch_size=60, shuffle=shuffle)
        stream = fitted(loader, VOTES, **more)
        assert stream.items_.tolist() == NAMES.tolist()
        np.testing.assert_allclose(stream.posterior_, table.posterior_, atol=1e-6)
        np.testing.assert_allclose(stream.predict_proba(fields()), table.predict_proba(fields()), atol=1e-6)


def test_items_are_held_out_of_a_stream_and_labelled_by_id() -> None:
    loader = DataLoader(Records(ids=True), batch_size=16, shuffle=True)
    model = fitted(loader, VOTES.select(items=NAMES[10:].tolist()), validation=0.2)
    assert len(model.history_["held_out"]) == 6
    assert (model.labels_ == TRUTH).mean() > 0.9
    assert (model.result_.votes.votes_per_item[:10] == 0).all()
    assert fitted(loader, VOTES, validation=0.2).score(fields(), TRUTH) > 0.9


def test_streams_are_answered_in_their_order_and_votes_go_by_id() -> None:
    model = fitted(fields())
    loader = DataLoader(Records(ids=True), batch_size=7)
    np.testing.assert_allclose(model.predict_proba(loader), model.predict_proba(fields()), atol=1e-6)
    mixed = VOTES.take_items(np.random.default_rng(0).permutation(60))
    with_votes = model.predict_proba(fields(), PLAIN)
    np.testing.assert_allclose(model.predict_proba(loader, mixed), with_votes, atol=1e-6)
    assert model.score(loader, mixed) == pytest.approx(model.score(fields(), PLAIN))
    with pytest.raises(InputError, match="this DataLoader shuffles"):
        model.predict(DataLoader(Records(ids=True), shuffle=True))


def test_a_stream_of_arrays_takes_the_built_in_network() -> None:
    pairs = list(zip(torch.tensor(X), NAMES, strict=True))
    model = fitted(DataLoader(pairs, batch_size=16, shuffle=True), VOTES, network="mlp", epochs=20)
    assert model.score(X, TRUTH) > 0.9


@pytest.mark.parametrize(
    ("make", "y", "fit", "message"),
    [
        (lambda: DataLoader(Records()), VOTES, {}, "must name its items"),
        (lambda: DataLoader(Records(ids=True)), TRUTH, {}, "give votes by item id"),
        (lambda: DataLoader(Records(ids=True)), VOTES, {"items": NAMES}, "leave items= out"),
        (lambda: DataLoader([(X[0], "Ü-00"), (X[1], "Ü-01")]), VOTES, {}, "58 of 60 items have votes but no row"),
        (lambda: DataLoader([(X[0], 1), (X[1], 1)]), VOTES, {}, "the id 1 comes twice"),
    ],
)
def test_streams_that_do_not_fit_are_refused(make: Any, y: Any, fit: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(make(), y, fit=fit)


def test_a_method_that_needs_the_order_of_the_rows_refuses_streams() -> None:
    with pytest.raises(InputError, match="dalc reads rows in an order of its own"):
        fitted(DataLoader(Records(ids=True)), VOTES, method=crowdwise.DALC, reads="hidden")


# -- augmentation ------------------------------------------------------------------------------


def test_augmentation_is_seen_in_training_alone() -> None:
    seen: list[float] = []

    class Watching(TwoHalves):
        def forward(self, left: Tensor, right: Tensor | None = None, labels: Tensor | None = None) -> Any:
            changed = bool((left > 500).any())
            assert changed == self.training
            seen.append(changed)
            return super().forward(left, right)

    def changed(row: Any) -> Any:
        return row | {"left": row["left"] + 1000} if isinstance(row, dict) else row + 1000

    for features in (X, fields(), DataLoader(Records(ids=True), batch_size=20)):
        model = fitted(
            features, VOTES if isinstance(features, DataLoader) else PLAIN, network=Watching, augment=changed, epochs=2
        )
        model.predict(X if isinstance(features, np.ndarray) else fields())
    assert any(seen)


def test_random_augmentation_repeats_with_its_seed() -> None:
    def noisy(row: Tensor) -> Tensor:
        return row + 0.1 * torch.randn(4)

    one, again, other = (fitted(X, augment=noisy, random_state=seed).predict_proba(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_a_dataset_that_changes_from_reading_to_reading_is_reported() -> None:
    jitter = np.random.default_rng(0)
    with pytest.warns(DataWarning, match="is another one each time it is read.*augment="):
        fitted(Records(transform=lambda row: row + jitter.normal(size=4).astype(np.float32)))
    # A transform that is the same every time is nobody's business.
    fitted(Records(transform=lambda row: 2 * row), epochs=1, warmup=0)


# -- transformers ------------------------------------------------------------------------------


def test_a_transformer_takes_what_its_tokeniser_gives() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    words = np.random.default_rng(0).integers(4, 20, (60, 5))
    words[:, 2] = TRUTH + 1
    encoded = transformers.BatchEncoding({"input_ids": words.tolist(), "attention_mask": np.ones((60, 5), int)})
    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
        num_labels=2,
    )
    for more in ({}, {"return_dict": False}):
        config.update(more)
        model = fitted(
            encoded,
            network=lambda: transformers.BertForSequenceClassification(config),
            epochs=20,
            learning_rate=0.01,
            batch_size=16,
        )
        assert model.score(encoded, TRUTH) > 0.9
    config.num_labels = 5
    with pytest.raises(InputError, match=r"logits of shape \[rows, 2\].*\(2, 5\)"):
        fitted(encoded, network=lambda: transformers.BertForSequenceClassification(config))


def test_torchvisions_transforms_augment() -> None:
    try:
        from torchvision.transforms import v2
    except ImportError:
        pytest.skip("torchvision is not installed")
    except RuntimeError as problem:  # built for another torch
        pytest.skip(f"torchvision does not fit this torch: {problem}")
    images = np.random.default_rng(0).random((60, 1, 8, 8)).astype(np.float32)
    images[TRUTH == 1, :, :4] += 1.0
    changes = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomErasing(scale=(0.02, 0.1))])
    settings: dict[str, Any] = {"network": "cnn", "augment": changes, "epochs": 8, "random_state": 0}
    once, again = (crowdwise.make("ccem", **settings).fit(images, PLAIN) for _ in range(2))
    assert (once.predict(images) == TRUTH).all()
    np.testing.assert_array_equal(once.predict_proba(images), again.predict_proba(images))
