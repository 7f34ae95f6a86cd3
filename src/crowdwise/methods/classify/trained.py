"""Methods trained by engine 2: whatever answers with logits, beside a head.

A method supplies `_head` and `_network`; everything else (start, optimiser, early stopping, checkpoints,
devices) is shared and set here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.callbacks import ProgressBar, checked_callbacks, listening
from crowdwise.engines.gradient.optimisers import OPTIMISERS, SCHEDULERS
from crowdwise.engines.gradient.plan import History, Plan
from crowdwise.engines.gradient.rows import Rows, rows_of
from crowdwise.engines.gradient.stopping import even_size, most_epochs, patient_epochs, warm_epochs
from crowdwise.engines.gradient.threads import threads_for
from crowdwise.engines.gradient.trainer import Trainer
from crowdwise.engines.loop import Progress
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import random_state_setting, seed_of, setting
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.classify.align import n_rows_of
from crowdwise.methods.classify.base import CrowdClassifier, Learned
from crowdwise.methods.classify.environment import check_checkpoint, device_of, fingerprint
from crowdwise.methods.classify.item_weights import item_weights
from crowdwise.methods.classify.judging import given_data, given_judge, held_out_judge
from crowdwise.methods.classify.network_model import NetworkModel, check_mixed, suited_rows
from crowdwise.methods.classify.runs import Member, Start, Task, counted_confusion, point_confusion, split_items, without_votes
from crowdwise.methods.classify.start import start_posterior
from crowdwise.parts.annotators.model import AnnotatorModel, Confusion
from crowdwise.parts.heads.batch import VoteList
from crowdwise.parts.heads.head import Head
from crowdwise.parts.heads.parallel import Group
from crowdwise.parts.heads.seeding import seeded
from crowdwise.parts.heads.targets import WarmStart

__all__ = ["TrainedClassifier"]


# Entries of X up to which float64 input is trained in float64: too few for the speed to matter.
_SMALL = 1_000_000
# Between the seeds of an ensemble's networks: far enough that runs with neighbouring seeds share none.
_NEXT_MEMBER = 2**20
# Settings that do not change what a run ends in, and rows that text does not describe.
_NOT_OF_A_RUN = ("checkpoint", "device", "callbacks", "verbose", "validation_data")
_NOT_KEPT = ("callbacks", "validation_data")
# Epochs of the warm-up.
_WARM = 5


@dataclass(eq=False, repr=False, kw_only=True)
class TrainedClassifier(CrowdClassifier):
    """Base of the methods that are trained by gradient."""

    epochs: int | None = setting(
        None,
        "Most passes over the items; by default 100, or as many as 1,000 steps take on a small set.",
        low=1,
        whole=True,
        optional=True,
    )
    batch_size: int = setting(128, "Items per step.", low=1, high=10**9, whole=True)
    learning_rate: float = setting(1e-3, "Rate of the network.", above=0)
    head_learning_rate: float = setting(1e-2, "Rate of the annotators' parameters.", above=0)
    optimizer: Any = setting(
        "adam", "adam, adamw, sgd, or a function from parameter groups to a torch optimiser.", choices=OPTIMISERS, free=True
    )
    scheduler: Any = setting(
        "none",
        "none, one-cycle, cosine, plateau (of the held-out votes), or a function (optimiser, steps) -> torch scheduler.",
        choices=SCHEDULERS,
        free=True,
    )
    clip: float | None = setting(None, "Largest norm of the gradient.", above=0, optional=True)
    init: Any = setting(
        "one-coin",
        'Start: the posterior of an aggregation method by its name, "identity" as in the papers, or a posterior [N, K].',
        free=True,
    )
    warmup: int | None = setting(
        None,
        "First epochs, trained on the labels of the start; by default 5, or as many as 50 steps take, up to a quarter.",
        low=0,
        whole=True,
        optional=True,
    )
    validation: float = setting(0.1, "Share of the items whose votes only judge, for early stopping; 0 for none.", low=0)
    patience: int | None = setting(
        None,
        "Epochs without a better held-out score before training stops; by default 20, or as many as 100 steps take.",
        low=1,
        whole=True,
        optional=True,
    )
    validation_data: Any = setting(
        None, "(X, y): rows with votes or true labels that judge instead of a share of the items.", free=True
    )
    refit: bool = setting(True, "After early stopping, train again on all items for the number of epochs it found best.")
    class_weight: Any = setting(None, 'None, "balanced", or class -> weight: weights items for imbalance.', free=True)
    precision: str = setting(
        "auto", "float32, float64, mixed (bfloat16 network), or auto.", choices=("auto", "float32", "float64", "mixed")
    )
    device: str = setting("auto", "cpu, cuda, mps, ..., or auto: a GPU when there is one.", free=True)
    checkpoint: Any = setting(
        None, "File that a run writes after every epoch and resumes from; removed when it ends.", free=True
    )
    callbacks: Any = setting(
        None, "One or several objects whose on_epoch_end(record) is called after every epoch; True asks to stop.", free=True
    )
    verbose: bool = setting(False, "Show a line that moves with the epochs.")
    random_state: int | None = random_state_setting("Seed of everything random.")

    # Settings of networks alone; not annotated, or they would be settings here too.
    members = 1
    dropout_passes = 0
    weight_decay = 0.0
    augment = None

    @property
    def has_network(self) -> bool:
        """Whether a network is trained: always here, be it a Gaussian process."""
        return True

    @property
    def takes_images(self) -> bool:
        """Whether rows may be images, tensors and datasets, not tables of numbers alone."""
        return True

    def _head(self, votes: Annotations, start: Start) -> Head:
        raise NotImplementedError

    def _network(self, rows: Rows, start: Start) -> tuple[nn.Module, dict[str, Any] | None]:
        """What answers with logits and, if it is built in, the plain values that rebuild it."""
        raise NotImplementedError

    def _warmup(self, start: Start, n_items: int) -> int:
        """First epochs trained on the labels of the start."""
        if start.identity:
            return 0
        if self.warmup is not None:
            return self.warmup
        return warm_epochs(_WARM, self._most_epochs(n_items), n_items, self.batch_size)

    def _optimiser(self, network: nn.Module, head: Head) -> Any:
        """A name, or a function from parameter groups to an optimiser."""
        return self.optimizer

    def _fit_to(self, features: Any, votes: Annotations, progress: Progress | None) -> None:
        with threads_for(self._numbers_per_step(features)):
            super()._fit_to(features, votes, progress)

    def _numbers_per_step(self, features: Any) -> float:
        """What a step reads of a table; beyond all bounds where rows are no table or the network is the user's."""
        shape: tuple[int, ...] = getattr(features, "shape", ())
        own = any(not isinstance(getattr(self, name, None), str | None) for name in ("network", "feature_map"))
        return math.inf if own or len(shape) != 2 else min(self.batch_size, shape[0]) * shape[1]

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        return self._train(features, votes, progress)

    def _train(self, features: Any, votes: Annotations, progress: Progress | None, table: Any = None) -> Learned:
        """Train every member of the ensemble and infer the annotators; `table` is what the head reads beside the network."""
        self._check_shares()
        check_checkpoint(self.checkpoint, self.random_state)
        device, dtype = device_of(self.device), self._dtype(features)
        seed = Group().same_number(seed_of(self.random_state))
        task = self._task(features, votes, progress, table, device, dtype)
        with listening(task.callbacks if Group().rank == 0 else ()):
            members = [self._member(task, number, seed + number * _NEXT_MEMBER) for number in range(self.members)]
        self._remove_checkpoints()
        first = members[0].history
        losses = {"loss": first.loss, "held_out": first.held_out, "judged": first.judged}
        self.history_: dict[str, Any] = losses | {"best_epoch": first.best + 1}
        self.network_, self.head_ = members[0].network, members[0].head
        networks = tuple(member.network for member in members)
        model = NetworkModel(networks, members[0].spec, dtype, device, self.precision == "mixed", self.dropout_passes)
        annotators, log_prior = self._inferred(votes, self._answers(model, features), [member.head for member in members])
        return Learned(
            model=model,
            annotators=annotators,
            trace={name: np.asarray(values) for name, values in first.terms.items()},
            n_iter=len(first.loss),
            converged=first.stopped_early,
            log_prior=log_prior,
        )

    def _task(
        self,
        features: Any,
        votes: Annotations,
        progress: Progress | None,
        table: Any,
        device: torch.device,
        dtype: torch.dtype,
    ) -> Task:
        rows = rows_of(features, dtype)
        posterior = start_posterior(votes, self.init)
        return Task(
            rows=rows,
            votes=votes,
            vote_list=VoteList(votes, dtype, device, self._item_weight(votes, posterior)),
            known=None if votes.gold is None else torch.as_tensor(votes.gold.astype(np.int64), device=device),
            start=replace(Start.of(votes, self.init, posterior, dtype), table=table),
            device=device,
            fingerprint="" if self.checkpoint is None else fingerprint(self.name, self._plain_settings(), rows, votes),
            progress=progress,
            given=given_data(self, self.validation_data, votes),
            callbacks=(*checked_callbacks(self.callbacks), *([ProgressBar()] if self.verbose else [])),
        )

    def _member(self, task: Task, number: int, seed: int) -> Member:
        """Train one network: until held-out votes say stop, and then on all items for as many epochs."""
        stage = self._stage(number)
        train, held_out = split_items(task.votes, self.validation if task.given is None else 0.0, seed)
        trainer, spec = self._run(task, seed, train, held_out, self._most_epochs(len(train) + len(held_out)), stage, number)
        history = trainer.history
        if self.refit and len(held_out) and not history.asked:
            everything = np.sort(np.concatenate([train, held_out]))
            trainer, spec = self._run(
                task, seed, everything, held_out[:0], history.best + 1, f"{stage}.refit", number, before=history
            )
        head = trainer.head.head if isinstance(trainer.head, WarmStart) else trainer.head
        return Member(trainer.network, spec, head, history)

    def _run(
        self,
        task: Task,
        seed: int,
        train: Integers,
        held_out: Integers,
        epochs: int,
        stage: str,
        member: int,
        before: History | None = None,
    ) -> tuple[Trainer, dict[str, Any] | None]:
        """One training from scratch, or from the checkpoint of its stage; `before` is that of the run that it follows."""
        start, device = task.start, task.device
        taught = without_votes(task.votes, held_out)
        with seeded(seed, -1, 0, device):
            network, spec = self._network(task.rows, start)
            suited = suited_rows(network, task.rows, task.votes.n_classes, start.dtype, torch.device("cpu"))
            if self.precision == "mixed":
                check_mixed(network.to(device), suited, device)
            head = self._head(taught, replace(start, network=network))
        warm = self._warmup(start, len(train) + len(held_out))
        judge = held_out_judge(task, taught, held_out) if len(held_out) else None
        if task.given is not None:
            judge = given_judge(task.given, task, network)
        trainer = Trainer(
            network.to(device),
            (WarmStart(head, start.posterior, warm) if warm else head).to(device),
            suited,
            task.vote_list,
            replace(
                self._plan(task, seed, epochs, stage, warm, (len(train), len(held_out)), self._optimiser(network, head)),
                callbacks=task.callbacks,
                stage="training" if before is None else "refit",
                member=member,
                rates=None if before is None else before.rates,
            ),
            train=torch.as_tensor(train, device=device),
            judge=judge,
            known=task.known,
        )
        trainer.run(task.progress)
        return trainer, spec

    def _most_epochs(self, n_items: int) -> int:
        return most_epochs(self.epochs, n_items, self.batch_size)

    def _plan(self, task: Task, seed: int, epochs: int, stage: str, warm: int, sizes: tuple[int, int], optimiser: Any) -> Plan:
        """How to train; `sizes` are the numbers of items that teach and that judge."""
        n_items = sum(sizes)
        return Plan(
            epochs=epochs,
            batch_size=even_size(sizes[0], n_items, self.batch_size) if sizes[1] else self.batch_size,
            learning_rate=self.learning_rate,
            head_learning_rate=self.head_learning_rate,
            weight_decay=self.weight_decay,
            optimiser=optimiser,
            scheduler=self.scheduler,
            clip=self.clip,
            patience=patient_epochs(self.patience, n_items, self.batch_size),
            earliest=min(warm, epochs - 1),
            seed=seed,
            device=task.device,
            mixed=self.precision == "mixed",
            augment=self.augment,
            checkpoint=None if self.checkpoint is None else Path(f"{self.checkpoint}{stage}"),
            fingerprint=task.fingerprint + stage,
        )

    def _answers(self, model: NetworkModel, features: Any) -> Floats:
        """What the trained model says of the items before their votes, as inference takes it, [N, K]."""
        return model.log_prob(features)

    def _inferred(self, votes: Annotations, log_prob: Floats, heads: list[Head]) -> tuple[AnnotatorModel, Floats]:
        """The annotators, and what is known of the items before their votes, [N, K]; of an ensemble, the mean matrices."""
        with torch.no_grad():
            confusion = torch.stack([head.confusion().double().cpu() for head in heads]).mean(0).numpy()
        return point_confusion(confusion, votes), log_prob

    def _annotators_on(self, features: Any, who: Integers) -> AnnotatorModel:
        """For votes on other rows, counts with pseudo-votes instead of matrices that were trained as points.

        A row that was trained on a dozen votes says of a label that it has not met that it never comes. After `partial_fit`
        the votes that matrices were trained on are not all there to be counted.
        """
        result = self._fitted()
        model = result.annotators
        if not isinstance(model, Confusion) or model.prior_alk.any() or self.history_.get("continued"):
            return super()._annotators_on(features, who)
        counted = counted_confusion(result.votes, result.model_posterior)
        return counted.aligned(who, np.full(n_rows_of(features), -1))

    # -- parts ---------------------------------------------------------------------------------

    def _item_weight(self, votes: Annotations, posterior: Floats) -> Floats | None:
        """Weights of the items, [N], or None where all are alike."""
        return item_weights(self.class_weight, votes, posterior)

    def _dtype(self, features: Any) -> torch.dtype:
        if self.precision == "float64":
            return torch.float64
        # Whole numbers too: what scikit-learn's checks call equivalent must be fitted alike.
        small = getattr(features, "dtype", None) in (np.float64, np.int64, np.int32) and np.prod(features.shape) <= _SMALL
        return torch.float64 if self.precision == "auto" and small else torch.float32

    def _restore(self, outcome: Any, members: Mapping[str, bytes], network: Any = None) -> None:
        super()._restore(outcome, members, network)
        assert isinstance(self.model_, NetworkModel)
        self.network_ = self.model_.network

    # -- checkpoints ---------------------------------------------------------------------------

    def _stage(self, number: int) -> str:
        """What the checkpoint of a member is called after the file that was named."""
        return f".member{number}" if number else ""

    def _remove_checkpoints(self) -> None:
        if self.checkpoint is not None:
            for number in range(self.members):
                for stage in (self._stage(number), f"{self._stage(number)}.refit"):
                    Path(f"{self.checkpoint}{stage}").unlink(missing_ok=True)

    def _plain_settings(self) -> dict[str, Any]:
        """Settings on which a run depends, but for functions and modules."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _NOT_OF_A_RUN}
        return {name: value for name, value in values.items() if not callable(value)}

    def kept_settings(self) -> dict[str, Any]:
        """Settings that an outcome names."""
        # Rows that judged would be saved with every model, and who listened is of this process.
        return {name: value for name, value in super().kept_settings().items() if name not in _NOT_KEPT}

    def _check_shares(self) -> None:
        for share in ("validation", "dropout"):
            if (getattr(self, share, 0) or 0) >= 1:
                raise SettingError(f"{share} must be below 1, or nothing is left to train; got {getattr(self, share)!r}")
