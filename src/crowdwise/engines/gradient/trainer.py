"""Engine 2: train a network and a head on votes, end to end.

One loop for every network of the project: pre-batched slices, Adam or any optimiser, early stopping on
held-out votes (no true labels needed), clipping, mixed precision, checkpoints that resume to the same
bits, and data parallelism. Every epoch draws its randomness from (seed, epoch).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from crowdwise.engines.gradient import checkpoint as files
from crowdwise.engines.gradient.callbacks import EpochRecord
from crowdwise.engines.gradient.fields import Fields, answer_of, augmented
from crowdwise.engines.gradient.optimisers import Schedule, make_optimiser
from crowdwise.engines.gradient.plan import History, Plan
from crowdwise.engines.gradient.rows import Rows, evaluated_at_once, in_order, parts_of
from crowdwise.engines.gradient.stopping import Judge
from crowdwise.engines.loop import Progress
from crowdwise.errors import DivergedError, InputError
from crowdwise.parts.heads.batch import Batch, VoteList, n_batches
from crowdwise.parts.heads.head import Head
from crowdwise.parts.heads.parallel import Group
from crowdwise.parts.heads.seeding import mixed_seed, seeded
from crowdwise.parts.heads.tap import FeatureTap

__all__ = ["Trainer"]

# Runs of neighbouring rows on disk that are shuffled together.
_WINDOW = 64


class Trainer:
    """A network, a head, their data and a plan.

    Parameters
    ----------
    rows, votes
        The items and their votes, in the same order.
    train : index tensor
        Items to train on.
    judge
        Items whose votes only judge, where there are any.
    known : [N] or None
        Class codes of items with gold labels, -1 elsewhere; they are learned like certain labels.
    """

    def __init__(
        self,
        network: nn.Module,
        head: Head,
        rows: Rows,
        votes: VoteList,
        plan: Plan,
        *,
        train: Tensor,
        judge: Judge | None = None,
        known: Tensor | None = None,
    ) -> None:
        self.network, self.head, self.rows, self.votes, self.plan = network, head, rows, votes, plan
        self.train, self.judge, self.known = train, judge, known
        self.group = Group()
        self.history = History()
        self.tap = FeatureTap(network) if head.reads_features else None
        self.group.same_start(network)
        groups = [{"params": list(network.parameters()), "lr": plan.learning_rate, "weight_decay": plan.weight_decay}]
        own = [p for p in head.parameters() if p.requires_grad]
        if own:
            groups.append({"params": own, "lr": plan.head_learning_rate, "weight_decay": 0.0})
        self.optimiser = make_optimiser(plan.optimiser, groups)
        self._steps = getattr(rows, "n_batches", 0) or n_batches(len(train), plan.batch_size)
        self.schedule = Schedule(plan.scheduler, self.optimiser, max(self._steps * plan.epochs, 1), plan.rates)
        self._best: dict[str, Tensor] = {}

    # -- the loop ------------------------------------------------------------------------------

    def run(self, progress: Progress | None = None) -> History:
        """Train, from the checkpoint if there is one; leave the best weights in the network and the head."""
        self._resume()
        plan, history = self.plan, self.history
        started = perf_counter()
        for epoch in range(len(history.loss), plan.epochs):
            if history.stopped_early:
                break
            with seeded(plan.seed, epoch, self.group.rank, plan.device):
                self.head.begin_epoch(epoch, self.log_prob)
                objective = history.note(self._epoch(epoch), self.head.end_epoch())
            if self.judge is not None:
                self._judge(self.judge)
            self._keep_best(epoch)
            history.rates.append(self.schedule.after_epoch(epoch, (history.judged or history.loss)[-1]))
            impatient = self.judge is not None and epoch - history.best >= plan.patience and epoch >= plan.earliest
            history.asked = self._asked(epoch, perf_counter() - started)
            history.stopped_early = impatient or history.asked
            self._write_checkpoint()
            if progress is not None:
                progress(epoch + 1, objective, history.held_out[-1] if history.held_out else float("nan"))
        if self._best:
            self.network.load_state_dict(files.under(self._best, "network."))
            self.head.load_state_dict(files.under(self._best, "head."))
        if self.tap is not None:
            self.tap.handle.remove()
        self.network.eval()
        return history

    def _asked(self, epoch: int, seconds: float) -> bool:
        """Tell the callbacks of an epoch; whether one of them asks for the end."""
        plan, history = self.plan, self.history
        if not plan.callbacks:
            return False
        asked = 0
        if self.group.rank == 0:
            record = EpochRecord(
                stage=plan.stage,
                member=plan.member,
                epoch=epoch + 1,
                step=(epoch + 1) * self._steps,
                loss=history.loss[-1],
                held_out=history.held_out[-1] if history.held_out else None,
                judged=history.judged[-1] if history.judged else None,
                # Epochs of a warm-up are not judged.
                best_epoch=None if history.judged and epoch < plan.earliest else history.best + 1,
                learning_rate=history.rates[-1][0],
                seconds=seconds,
            )
            # All are told, whoever asks first.
            asked = sum([callback.on_epoch_end(record) is True for callback in plan.callbacks])
        return bool(self.group.same_number(asked))

    def _epoch(self, epoch: int) -> float:
        plan = self.plan
        self.network.train()
        total = torch.zeros((), dtype=torch.float64, device=plan.device)
        n_steps = 0
        for batch in self._batches(self._order(epoch), plan.batch_size, epoch):
            try:
                loss = self._loss(batch)
            except torch.linalg.LinAlgError as problem:  # type: ignore[attr-defined]  # a determinant of NaN
                raise _diverged(float("nan"), epoch) from problem
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self.group.sum_gradients(self.network.parameters())
            if plan.clip is not None:
                nn.utils.clip_grad_norm_([*self.network.parameters(), *self.head.parameters()], plan.clip)
            self.optimiser.step()
            self.schedule.after_batch()
            total += loss.detach()
            n_steps += 1
        # Running averages of normalisation layers come from each process's own rows.
        self.group.same_start(self.network)
        mean = float(total) / max(n_steps, 1)
        if not torch.isfinite(total):
            raise _diverged(mean, epoch)
        return mean

    def _order(self, epoch: int) -> Tensor:
        """Items of an epoch in random order; neighbours stay together where rows lie on disk."""
        generator = torch.Generator().manual_seed(mixed_seed(self.plan.seed, epoch))
        run = self.rows.run
        if run == 1:
            order = torch.randperm(len(self.train), generator=generator)
        else:
            n_runs = -(-len(self.train) // run)
            order = (torch.randperm(n_runs, generator=generator)[:, None] * run + torch.arange(run)).reshape(-1)
            order = order[order < len(self.train)]
            # Data often lie sorted by class: neighbours share a window of many batches, not a batch.
            windows = torch.split(order, run * _WINDOW)
            order = torch.cat([part[torch.randperm(len(part), generator=generator)] for part in windows])
        return self.train[order.to(self.train.device)]

    def _batches(self, order: Tensor, size: int, epoch: int = 0) -> Iterator[Batch]:
        """The items of `order` with their votes; those of a stream as they come."""
        walk = getattr(self.rows, "walk", None)
        if walk is None:
            yield from self.votes.batches(order, size, epoch)
            return
        for part in walk(order, training=self.network.training):
            yield from self.votes.batches(part, len(part), epoch)

    def _loss(self, batch: Batch) -> Tensor:
        logits, trained = self._forward(self.head.mixed(batch))
        loss = self.head.loss(logits, trained)
        if self.known is not None and not self.head.uses_gold:
            if trained.mix is not None:
                # A known label is that of the item, not of a mixture.
                logits, _ = self._forward(batch)
            known = self.known[batch.rows]
            some = known >= 0
            if bool(some.any()):
                each = torch.nn.functional.cross_entropy(logits[some], known[some], reduction="none")
                loss = loss + (each * batch.item_weight[some]).sum() / batch.item_weight.sum().clamp(min=1e-12)
        return loss

    def _forward(self, batch: Batch, rows: Rows | None = None) -> tuple[Tensor, Batch]:
        """Logits of the batch, [B, K], and the batch with features where the head reads them; `rows` for other items."""
        logits = self.group.gather(self._answer(self._taken(batch, self.rows if rows is None else rows)), len(batch.rows))
        if self.tap is not None:
            batch = replace(batch, features=self.group.gather(self.tap.features.to(logits.dtype), len(batch.rows)))
        return logits, batch

    def _taken(self, batch: Batch, source: Rows) -> Any:
        """This process's rows of a batch, mixed where it says so."""
        share = self.group.share
        rows = self._augmented(source.take(share(batch.rows))).to(self.plan.device)
        if batch.mix is None:
            return rows
        partner = source.take(share(batch.rows.index_select(0, batch.mix.partner)))
        other, own = self._augmented(partner).to(self.plan.device), share(batch.mix.share)
        if isinstance(rows, Fields):
            return Fields({name: batch.mix.between(field, other[name], own) for name, field in rows.items()})
        return batch.mix.between(rows, other, own)

    def _augmented(self, rows: Tensor | Fields) -> Any:
        """Rows as they are trained on; judged and predicted ones stay as they are."""
        return rows if self.plan.augment is None or not self.network.training else augmented(rows, self.plan.augment)

    def _answer(self, rows: Tensor | Fields) -> Tensor:
        with torch.autocast(self.plan.device.type, torch.bfloat16, enabled=self.plan.mixed):
            logits: Tensor = answer_of(self.network, rows)
        return logits.float() if self.plan.mixed else logits

    # -- judging -------------------------------------------------------------------------------

    @torch.no_grad()
    def log_prob(self, index: Tensor | None = None) -> Tensor:
        """Log class probabilities of all items (or those at `index`), [N, K], without dropout."""
        index = torch.arange(len(self.rows), device=self.plan.device) if index is None else index
        training = self.network.training
        self.network.eval()
        parts, answers = [], []
        for part in parts_of(self.rows, index, evaluated_at_once(self.rows)):
            parts.append(part)
            answers.append(self._answer(self.rows.take(part).to(self.plan.device)).log_softmax(1))
        self.network.train(training)
        if not parts:
            return torch.zeros(0, self.votes.n_classes, device=self.plan.device)
        return in_order(answers, parts, index)

    @torch.no_grad()
    def _judge(self, judge: Judge) -> None:
        """Note minus the log-likelihood of the held-out votes, per vote: of the whole model, and of the classifier alone.

        The votes of an item are taken together: on their own they hardly separate a vague classifier with
        precise annotators from a precise one with vague annotators; their coincidences do.
        """
        self.network.eval()
        whole, alone, mass = 0.0, 0.0, 0.0
        rows = self.rows if judge.rows is None else judge.rows
        size = evaluated_at_once(rows)
        batches = self._batches(judge.items, size) if judge.rows is None else judge.votes.batches(judge.items, size)
        for batch in batches:
            logits, filled = self._forward(batch, rows)
            log_f = logits.log_softmax(1)
            alone += judge.loss(log_f, batch)
            if judge.rows is None:
                whole -= float(batch.joint_log_prob(log_f, self.head.evidence(filled)).sum())
            mass += float(batch.weight.sum())
        self.history.judged.append(alone / max(mass, 1e-12))
        # What a head knows of items and annotators is of those that are trained on.
        self.history.held_out.append(whole / max(mass, 1e-12) if judge.rows is None else self.history.judged[-1])

    def _keep_best(self, epoch: int) -> None:
        history = self.history
        if not history.judged or epoch < self.plan.earliest:
            history.best = epoch
            return
        if history.judged[-1] <= min(history.judged[self.plan.earliest :]):
            history.best = epoch
            self._best = copy.deepcopy(files.named(self.network, "network.") | files.named(self.head, "head."))

    # -- checkpoints ---------------------------------------------------------------------------

    def _write_checkpoint(self) -> None:
        if self.plan.checkpoint is None or self.group.rank:
            return
        optimiser = self.optimiser.state_dict()
        tensors, plain = files.split_state(optimiser["state"], "optimiser.")
        tensors |= files.named(self.network, "network.") | files.named(self.head, "head.")
        tensors |= {f"best.{name}": value for name, value in self._best.items()}
        plain = {
            "history": vars(self.history),
            "optimiser": plain,
            "groups": optimiser["param_groups"],
            "scheduler": self.schedule.state(),
        }
        files.write(self.plan.checkpoint, files.Checkpoint(self.plan.fingerprint, tensors, plain))

    def _resume(self) -> None:
        if self.plan.checkpoint is None:
            return
        saved = files.read(self.plan.checkpoint, self.plan.fingerprint)
        done = 0 if saved is None else len(saved.plain["history"]["loss"])
        if done != self.group.same_number(done):
            raise InputError(f"{self.plan.checkpoint}: not the checkpoint that the first process has; put it where all see it")
        if saved is None:
            return
        try:
            self._load(saved)
        except (KeyError, ValueError, TypeError, RuntimeError) as problem:
            raise InputError(
                f"{self.plan.checkpoint}: a checkpoint of another network or optimiser ({problem}); delete it to start again"
            ) from problem

    def _load(self, saved: files.Checkpoint) -> None:
        self.network.load_state_dict(files.under(saved.tensors, "network."))
        self.head.load_state_dict(files.under(saved.tensors, "head."))
        self._best = files.under(saved.tensors, "best.")
        state = files.join_state(files.under(saved.tensors, "optimiser."), {}, "")
        for key, value in saved.plain["optimiser"].items():
            index, _, name = key.removeprefix("optimiser.").partition(".")
            state.setdefault(int(index), {})[name] = value
        self.optimiser.load_state_dict({"state": state, "param_groups": saved.plain["groups"]})
        self.schedule.resume(saved.plain["scheduler"])
        self.history = History(**saved.plain["history"])


def _diverged(loss: float, epoch: int) -> DivergedError:
    return DivergedError(
        f"the loss became {loss} in epoch {epoch + 1}: lower learning_rate, set clip=1.0, or standardise the features "
        "(a dataset is not searched for NaN beforehand)"
    )
