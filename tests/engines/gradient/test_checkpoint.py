"""Checkpoints: an interrupted run ends in the same bits, foreign and damaged files are refused, writing is atomic."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import quiet, small_crowd
from torch import nn

from crowdwise.engines.gradient import checkpoint as files
from crowdwise.engines.gradient.checkpoint import Checkpoint, read, write
from crowdwise.errors import InputError, SettingError
from crowdwise.methods.classify.aggnet import AggNet
from crowdwise.methods.classify.ccem import CCEM
from crowdwise.methods.classify.crowd_layer import CrowdLayer

FEATURES, VOTES = small_crowd()
FAST: dict[str, Any] = {"epochs": 6, "warmup": 2, "batch_size": 16, "init": "majority", "patience": 3, "validation": 0.2}


class Stop:
    """Interrupts training after some calls, as Ctrl-C would."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, number: int, objective: float, judged: float) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


class Count:
    def __init__(self) -> None:
        self.numbers: list[int] = []

    def __call__(self, number: int, objective: float, judged: float) -> None:
        self.numbers.append(number)


def fitted(cls: Any = CCEM, progress: Any = None, features: Any = FEATURES, votes: Any = VOTES, **settings: Any) -> Any:
    with quiet():
        return cls(**(FAST | settings)).fit(features, votes, progress=progress)


def weights(model: Any) -> bytes:
    state = {**model.network_.state_dict(), **{f"head.{name}": value for name, value in model.head_.state_dict().items()}}
    return b"".join(value.numpy().tobytes() for value in state.values())


def batch_normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "adam with dropout": (CCEM, {}),
    "one-cycle": (CCEM, {"scheduler": "one-cycle"}),
    "cosine and sgd": (CCEM, {"scheduler": "cosine", "optimizer": "sgd"}),
    "rmsprop": (CCEM, {"optimizer": lambda groups: torch.optim.RMSprop(groups, momentum=0.5)}),
    "plain sgd": (CCEM, {"optimizer": lambda groups: torch.optim.SGD(groups)}),
    "adamw, amsgrad": (CCEM, {"optimizer": lambda groups: torch.optim.AdamW(groups, amsgrad=True)}),
    "own schedule": (CCEM, {"scheduler": lambda o, steps: torch.optim.lr_scheduler.LambdaLR(o, lambda step: 0.9**step)}),
    "early stopping": (CCEM, {"epochs": 40, "learning_rate": 0.05, "patience": 2}),
    "early stopping, no refit": (CCEM, {"epochs": 40, "learning_rate": 0.05, "patience": 2, "refit": False}),
    "em with early stopping, no refit": (AggNet, {"epochs": 40, "learning_rate": 0.05, "patience": 2, "refit": False}),
    "no held-out part": (CCEM, {"validation": 0}),
    "no refit": (CCEM, {"refit": False}),
    "float32": (CCEM, {"precision": "float32"}),
    "batch normalisation": (CCEM, {"network": batch_normalised}),
    "em": (AggNet, {}),
    "em in float32": (AggNet, {"precision": "float32", "scheduler": "one-cycle"}),
    "penalty that grows": (CCEM, {"penalty": "volume-f", "penalty_from": 1, "rise": 3, "epochs": 8}),
    "identity start": (CrowdLayer, {"kind": "vector-bias", "init": "identity", "clip": 1.0}),
    "class weights": (CCEM, {"class_weight": "balanced", "likelihood": "items"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_an_interrupted_run_ends_in_the_same_bits(run: str, tmp_path: Path) -> None:
    cls, settings = RUNS[run]
    count, path = Count(), tmp_path / "run.checkpoint"
    whole = fitted(cls, count, **settings)
    # In the second run (with a refit); one run of each kind also in the first, in the warm-up and at the end.
    ends = {1, len(count.numbers)} if run in ("adam with dropout", "early stopping", "em") else set()
    for after in {4 if ends else len(count.numbers) - 1} | ends:
        with pytest.raises(KeyboardInterrupt):
            fitted(cls, Stop(after), checkpoint=path, **settings)
        assert path.exists()
        rest = Count()
        resumed = fitted(cls, rest, checkpoint=path, **settings)
        assert rest.numbers == count.numbers[after:], "epochs that were done are not done again"
        assert weights(resumed) == weights(whole)
        assert resumed.posterior_.tobytes() == whole.posterior_.tobytes()
        assert resumed.confusion_.tobytes() == whole.confusion_.tobytes()
        assert resumed.history_ == whole.history_
        assert os.listdir(tmp_path) == []


def test_a_run_interrupted_again_and_again_ends_in_the_same_bits(tmp_path: Path) -> None:
    whole, path = fitted(AggNet, scheduler="one-cycle"), tmp_path / "run.checkpoint"
    interruptions = 0
    while True:
        try:
            resumed = fitted(AggNet, Stop(1), scheduler="one-cycle", checkpoint=path)
            break
        except KeyboardInterrupt:
            interruptions += 1
    assert interruptions >= 6
    assert weights(resumed) == weights(whole)


def test_a_checkpoint_changes_nothing_by_itself(tmp_path: Path) -> None:
    assert weights(fitted(checkpoint=tmp_path / "run.checkpoint")) == weights(fitted())
    assert os.listdir(tmp_path) == []


# -- refusals -------------------------------------------------------------------------------------


def interrupted(path: Path, **settings: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        fitted(progress=Stop(3), checkpoint=path, **settings)


def changed(features: np.ndarray) -> np.ndarray:
    features = features.copy()
    features[41, 2] += 1
    return features


OTHERS: dict[str, dict[str, Any]] = {
    "another rate": {"learning_rate": 0.002},
    "another seed": {"random_state": 1},
    "another method": {"cls": AggNet},
    "another feature in one row": {"features": changed(FEATURES)},
    "another width": {"features": FEATURES[:, :3]},
    "one vote less": {"votes": VOTES.take_votes(np.arange(VOTES.n_votes) != 50)},
    "other classes": {"votes": VOTES.with_classes([0, 1, 2, 9])},
    "gold": {"votes": VOTES.with_gold({3: 1})},
    "another start": {"init": np.full((60, 3), 1 / 3)},
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_checkpoint_of_other_data_or_settings_is_refused_before_training(other: str, tmp_path: Path) -> None:
    path, count = tmp_path / "run.checkpoint", Count()
    interrupted(path)
    content = path.read_bytes()
    with pytest.raises(InputError, match=r"run.checkpoint: a checkpoint of other data or settings; delete it"):
        fitted(progress=count, checkpoint=path, **OTHERS[other])
    assert count.numbers == []
    assert path.read_bytes() == content


def test_starts_that_print_alike_are_told_apart(tmp_path: Path) -> None:
    """The text of a long array shows its ends only."""
    features, votes = small_crowd(n_items=600)
    first = np.full((600, 3), 1 / 3)
    second = first.copy()
    second[300] = [1, 0, 0]
    assert repr(first) == repr(second)
    path = tmp_path / "run.checkpoint"
    interrupted(path, features=features, votes=votes, init=first)
    with pytest.raises(InputError, match="other data or settings"):
        fitted(features=features, votes=votes, init=second, checkpoint=path)


def test_a_checkpoint_of_another_network_or_optimiser_is_refused(tmp_path: Path) -> None:
    """Functions cannot be told apart by their text; their weights can."""
    path, count = tmp_path / "run.checkpoint", Count()
    interrupted(path, network=batch_normalised)
    with pytest.raises(InputError, match="a checkpoint of another network or optimiser"):
        fitted(progress=count, network=lambda: nn.Linear(4, 3), checkpoint=path)
    path.unlink()
    interrupted(path, optimizer=lambda groups: torch.optim.SGD(groups, momentum=0.9))
    with pytest.raises(InputError, match="a checkpoint of another network or optimiser"):
        fitted(progress=count, optimizer=lambda groups: torch.optim.SGD([g["params"][0] for g in groups]), checkpoint=path)
    assert count.numbers == []


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "flipped header", "foreign"])
def test_a_damaged_checkpoint_is_refused_before_training(damage: str, tmp_path: Path) -> None:
    path, count = tmp_path / "run.checkpoint", Count()
    interrupted(path)
    content = path.read_bytes()
    if damage == "foreign":
        from safetensors.torch import save_file

        save_file({"weight": torch.zeros(3)}, path)
    else:
        broken = {
            "cut": content[: len(content) // 2],
            "empty": b"",
            "text": b"not a checkpoint at all, but a letter to a friend",
            "flipped header": content[:30] + bytes([content[30] ^ 255]) + content[31:],
        }
        path.write_bytes(broken[damage])
    with pytest.raises(InputError, match=r"not a checkpoint that can be resumed .*; delete it to start again"):
        fitted(progress=count, checkpoint=path)
    assert count.numbers == []


def test_a_checkpoint_without_a_seed_is_refused_before_training(tmp_path: Path) -> None:
    count = Count()
    with pytest.raises(SettingError, match="a run with a checkpoint needs a random_state"):
        fitted(progress=count, checkpoint=tmp_path / "run.checkpoint", random_state=None)
    assert count.numbers == []


@pytest.mark.parametrize("place", ["missing folder", "folder", "no path"])
def test_a_checkpoint_that_cannot_be_written_is_refused_before_training(place: str, tmp_path: Path) -> None:
    count = Count()
    path: Any = {"missing folder": tmp_path / "none" / "run.checkpoint", "folder": tmp_path, "no path": 7}[place]
    with pytest.raises((InputError, SettingError), match="checkpoint"):
        fitted(progress=count, checkpoint=path)
    assert count.numbers == []


# -- the file -------------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    tensors = {"a": torch.arange(6.0).reshape(2, 3).T, "b": torch.tensor(7), "c": torch.zeros(0, 2)}
    write(path, Checkpoint("print", tensors, {"list": [1, 2.5, None], "exact": 0.1 + 0.2, "nan": float("nan")}))
    back = read(path, "print")
    assert back is not None
    assert all(torch.equal(back.tensors[name], value) for name, value in tensors.items())
    assert back.plain["list"] == [1, 2.5, None]
    assert back.plain["exact"] == 0.1 + 0.2
    assert np.isnan(back.plain["nan"])


def test_no_file_is_no_checkpoint(tmp_path: Path) -> None:
    assert read(tmp_path / "none", "print") is None


def test_tensors_that_share_memory_are_written_apart(tmp_path: Path) -> None:
    shared = torch.arange(4.0)
    write(tmp_path / "file", Checkpoint("print", {"a": shared, "b": shared, "part": shared[1:]}, {}))
    back = read(tmp_path / "file", "print")
    assert back is not None
    assert back.tensors["part"].tolist() == [1, 2, 3]


def test_a_write_that_fails_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write(path, Checkpoint("print", {"a": torch.zeros(3)}, {"epoch": 1}))
    old = path.read_bytes()

    def full(self: Path, data: bytes) -> int:
        with open(self, "wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write(path, Checkpoint("print", {"a": torch.ones(3)}, {"epoch": 2}))
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["file"]


def test_state_that_json_cannot_hold_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="keeps state that cannot be checkpointed"):
        write(tmp_path / "file", Checkpoint("print", {}, {"function": print}))


def test_the_state_of_an_optimiser_is_taken_apart_and_put_together() -> None:
    state = {0: {"step": torch.tensor(3.0), "mean": torch.ones(2), "word": "x"}, 11: {"none": None}}
    tensors, plain = files.split_state(state, "optimiser.")
    assert set(tensors) == {"optimiser.0.step", "optimiser.0.mean"}
    assert plain == {"optimiser.0.word": "x", "optimiser.11.none": None}
    assert files.join_state(tensors, plain, "optimiser.") == state
