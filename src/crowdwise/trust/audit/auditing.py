"""`certify`: what checked labels show about all others, and which labels can be accepted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.encode import series_of
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.experience import EXPONENT_SD
from crowdwise.estimator.judgement import exponent_of
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import tempered
from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.trust.audit.certificate import Certificate, certified_bands
from crowdwise.trust.audit.checks import Checks, checks_of
from crowdwise.trust.audit.estimates import Estimate, estimate_right
from crowdwise.trust.audit.exponent import Exponent, update_exponent
from crowdwise.trust.audit.growth import more_draws
from crowdwise.trust.audit.plan import Plan
from crowdwise.trust.audit.rates import error_rates
from crowdwise.trust.audit.strata import Strata

__all__ = ["Audit", "certify"]


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found; the certificate holds at any look, so that checking may go on or stop at will.

    Attributes
    ----------
    result : Result
        The audited fit.
    checks : Checks
        Drawn items and their true labels.
    error, level : float
        At most this share of the accepted labels is wrong, with this probability.
    certificate : Certificate
        Which bands of confidence are accepted.
    exponent : Exponent
        The confidence of all items, updated by the checked labels.
    right : Estimate
        Share of right labels among all that could be drawn.
    by_class : mapping
        The same of the items of each predicted class, by its code; each interval holds alone.
    """

    result: Result
    checks: Checks
    error: float
    level: float
    certificate: Certificate
    exponent: Exponent
    right: Estimate
    by_class: dict[int, Estimate]

    @property
    def strata(self) -> Strata:
        """Strata of the items that could be drawn."""
        return self.checks.plan.strata

    @cached_property
    def true_code(self) -> Integers:
        """Class code of every item as far as it is known, by check or gold, [N]; -1 elsewhere, -2 where nobody could tell."""
        votes = self.result.votes
        known = np.full(votes.n_items, -1) if votes.gold is None else votes.gold.astype(np.int64)
        known[self.checks.item] = self.checks.code
        return known

    @cached_property
    def accept(self) -> Flags:
        """Labels that need no further look, [N]: certified, checked or known."""
        return np.asarray((self.certified | (self.true_code >= 0)) & (self.true_code != -2))

    @cached_property
    def certified(self) -> Flags:
        """Items in the certified bands, [N]; some of them may have been checked, and found wrong or unclear."""
        inside = np.zeros(self.result.votes.n_items, bool)
        inside[self.strata.item] = self.strata.band[self.strata.stratum] < self.certificate.n_bands
        return inside

    @property
    def n_certified(self) -> int:
        """Items in the certified bands."""
        return int(self.strata.size[self.strata.band < self.certificate.n_bands].sum())

    @property
    def threshold(self) -> float:
        """Smallest confidence of the certified bands, before the audit; infinite where none is."""
        bands = self.certificate.n_bands
        return float(self.strata.threshold[bands - 1]) if bands else float("inf")

    @property
    def corrected(self) -> Integers:
        """Codes of the items whose label was found wrong and is corrected."""
        checked = self.checks.item[self.checks.code >= 0]
        return np.asarray(checked[self.result.codes[checked] != self.true_code[checked]])

    def frame(self) -> pl.DataFrame:
        """One row per item: item, label, confidence and what it rests on, decision and note.

        Checked labels are true (note "checked", source "gold"); the confidence of the others follows from the checked ones
        (source "audit"). Labels that were not checked stay as they were audited; where the checked ones make another class
        likelier, the note says so ("another class is likelier"). Items without votes have no label.
        """
        votes, known = self.result.votes, self.true_code
        checked = np.zeros(votes.n_items, bool)
        checked[self.checks.item[self.checks.code >= 0]] = True
        code = np.where(known >= 0, known, self.result.codes)
        confidence = np.where(known >= 0, 1.0, self.exponent.posterior[np.arange(len(code)), code])
        other = confidence < self.exponent.posterior.max(axis=1) - 1e-9
        note = np.select(
            [checked, known >= 0, known == -2, votes.votes_per_item == 0, other],
            ["checked", "known", "unclear", "no votes", "another class is likelier"],
            "",
        )
        asked = pl.Series(~self.result.unasked)
        labels = pl.select(pl.when(asked).then(series_of(votes.classes)[code])).to_series()
        return pl.DataFrame(
            {
                "item": series_of(votes.items),
                "label": labels,
                "confidence": pl.select(pl.when(asked).then(pl.Series(confidence))).to_series(),
                "confidence_source": np.where(known >= 0, "gold", "audit"),
                "decision": np.where(self.accept, "accept", "review"),
                "note": note,
            }
        )

    @cached_property
    def outlook(self) -> list[tuple[int, float]]:
        """Further checks after which a larger share of the items is expected to be certified: (checks, share), rising."""
        strata, certificate = self.strata, self.certificate
        error = _mean_error(self, strata)
        total, first = np.cumsum(certificate.level), int(np.argmax(certificate.level))
        # A set needs all sets back to where a level begins, at that level; what is passed on may come on top.
        level = np.where(np.arange(len(total)) < first, total, certificate.level[first])
        needed = np.where(
            certificate.passed | (total == 0), 0.0, more_draws(certificate.bets, error, np.maximum(level, 1e-300))
        )
        for begin, end in ((0, first), (first, len(needed))):
            needed[begin:end] = np.maximum.accumulate(needed[begin:end])
        sizes = strata.member @ strata.size
        steps = [
            (int(np.ceil(needed[j])), float(sizes[j] / strata.n_items))
            for j in range(certificate.n_bands, len(needed))
            if total[j] > 0 and np.isfinite(needed[j]) and needed[j] > 0
        ]
        # Of sets that take equally many checks the largest; of all a few.
        kept = sorted(dict(sorted(steps)).items())
        return kept if len(kept) <= 3 else [kept[0], kept[len(kept) // 2], kept[-1]]

    def facts(self) -> dict[str, Any]:
        """All of it but the items, by name."""
        classes = self.result.votes.classes
        return {
            "error": self.error,
            "level": self.level,
            "n_items": self.strata.n_items,
            "n_drawn": len(self.checks.code),
            "n_checked": int((self.checks.code != -1).sum()),
            "n_used": self.checks.n_usable,
            "n_corrected": len(self.corrected),
            "n_certified": self.n_certified,
            "n_accepted": int(self.accept.sum()),
            "threshold": self.threshold if self.certificate.n_bands else None,
            "accuracy": vars(self.right),
            "accuracy_by_class": {str(classes[k]): vars(found) for k, found in self.by_class.items()},
            "exponent": {"mean": self.exponent.mean, "sd": self.exponent.sd},
            "outlook": [{"checks": checks, "share": share} for checks, share in self.outlook],
            "design": self.checks.plan.design,
        }


def certify(result: Result, checked: Any, error: float = 0.05, level: float = 0.95) -> Audit:
    """Accept the labels of which at most a share is wrong, with a stated probability, by labels that a person has checked.

    Parameters
    ----------
    result : Result
        The fit from which the items were drawn, which has not seen the checked labels.
    checked : path or frame
        The table that `draw` made, its column "true label" filled in: a class, "?" where nobody can tell (it counts
        as wrong), or nothing. Only draws before the first empty cell count for the certificate.
    error : float
        Share of wrong labels to allow among the accepted.
    level : float
        Probability with which that holds, over the random draw; nothing else is assumed. It holds at every look, however
        often more is drawn and checked.

    Examples
    --------
    >>> import polars as pl
    >>> from crowdwise.data.datasets import demo
    >>> from crowdwise.estimator.registry import make
    >>> from crowdwise.trust.audit import draw
    >>> campaign = demo()
    >>> result = make("dawid-skene").fit(campaign.votes).result_
    >>> found = draw(result, 80, error=0.1).frame()
    >>> found = found.with_columns(pl.Series("true label", [campaign.gold[item] for item in found["item"]]))
    >>> audit = certify(result, found, error=0.1)
    >>> audit.n_certified > 60, audit.right.low < audit.right.share
    (True, True)
    """
    for name, value in (("error", error), ("level", level)):
        if not 0 < value < 1:
            raise SettingError(f"{name} must be between 0 and 1; got {value!r}")
    checks = checks_of(result, checked)
    if not (checks.code != -1).any():
        raise InputError("no label is checked yet; fill in the column 'true label', one class per row")
    plan, n = checks.plan, checks.n_usable
    strata, place = plan.strata, plan.order[:n]
    stratum, code = strata.stratum[place], result.codes[strata.item]
    wrong = code[place] != checks.code[:n]
    alpha = 1 - level
    certificate = certified_bands(strata, plan.weight, stratum, wrong, error=error, alpha=alpha)
    rate = error_rates(strata, plan.weight, code, place, wrong)
    right = estimate_right(strata.size, plan.weight, strata.error, stratum, wrong, rate=rate, alpha=alpha)
    by_class = _by_class(plan, code, wrong, rate, alpha)
    return Audit(result, checks, error, level, certificate, _updated(result, checks), right, by_class)


def _updated(result: Result, checks: Checks) -> Exponent:
    clear, votes = checks.code >= 0, result.votes
    mean = exponent_of(result.method, votes.anonymous)
    untempered = _untempered(result, mean)
    return update_exponent(untempered, votes.weight_per_item, checks.item[clear], checks.code[clear], mean=mean, sd=EXPONENT_SD)


def _untempered(result: Result, exponent: float) -> Floats:
    """The posterior before experience tempered it, [N, K].

    Where it was lowered further, because annotators share errors, it is the one that experience would have made this of:
    the model's own knows nothing of that, and a single exponent cannot tell such items from the others.
    """
    # With an exponent of 0 nothing is tempered, but votes that are only counted lose their hard zeros.
    posterior = result.tempered(0.0)
    if result.confidence_source != "experience":
        return posterior
    rows = np.arange(len(posterior))
    lowered = result.confidence < result.tempered(exponent)[rows, result.codes] - 1e-6
    power = np.maximum(result.votes.weight_per_item[lowered], 1) ** exponent
    posterior[lowered] = tempered(result.posterior[lowered], 1 / power)
    return posterior


def _by_class(plan: Plan, code: Integers, wrong: Flags, rate: Floats, alpha: float) -> dict[int, Estimate]:
    """Share of right labels among the items of each predicted class that was checked."""
    strata, place = plan.strata, plan.order[: len(wrong)]
    found = {}
    for k in np.unique(code[place]).tolist():
        inside = code == k
        size = np.bincount(strata.stratum[inside], minlength=len(strata.size))
        used = np.flatnonzero(size)
        new = np.full(len(size), -1)
        new[used] = np.arange(len(used))
        stratum = new[strata.stratum[place[inside[place]]]]
        weight, expected = plan.weight[used], strata.error[used]
        found[k] = estimate_right(size[used], weight, expected, stratum, wrong[inside[place]], rate=rate[inside], alpha=alpha)
    return found


def _mean_error(audit: Audit, strata: Strata) -> Floats:
    """Expected share of wrong labels of every stratum after the update, [H]."""
    code = audit.result.codes[strata.item]
    wrong = 1 - audit.exponent.posterior[strata.item, code]
    return np.asarray(np.bincount(strata.stratum, wrong, len(strata.size)) / strata.size)
