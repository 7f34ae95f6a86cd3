"""A network before and after training: does it take the rows, and what does it say of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from crowdwise.engines.gradient.fields import Fields, answer_of, left_out
from crowdwise.engines.gradient.rows import Rows, as_numbers, evaluated_at_once, in_order, parts_of, rows_of
from crowdwise.errors import DataWarning, InputError, SettingError, listed
from crowdwise.kernels.types import Floats
from crowdwise.parts.heads.dropping import Dropping, drops, drops_when_evaluated
from crowdwise.parts.heads.seeding import seeded

__all__ = ["NetworkModel", "Uncertainty", "check_dropout", "check_mixed", "few_rows", "materialised", "suited_rows"]


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """Trained backbones: one, or an ensemble; `passes` with dropout left on where it is above 0."""

    networks: tuple[nn.Module, ...]
    spec: dict[str, Any] | None
    dtype: torch.dtype
    device: torch.device
    mixed: bool = False
    passes: int = 0

    @property
    def network(self) -> nn.Module:
        """The first, or only, one."""
        return self.networks[0]

    @property
    def n_draws(self) -> int:
        """Answers per row that are averaged."""
        return len(self.networks) * max(self.passes, 1)

    def log_prob(self, features: Any) -> Floats:
        """Log of the mean probability, [N, K]."""
        parts, index = [], []
        for where, draws in self.log_draws(features):
            parts.append(draws[0] if len(draws) == 1 else torch.logsumexp(draws, 0) - math.log(len(draws)))
            index.append(where)
        return in_order(parts, index).numpy()

    @torch.no_grad()
    def log_draws(self, features: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Positions of some rows at a time, [n], and log probabilities by every network and pass, [S, n, K]."""
        rows = rows_of(features, self.dtype)
        rows = suited_rows(self.network, rows, None, self.dtype, self.device)
        for number, index in enumerate(parts_of(rows, None, evaluated_at_once(rows))):
            taken = rows.take(index).to(self.device)
            with seeded(0, number, 0, self.device):
                draws = [self._once(network, taken) for network in self.networks for _ in range(max(self.passes, 1))]
            yield index, torch.stack(draws)

    def _once(self, network: nn.Module, rows: torch.Tensor | Fields) -> torch.Tensor:
        network.eval()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed), Dropping() if self.passes else nullcontext():
            logits = answer_of(network, rows)
        answer: torch.Tensor = logits.double().log_softmax(1).cpu()
        return answer

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Weights by name (of several networks by number and name), and how to rebuild the modules."""
        arrays = {
            (f"{number}." if len(self.networks) > 1 else "") + name: tensor.detach().cpu().numpy()
            for number, network in enumerate(self.networks)
            for name, tensor in network.state_dict().items()
        }
        return arrays, {
            "kind": "network",
            "spec": self.spec,
            "dtype": str(self.dtype).removeprefix("torch."),
            "mixed": self.mixed,
            "members": len(self.networks),
            "passes": self.passes,
        }


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How sure a classifier is of rows, and how far its networks or passes agree.

    Attributes
    ----------
    probability, sd : [N, K]
        Mean and standard deviation of the class probabilities over networks and passes.
    entropy : [N]
        Of the mean, in nats: all doubt, whatever it comes from.
    disagreement : [N]
        Entropy less the mean entropy of the single answers (mutual information): doubt that more data could remove.
    """

    probability: Floats
    sd: Floats
    entropy: Floats
    disagreement: Floats

    @classmethod
    def of(cls, model: NetworkModel, features: Any) -> Uncertainty:
        """Evaluate the model's networks and passes on rows."""
        parts: list[tuple[torch.Tensor, ...]] = []
        index = []
        for where, log_draws in model.log_draws(features):
            index.append(where)
            draws = log_draws.exp()
            mean = draws.mean(0)
            entropy = -torch.special.xlogy(mean, mean).sum(1)
            single = -(draws * log_draws.clamp(min=-700)).sum(2).mean(0)
            parts.append((mean, draws.std(0, correction=0), entropy, (entropy - single).clamp(min=0)))
        return cls(*(in_order(list(column), index).numpy() for column in zip(*parts, strict=True)))


def suited_rows(network: nn.Module, rows: Rows, n_classes: int | None, dtype: torch.dtype, device: torch.device) -> Rows:
    """Try two rows before any training; return the rows as the network takes them, one logit per class.

    Whole numbers go in as they are, for networks that embed tokens, or else as floating-point ones.
    """
    network.eval()
    index = few_rows(rows)
    sample = rows.take(index)
    whole = isinstance(sample, torch.Tensor) and not sample.is_floating_point()
    problems = []
    for source in (rows, as_numbers(rows, dtype)) if whole else (rows,):
        try:
            with torch.no_grad():
                output = answer_of(network, source.take(index).to(device))
            break
        except Exception as problem:  # whatever a module does with rows it was not made for
            problems.append(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)
    else:
        what = f"with the fields {listed(sample)}" if isinstance(sample, Fields) else f"of shape {tuple(rows.shape)}"
        raise InputError(f"the network cannot take rows {what}: {'; as floats: '.join(problems)}")
    if n_classes is None:
        return source
    _refuse_stray_dropout(network, source.take(index).to(device))
    _warn_of_fields(network, sample)
    if not isinstance(output, torch.Tensor) or output.shape != (len(index), n_classes):
        got = (
            f"shape {tuple(output.shape)} for {len(index)} rows" if isinstance(output, torch.Tensor) else type(output).__name__
        )
        raise InputError(f"the network must return logits of shape [rows, {n_classes}], one per class; it returned {got}")
    return source


def check_mixed(network: nn.Module, rows: Rows, device: torch.device) -> None:
    """Some processors claim half precision and then fail at it."""
    try:
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
            answer_of(network, rows.take(few_rows(rows)).to(device))
    except RuntimeError as problem:
        raise SettingError(f'precision="mixed" fails on this machine ({problem}); set precision="float32"') from problem


def check_dropout(network: nn.Module, rows: Rows, dtype: torch.dtype) -> None:
    """Refuse a network whose passes would all agree, as far as two rows show."""
    network.eval()
    taken = suited_rows(network, rows, None, dtype, torch.device("cpu")).take(few_rows(rows))
    if not drops(lambda: answer_of(network, taken)):
        raise SettingError(
            "dropout_passes: the network has no dropout, so that all passes would agree; set dropout=0.5 (mlp and cnn), or "
            "give your own network nn.Dropout layers (F.dropout in its forward will do; that within attention and recurrent "
            "layers, and of compiled networks, cannot be left on)"
        )


def materialised(network: nn.Module, rows: Rows) -> nn.Module:
    """Run two rows through a network with lazy layers, which take their sizes from the first input."""
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in network.parameters()):
        network.eval()
        with torch.no_grad():
            answer_of(network, rows.take(few_rows(rows)).to(torch.float32))
    return network


def few_rows(rows: Rows) -> torch.Tensor:
    """Positions of two rows that can be tried; of a stream, they are in its first batch."""
    known = getattr(rows, "first_rows", None)
    return torch.arange(min(2, len(rows))) if known is None else known[:2]


def _refuse_stray_dropout(network: nn.Module, rows: Any) -> None:
    """Labels would differ from one evaluation to the next, and with the place of a row among others."""
    # Compiled modules do not let one see it, and would be compiled again.
    if not hasattr(network, "_orig_mod") and drops_when_evaluated(lambda: answer_of(network, rows)):
        raise SettingError(
            "the network's forward drops when it is evaluated, too: hand its mode over, F.dropout(x, p, training=self.training)"
        )


def _warn_of_fields(network: nn.Module, sample: Any) -> None:
    ignored = [name for name in left_out(network, sample) if sample[name].ndim > 1] if isinstance(sample, Fields) else []
    if ignored:
        warnings.warn(
            f"the network's forward has no parameter {listed(map(repr, ignored))}: left out; name it so, or drop the field",
            DataWarning,
            stacklevel=2,
        )
