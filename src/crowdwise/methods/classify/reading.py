"""Methods whose confusion matrices depend on the item, through the features that the network itself computes.

A method supplies `_head`, and for the trained head `_keep` (what is stored of it), `_read` (the item's part of a matrix, from
the features) and `_matrices` (the matrices of votes, from that part and the annotator). The annotators of the `Result` are the
means over the votes that they gave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of, tidy, vocabulary_array
from crowdwise.engines.gradient.rows import Rows, in_order
from crowdwise.engines.loop import Progress
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.carry import positions
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.classify.base import Learned, Model
from crowdwise.methods.classify.features import checked_features
from crowdwise.methods.classify.network_model import NetworkModel, suited_rows
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start, point_confusion
from crowdwise.parts.heads.batch import VoteList
from crowdwise.parts.heads.head import Head

__all__ = ["ReadingClassifier"]

# Entries of the matrices that are held at once.
_ENTRIES = 2**22


@dataclass(eq=False, repr=False, kw_only=True)
class ReadingClassifier(NeuralClassifier):
    """Base of the methods whose head reads what the last linear layer of the network reads."""

    def _network(self, rows: Rows, start: Start) -> tuple[nn.Module, dict[str, Any] | None]:
        network, spec = super()._network(rows, start)
        self._check_features(network, rows, start)
        return network, spec

    def _width(self, start: Start) -> int:
        """Number of features that the head reads."""
        assert start.network is not None
        return self._last_linear(start.network).in_features

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        done = super()._learn(features, votes, progress)
        self._keep(self.head_)
        log_prior, read = self._log_prob_and_read(done.model, features)
        return replace(done, annotators=point_confusion(self._mean_confusion(read, votes), votes), log_prior=log_prior)

    def confusion_of(self, X: Any, annotators: Sequence[Any] | None = None) -> Floats:
        """Confusion matrices of annotators on rows: P(observed | true, x), [N, A', K, L].

        Parameters
        ----------
        X : [N, ...]
            Rows, seen in the fit or not.
        annotators : sequence, optional
            Ids of annotators of the fit; by default all, in the order of `confusion_`.
        """
        who = self._codes_of(annotators)
        features = checked_features(self, X, fitting=False, images=self.takes_images)
        _, read = self._log_prob_and_read(self.model_, features)
        n_classes, annotator = self._fitted().votes.n_classes, torch.as_tensor(who)
        found = np.empty((len(read), len(who), n_classes, n_classes))
        at_once = max(_ENTRIES // max(found[:1].size, 1), 1)
        for first in range(0, len(read), at_once):
            some = read[first : first + at_once]
            matrices = self._matrices(some.repeat_interleave(len(who), 0), annotator.repeat(len(some)))
            found[first : first + at_once] = matrices.reshape(len(some), len(who), n_classes, n_classes)
        return found

    # -- what a method supplies ----------------------------------------------------------------

    def _keep(self, head: Head) -> None:
        """Store what the matrices are made of, as arrays named in `_saved`."""
        raise NotImplementedError

    def _read(self, features: Tensor) -> Tensor:
        """The item's part of a matrix, [n, P], from the features of the network, [n, D]."""
        raise NotImplementedError

    def _matrices(self, read: Tensor, annotator: Tensor) -> Tensor:
        """P(observed | true) of pairs, [E, K, L], from the items' parts, [E, P], and the annotators, [E]."""
        raise NotImplementedError

    # -- reading -------------------------------------------------------------------------------

    def _codes_of(self, annotators: Sequence[Any] | None) -> Integers:
        votes = self._fitted().votes
        if annotators is None:
            return np.arange(votes.n_annotators)
        ids = vocabulary_array(tidy(series_of(np.asarray(annotators))))
        who = positions(ids, votes.annotators)
        if (who < 0).any():
            raise InputError(f"no annotator {ids.tolist()[int(np.flatnonzero(who < 0)[0])]!r} in the fit")
        return who

    def _log_prob_and_read(self, model: Model, features: Any) -> tuple[Floats, Tensor]:
        """Log class probabilities, [N, K], and the items' parts of the matrices, [N, P], in one pass."""
        assert isinstance(model, NetworkModel)
        parts: list[Tensor] = []

        def keep(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            parts.append(self._read(inputs[0].detach().cpu().double()))

        # The features are those of the first network, without dropout.
        alone = replace(model, networks=model.networks[:1], passes=0)
        handle = self._last_linear(model.network).register_forward_pre_hook(keep)
        try:
            found, index, kept = [], [], []
            for where, draws in alone.log_draws(features):
                found.append(draws[0])
                index.append(where)
                # One network and one pass: the last that was read is of these rows.
                kept.append(parts[-1])
            log_prob = in_order(found, index).numpy()
        finally:
            handle.remove()
        if model.n_draws > 1 or model.passes:
            log_prob = model.log_prob(features)
        return log_prob, in_order(kept, index)

    @torch.no_grad()
    def _mean_confusion(self, read: Tensor, votes: Annotations) -> Floats:
        """Matrices averaged over the votes of each annotator, [A, K, L]; those of the mean item for one without votes."""
        everyone = torch.arange(votes.n_annotators)
        total = 1e-9 * self._matrices(read.mean(0).expand(len(everyone), -1), everyone)
        per_item = max(votes.n_votes // max(votes.n_items, 1), 1)
        at_once = max(_ENTRIES // (per_item * votes.n_classes**2), 1)
        for batch in VoteList(votes, torch.float64, torch.device("cpu")).batches(torch.arange(votes.n_items), at_once):
            matrices = self._matrices(read[batch.rows[batch.position]], batch.annotator)
            total.index_add_(0, batch.annotator, matrices * batch.weight[:, None, None])
        return np.asarray((total / total.sum(2, keepdim=True)).numpy())

    # -- checks --------------------------------------------------------------------------------

    def _last_linear(self, network: nn.Module) -> nn.Linear:
        """The layer whose input the head reads."""
        linear = [module for module in network.modules() if isinstance(module, nn.Linear)]
        if not linear:
            raise SettingError(
                f"{self.name} reads what the network's last nn.Linear layer reads, and the network has none; "
                "end it with one, or use ccem"
            )
        return linear[-1]

    def _check_features(self, network: nn.Module, rows: Rows, start: Start) -> None:
        """Refuse a network whose last linear layer does not read one row of features per item, found by trying two rows."""
        shapes: list[torch.Size] = []
        handle = self._last_linear(network).register_forward_pre_hook(lambda layer, inputs: shapes.append(inputs[0].shape))
        try:
            suited_rows(network, rows, start.n_classes, start.dtype, torch.device("cpu"))
        finally:
            handle.remove()
        if not shapes or len(shapes[-1]) != 2:
            got = f"an input of shape {tuple(shapes[-1])}" if shapes else "nothing"
            raise SettingError(
                f"{self.name} needs one row of features per item at the network's last nn.Linear layer, which reads {got}; "
                "pool before it, or use ccem"
            )
