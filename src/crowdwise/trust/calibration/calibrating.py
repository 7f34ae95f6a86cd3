"""One step for a result: calibrate its posterior by experience, by groups, or by known labels, and say what it did."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from crowdwise.data.gold import encode_gold
from crowdwise.errors import InputError, SettingError, did_you_mean
from crowdwise.estimator.judgement import exponent_of
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import METHODS
from crowdwise.kernels.types import Integers
from crowdwise.trust.calibration.base import known_of, with_posterior
from crowdwise.trust.calibration.crossfit import cross_fitted
from crowdwise.trust.calibration.curves import Reliability, reliability
from crowdwise.trust.calibration.dirichlet import Dirichlet
from crowdwise.trust.calibration.effective_votes import EffectiveVotes
from crowdwise.trust.calibration.isotonic import Isotonic
from crowdwise.trust.calibration.temperature import Temperature
from crowdwise.trust.fitted_method import method_of

__all__ = ["HOWS", "NEED_TRUTH", "Calibrated", "by_experience", "calibrate", "truth_of"]


NEED_TRUTH = ("temperature", "dirichlet", "isotonic")
HOWS = ("experience", "groups", *NEED_TRUTH, "none")


@dataclass(frozen=True, eq=False)
class Calibrated:
    """What `calibrate` returns.

    Attributes
    ----------
    result : Result
        With the calibrated posterior.
    how : str
        One of `HOWS`.
    account : str
        What was done, in a line.
    facts : dict
        The same as data.
    before, after : Reliability or None
        Against the known labels; `after` from calibrators that have not seen the label of the item they are judged by.
    """

    result: Result
    how: str
    account: str
    facts: dict[str, Any]
    before: Reliability | None
    after: Reliability | None

    @property
    def curves(self) -> dict[str, Reliability]:
        """The curves to draw by name, as far as there are any; where nothing was changed, one."""
        found = {"before": self.before, "after": None if self.how == "none" else self.after}
        return {name: curve for name, curve in found.items() if curve is not None}


def calibrate(
    result: Result,
    how: str | None = None,
    *,
    truth: Any = None,
    folds: int = 5,
    seed: int = 0,
    n_resamples: int = 1000,
) -> Calibrated:
    """Calibrate the posterior of a fit.

    Parameters
    ----------
    result : Result
        Fitted without the labels in `truth`; items whose label was given to the fit are left alone.
    how : str, optional
        Without true labels: ``experience`` (what real crowds have shown, `crowdwise.estimator.judgement`) or ``groups``
        (the same, where votes of annotators who share errors count for less). With them: ``temperature``, ``dirichlet`` or
        ``isotonic``, cross-fitted. ``none`` takes the model at its word. By default ``temperature`` with true labels and
        ``experience`` without.
    truth : mapping, frame, Series or sequence, optional
        True labels of some items, in any shape that ``fit(votes, gold)`` takes.
    folds : int
        Of the known items.
    n_resamples : int
        For the bootstrap interval of the calibration error.

    Examples
    --------
    >>> from crowdwise.estimator.registry import make
    >>> from crowdwise.data.datasets import demo
    >>> campaign = demo()
    >>> result = make("dawid-skene").fit(campaign.votes).result_
    >>> calibrate(result, truth=campaign.gold, n_resamples=50).how
    'temperature'
    """
    how = how or ("experience" if truth is None else "temperature")
    if how not in HOWS:
        raise SettingError(f"no way to calibrate {how!r}{did_you_mean(how, list(HOWS))} (there are {', '.join(HOWS)})")
    if how in NEED_TRUTH and truth is None:
        raise SettingError(f"{how} needs true labels; without any use experience or groups")
    known = None if truth is None else truth_of(result, truth)
    if how in NEED_TRUTH:
        assert known is not None
        done, account, facts = _by_truth(result, how, known, folds, seed)
    else:
        done, account, facts = _by_crowd(result, how)
    judged = [None, None]
    if known is not None:
        measure = partial(reliability, truth=known, n_resamples=n_resamples)
        judged = [measure(result.posterior), measure(done.posterior)]  # type: ignore[list-item]
    return Calibrated(done, how, account, facts, judged[0], judged[1])


def truth_of(result: Result, truth: Any) -> Integers:
    """Class codes of the items, [N], -1 where unknown or where the fit itself was given the label."""
    known = np.where(result.votes.is_known, -1, encode_gold(result.votes, truth).astype(np.int64))
    if not (known >= 0).any():
        raise InputError(
            "no true label belongs to an item of these votes that the fit had no gold label for; "
            "check that both use the same item ids, and fit without these labels as gold"
        )
    return known


def _by_truth(result: Result, how: str, known: Integers, folds: int, seed: int) -> tuple[Result, str, dict[str, Any]]:
    fits: dict[str, Any] = {"temperature": Temperature.fit, "dirichlet": Dirichlet.fit, "isotonic": Isotonic.fit}
    n_known = int((known >= 0).sum())
    known_of(result.posterior, known, least=4)
    posterior, fitted = cross_fitted(fits[how], result.posterior, known, folds=folds, seed=seed)
    facts: dict[str, Any] = {"n_known": n_known, "folds": min(folds, n_known)}
    account = f"{how} by {n_known:,} known labels"
    if isinstance(fitted, Temperature):
        facts["temperature"] = fitted.value
        account = f"temperature {fitted.value:.3g} by {n_known:,} known labels"
    return with_posterior(result, posterior), f"{account}, cross-fitted in {facts['folds']} folds", facts


def by_experience(result: Result) -> Result:
    """The posterior as sure as experience with other crowds allows; what known labels have calibrated stays."""
    if result.confidence_source != "model":
        return result
    exponent = exponent_of(result.method, result.votes.anonymous)
    return with_posterior(result, result.tempered(exponent, result.posterior), "experience")


def _by_crowd(result: Result, how: str) -> tuple[Result, str, dict[str, Any]]:
    if how == "none":
        return with_posterior(result, result.model_posterior, "model"), "as sure as the model", {}
    exponent = exponent_of(result.method, result.votes.anonymous)
    experience = f"confidence by experience with other crowds (votes to the power {1 - exponent:.2g} count)"
    if how == "experience":
        found = by_experience(result)
        account = experience if found.confidence_source == "experience" else f"confidence by {found.confidence_source}"
        return found, account, {"exponent": exponent}
    method = METHODS.get(method_of(result))
    if method is not None and method.shared_errors:
        # The posterior already knows of groups: a second discount would be one too many.
        return by_experience(result), "the method itself counts votes of a group for less", {}
    groups = EffectiveVotes.fit(result)
    n_members = int((groups.group >= 0).sum())
    facts: dict[str, Any] = {"n_groups": groups.n_groups, "n_members": n_members, "correlation": groups.correlation}
    if groups.n_groups == 0:
        return by_experience(result), "no group of annotators shares errors, so every vote counts in full", facts
    low, high = groups.correlation.min(), groups.correlation.max()
    account = (
        f"{groups.n_groups} group{'s' if groups.n_groups > 1 else ''} of {n_members:,} annotators share errors "
        f"(correlation {low:.2f} to {high:.2f}); their votes count for less"
    )
    discounted = groups.result(result)
    # The temperature goes by what is left of the votes, or dependence inside groups would count twice.
    left = groups.discounted(result.votes)
    return with_posterior(discounted, result.tempered(exponent, discounted.posterior, left), "experience"), account, facts
