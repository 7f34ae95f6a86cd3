"""Methods with a network: backbone x head x penalty, trained by engine 2.

A method supplies `_head`; everything else (network, start, optimiser, early stopping, checkpoints,
devices) is shared and set here.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from crowdwise.aggregate.settings import setting
from crowdwise.annotations import Annotations
from crowdwise.annotators.confusion import Confusion
from crowdwise.engines.gradient.batch import VoteList
from crowdwise.engines.gradient.head import Head
from crowdwise.engines.gradient.networks import NETWORKS, build_network, default_spec
from crowdwise.engines.gradient.optimisers import OPTIMISERS, SCHEDULERS
from crowdwise.engines.gradient.rows import Rows, rows_of
from crowdwise.engines.gradient.trainer import Plan, Trainer, seeded
from crowdwise.errors import InputError, SettingError
from crowdwise.heads.confusion import identity_confusion
from crowdwise.heads.targets import WarmStart
from crowdwise.learn.base import CrowdClassifier, Learned
from crowdwise.learn.start import start_confusion, start_posterior

if TYPE_CHECKING:
    from crowdwise.engines.alternate import Progress

__all__ = ["NetworkModel", "NeuralClassifier", "Start"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Entries of X up to which float64 input is trained in float64: too few for the speed to matter.
_SMALL = 1_000_000


@dataclass(frozen=True, eq=False)
class Start:
    """What a head starts from.

    Attributes
    ----------
    posterior : [N, K]
        Labels from an aggregation of the votes (vote shares for the identity start).
    confusion : [A, K, L]
        Confusion matrices under that posterior, or near-identity ones.
    identity : bool
        The papers' own start was asked for.
    """

    posterior: torch.Tensor
    confusion: torch.Tensor
    identity: bool
    dtype: torch.dtype


@dataclass(eq=False, repr=False, kw_only=True)
class NeuralClassifier(CrowdClassifier):
    """Base of the methods with a network."""

    network: Any = setting(
        "auto",
        'Backbone: "auto" (an MLP, or a small CNN for images), "linear", "mlp", "cnn", a torch module that returns logits '
        "[B, K], or a function without arguments that makes one.",
        choices=NETWORKS,
        free=True,
    )
    dropout: float | None = setting(None, "Dropout of the built-in networks; by default 0.5 (MLP) or 0.25 (CNN).", low=0, optional=True)
    epochs: int = setting(100, "Most passes over the items.", low=1, whole=True)
    batch_size: int = setting(128, "Items per step.", low=1, whole=True)
    learning_rate: float = setting(1e-3, "Rate of the network.", above=0)
    head_learning_rate: float = setting(1e-2, "Rate of the annotators' parameters.", above=0)
    weight_decay: float = setting(1e-4, "L2 penalty on the network.", low=0)
    optimizer: Any = setting(
        "adam", "adam, adamw, sgd, or a function from parameter groups to a torch optimiser.", choices=OPTIMISERS, free=True
    )
    scheduler: Any = setting(
        "none",
        "none, one-cycle, cosine, or a function (optimiser, steps) -> torch scheduler; stepped after every batch.",
        choices=SCHEDULERS,
        free=True,
    )
    clip: float | None = setting(None, "Largest norm of the gradient.", above=0, optional=True)
    init: Any = setting(
        "dawid-skene",
        'Start: the posterior of an aggregation method by its name, "identity" as in the papers, or a posterior [N, K].',
        free=True,
    )
    warmup: int = setting(5, "First epochs, trained on the labels of the start.", low=0, whole=True)
    validation: float = setting(0.1, "Share of the items whose votes only judge, for early stopping; 0 for none.", low=0)
    patience: int = setting(20, "Epochs without a better held-out score before training stops.", low=1, whole=True)
    refit: bool = setting(True, "After early stopping, train anew on all items for the number of epochs it found best.")
    class_weight: Any = setting(None, 'None, "balanced", or class -> weight: weights items for imbalance.', free=True)
    precision: str = setting(
        "auto", "float32, float64, mixed (bfloat16 network), or auto.", choices=("auto", "float32", "float64", "mixed")
    )
    device: str = setting("auto", "cpu, cuda, mps, ..., or auto: a GPU when there is one.", free=True)
    checkpoint: Any = setting(None, "File that a run writes after every epoch and resumes from; removed when it ends.", free=True)
    random_state: int | None = setting(0, "Seed of everything random.", free=True)

    _accepts_images: ClassVar[bool] = True

    def _head(self, votes: Annotations, start: Start) -> Head:
        raise NotImplementedError

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        device, dtype, mixed = _device(self.device), self._dtype(features), self.precision == "mixed"
        _check_checkpoint(self.checkpoint)
        seed = _seed(self.random_state)
        rows = rows_of(features, dtype)
        posterior = start_posterior(votes, self.init)
        start = self._start(votes, posterior, dtype)
        votes_of_items = VoteList(votes, dtype, device, self._item_weight(votes, posterior))
        known = None if votes.gold is None else torch.as_tensor(votes.gold.astype(np.int64), device=device)
        fingerprint = "" if self.checkpoint is None else self._fingerprint(rows, votes)

        def run(train: Integers, held_out: Integers, epochs: int, stage: str) -> tuple[Trainer, dict[str, Any] | None]:
            with seeded(seed, -1, 0, device):
                network, spec = self._network(rows, votes.n_classes, dtype)
                _check_output(network, rows, votes.n_classes)
                head = self._head(_without(votes, held_out), start)
            warm = 0 if start.identity else self.warmup
            plan = Plan(
                epochs=epochs,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                head_learning_rate=self.head_learning_rate,
                weight_decay=self.weight_decay,
                optimiser=self.optimizer,
                scheduler=self.scheduler,
                clip=self.clip,
                patience=self.patience,
                earliest=min(warm, epochs - 1),
                seed=seed,
                device=device,
                mixed=mixed,
                checkpoint=None if self.checkpoint is None else Path(f"{self.checkpoint}{stage}"),
                fingerprint=fingerprint + stage,
            )
            trainer = Trainer(
                network.to(device),
                (WarmStart(head, start.posterior, warm) if warm else head).to(device),
                rows,
                votes_of_items,
                plan,
                train=torch.as_tensor(train, device=device),
                held_out=torch.as_tensor(held_out, device=device),
                known=known,
            )
            trainer.run(progress)
            return trainer, spec

        train, held_out = self._split(votes, seed)
        trainer, spec = run(train, held_out, self.epochs, "")
        history = trainer.history
        if self.refit and len(held_out):
            trainer, spec = run(np.sort(np.concatenate([train, held_out])), held_out[:0], history.best + 1, ".refit")
        self.history_ = {"loss": history.loss, "held_out": history.held_out, "best_epoch": history.best + 1}
        self.network_ = trainer.network
        self.head_ = trainer.head.head if isinstance(trainer.head, WarmStart) else trainer.head
        if self.checkpoint is not None:
            for stage in ("", ".refit"):
                Path(f"{self.checkpoint}{stage}").unlink(missing_ok=True)
        with torch.no_grad():
            confusion = self.head_.confusion().double().cpu().numpy()
        return Learned(
            model=NetworkModel(trainer.network, spec, dtype, device, mixed),
            annotators=point_confusion(confusion, votes),
            trace={"votes": -np.asarray(history.loss)},
            n_iter=len(history.loss),
            converged=history.stopped_early,
        )

    # -- parts ---------------------------------------------------------------------------------

    def _network(self, rows: Rows, n_classes: int, dtype: torch.dtype) -> tuple[nn.Module, dict[str, Any] | None]:
        """The backbone and, for a built-in one, the plain values that rebuild it."""
        if isinstance(self.network, str):
            spec = default_spec(self.network, rows, n_classes, self.dropout)
            return _materialised(build_network(spec, rows), rows).to(dtype), spec
        import copy

        # A module given as a setting is a template: the fit must not change it, or `clone` and refits would go on from it.
        made = copy.deepcopy(self.network) if isinstance(self.network, nn.Module) else self.network()
        if not isinstance(made, nn.Module):
            raise SettingError(f"network must be a torch module or a function that makes one; it made a {type(made).__name__}")
        return _materialised(made, rows).to(dtype), None

    def _start(self, votes: Annotations, posterior: Floats, dtype: torch.dtype) -> Start:
        identity = isinstance(self.init, str) and self.init == "identity"
        if identity:
            confusion = identity_confusion(votes.n_annotators, votes.n_classes, dtype)
        else:
            confusion = torch.tensor(start_confusion(votes, posterior), dtype=dtype)
        return Start(torch.tensor(posterior, dtype=dtype), confusion, identity, dtype)

    def _split(self, votes: Annotations, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Items to train on, and items whose votes only judge; items without votes teach nothing."""
        useful = votes.votes_per_item > 0
        if votes.gold is not None:
            useful |= votes.gold >= 0
        order = np.random.default_rng(seed).permutation(np.flatnonzero(useful))
        n_held = int(self.validation * len(order))
        return np.sort(order[n_held:]), np.sort(order[:n_held])

    def _item_weight(self, votes: Annotations, posterior: Floats) -> Floats | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, str):
            if self.class_weight != "balanced":
                raise SettingError(f'class_weight must be None, "balanced" or class -> weight; got {self.class_weight!r}')
            weight = len(posterior) / (votes.n_classes * np.maximum(posterior.sum(axis=0), 1e-12))
        else:
            given = dict(self.class_weight)
            missing = [c for c in votes.classes.tolist() if c not in given]
            if missing:
                raise SettingError(f"class_weight lacks the class {missing[0]!r}")
            weight = np.array([float(given[c]) for c in votes.classes.tolist()])
        return np.asarray(posterior @ weight)

    def _dtype(self, features: Any) -> torch.dtype:
        if self.precision == "float64":
            return torch.float64
        small = getattr(features, "dtype", None) == np.float64 and np.prod(features.shape) <= _SMALL
        return torch.float64 if self.precision == "auto" and small else torch.float32

    def _fingerprint(self, rows: Rows, votes: Annotations) -> str:
        """Hash of what a run depends on; callables count by their names."""
        skipped = ("checkpoint", "device")
        plain = {f.name: repr(getattr(self, f.name)) for f in fields(self) if f.name not in skipped and not _unnamed(getattr(self, f.name))}
        digest = hashlib.sha256(json.dumps([self.name, plain, len(rows), list(rows.shape)], sort_keys=True).encode())
        for array in (votes.item_ptr, votes.annotator, votes.label, votes.weight, votes.gold):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        digest.update(rows.take(torch.arange(min(len(rows), 16))).numpy().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A trained backbone."""

    network: nn.Module
    spec: dict[str, Any] | None
    dtype: torch.dtype
    device: torch.device
    mixed: bool = False

    @torch.no_grad()
    def log_prob(self, features: Any) -> Floats:
        """[N, K]."""
        rows = rows_of(features, self.dtype)
        self.network.eval()
        parts = []
        for index in torch.arange(len(rows)).split(4096):
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed):
                logits = self.network(rows.take(index).to(self.device))
            parts.append(logits.double().log_softmax(1).cpu().numpy())
        return np.concatenate(parts)

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Weights by name, and how to rebuild the module."""
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in self.network.state_dict().items()}
        return arrays, {"kind": "network", "spec": self.spec, "dtype": str(self.dtype).removeprefix("torch."), "mixed": self.mixed}


def point_confusion(confusion_akl: Floats, votes: Annotations) -> Confusion:
    """Fitted matrices as the annotator part of a `Result`; annotators never seen get their mean, weighted by votes."""
    pi_alk = np.ascontiguousarray(confusion_akl.transpose(0, 2, 1))
    share = votes.votes_per_annotator + 1e-9
    pooled = np.einsum("a,alk->lk", share / share.sum(), pi_alk)
    return Confusion(prior_alk=np.zeros((1, votes.n_classes, votes.n_classes)), pi_alk=pi_alk, pooled_lk=pooled)


def _without(votes: Annotations, items: NDArray[np.int64]) -> Annotations:
    """The same items, with no votes on these: heads that count votes must not see those that judge them."""
    if not len(items):
        return votes
    judged = np.zeros(votes.n_items, bool)
    judged[items] = True
    return votes._take_votes(~judged[votes.item])


def _check_output(network: nn.Module, rows: Rows, n_classes: int) -> None:
    """Try two rows before any training: the network must give one logit per class."""
    network.eval()
    try:
        with torch.no_grad():
            output = network(rows.take(torch.arange(min(2, len(rows)))))
    except RuntimeError as problem:
        raise InputError(f"the network cannot take rows of shape {tuple(rows.shape)}: {str(problem).splitlines()[0]}") from problem
    if not isinstance(output, torch.Tensor) or output.ndim != 2 or output.shape[1] != n_classes:
        got = f"shape {tuple(output.shape)}" if isinstance(output, torch.Tensor) else type(output).__name__
        raise InputError(f"the network must return logits of shape [rows, {n_classes}], one per class; it returned {got}")


def _materialised(network: nn.Module, rows: Rows) -> nn.Module:
    """Run two rows through a network with lazy layers, which take their sizes from the first input."""
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in network.parameters()):
        network.eval()
        with torch.no_grad():
            network(rows.take(torch.arange(min(2, len(rows)))).float())
    return network


def _check_checkpoint(path: Any) -> None:
    """A checkpoint that cannot be written must be known before an hour of training."""
    if path is None:
        return
    folder = Path(path).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"checkpoint: cannot write into {folder}; make the folder, or name another file")


def _device(name: str) -> torch.device:
    if name != "auto":
        try:
            return torch.device(name)
        except RuntimeError:
            raise SettingError(f"no torch device {name!r}; try cpu or cuda") from None
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _seed(random_state: Any) -> int:
    try:
        return int(np.random.default_rng(random_state).integers(2**31)) if random_state is None else int(random_state)
    except (TypeError, ValueError):
        raise SettingError(f"random_state must be None or a whole number >= 0; got {random_state!r}") from None


def _unnamed(value: Any) -> bool:
    """Whether a setting's text would differ between two processes: functions and modules."""
    return callable(value)
