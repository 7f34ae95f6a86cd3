"""Partial Dawid-Skene: one class per item, from votes for a class, votes against one ("not cat"), and abstentions.

Model      annotator a gives symbol s (a class, "not" a class, or abstains) on an item of class k with probability R_a[k, s]
M-step     R_a[k, s] in proportion to expected counts plus pseudo-votes, d_k to posterior sums

Notes
-----
Dawid-Skene with more symbols than classes. Pseudo-votes follow an annotator's own use of the symbols, in which those that
agree with the class weigh K + 1 times as much: the class itself, and "not j" for any other j. So a vote against a class is
evidence against it from the start, and an annotator who says "not j" at random is found out. There are more numbers per
annotator than in Dawid-Skene, hence more pseudo-votes. Abstentions are left out by
default; counted, they are a symbol like the others, and say something where annotators abstain more on some classes than on
others. Cost per iteration: O(E K).

References
----------
After Dawid and Skene (1979); votes against classes as in Yu, Ding and Bach (2022), Learning from multiple noisy partial
labelers, AISTATS, and github.com/snorkel-team/snorkel/issues/1665.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from crowdwise.data.answers import ReadOnly
from crowdwise.data.encode import encode, series_of
from crowdwise.data.label_sets import ABSTAIN, NEGATIONS
from crowdwise.data.storable import storable
from crowdwise.engines.loop import ABOUT_TOL, Progress, alternate, best_of
from crowdwise.errors import InputError
from crowdwise.estimator.aggregator import as_annotations
from crowdwise.estimator.estimator import Estimator, setting
from crowdwise.estimator.outcome import Outcome
from crowdwise.kernels.numerics import best_class, segment_sum
from crowdwise.kernels.types import Array, Flags, Floats
from crowdwise.parts.annotators.model import Confusion
from crowdwise.parts.priors.marginals import Marginals

if TYPE_CHECKING:
    from typing_extensions import Never, Self

    from crowdwise.data.annotations import Annotations
    from crowdwise.engines.loop import Progress

__all__ = ["PartialDawidSkene", "PartialVotes", "Symbols"]


@storable
@dataclass(frozen=True, eq=False)
class Symbols(ReadOnly):
    """What votes may say: `agrees` [S, K], whether a symbol agrees with a class; `silent` [S], whether it says nothing."""

    names: Array
    classes: Array
    agrees: Flags
    silent: Flags
    negative: Flags

    @classmethod
    def of(cls, names: Array, negations: tuple[str, ...], abstain: tuple[str, ...]) -> Symbols:
        """Read the labels of votes."""
        texts = [str(name).strip() for name in names]
        marks = [next((mark for mark in negations if mark and text.startswith(mark)), "") for text in texts]
        silent = np.array([text.lower() in {word.lower() for word in abstain} for text in texts], bool)
        about = [text[len(mark) :].strip() for text, mark in zip(texts, marks, strict=True)]
        spoken = pl.Series([name for name, quiet in zip(about, silent, strict=True) if not quiet], dtype=pl.String)
        # In the order of the votes' own classes where these are named outright.
        outright = [text for text, mark, quiet in zip(texts, marks, silent, strict=True) if not mark and not quiet]
        rest = [name for name in encode(spoken)[1].tolist() if name not in outright]
        classes = np.array([*dict.fromkeys([*outright, *rest]), None], dtype=object)[:-1]
        same = np.array(about, dtype=object)[:, None] == classes
        negative = np.array([bool(mark) for mark in marks], bool)
        agrees = np.where(negative[:, None], ~same, same) | silent[:, None]
        return cls(names, classes, agrees, silent, negative & ~silent)


@storable
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PartialVotes(Outcome):
    """What a fit to partial votes returns; see also `Outcome`.

    Attributes
    ----------
    votes : Annotations
        Votes that say something; their classes are the symbols.
    symbols : Symbols
    posterior : [N, K]
    class_prior : [K]
    symbol_probability : [A, K, S]
        How often an annotator gives every symbol to items of a class.
    """

    votes: Annotations
    symbols: Symbols
    posterior: Floats
    class_prior: Floats
    symbol_probability: Floats

    def sound(self) -> bool:
        """Whether the arrays of a saved fit agree with each other."""
        n_classes, n_symbols = len(self.symbols.classes), self.votes.n_classes
        return (
            self.symbols.agrees.shape == (n_symbols, n_classes)
            and self.posterior.shape == (self.votes.n_items, n_classes)
            and self.class_prior.shape == (n_classes,)
            and self.symbol_probability.shape == (self.votes.n_annotators, n_classes, n_symbols)
        )

    @property
    def labels(self) -> Array:
        """The class of every item, [N]."""
        return np.asarray(self.symbols.classes[best_class(self.posterior, self.class_prior)])

    def items_frame(self, probabilities: bool = True) -> pl.DataFrame:
        """One row per item: label, confidence, votes, a note, and p(class) columns."""
        votes = self.votes
        columns: dict[str, Any] = {
            "item": series_of(votes.items),
            "label": series_of(self.labels),
            "confidence": self.posterior.max(axis=1, initial=0.0),
            "n_votes": votes.votes_per_item,
            "note": np.where(votes.votes_per_item == 0, "no votes", ""),
        }
        if probabilities:
            columns |= {f"p({name})": self.posterior[:, k] for k, name in enumerate(self.symbols.classes)}
        return pl.DataFrame(columns)

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator: votes, of these against a class, and the share that agrees with the class."""
        votes, symbols = self.votes, self.symbols
        against = segment_sum(votes.annotator, symbols.negative[votes.label].astype(float), votes.n_annotators)
        joint = self.symbol_probability * self.class_prior[:, None]
        speaking = joint[:, :, ~symbols.silent]
        right = (speaking * symbols.agrees.T[:, ~symbols.silent]).sum(axis=(1, 2))
        total = speaking.sum(axis=(1, 2))
        return pl.DataFrame(
            {
                "annotator": series_of(votes.annotators),
                "n_votes": votes.votes_per_annotator,
                "n_against": against.astype(np.int64),
                "agrees": np.where(total > 0, right / np.where(total > 0, total, 1.0), np.nan),
            }
        ).with_columns(pl.col("agrees").fill_nan(None))


@dataclass(eq=False, repr=False, kw_only=True)
class PartialDawidSkene(Estimator):
    """Dawid-Skene for votes for a class, against a class, and abstentions."""

    abstain: str = setting(
        "ignore", 'Abstentions: "ignore" them, or "count" them as an answer like the others.', choices=("ignore", "count")
    )
    negations: str = setting(" ".join(NEGATIONS), "Marks before a class that is ruled out, separated by spaces.", free=True)
    abstentions: str = setting(" ".join(ABSTAIN), "Labels that are abstentions, separated by spaces.", free=True)
    smoothing: float = setting(2.0, "Pseudo-votes per symbol added to every row of an annotator.", low=0)
    max_iter: int = setting(1000, "Most iterations.", low=1, whole=True)
    tol: float = setting(1e-6, ABOUT_TOL, above=0)

    name: ClassVar[str] = "partial-dawid-skene"

    def fit(
        self,
        data: Any,
        gold: Any = None,
        *,
        history: Any = None,
        progress: Progress | None = None,
        engine: Any = None,
        **other: Never,
    ) -> Self:
        """Fit to partial votes.

        Parameters
        ----------
        data : Annotations or frame
            Votes whose classes are the symbols: ``cat``, ``!cat``, ``abstain``.
        gold, history, engine
            This method takes none of these yet.
        progress : callable, optional
            Called after every iteration with (iteration, bound, mean change).
        """
        self._check_fit(other, gold=gold, history=history, engine=engine)
        votes = as_annotations(data)
        symbols = Symbols.of(votes.classes, tuple(self.negations.split()), tuple(self.abstentions.split()))
        _check(symbols)
        if self.abstain == "ignore" and symbols.silent.any():
            votes = votes.take_votes(~symbols.silent[votes.label])
        pseudo = self._pseudo_votes(votes, symbols)
        uniform = np.full(pseudo.shape, 1 / pseudo.shape[1])
        n_classes = len(symbols.classes)
        done = best_of(
            lambda begin: alternate(
                votes,
                Marginals(np.full(n_classes, 1 / n_classes)),
                Confusion(pseudo, uniform, np.full(pseudo.shape[1:], 1 / pseudo.shape[1])),
                start=begin,
                known=np.empty(0, np.int16),
                max_iter=self.max_iter,
                tol=self.tol,
                progress=progress,
            ),
            [_shares(votes, symbols)],
        )
        self.result_ = PartialVotes(
            method=self.name,
            settings=self.get_params(),
            votes=votes,
            trace=done.trace,
            n_iter=done.n_iter,
            converged=done.converged,
            symbols=symbols,
            posterior=done.posterior,
            class_prior=done.prior.probability,
            symbol_probability=done.annotators.confusion(),
        )
        return self

    @property
    def classes_(self) -> Array:
        """The classes, [K]."""
        classes: Array = self._fitted().symbols.classes
        return classes

    def _pseudo_votes(self, votes: Annotations, symbols: Symbols) -> Floats:
        """[A, S, K]: an annotator's own use of the symbols, those that agree with the class K + 1 times."""
        n_symbols, n_classes = symbols.agrees.shape
        used = segment_sum(votes.row, votes.weight, votes.n_annotators * n_symbols).reshape(-1, n_symbols)
        used = used + max(self.smoothing, 1e-12)
        if self.abstain == "ignore":
            used[:, symbols.silent] = 0.0
        raised = used[:, :, None] * (1 + n_classes * (symbols.agrees & ~symbols.silent[:, None]))
        return np.asarray(self.smoothing * n_symbols * raised / raised.sum(axis=1, keepdims=True))


def _check(symbols: Symbols) -> None:
    if len(symbols.classes) == 0:
        raise InputError("no vote names a class; check the label column, or the words for abstentions")
    if "" in symbols.classes:
        raise InputError("a vote is a mark and no class after it; write the class that is ruled out, such as !cat")
    if len(symbols.classes) == 1 and symbols.negative.any():
        raise InputError(
            f"votes are against {symbols.classes[0]!r}, and no other class is named; give all classes with classes=... "
            "or --classes, or take the votes for sets of labels (label-wise, --type multilabel)"
        )


def _shares(votes: Annotations, symbols: Symbols) -> Floats:
    """A vote spread over the classes that it agrees with, added up and normalised, [N, K]."""
    n_classes = len(symbols.classes)
    spread = symbols.agrees / np.maximum(symbols.agrees.sum(axis=1, keepdims=True), 1)
    rows = spread[votes.label] * votes.weights[:, None]
    total = np.stack([segment_sum(votes.item, rows[:, k], votes.n_items) for k in range(n_classes)], axis=1)
    mass = total.sum(axis=1, keepdims=True)
    return np.asarray(np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), 1 / n_classes))
