"""What a fit leaves behind, whichever method made it: an `Outcome`; of class labels a `Result`.

Frozen. Reports, policies, detectors and comparisons take a `Result` and never ask for its method. `LabelOutcome` is what a fit
says of annotators, whether labels lie in memory or in shards.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.answers import ReadOnly
from crowdwise.data.encode import series_of
from crowdwise.data.storable import storable
from crowdwise.errors import DataWarning, InputError, SettingError, check_share
from crowdwise.estimator.experience import EXPONENT_SD, EXPONENT_SD_ABOVE, FEATURES_TEMPERATURE_SD
from crowdwise.estimator.judgement import by_features, calibrated, exponent_of, in_company, reliability_of, untested
from crowdwise.estimator.saved import check_parts
from crowdwise.estimator.storage import FILE_NAME, load, save
from crowdwise.kernels.numerics import best_class, beta_interval, segment_sum, tempered
from crowdwise.kernels.types import Array, Flags, Floats, Integers
from crowdwise.parts.annotators.model import counts_of

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Self

    from crowdwise.estimator.explain import Explanation

__all__ = ["LabelOutcome", "Outcome", "Result", "expected_counts"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Outcome(ReadOnly):
    """A fit over one set of answers; frozen, with read-only arrays.

    Attributes
    ----------
    method, settings
        What was run.
    votes : Answers
        What it was fitted to, with the vocabularies.
    trace : mapping
        The objective per iteration, by named terms; empty for methods without one.
    n_iter, converged
        Iterations run, and whether the stopping rule was met.
    """

    method: str
    settings: dict[str, Any]
    votes: Any
    trace: dict[str, Floats]
    n_iter: int
    converged: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        # Also those of its parts (prior, annotators, ...), from which posteriors of other votes are computed.
        for part in vars(self).values():
            for value in vars(part).values() if is_dataclass(part) else ():
                # A part may be made of others.
                for inner in value if isinstance(value, tuple) else (value,):
                    for array in (inner, *(vars(inner).values() if is_dataclass(inner) else ())):
                        if isinstance(array, np.ndarray):
                            array.setflags(write=False)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        sizes = f"{self.votes.n_items} items, {self.votes.n_annotators} annotators"
        return f"{type(self).__name__}({self.method}: {sizes}, {state})"

    def _repr_html_(self) -> str:
        from crowdwise.data.notebook import outcome_html

        return outcome_html(self)

    @property
    def bound(self) -> dict[str, float]:
        """Last value of the objective, by named terms; empty for methods without one."""
        return {name: float(values[-1]) for name, values in self.trace.items() if len(values)}

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator, in the order of the votes' vocabulary; the first column is `annotator`."""
        raise NotImplementedError

    def save(self, folder: str | PathLike[str]) -> None:
        """Write arrays and JSON (no pickle) into `folder`, whole or not at all."""
        save(self, folder)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Read what `save` wrote; runs no code from the file."""
        found = load(folder)
        if not isinstance(found, cls):
            raise InputError(f"{folder}/{FILE_NAME}: holds a {type(found).__name__}, not a {cls.__name__}")
        return found


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LabelOutcome(Outcome, ABC):
    """A fitted crowd model: class shares, confusion matrices and frames of annotators. A subclass supplies two counts.

    Attributes
    ----------
    votes : Crowd
        Sizes and vocabularies are enough.
    seed : int or None
        Seed of the random numbers.
    prior, annotators
        The fitted parts (see `crowdwise.parts.priors` and `crowdwise.parts.annotators`).
    history : [A, L, K] or None
        Counts from before these votes, given by the user.
    """

    seed: int | None
    prior: Any
    annotators: Any
    history: Floats | None

    @abstractmethod
    def expected_counts(self) -> Floats:
        """Expected confusion counts under the posterior, [A, L, K]."""

    @abstractmethod
    def agreements(self) -> Floats:
        """Votes of each annotator that equal the label, [A]."""

    @property
    def class_prior(self) -> Floats:
        """Share of each class, [K]."""
        return np.asarray(self.prior.probability)

    @cached_property
    def concentration(self) -> Floats:
        """Dirichlet parameters of every confusion row, [A, K, L].

        The model's own where it is Bayesian; elsewhere expected counts under the posterior plus
        the user's history plus one pseudo-vote per row, divided evenly.
        """
        own = self.annotators.concentration()
        if own is not None:
            return np.asarray(own)
        counts = self.expected_counts() + 1 / self.votes.n_classes
        if self.history is not None:
            counts = counts + self.history
        return np.asarray(counts.transpose(0, 2, 1))

    @cached_property
    def confusion(self) -> Floats:
        """P(observed | true) of every annotator, [A, K, L]: the model's, or the smoothed plug-in."""
        own = self.annotators.confusion()
        return np.asarray(own) if own is not None else self.concentration / self.concentration.sum(axis=2, keepdims=True)

    @cached_property
    def confusion_sd(self) -> Floats:
        """Posterior standard deviation of every confusion entry, [A, K, L]."""
        total = self.concentration.sum(axis=2, keepdims=True)
        mean = self.concentration / total
        return np.asarray(np.sqrt(mean * (1 - mean) / (total + 1)))

    def confusion_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper ends of the central interval of every confusion entry, two of [A, K, L].

        An entry of a Dirichlet row has a Beta distribution: ``concentration[k, l]`` against the rest of the row.
        """
        from scipy.special import betaincinv

        check_share("level", level)
        own = self.concentration
        rest = np.maximum(own.sum(axis=2, keepdims=True) - own, 1e-12)
        low, high = (np.asarray(betaincinv(own, rest, (1 + sign * level) / 2)) for sign in (-1, 1))
        return low, high

    @property
    def attention(self) -> Floats | None:
        """Share of an annotator's votes that were given with attention, [A], where the model knows of it."""
        found = getattr(getattr(self.annotators, "described", self.annotators), "attention", None)
        return None if found is None else np.asarray(found)

    @property
    def accuracy(self) -> Floats:
        """Probability that an annotator is right on an item drawn from the class prior, [A]."""
        return np.asarray(np.einsum("akk,k->a", self.confusion, self.class_prior))

    @property
    def accuracy_sd(self) -> Floats:
        """Standard deviation of the accuracy, [A]."""
        return np.asarray(np.sqrt(np.einsum("akk,k->a", self.confusion_sd**2, self.class_prior**2)))

    def accuracy_interval(self) -> tuple[Floats, Floats]:
        """Central 95 % of the Beta with the accuracy's posterior mean and variance, two of [A].

        A trained matrix may be further from the counts than their pseudo-votes allow; its interval is laid around
        the estimate itself, at most as sure as the annotator's votes.
        """
        shares = self.concentration / self.concentration.sum(axis=2, keepdims=True)
        mean = np.einsum("akk,k->a", shares, self.class_prior)
        variance = self.accuracy_sd**2
        low, high = beta_interval(mean, variance)
        margin = 1 / (self.votes.answers_per_annotator + 2)
        around = np.clip(self.accuracy, margin, 1 - margin)
        outside = (self.accuracy < low) | (self.accuracy > high)
        low, high = np.where(outside, beta_interval(around, variance), (low, high))
        # With one class there is nothing to be wrong about, and no spread; fmin and fmax leave out what is no number.
        return np.fmin(low, self.accuracy), np.fmax(high, self.accuracy)

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator: votes, accuracy with its 95 % interval and standard deviation, agreement, most common error.

        `agreement` is the share of an annotator's votes that equal the consensus label. Models that know of it (`consensus`)
        add `attention`, the share of votes that were no guesses. Of votes for one class only, no accuracy is known.
        """
        votes, agree = self.votes, self.agreements()
        n_votes = votes.answers_per_annotator
        measured = np.stack([self.accuracy, *self.accuracy_interval(), self.accuracy_sd])
        known = measured if votes.n_classes > 1 else np.full_like(measured, np.nan)
        accuracy, low, high, sd = (pl.Series(of).fill_nan(None) for of in known)
        return pl.DataFrame(
            {
                "annotator": series_of(votes.annotators),
                "n_votes": n_votes,
                "accuracy": accuracy,
                "accuracy_low": low,
                "accuracy_high": high,
                "accuracy_sd": sd,
                "agreement": pl.Series(np.where(n_votes > 0, agree / np.maximum(n_votes, 1), np.nan)).fill_nan(None),
                "common_error": [None if error is None else error[0] for error in self.likeliest_errors()],
            }
            | ({} if self.attention is None else {"attention": self.attention})
        )

    def confusion_frame(self) -> pl.DataFrame:
        """Every confusion entry as a row: annotator, true, observed, probability, its sd and its 95 % interval."""
        n_annotators, n_classes, _ = self.confusion.shape
        a, k, observed = (index.ravel() for index in np.indices((n_annotators, n_classes, n_classes)))
        classes = series_of(self.votes.classes)
        low, high = self.confusion_interval()
        return pl.DataFrame(
            {
                "annotator": series_of(self.votes.annotators)[a],
                "true": classes[k],
                "observed": classes[observed],
                "probability": self.confusion.ravel(),
                "sd": self.confusion_sd.ravel(),
                "low": low.ravel(),
                "high": high.ravel(),
            }
        )

    def warn_if_switched(self) -> None:
        """The likelihood does not change when classes are renamed; warn if another naming fits the votes better."""
        votes = self.votes
        if votes.n_classes < 2 or votes.n_votes == 0 or self.annotators.confusion() is None:
            return
        pooled = np.einsum("a,akl->kl", votes.votes_per_annotator.astype(float), self.confusion)
        if (pooled.argmax(axis=1) == np.arange(votes.n_classes)).all():
            return
        from scipy.optimize import linear_sum_assignment

        rows, best = linear_sum_assignment(-pooled)
        if pooled[rows, best].sum() > np.trace(pooled) * (1 + 1e-6):
            moved = ", ".join(f"{votes.classes[k]} -> {votes.classes[b]}" for k, b in zip(rows, best, strict=True) if k != b)
            warnings.warn(
                f"the fitted classes look renamed ({moved}): most annotators would be more often right under other names; "
                "give some gold labels, or use a stronger prior",
                DataWarning,
                stacklevel=4,
            )

    def likeliest_errors(self) -> list[tuple[str, float] | None]:
        """The likeliest confusion of each annotator, such as "cat -> dog", and its rate; None without votes or other class."""
        n_classes = self.votes.n_classes
        if n_classes < 2:
            return [None] * self.votes.n_annotators
        # From the counts: a model with one accuracy for all errors cannot say which one is common.
        observed = self.concentration / self.concentration.sum(axis=2, keepdims=True)
        joint = observed * self.class_prior[None, :, None] * (1 - np.eye(n_classes))
        worst = joint.reshape(len(joint), -1).argmax(axis=1)
        rate = observed.reshape(len(joint), -1)[np.arange(len(joint)), worst]
        names = self.votes.classes
        return [
            (f"{names[w // n_classes]} -> {names[w % n_classes]}", share) if n else None
            for w, share, n in zip(worst.tolist(), rate.tolist(), self.votes.votes_per_annotator.tolist(), strict=True)
        ]


@storable
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Result(LabelOutcome):
    """A fitted crowd model over one set of votes; see also `LabelOutcome`.

    Attributes
    ----------
    votes : Annotations
        The votes it was fitted to, with their vocabularies (and gold labels, where given).
    posterior : [N, K]
        Probability of every class for every item, as far as it can be believed.
    inferred : [N, K] or None
        The posterior as the model inferred it, where `posterior` was calibrated since. Counts of annotators come from it.
    confidence_source : str
        What `posterior` rests on: "experience" with other crowds, "gold" or "audit" (known labels), "model" (nothing else).
    """

    votes: Annotations
    posterior: Floats
    inferred: Floats | None = None
    confidence_source: str = "model"

    @cached_property
    def reliability(self) -> Floats:
        """How often annotators are right by the votes that met on an item, and last anybody else: see `reliability_of`."""
        return reliability_of(in_company(self.votes, self.model_posterior), self.history)

    @cached_property
    def untested(self) -> bool:
        """Whether nothing says how often anybody is right: no votes met on an item, and no label or earlier answer is known."""
        return self.confidence_source == "experience" and untested(self.reliability)

    @classmethod
    def of_fit(cls, *, votes: Annotations, posterior: Floats, reliability: Floats | None = None, **fields: Any) -> Result:
        """From a fitted posterior, which is calibrated by experience where the settings ask for it; see `calibrated`."""
        if fields["settings"].get("confidence") != "experience":
            return cls(votes=votes, posterior=posterior, **fields)
        exponent = exponent_of(fields["method"], votes.anonymous)
        parts = fields["annotators"], fields["prior"].probability
        informed = getattr(fields["prior"], "informed", None)
        believed = calibrated(posterior, votes, *parts, exponent, reliability, fields["history"], informed)
        return cls(votes=votes, posterior=believed, inferred=posterior, confidence_source="experience", **fields)

    @property
    def model_posterior(self) -> Floats:
        """The posterior as the model inferred it, [N, K]."""
        return self.posterior if self.inferred is None else self.inferred

    def sound(self) -> bool:
        """Whether arrays and parts of a saved result agree with each other."""
        votes, prior = self.votes, self.prior
        shape = votes.n_items, votes.n_classes
        for part in (prior, self.annotators):
            check_parts(part, votes)
        return (
            self.posterior.shape == shape
            and self.model_posterior.shape == shape
            and bool((np.abs(self.posterior.sum(axis=1) - 1) < 1e-6).all())
            and (self.history is None or self.history.shape == (votes.n_annotators, votes.n_classes, votes.n_classes))
            and hasattr(prior, "log_prob")
            and hasattr(self.annotators, "infer")
        )

    def _repr_html_(self) -> str:
        from crowdwise.data.notebook import result_html

        return result_html(self, settings=True)

    @cached_property
    def codes(self) -> Integers:
        """Class code of every item, [N]: highest posterior, then highest class prior, then lowest index."""
        # Tempering keeps the order of classes but may bring them closer than a tie.
        decided = self.model_posterior if self.confidence_source == "experience" else self.posterior
        return best_class(decided, self.class_prior)

    @property
    def labels(self) -> Array:
        """Consensus label of every item, in the user's classes, [N]."""
        return np.asarray(self.votes.classes[self.codes])

    @property
    def confidence(self) -> Floats:
        """Posterior probability of the consensus label, [N]."""
        return np.asarray(self.posterior[np.arange(len(self.codes)), self.codes])

    def confidence_in(self, share: float, reliability: Floats | None = None) -> Floats:
        """Confidence of the labels in a crowd more dependent than this `share` of crowds, [N].

        Where these are a part of the votes, `reliability` is that of annotators in all of them, [A].

        Exponents of crowds are taken as normal around the method's: see `crowdwise.estimator.judgement`; with features, the
        logs of temperatures. Where confidence does not rest on experience there is no such range, and it is `confidence`.
        """
        # Not `check_share`: every vote passes here, and should pass few modules.
        if not 0 < share < 1:
            raise SettingError(f"a share of crowds must be between 0 and 1; got {share!r}")
        if self.confidence_source != "experience":
            return self.confidence
        away, exponent = NormalDist().inv_cdf(share), exponent_of(self.method, self.votes.anonymous)
        if by_features(self.method):
            likely = tempered(self.tempered(exponent, reliability=reliability), np.exp(away * FEATURES_TEMPERATURE_SD))
        else:
            spread = EXPONENT_SD_ABOVE if share > 0.5 else EXPONENT_SD
            likely = self.tempered(max(exponent + away * spread, 0.0), reliability=reliability)
        confidence = likely[np.arange(len(self.codes)), self.codes]
        # Confidence may have been lowered for other reasons too.
        return np.asarray(np.minimum(confidence, self.confidence) if share > 0.5 else confidence)

    def tempered(
        self,
        exponent: float,
        posterior: Floats | None = None,
        votes: Annotations | None = None,
        reliability: Floats | None = None,
    ) -> Floats:
        """A posterior as crowds with this exponent have it, [N, K]; by default the model's, and its votes."""
        posterior, votes = self.model_posterior if posterior is None else posterior, self.votes if votes is None else votes
        informed = getattr(self.prior, "informed", None)
        return calibrated(posterior, votes, self.annotators, self.class_prior, exponent, reliability, self.history, informed)

    @cached_property
    def unasked(self) -> Flags:
        """Items of which nothing is known but the class shares: no votes, no known label, no features, no neighbours, [N]."""
        votes = self.votes
        without = votes.votes_per_item == 0
        informed = getattr(self.prior, "informed", None)
        if informed is not None:
            without = without & ~informed
        return np.asarray(without & ~votes.is_known)

    @cached_property
    def untold(self) -> Flags:
        """Items that nobody could tell, more probably than not, where the model knows of such, [N]."""
        if not hasattr(self.annotators, "discrimination"):
            return np.zeros(self.votes.n_items, bool)
        return np.asarray(self.annotators.discrimination(self.votes)[:, 0] > 0.5)

    def items_frame(self, probabilities: bool = True, fill_unvoted: bool = False) -> pl.DataFrame:
        """One row per item: label, confidence and what it rests on, votes, a note, and (optionally) p(class) columns.

        The note is "no votes", "known" (gold), "one class only" where votes name no other, so that nothing is known of the
        confidence, "nobody could tell" (by the model) or empty. An item without votes has no label, unless
        `fill_unvoted` asks for the most frequent class; its probabilities are the class shares.
        """
        votes = self.votes
        alone = ~votes.is_known & (votes.n_classes == 1)
        note = np.select(
            [votes.is_known, votes.votes_per_item == 0, alone, self.untold],
            ["known", "no votes", "one class only", "nobody could tell"],
            default="",
        )
        labels, confidence = series_of(votes.classes)[self.codes], pl.Series(self.confidence)
        if not fill_unvoted and self.unasked.any():
            asked = pl.Series(~self.unasked)
            labels, confidence = (pl.select(pl.when(asked).then(of)).to_series() for of in (labels, confidence))
        if alone.any():
            confidence = pl.select(pl.when(pl.Series(~alone)).then(confidence)).to_series()
        source = np.select([votes.is_known, self.unasked | alone], ["gold", ""], default=self.confidence_source)
        columns: dict[str, Any] = {
            "item": series_of(votes.items),
            "label": labels,
            "confidence": confidence,
            "confidence_source": source,
            "n_votes": votes.answers_per_item,
            "note": note,
        }
        if probabilities:
            columns |= {f"p({name})": self.posterior[:, k] for k, name in enumerate(votes.classes)}
        return pl.DataFrame(columns)

    def decide(self, costs: Any = None, *, abstain: float | None = None, fill_unvoted: bool = False) -> pl.DataFrame:
        """The table of items with the labels that are expected to cost least: see `crowdwise.estimator.costs`.

        Parameters
        ----------
        costs : frame, mapping or [K, K], optional
            What it costs to label an item of a true class so: columns true, label and cost, a frame whose index names the
            true classes, ``{(true, label): cost}``, ``{true: {label: cost}}``, or an array [true, label] in the order of the
            classes. The right label costs 0 unless it is said otherwise. By default every mistake costs 1.
        abstain : float, optional
            Cost of giving no label; items whose cheapest label is expected to cost more have none.
        """
        from crowdwise.estimator.costs import Costs

        made = Costs.of(costs, self.votes.classes, abstain)
        return made.applied(self.items_frame(fill_unvoted=fill_unvoted), self.posterior)

    def explain(self, item: Any) -> Explanation:
        """Say how much the class prior and each vote moved the label of one item."""
        from crowdwise.estimator.explain import explain

        return explain(self, item)

    def all_posteriors(self) -> Floats:
        """Probability of every class for every item, [N, K]."""
        return self.posterior

    def expected_counts(self) -> Floats:
        """Expected confusion counts under the posterior, [A, L, K]."""
        return expected_counts(self.votes, self.model_posterior, self.annotators, self.class_prior)

    def agreements(self) -> Floats:
        """Votes of each annotator that equal the label, [A]."""
        votes = self.votes.hardened()
        return segment_sum(votes.annotator, (votes.label == self.codes[votes.item]).astype(float), votes.n_annotators)


def expected_counts(votes: Annotations, posterior: Floats, annotators: Any, class_shares: Floats) -> Floats:
    """Expected confusion counts under a posterior, [A, L, K]; counted votes are no evidence for themselves."""
    if getattr(annotators, "additive_in", "") == "share":
        return np.asarray(annotators.counts(votes, posterior, class_shares))
    return counts_of(votes, posterior)
