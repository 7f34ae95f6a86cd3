"""annot-mix: confusion by a network of item and annotator, trained on mixed votes (Herde, Luehrs, Huseljic and Sick 2024).

    p(vote y of a | x) = sum_k f(x)_k T_a(x)[k, y],     T_a(x) = small network of (features of x, embedding of a)
    mixup          x, a and y of a vote mixed with those of another, s ~ Beta(alpha, alpha)
    min            -(1/E) sum_e (s log p~(y_e) + (1 - s) log p~(y_e'))

Notes
-----
The network of the annotators is the authors' (embeddings of 128, one hidden layer) without its dropout and its batch
normalisation: a head judges held-out votes and is the same in every process. Their matrices start at one with 0.9 on the
diagonal; here at those that `init` names, added to what the network says, which starts at zero. Rates, batches and epochs of
their experiments (1e-3 for both networks, 128, 100) are the defaults. A network is evaluated once per vote instead of once per
item: the price of mixing. See `crowdwise.parts.heads.annot_mix`.

References
----------
Herde, Luehrs, Huseljic and Sick (2024), Annot-Mix: learning with noisy class labels from multiple annotators via a mixup
extension, ECAI. Zhang, Cisse, Dauphin and Lopez-Paz (2018), mixup: beyond empirical risk minimization, ICLR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.rows import Rows
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.methods.classify.network_model import few_rows, suited_rows
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.reading import ReadingClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.parts.heads.annot_mix import AnnotMixHead
from crowdwise.parts.heads.head import Head

__all__ = ["AnnotMix"]


@dataclass(eq=False, repr=False, kw_only=True)
class AnnotMix(ReadingClassifier):
    """Network x a network of items and annotators x mixup of votes."""

    head_learning_rate: float = setting(1e-3, "Rate of the annotators' network; the authors' value.", above=0)
    alpha: float = setting(
        1.0, "Both parameters of the Beta distribution of the shares; 0 mixes nothing. The authors' value.", low=0
    )
    embedding: int = setting(128, "Length of the embeddings of items and annotators; the authors' value.", low=1, whole=True)

    name: ClassVar[str] = "annot-mix"
    _saved: ClassVar[tuple[str, ...]] = (*NeuralClassifier._saved, "annotator_model_")

    def _network(self, rows: Rows, start: Start) -> tuple[nn.Module, dict[str, Any] | None]:
        network, spec = super()._network(rows, start)
        if self.alpha > 0:
            taken = suited_rows(network, rows, start.n_classes, start.dtype, torch.device("cpu"))
            if not taken.take(few_rows(taken)).is_floating_point():
                raise SettingError(
                    "annot-mix mixes rows, and the network takes whole numbers (tokens), of which there are no mixtures; "
                    "set alpha=0, or give it rows of numbers, such as embeddings of the text"
                )
        return network, spec

    def _head(self, votes: Annotations, start: Start) -> AnnotMixHead:
        return AnnotMixHead(start.confusion, self._width(start), self.embedding, self.alpha)

    def _keep(self, head: Head) -> None:
        self.annotator_model_ = {name: value.detach().cpu().numpy() for name, value in head.state_dict().items()}

    def _trained(self) -> AnnotMixHead:
        """The head as it was trained, in double precision."""
        state = {name: torch.as_tensor(value) for name, value in self.annotator_model_.items()}
        size, width = state["items.weight"].shape
        head = AnnotMixHead(state["start"].double(), width, size, self.alpha)
        head.load_state_dict(state)
        return head.requires_grad_(False)

    def _read(self, features: Tensor) -> Tensor:
        return self._trained().read(features)

    def _matrices(self, read: Tensor, annotator: Tensor) -> Tensor:
        head = self._trained()
        return head.log_matrices(read, head.annotators[annotator], head.start[annotator]).exp()
