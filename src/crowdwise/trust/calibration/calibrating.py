"""One step for a result: calibrate its posterior by held-out votes, by groups, or by known labels, and say what it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.gold import encode_gold
from crowdwise.errors import InputError, SettingError, did_you_mean
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import METHODS, label_methods, make
from crowdwise.kernels.types import Integers
from crowdwise.trust.calibration.base import known_of, with_posterior
from crowdwise.trust.calibration.crossfit import cross_fitted
from crowdwise.trust.calibration.curves import Reliability, reliability
from crowdwise.trust.calibration.dirichlet import Dirichlet
from crowdwise.trust.calibration.effective_votes import EffectiveVotes, groups_in
from crowdwise.trust.calibration.isotonic import Isotonic
from crowdwise.trust.calibration.predicted_votes import temperature_by_votes
from crowdwise.trust.calibration.temperature import Temperature
from crowdwise.trust.fitted_method import method_of, settings_of

__all__ = ["HOWS", "NEED_TRUTH", "Calibrated", "calibrate", "truth_of"]


NEED_TRUTH = ("temperature", "dirichlet", "isotonic")
HOWS = ("votes", "groups", *NEED_TRUTH, "none")


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


def calibrate(
    result: Result,
    how: str | None = None,
    *,
    truth: Any = None,
    fit: Callable[[Annotations], Result] | None = None,
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
        Without true labels: ``votes`` (a temperature chosen on held-out votes) or ``groups`` (votes of annotators who share
        errors count for less). With them: ``temperature``, ``dirichlet`` or ``isotonic``, cross-fitted. ``none`` only
        measures. By default ``temperature`` with true labels and ``votes`` without.
    truth : mapping, frame, Series or sequence, optional
        True labels of some items, in any shape that ``fit(votes, gold)`` takes.
    fit : callable, optional
        From votes to a `Result`, for ``votes``; by default the same label-only method with the same settings.
    folds : int
        Of the votes, or of the known items.
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
    how = how or ("votes" if truth is None else "temperature")
    if how not in HOWS:
        raise SettingError(f"no way to calibrate {how!r}{did_you_mean(how, list(HOWS))} (there are {', '.join(HOWS)})")
    if how in NEED_TRUTH and truth is None:
        raise SettingError(f"{how} needs true labels; without any use votes or groups")
    known = None if truth is None else truth_of(result, truth)
    if how in NEED_TRUTH:
        assert known is not None
        done, account, facts = _by_truth(result, how, known, folds, seed)
    else:
        done, account, facts = _by_crowd(result, how, fit, folds, seed)
    judged = [None, None]
    if known is not None:
        measure = partial(reliability, truth=known, n_resamples=n_resamples)
        judged = [measure(result.posterior), measure(done.posterior)]  # type: ignore[list-item]
    return Calibrated(done, how, account, facts, judged[0], judged[1])


def truth_of(result: Result, truth: Any) -> Integers:
    """Class codes of the items, [N], -1 where unknown or where the fit itself was given the label."""
    known = encode_gold(result.votes, truth).astype(np.int64)
    given = result.votes.gold
    if given is not None:
        known = np.where(given >= 0, -1, known)
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


def _by_crowd(
    result: Result, how: str, fit: Callable[[Annotations], Result] | None, folds: int, seed: int
) -> tuple[Result, str, dict[str, Any]]:
    if how == "none":
        return result, "not calibrated", {}
    if how == "groups":
        method = METHODS.get(method_of(result))
        if method is not None and method.shared_errors:
            # The posterior already knows of groups: a second discount would be one too many.
            return result, "the method itself counts votes of a group for less", {}
        found = EffectiveVotes.fit(result)
        n_members = int((found.group >= 0).sum())
        facts: dict[str, Any] = {"n_groups": found.n_groups, "n_members": n_members, "correlation": found.correlation}
        if found.n_groups == 0:
            return result, "no group of annotators shares errors, so every vote counts in full", facts
        low, high = found.correlation.min(), found.correlation.max()
        account = (
            f"{found.n_groups} group{'s' if found.n_groups > 1 else ''} of {n_members:,} annotators share errors "
            f"(correlation {low:.2f} to {high:.2f}); their votes count for less"
        )
        return found.result(result), account, facts
    group = groups_in(result)
    chosen = temperature_by_votes(fit or _again(result), result.votes, group=group, folds=folds, seed=seed)
    facts = {
        "temperature": chosen.value,
        "gain": chosen.gain,
        "gain_se": chosen.gain_se,
        "n_held_out": chosen.n_votes,
        "n_groups": int(group.max(initial=-1)) + 1,
    }
    account = (
        f"temperature {chosen.value:.3g} by {chosen.n_votes:,} held-out votes "
        f"(log-probability of a vote {chosen.gain:+.4f}, standard error {chosen.gain_se:.4f})"
    )
    return chosen.result(result), account, facts


def _again(result: Result) -> Callable[[Annotations], Result]:
    """The same method with the same settings, fitted to other votes of the same annotators."""
    name = method_of(result)
    if name not in label_methods():
        raise InputError(
            f"{result.method} was trained with features, which a result does not hold; give fit=, or calibrate by groups "
            "or by true labels"
        )
    # What was chosen is fitted again, not chosen again.
    settings = settings_of(result)
    history = None
    if result.history is not None:
        history = {who: counts.T for who, counts in zip(result.votes.annotators.tolist(), result.history, strict=True)}
    return lambda votes: make(name, **settings).fit(votes, history=history).result_
