"""Methods trained by engine 2: whatever answers with logits, beside a head.

A method supplies `_head` and `_network`; everything else (start, optimiser, early stopping, checkpoints,
devices) is shared and set here.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.optimisers import OPTIMISERS, SCHEDULERS
from crowdwise.engines.gradient.rows import Rows, rows_of
from crowdwise.engines.gradient.trainer import Plan, Trainer
from crowdwise.errors import SettingError
from crowdwise.estimator.settings import setting
from crowdwise.methods.classify.base import CrowdClassifier, Learned
from crowdwise.methods.classify.environment import check_checkpoint, device_of, seed_of
from crowdwise.methods.classify.network_model import NetworkModel, check_mixed, suited_rows
from crowdwise.methods.classify.start import start_confusion, start_posterior
from crowdwise.parts.annotators.confusion import Confusion
from crowdwise.parts.heads.batch import VoteList
from crowdwise.parts.heads.confusion import identity_confusion
from crowdwise.parts.heads.head import Head
from crowdwise.parts.heads.parallel import Group
from crowdwise.parts.heads.seeding import seeded
from crowdwise.parts.heads.targets import WarmStart

if TYPE_CHECKING:
    from crowdwise.engines.loop import Progress
    from crowdwise.parts.annotators.protocol import AnnotatorModel

__all__ = ["Start", "TrainedClassifier", "point_confusion"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Entries of X up to which float64 input is trained in float64: too few for the speed to matter.
_SMALL = 1_000_000
# Between the seeds of an ensemble's networks: far enough that runs with neighbouring seeds share none.
_NEXT_MEMBER = 2**20
# Rows that tell the data of a checkpoint from others.
_COMPARED = 1024


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
    network : nn.Module
        What the head will stand beside.
    """

    posterior: torch.Tensor
    confusion: torch.Tensor
    identity: bool
    dtype: torch.dtype
    network: nn.Module | None = None

    @property
    def n_classes(self) -> int:
        """K."""
        return self.posterior.shape[1]


@dataclass(eq=False, repr=False, kw_only=True)
class TrainedClassifier(CrowdClassifier):
    """Base of the methods that are trained by gradient."""

    epochs: int = setting(100, "Most passes over the items.", low=1, whole=True)
    batch_size: int = setting(128, "Items per step.", low=1, whole=True)
    learning_rate: float = setting(1e-3, "Rate of the network.", above=0)
    head_learning_rate: float = setting(1e-2, "Rate of the annotators' parameters.", above=0)
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
        "one-coin",
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
    checkpoint: Any = setting(
        None, "File that a run writes after every epoch and resumes from; removed when it ends.", free=True
    )
    random_state: int | None = setting(0, "Seed of everything random.", free=True)

    _accepts_images: ClassVar[bool] = True

    # Settings of networks alone; not annotated, or they would be settings here too.
    members = 1
    dropout_passes = 0
    weight_decay = 0.0

    def _head(self, votes: Annotations, start: Start) -> Head:
        raise NotImplementedError

    def _network(self, rows: Rows, start: Start) -> tuple[nn.Module, dict[str, Any] | None]:
        """What answers with logits and, if it is built in, the plain values that rebuild it."""
        raise NotImplementedError

    def _warmup(self, start: Start) -> int:
        """First epochs trained on the labels of the start."""
        return 0 if start.identity else self.warmup

    def _optimiser(self, network: nn.Module, head: Head) -> Any:
        """A name, or a function from parameter groups to an optimiser."""
        return self.optimizer

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        device, dtype, mixed = device_of(self.device), self._dtype(features), self.precision == "mixed"
        for share in ("validation", "dropout"):
            if (getattr(self, share, 0) or 0) >= 1:
                raise SettingError(f"{share} must be below 1, or nothing is left to train; got {getattr(self, share)!r}")
        check_checkpoint(self.checkpoint, self.random_state)
        first_seed = Group().same_number(seed_of(self.random_state))
        rows = rows_of(features, dtype)
        posterior = start_posterior(votes, self.init)
        start = self._start(votes, posterior, dtype)
        votes_of_items = VoteList(votes, dtype, device, self._item_weight(votes, posterior))
        known = None if votes.gold is None else torch.as_tensor(votes.gold.astype(np.int64), device=device)
        fingerprint = "" if self.checkpoint is None else self._fingerprint(rows, votes)

        def run(seed: int, train: Integers, held_out: Integers, epochs: int, stage: str) -> tuple[Trainer, Any]:
            with seeded(seed, -1, 0, device):
                network, spec = self._network(rows, start)
                suited = suited_rows(network, rows, votes.n_classes, dtype, torch.device("cpu"))
                if mixed:
                    check_mixed(network.to(device), suited, device)
                head = self._head(_without(votes, held_out), replace(start, network=network))
            warm = self._warmup(start)
            plan = Plan(
                epochs=epochs,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                head_learning_rate=self.head_learning_rate,
                weight_decay=self.weight_decay,
                optimiser=self._optimiser(network, head),
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
                suited,
                votes_of_items,
                plan,
                train=torch.as_tensor(train, device=device),
                held_out=torch.as_tensor(held_out, device=device),
                known=known,
            )
            trainer.run(progress)
            return trainer, spec

        trainers, stages = [], []
        for member in range(self.members):
            seed, name = first_seed + member * _NEXT_MEMBER, f".member{member}" if member else ""
            train, held_out = self._split(votes, seed)
            trainer, spec = run(seed, train, held_out, self.epochs, name)
            history = trainer.history
            if self.refit and len(held_out):
                everything = np.sort(np.concatenate([train, held_out]))
                trainer, spec = run(seed, everything, held_out[:0], history.best + 1, f"{name}.refit")
            trainers.append(trainer)
            stages += [name, f"{name}.refit"]
            if member == 0:
                first = history
        self.history_ = {"loss": first.loss, "held_out": first.held_out, "best_epoch": first.best + 1}
        self.network_ = trainers[0].network
        heads = [trainer.head.head if isinstance(trainer.head, WarmStart) else trainer.head for trainer in trainers]
        self.head_ = heads[0]
        if self.checkpoint is not None:
            for stage in stages:
                Path(f"{self.checkpoint}{stage}").unlink(missing_ok=True)
        model = NetworkModel(tuple(t.network for t in trainers), spec, dtype, device, mixed, self.dropout_passes)
        log_prob = model.log_prob(features)
        annotators, log_prior = self._inferred(votes, log_prob, heads)
        return Learned(
            model=model,
            annotators=annotators,
            trace={"votes": -np.asarray(first.loss)},
            n_iter=len(first.loss),
            converged=first.stopped_early,
            log_prior=log_prior,
        )

    def _inferred(self, votes: Annotations, log_prob: Floats, heads: list[Head]) -> tuple[AnnotatorModel, Floats]:
        """The annotators, and what is known of the items before their votes, [N, K]; of an ensemble, the mean matrices."""
        with torch.no_grad():
            confusion = torch.stack([head.confusion().double().cpu() for head in heads]).mean(0).numpy()
        return point_confusion(confusion, votes), log_prob

    # -- parts ---------------------------------------------------------------------------------

    def _start(self, votes: Annotations, posterior: Floats, dtype: torch.dtype) -> Start:
        identity = isinstance(self.init, str) and self.init == "identity"
        if identity:
            confusion = identity_confusion(votes.n_annotators, votes.n_classes, dtype)
        else:
            confusion = torch.tensor(start_confusion(votes, posterior), dtype=dtype)
        return Start(torch.tensor(posterior, dtype=dtype), confusion, identity, dtype)

    def _split(self, votes: Annotations, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Items to train on, and items whose votes only judge; items with neither votes nor gold teach nothing."""
        voted = votes.votes_per_item > 0
        order = np.random.default_rng(seed).permutation(np.flatnonzero(voted))
        n_held = int(self.validation * len(order))
        only_gold = np.flatnonzero(~voted & (votes.gold >= 0)) if votes.gold is not None else order[:0]
        return np.sort(np.concatenate([order[n_held:], only_gold])), np.sort(order[:n_held])

    def _item_weight(self, votes: Annotations, posterior: Floats) -> Floats | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, str):
            if self.class_weight != "balanced":
                raise SettingError(f'class_weight must be None, "balanced" or class -> weight; got {self.class_weight!r}')
            weight = len(posterior) / (votes.n_classes * np.maximum(posterior.sum(axis=0), 1e-12))
        else:
            try:
                given = dict(self.class_weight)
            except (TypeError, ValueError):
                raise SettingError(
                    f'class_weight must be None, "balanced" or class -> weight; got {self.class_weight!r}'
                ) from None
            missing = [c for c in votes.classes.tolist() if c not in given]
            if missing:
                raise SettingError(f"class_weight lacks the class {missing[0]!r}")
            weight = np.array([float(given[c]) for c in votes.classes.tolist()])
            if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
                raise SettingError(f"class_weight must hold finite weights >= 0, one of them above; got {self.class_weight!r}")
        # Not quite zero, or the weight of a vote could not be told from that of its item.
        item_weight = np.maximum(posterior @ weight, 1e-9)
        # One on average: heads that weigh the items against a prior take them for so many items.
        return np.asarray(item_weight / item_weight.mean())

    def _dtype(self, features: Any) -> torch.dtype:
        if self.precision == "float64":
            return torch.float64
        # Whole numbers too: what scikit-learn's checks call equivalent must be fitted alike.
        small = getattr(features, "dtype", None) in (np.float64, np.int64, np.int32) and np.prod(features.shape) <= _SMALL
        return torch.float64 if self.precision == "auto" and small else torch.float32

    def _fingerprint(self, rows: Rows, votes: Annotations) -> str:
        """Hash of what a run depends on; functions and modules cannot be told apart, and of many rows a sample counts."""
        skipped = ("checkpoint", "device")
        plain = {
            f.name: _told(getattr(self, f.name))
            for f in fields(self)
            if f.name not in skipped and not callable(getattr(self, f.name))
        }
        sizes = [len(rows), list(rows.shape), votes.n_annotators, [str(c) for c in votes.classes]]
        digest = hashlib.sha256(json.dumps([self.name, plain, sizes], sort_keys=True).encode())
        for array in (votes.item_ptr, votes.annotator, votes.label, votes.weight, votes.gold):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        for part in torch.split(torch.arange(0, len(rows), max(1, len(rows) // _COMPARED)), 64):
            digest.update(rows.take(part).cpu().numpy().tobytes())
        return digest.hexdigest()


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
    fewer = votes.take_votes(~judged[votes.item])
    return fewer if fewer.gold is None else replace(fewer, gold=np.where(judged, -1, fewer.gold))


def _told(value: Any) -> str:
    """A setting as text; all numbers of an array, of which `repr` shows some."""
    return repr(value.tolist()) if hasattr(value, "tolist") else repr(value)
