"""The training loop: seeded to the bit, stops early with the best weights, and every option does what it says."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import blobs, even, quiet, small_crowd, votes_on
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.errors import DivergedError, SettingError
from crowdwise.methods.classify.aggnet import AggNet
from crowdwise.methods.classify.ccem import CCEM

FEATURES, VOTES = small_crowd()
# Few epochs, several batches with a short last one, an early warm-up: everything happens, quickly.
FAST: dict[str, Any] = {"epochs": 4, "warmup": 1, "batch_size": 16, "init": "majority"}


def fitted(
    cls: Any = CCEM, features: Any = FEATURES, votes: Any = VOTES, fit: dict[str, Any] | None = None, **settings: Any
) -> Any:
    with quiet():
        return cls(**(FAST | settings)).fit(features, votes, **(fit or {}))


def weights(model: Any) -> bytes:
    state = {**model.network_.state_dict(), **{f"head.{name}": value for name, value in model.head_.state_dict().items()}}
    return b"".join(value.numpy().tobytes() for value in state.values())


def same(first: Any, second: Any) -> bool:
    return bool(weights(first) == weights(second) and first.posterior_.tobytes() == second.posterior_.tobytes())


# -- seeds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [CCEM, AggNet])
def test_a_seed_gives_the_same_bits_whatever_the_user_draws_in_between(cls: Any) -> None:
    first = fitted(cls)
    torch.manual_seed(99)
    torch.rand(3), np.random.default_rng(5).random(3), random.random()
    np.random.seed(3)  # noqa: NPY002  (the user's, not ours)
    assert same(first, fitted(cls))


def test_a_fit_leaves_the_users_generators_where_they_were() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    fitted().predict(FEATURES)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]


def test_a_network_that_the_user_makes_is_seeded_too() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))

    first = fitted(network=make)
    torch.rand(11)
    assert same(first, fitted(network=make))


def test_another_seed_gives_another_fit() -> None:
    assert not same(fitted(), fitted(random_state=1))


def test_no_seed_gives_another_fit_every_time() -> None:
    assert not same(fitted(random_state=None), fitted(random_state=None))


@pytest.mark.parametrize("seed", [-1, 1.5, "seven", True])
def test_a_seed_that_is_none_is_refused(seed: Any) -> None:
    with pytest.raises(SettingError, match="random_state must be None or a whole number"):
        fitted(random_state=seed)


# -- what an epoch reads --------------------------------------------------------------------------


class Recorder(nn.Module):
    """Notes the first feature of every row it is trained on, batch by batch."""

    seen: ClassVar[list[list[int]]] = []

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(n_features, n_classes)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.training:
            Recorder.seen.append(rows[:, 0].long().tolist())
        return self.last(rows / 100)


def recorded(features: Any, votes: Annotations, **settings: Any) -> list[list[list[int]]]:
    """Batches of every epoch."""
    Recorder.seen = []
    model = fitted(features=features, votes=votes, network=lambda: Recorder(4, votes.n_classes), validation=0, **settings)
    per_epoch = len(Recorder.seen) // model.n_iter_
    return [Recorder.seen[e * per_epoch : (e + 1) * per_epoch] for e in range(model.n_iter_)]


def numbered(n_items: int) -> tuple[np.ndarray, Annotations]:
    features, truth = blobs(0, n_items, 3)
    features[:, 0] = np.arange(n_items)
    return features, votes_on(truth, even(2, 3, 0.8))


def test_every_epoch_reads_every_item_once_in_an_order_of_its_own() -> None:
    features, votes = numbered(59)
    epochs = recorded(features, votes, batch_size=16)
    for batches in epochs:
        assert [len(batch) for batch in batches] == [14, 15, 15, 15]
        assert sorted(n for batch in batches for n in batch) == list(range(59))
    assert epochs[0] != epochs[1]


def test_items_with_neither_votes_nor_gold_are_not_trained_on() -> None:
    features, votes = numbered(30)
    some = votes.take_votes(votes.item % 3 != 0)
    assert sorted(n for batch in recorded(features, some)[0] for n in batch) == [n for n in range(30) if n % 3]
    gold = some.with_gold({0: 1, 3: 2})
    assert sorted(n for batch in recorded(features, gold)[0] for n in batch) == sorted([0, 3, *(n for n in range(30) if n % 3)])


def test_rows_on_disk_are_read_once_and_their_batches_are_mixed(tmp_path: Path) -> None:
    """Files are often sorted by class: a batch of neighbours would hold one class only."""
    features, votes = numbered(1000)
    np.save(tmp_path / "rows.npy", features)
    epochs = recorded(np.load(tmp_path / "rows.npy", mmap_mode="r"), votes, batch_size=100, epochs=2)
    for batches in epochs:
        assert sorted(n for batch in batches for n in batch) == list(range(1000))
        for batch in batches:
            assert np.ptp(batch) > 600
    assert epochs[0] != epochs[1]


def test_a_lone_last_item_does_not_break_batch_normalisation() -> None:
    features, votes = numbered(33)
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    model = fitted(features=features, votes=votes, network=network, validation=0, batch_size=16)
    assert np.isfinite(model.posterior_).all()


def test_em_infers_its_labels_anew_before_every_epoch() -> None:
    """After one epoch the targets are the E-step of the untrained network; after more they have moved on."""
    shares = np.zeros((60, 3))
    np.add.at(shares, (VOTES.item, VOTES.label), 1)
    kept = [fitted(AggNet, warmup=0, validation=0, epochs=epochs).head_ for epochs in (1, 2, 3)]
    targets = [head.target.numpy() for head in kept]
    for before, after in zip([shares / shares.sum(axis=1, keepdims=True), *targets], targets, strict=False):
        assert np.abs(before - after).max() > 1e-3
    # The first matrices come from the start, the next from the first E-step: dropout in it would be seen in the bits.
    again = fitted(AggNet, warmup=0, validation=0, epochs=1, dropout=0.9).head_
    np.testing.assert_array_equal(again.target.numpy(), targets[0])


# -- early stopping -------------------------------------------------------------------------------

# A rate at which a wide network memorises sixty noisy items in a few epochs.
OVERFIT: dict[str, Any] = {
    "epochs": 60,
    "patience": 3,
    "validation": 0.3,
    "learning_rate": 0.02,
    "dropout": 0.2,
    "refit": False,
}


@pytest.mark.parametrize("cls", [CCEM, AggNet])
def test_early_stopping_stops_and_leaves_the_weights_of_the_best_epoch(cls: Any) -> None:
    model = fitted(cls, **OVERFIT)
    judged, best = model.history_["judged"], model.history_["best_epoch"]
    assert model.converged_
    assert model.n_iter_ == len(judged) == best + 3 < 60
    # The first epoch was warm-up and is not judged.
    assert best - 1 == 1 + int(np.argmin(judged[1:]))
    assert same(model, fitted(cls, **(OVERFIT | {"epochs": best, "patience": 100})))


def test_a_refit_is_training_on_all_items_for_the_epochs_that_were_best() -> None:
    model = fitted(**(OVERFIT | {"refit": True}))
    assert same(model, fitted(**(OVERFIT | {"refit": False, "validation": 0, "epochs": model.history_["best_epoch"]})))


def test_held_out_votes_are_judged_together_by_enumeration_of_labels() -> None:
    """Minus the log-probability of the held-out votes per vote, against a sum over the labels of each item."""
    model = fitted(**(FAST | {"validation": 0.3, "refit": False, "epochs": 2, "warmup": 0, "patience": 50}))
    order = np.random.default_rng(0).permutation(np.flatnonzero(VOTES.votes_per_item))
    held = order[: int(0.3 * len(order))]
    f, total, n_votes = model.predict_proba(FEATURES), 0.0, 0
    for n in held:
        own = range(VOTES.item_ptr[n], VOTES.item_ptr[n + 1])
        total += np.log(
            sum(f[n, k] * np.prod([model.confusion_[VOTES.annotator[e], k, VOTES.label[e]] for e in own]) for k in range(3))
        )
        n_votes += len(own)
    assert model.history_["best_epoch"] == 2
    assert model.history_["held_out"][-1] == pytest.approx(-total / n_votes, rel=1e-9)


def test_votes_that_judge_do_not_teach() -> None:
    order = np.random.default_rng(0).permutation(np.flatnonzero(VOTES.votes_per_item))
    held = np.isin(VOTES.item, order[: int(0.3 * len(order))])
    changed = Annotations.from_arrays(
        VOTES.item, VOTES.annotator, np.where(held, (VOTES.label + 1) % 3, VOTES.label), items=range(60), classes=range(3)
    )
    start = np.random.default_rng(1).dirichlet(np.ones(3), 60)
    # Two epochs, of which one is judged: the held-out votes choose nothing.
    first, second = (
        fitted(AggNet, votes=votes, init=start, validation=0.3, refit=False, epochs=2, warmup=1) for votes in (VOTES, changed)
    )
    assert weights(first) == weights(second)
    assert first.history_["held_out"] != second.history_["held_out"]


def test_without_a_held_out_part_all_epochs_run() -> None:
    model = fitted(validation=0)
    assert model.n_iter_ == 4
    assert model.history_["held_out"] == []
    assert not model.converged_


def test_a_validation_part_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(SettingError, match="validation must be below 1"):
        fitted(validation=1.0)


def test_progress_is_told_of_every_epoch() -> None:
    told: list[tuple[int, float, float]] = []
    model = fitted(refit=False, fit={"progress": lambda *values: told.append(values)})
    assert [number for number, _, _ in told] == [1, 2, 3, 4]
    assert [-loss for _, loss, _ in told] == model.history_["loss"]
    assert [judged for _, _, judged in told] == model.history_["held_out"]


# -- optimisers, schedules, clipping --------------------------------------------------------------


def one_step(clip: float | None) -> float:
    """Distance that the network moves in a single plain gradient step of rate one."""
    torch.manual_seed(0)
    network = nn.Linear(4, 3)
    start = torch.cat([p.detach().double().flatten() for p in network.parameters()])
    model = fitted(
        network=network, epochs=1, warmup=0, batch_size=1000, validation=0, clip=clip, learning_rate=1.0,
        head_learning_rate=1.0, weight_decay=0.0, optimizer=lambda groups: torch.optim.SGD(groups),
    )  # fmt: skip
    return float((torch.cat([p.detach().flatten() for p in model.network_.parameters()]) - start).norm())


def test_clipping_bounds_the_step() -> None:
    free = one_step(None)
    assert free > 0.1
    assert 0 < one_step(1e-3) <= 1e-3 * (1 + 1e-6)
    assert one_step(1e6) == free


@pytest.mark.parametrize(
    "optimizer",
    [
        "adam",
        "adamw",
        "sgd",
        lambda groups: torch.optim.RMSprop(groups),
        lambda groups: torch.optim.SGD(groups, momentum=0.9, nesterov=True),
        lambda groups: torch.optim.Adagrad(groups),
    ],
    ids=["adam", "adamw", "sgd", "rmsprop", "nesterov", "adagrad"],
)
def test_any_optimiser_learns_easy_data(optimizer: Any) -> None:
    features, truth = blobs(1, 120, 3, gap=6.0)
    votes = votes_on(truth, even(3, 3, 0.8))
    model = fitted(features=features, votes=votes, optimizer=optimizer, epochs=30, learning_rate=0.01)
    assert (model.predict(features) == truth).mean() > 0.9


def test_the_users_optimiser_gets_both_rates_and_no_decay_on_the_annotators() -> None:
    got: list[Any] = []

    def make(groups: Any) -> torch.optim.Optimizer:
        got.extend({name: value for name, value in group.items() if name != "params"} for group in groups)
        return torch.optim.SGD(groups)

    fitted(optimizer=make, learning_rate=0.1, head_learning_rate=0.2, weight_decay=0.3, refit=False)
    assert got == [{"lr": 0.1, "weight_decay": 0.3}, {"lr": 0.2, "weight_decay": 0.0}]


class Noted(torch.optim.lr_scheduler.LambdaLR):
    """Halves the rate every step and keeps what it set."""

    rates: ClassVar[list[float]] = []

    def __init__(self, optimiser: torch.optim.Optimizer) -> None:
        super().__init__(optimiser, lambda step: 0.5**step)

    def step(self, epoch: Any = None) -> None:
        super().step()
        Noted.rates.append(self.optimizer.param_groups[0]["lr"])


@pytest.mark.parametrize(("n_items", "batches"), [(60, 4), (64, 4), (65, 5)])
def test_a_schedule_of_the_users_is_stepped_after_every_batch(n_items: int, batches: int) -> None:
    """65 items in batches of 16 are five batches of 13."""
    features, votes = numbered(n_items)
    planned: list[int] = []

    def make(optimiser: torch.optim.Optimizer, steps: int) -> Any:
        planned.append(steps)
        return Noted(optimiser)

    Noted.rates = []
    fitted(features=features, votes=votes, scheduler=make, epochs=3, validation=0, learning_rate=0.1)
    assert planned == [3 * batches]
    # The constructor of a schedule steps once by itself.
    np.testing.assert_allclose(Noted.rates, [0.1 * 0.5**step for step in range(3 * batches + 1)])


@pytest.mark.parametrize("scheduler", ["one-cycle", "cosine"])
@pytest.mark.parametrize("epochs", [1, 5])
def test_a_named_schedule_ends_at_its_lowest_rate(scheduler: str, epochs: int) -> None:
    rates: list[float] = []

    class Watched(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            rates.append(self.param_groups[0]["lr"])
            super().step()

    fitted(
        optimizer=lambda groups: Watched(groups, momentum=0.5),
        scheduler=scheduler,
        epochs=epochs,
        validation=0,
        learning_rate=0.1,
    )
    assert len(rates) == 4 * epochs
    assert max(rates) <= 0.1 + 1e-12
    assert rates[-1] < 0.02 * (1 if epochs > 1 else 2)


@pytest.mark.parametrize("setting", ["optimizer", "scheduler"])
def test_a_function_that_makes_something_else_is_refused_before_training(setting: str) -> None:
    epochs: list[int] = []
    with pytest.raises(SettingError, match=f"{setting} must return a torch"):
        fitted(**{setting: lambda *arguments: "adam"}, fit={"progress": lambda *values: epochs.append(1)})
    assert epochs == []


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (torch.optim.lr_scheduler.ExponentialLR, r"lambda optimiser, steps: ExponentialLR\(optimiser, \.\.\.\)"),
        (torch.optim.lr_scheduler.ReduceLROnPlateau, "ReduceLROnPlateau"),
        (
            lambda optimiser: torch.optim.lr_scheduler.StepLR(optimiser, 5),
            r"function of \(optimiser, steps\).*after each of which",
        ),
        (partial(torch.optim.lr_scheduler.StepLR, step_size=5), "does not take these two"),
    ],
    ids=["a rate by the number of steps", "a mode by it", "the optimiser alone", "a setting given twice"],
)
def test_a_schedule_that_would_take_the_number_of_steps_for_something_else_is_refused(scheduler: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        fitted(scheduler=scheduler)


# -- gold labels and class weights ----------------------------------------------------------------


@pytest.mark.slow
def test_gold_labels_are_learned_where_the_votes_say_nothing() -> None:
    features, truth = blobs(2, 200, 3, gap=6.0)
    noise = votes_on(truth, np.full((3, 3, 3), 1 / 3), 3)
    gold = {n: int(truth[n]) for n in range(60)}
    settings = {"epochs": 30, "learning_rate": 0.02, "init": "identity", "validation": 0}
    model = fitted(features=features, votes=noise, fit={"gold": gold}, **settings)
    assert (model.predict(features[60:]) == truth[60:]).mean() > 0.9
    np.testing.assert_array_equal(model.labels_[:60], truth[:60])


@pytest.mark.slow
def test_a_class_that_only_gold_knows_is_learned() -> None:
    features, truth = blobs(3, 150, 3, gap=6.0)
    votes = votes_on(truth, even(3, 3, 1.0))
    votes = votes.take_votes(truth[votes.item] < 2)
    gold = {int(n): 2 for n in np.flatnonzero(truth == 2)[:25]}
    model = fitted(features=features, votes=votes, fit={"gold": gold}, epochs=40, learning_rate=0.01)
    assert (model.predict(features) == truth).mean() > 0.9


@pytest.mark.slow
def test_gold_without_any_vote_is_enough() -> None:
    features, truth = blobs(4, 90, 3, gap=6.0)
    votes = votes_on(truth, even(1, 3, 0.9))
    silent = votes.take_votes(np.zeros(votes.n_votes, bool))
    model = fitted(features=features, votes=silent, fit={"gold": truth}, epochs=60, learning_rate=0.01)
    assert (model.predict(features) == truth).mean() > 0.95


def overlapping() -> tuple[np.ndarray, np.ndarray]:
    """Two classes one standard deviation apart; one in ten items is of class 1."""
    rng = np.random.default_rng(5)
    truth = (np.arange(600) % 10 == 0).astype(int)
    return rng.normal(1.0 * truth[:, None], 1, (600, 1)), truth


def minority_share(**settings: Any) -> float:
    features, truth = overlapping()
    votes = settings.pop("votes", None) or votes_on(truth, even(3, 2, 1.0))
    model = fitted(
        features=features, votes=votes, network="linear", epochs=40, batch_size=64, learning_rate=0.05, validation=0, **settings
    )
    return float((model.predict(features) == 1).mean())


@pytest.mark.slow
@pytest.mark.parametrize("cls", [CCEM, AggNet])
def test_balanced_class_weights_find_the_rare_class(cls: Any) -> None:
    """Weighted by their rarity, classes 1 sd apart part in the middle: P(x > 0.5) = .9 x .309 + .1 x .691 = .347."""
    assert minority_share(cls=cls) < 0.1
    assert minority_share(cls=cls, class_weight="balanced") == pytest.approx(0.347, abs=0.1)


@pytest.mark.slow
def test_a_mapping_weighs_classes_as_it_says() -> None:
    assert minority_share(class_weight={0: 1.0, 1: 9.0}) == pytest.approx(minority_share(class_weight="balanced"), abs=0.05)
    assert minority_share(class_weight={0: 1.0, 1: 0.0}) == 0
    assert minority_share(class_weight={0: 1.0, 1: 1000.0}) > 0.9


def test_equal_class_weights_are_no_weights() -> None:
    first, second = fitted(), fitted(class_weight={0: 1.0, 1: 1.0, 2: 1.0})
    np.testing.assert_allclose(first.posterior_, second.posterior_, rtol=1e-9)


@pytest.mark.slow
def test_class_weights_hold_for_gold_labels_too() -> None:
    truth = overlapping()[1]
    silent = votes_on(truth, even(1, 2, 1.0))
    silent = silent.take_votes(np.zeros(silent.n_votes, bool)).with_gold(truth)
    assert minority_share(votes=silent) < 0.1
    assert minority_share(votes=silent, class_weight="balanced") == pytest.approx(0.347, abs=0.1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({0: 1.0, 1: 1.0}, "class_weight lacks the class 2"),
        ("even", 'must be None, "balanced" or class -> weight'),
        (3, 'must be None, "balanced" or class -> weight'),
        ({0: 1.0, 1: -1.0, 2: 1.0}, "finite weights >= 0"),
        ({0: 0.0, 1: 0.0, 2: 0.0}, "finite weights >= 0"),
        ({0: 1.0, 1: float("nan"), 2: 1.0}, "finite weights >= 0"),
    ],
)
def test_class_weights_that_make_no_sense_are_refused(given: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        fitted(class_weight=given)


# -- precision, divergence, networks --------------------------------------------------------------


MIXED = """
import sys
import numpy as np, torch
from tests.engines.gradient.helpers import blobs, even, quiet, votes_on
from crowdwise.estimator.registry import make_classifier

features, truth = blobs(6, 120, 3, gap=6.0)
for name in ("ccem", "aggnet", "geocrowdnet-f"):
    with quiet():
        model = make_classifier(name, precision="mixed", epochs=10, learning_rate=0.03, batch_size=32, init="majority")
        model.fit(features, votes_on(truth, even(3, 3, 0.8)))
    assert (model.predict(features) == truth).mean() > 0.9, name
    assert next(model.network_.parameters()).dtype == torch.float32
print("fitted")
"""


@pytest.mark.slow
def test_mixed_precision_trains_on_a_processor() -> None:
    """In a process of its own, kept from matrix instructions that some virtual machines announce and do not have."""
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "MKL_ENABLE_INSTRUCTIONS": "AVX512"}
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", MIXED], capture_output=True, text=True, timeout=600, check=False, env=environment, cwd=root
    )
    assert done.stdout.strip() == "fitted", done.stderr[-2000:]


def test_mixed_precision_that_the_machine_cannot_do_is_refused_before_training() -> None:
    epochs: list[int] = []

    class Half(nn.Linear):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            if torch.is_autocast_enabled("cpu"):
                raise RuntimeError("could not create a primitive")
            return super().forward(rows)

    with pytest.raises(SettingError, match=r'precision="mixed" fails on this machine \(could not create'):
        fitted(network=lambda: Half(4, 3), precision="mixed", fit={"progress": lambda *values: epochs.append(1)})
    assert epochs == []


@pytest.mark.parametrize(
    ("cls", "more"),
    [(CCEM, {}), (AggNet, {}), *((CCEM, {"penalty": volume, "penalty_from": 0}) for volume in ("volume-f", "volume-w"))],
)
def test_a_loss_that_leaves_the_numbers_is_an_error_with_advice(cls: Any, more: dict[str, Any]) -> None:
    rates = {"learning_rate": 1e30, "head_learning_rate": 1e30, "optimizer": lambda groups: torch.optim.SGD(groups)}
    with pytest.raises(DivergedError, match=r"the loss became .* in epoch \d+: lower learning_rate, set clip=1.0"):
        fitted(cls, warmup=0, epochs=10, **rates, **more)


def test_a_module_given_as_a_setting_stays_as_it_was() -> None:
    network = nn.Sequential(nn.Linear(4, 3))
    kept = {name: value.clone() for name, value in network.state_dict().items()}
    first = fitted(network=network)
    assert all(torch.equal(kept[name], value) for name, value in network.state_dict().items())
    assert same(first, fitted(network=network))
    assert first.network_ is not network


def test_frozen_layers_stay_frozen() -> None:
    network = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    network[0].requires_grad_(False)
    model = fitted(network=network)
    np.testing.assert_allclose(model.network_[0].weight.numpy(), network[0].weight.numpy(), rtol=1e-12)
    assert (model.network_[2].weight.detach().numpy() != network[2].weight.detach().numpy()).all()


def test_predictions_are_made_without_dropout() -> None:
    model = fitted(network=lambda: nn.Sequential(nn.Dropout(0.9), nn.Linear(4, 3)))
    first = model.predict_proba(FEATURES)
    np.testing.assert_array_equal(first, model.predict_proba(FEATURES))
    # And rows do not depend on the rows beside them.
    np.testing.assert_allclose(model.predict_proba(FEATURES[7:8]), first[7:8], rtol=1e-12)
