"""Callbacks see every epoch, may stop a training, and change nothing else; rates fall on a plateau."""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from tests.engines.gradient.helpers import quiet, small_crowd

from crowdwise.engines.gradient.callbacks import CSVLog, EpochRecord, ProgressBar, TensorBoardLog
from crowdwise.errors import InputError, MissingExtraError, SettingError
from crowdwise.estimator.loading import load
from crowdwise.methods.classify.aggnet import AggNet
from crowdwise.methods.classify.ccem import CCEM
from crowdwise.methods.classify.start import crowd_confusion, start_confusion, start_posterior

FEATURES, VOTES = small_crowd()
FAST: dict[str, Any] = {"epochs": 4, "warmup": 1, "batch_size": 16, "init": "majority"}


class Listener:
    """Keeps all records, and asks for the end after some."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.records: list[EpochRecord] = []
        self.calls: list[str] = []
        self.stop_at = stop_at

    def on_fit_begin(self) -> None:
        self.calls.append("begin")

    def on_epoch_end(self, record: EpochRecord) -> bool:
        self.records.append(record)
        return self.stop_at is not None and record.epoch >= self.stop_at

    def on_fit_end(self) -> None:
        self.calls.append("end")


def fitted(cls: Any = CCEM, **settings: Any) -> Any:
    with quiet():
        return cls(**(FAST | settings)).fit(FEATURES, VOTES)


def weights(model: Any) -> bytes:
    return b"".join(value.numpy().tobytes() for value in model.network_.state_dict().values())


@pytest.mark.parametrize("cls", [CCEM, AggNet])
def test_a_fit_that_is_listened_to_ends_in_the_same_bits(cls: Any) -> None:
    listener = Listener()
    assert weights(fitted(cls, callbacks=[listener])) == weights(fitted(cls))
    assert listener.calls == ["begin", "end"]


def test_records_say_what_happened() -> None:
    listener = Listener()
    model = fitted(callbacks=listener, validation=0.2)
    training = [record for record in listener.records if record.stage == "training"]
    refit = [record for record in listener.records if record.stage == "refit"]
    assert [record.epoch for record in training] == [1, 2, 3, 4]
    assert len(refit) == model.history_["best_epoch"] == training[-1].best_epoch
    # Nothing is best in the warm-up, which is not judged; without held-out votes the last epoch is kept.
    assert [record.best_epoch is None for record in training] == [True, False, False, False]
    assert [record.best_epoch for record in refit] == [record.epoch for record in refit]
    assert [record.loss for record in training] == model.history_["loss"]
    assert [record.judged for record in training] == model.history_["judged"]
    assert [record.held_out for record in refit] == [None] * len(refit)
    # Sixty items in batches of sixteen, with and without a fifth that is held out.
    assert [record.step for record in training] == [4, 8, 12, 16]
    assert all(record.learning_rate == 1e-3 for record in listener.records)


def test_a_stop_that_is_asked_for_is_the_end() -> None:
    """Nothing is trained again: the weights are those of the best epoch until then."""
    listener = Listener(stop_at=2)
    model = fitted(callbacks=[listener], validation=0.2)
    assert len(listener.records) == len(model.history_["loss"]) == 2
    assert weights(model) == weights(fitted(epochs=model.history_["best_epoch"], validation=0.2, refit=False, patience=9))


def test_callbacks_are_ended_where_a_fit_fails() -> None:
    class Broken(Listener):
        def on_epoch_end(self, record: EpochRecord) -> bool:
            raise OSError("the disk is full")

    listener = Broken()
    with pytest.raises(OSError, match="the disk is full"):
        fitted(callbacks=[listener])
    assert listener.calls == ["begin", "end"]


def test_a_line_per_epoch_as_csv(tmp_path: Path) -> None:
    model = fitted(callbacks=[CSVLog(tmp_path / "log.csv")], validation=0.2)
    with (tmp_path / "log.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 4 + model.history_["best_epoch"]
    assert [float(line["loss"]) for line in lines[:4]] == model.history_["loss"]
    assert lines[-1]["stage"] == "refit"
    assert lines[-1]["judged"] == ""


def test_tensorboard_gets_the_losses(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    fitted(callbacks=[TensorBoardLog(tmp_path)])
    assert next(tmp_path.iterdir()).name.startswith("events")


def test_tensorboard_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match="pip install tensorboard"):
        fitted(callbacks=[TensorBoardLog(tmp_path)])


def test_verbose_shows_a_line_on_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    fitted(verbose=True)
    shown = capsys.readouterr()
    assert "epoch 4" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("wrong", [3, "log.csv", Listener, [object()]])
def test_what_cannot_listen_is_refused(wrong: Any) -> None:
    with pytest.raises(SettingError, match="on_epoch_end"):
        fitted(callbacks=wrong)


def test_an_estimator_with_callbacks_is_cloned_shown_hashed_and_saved(tmp_path: Path) -> None:
    model = fitted(callbacks=[CSVLog(tmp_path / "log.csv"), ProgressBar()], validation_data=(FEATURES, VOTES))
    hash(model), repr(model), clone(model)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(FEATURES), model.predict_proba(FEATURES))
    assert again.callbacks is None
    assert again.validation_data is None


# -- given rows that judge ------------------------------------------------------------------------


def test_given_labels_judge_by_their_cross_entropy() -> None:
    rng = np.random.default_rng(5)
    new, labels = rng.normal(size=(30, FEATURES.shape[1])), np.arange(30) % 3
    model = fitted(validation_data=(new, labels), validation=0.3)
    proba = model.predict_proba(new)[np.arange(30), labels]
    best = model.history_["best_epoch"] - 1
    assert model.history_["judged"][best] == pytest.approx(-np.log(proba).mean(), rel=1e-9)
    # All items teach, at once: nothing is held out and nothing trained again.
    assert weights(model) == weights(fitted(validation=0, epochs=best + 1))


def test_given_votes_judge_and_annotators_that_are_new_are_like_the_crowd() -> None:
    renamed = replace(VOTES, annotators=np.array([f"new {name}" for name in VOTES.annotators], dtype=object))
    posterior = start_posterior(VOTES, "majority")
    tables = {
        "known": (VOTES, start_confusion(VOTES, posterior)),
        "new": (renamed, np.repeat(crowd_confusion(VOTES, posterior)[None], VOTES.n_annotators, 0)),
    }
    for votes, confusion in tables.values():
        model = fitted(validation_data=(FEATURES, votes))
        f, total = model.predict_proba(FEATURES), 0.0
        for n in range(VOTES.n_items):
            own = range(VOTES.item_ptr[n], VOTES.item_ptr[n + 1])
            joint = [f[n, k] * np.prod([confusion[VOTES.annotator[e], k, VOTES.label[e]] for e in own]) for k in range(3)]
            total -= np.log(sum(joint)) if len(own) else 0.0
        assert model.history_["judged"][model.history_["best_epoch"] - 1] == pytest.approx(total / VOTES.n_votes, rel=1e-9)


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (FEATURES, SettingError, "a pair"),
        ((FEATURES[:5], VOTES), InputError, "5 rows but there are 60 items"),
        ((FEATURES[:2], ["0", "zebra"]), InputError, "the class"),
    ],
)
def test_wrong_validation_data_is_refused(wrong: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        fitted(validation_data=wrong)


# -- plateaus -------------------------------------------------------------------------------------


def shrinking(optimiser: torch.optim.Optimizer, steps: int) -> Any:
    return torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=0, threshold=10.0)


def test_rates_fall_on_a_plateau_and_the_refit_repeats_them() -> None:
    """A threshold that no epoch passes: the rate is halved after every epoch."""
    listener = Listener()
    fitted(callbacks=[listener], scheduler=shrinking, validation=0.2, patience=9)
    rates = {stage: [r.learning_rate for r in listener.records if r.stage == stage] for stage in ("training", "refit")}
    assert rates["training"] == [1e-3, 5e-4, 2.5e-4, 1.25e-4]
    assert rates["refit"] == rates["training"][: len(rates["refit"])]


@pytest.mark.parametrize("validation", [0, 0.2])
def test_plateau_is_a_schedule_by_name(validation: float) -> None:
    assert np.isfinite(fitted(scheduler="plateau", validation=validation).history_["loss"]).all()
