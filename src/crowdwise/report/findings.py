"""What deserves attention, as sentences; and the comparison with known classes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.errors import DataWarning, InputError
from crowdwise.estimator.judgement import UNJUDGED, Crowd
from crowdwise.methods.labels.majority import MajorityVote
from crowdwise.report.markup import counted, percent, table, text, whole
from crowdwise.trust.crowd.dependence import find
from crowdwise.trust.metrics import score

if TYPE_CHECKING:
    from crowdwise.estimator.outcome import Result
    from crowdwise.report.uncertainty import Uncertainty

__all__ = ["findings", "headline", "truth_table"]

# Krippendorff (2004) draws tentative conclusions from 0.667 on.
TENTATIVE_ALPHA = 0.667
# Labels expected to be right less often than the largest class has votes, or hardly more.
_HARDLY = 0.1
# Accuracies this far below agreement say more about a method's prior than about annotators.
PULLED = 0.2


def headline(result: Result, uncertainty: Uncertainty) -> str:
    """How many labels are expected to be right, what that rests on, and how many are certain: paragraphs of markup."""
    votes = result.votes
    labelled = ~(result.unasked | votes.is_known)
    n_open = int(labelled.sum())
    if n_open == 0:
        known = "every label was given" if votes.n_gold else "no item has a vote"
        return f"<p><strong>Nothing to infer</strong>: {known}.</p>"
    expected, least = (float(of[labelled].mean()) for of in (result.confidence, result.confidence_in(0.9)))
    per_item = votes.votes_per_item[labelled]
    single = bool((per_item <= 1).mean() > 0.5)
    said = f"<p>About <strong>{expected:.0%}</strong> of {counted(n_open, 'label')} should be right"
    if votes.n_classes < 2:
        said = f"<p>How many of {counted(n_open, 'label')} are right is <strong>unknown</strong>: one class only occurs in the "
        return said + "votes. <code>--classes</code> names the others.</p>"
    if result.untested:
        said = f"<p>How many of {counted(n_open, 'label')} are right is <strong>unknown</strong>: no item has two annotators. "
        said += "Checked labels tell: <code>crowdwise audit</code>.</p>"
    elif result.confidence_source == "experience":
        # Single votes say nothing of how far annotators depend on each other, so that there is no range.
        spread = "" if single else f"; in nine of ten crowds like these at least {least:.0%}"
        said += f", as far as experience with other crowds goes{spread}. Only checked labels tell of this one: "
        said += "<code>crowdwise audit</code>.</p>"
    elif result.confidence_source == "model":
        said += ", if annotators err independently of each other, as the model takes them to.</p>"
    else:
        said += f", by known labels ({text(result.confidence_source)}).</p>"
    if votes.n_classes > 1 and expected < votes.label_shares.max(initial=0) + _HARDLY:
        said += "<p>The votes say <strong>hardly more than a guess</strong> would: look at the task before the labels.</p>"
    elif single:
        said += "<p>Most items have <strong>one vote</strong>, and nobody to disagree with it: more votes would tell more.</p>"
    sure = n_open - uncertainty.n_unsure
    certain = f"{counted(sure, 'label')} ({percent(sure / n_open)}) reach" if sure else "No label reaches"
    return said + f"<p>{certain} 95&nbsp;%.</p>"


def findings(result: Result, facts: dict[str, Any], crowd: Crowd, uncertainty: Uncertainty) -> list[str]:
    """Return sentences of markup about what a careful lead would check, the gravest first."""
    votes, n_open, notes = result.votes, int(uncertainty.counts.sum()), []
    if not result.converged:
        notes.append(
            "The method did <strong>not converge</strong>; raise <code>max_iter</code> before relying on these numbers."
        )
    shared = find(votes)
    for group in shared.groups[:1]:
        names = ", ".join(text(name, 30) for name in group.names(votes)[:5])
        notes.append(
            f"{_some(len(group.members), 'annotator')} with {percent(group.share)} of the votes seem to <strong>share "
            f"errors</strong>: {names}{' and others' if len(group.members) > 5 else ''}. Count them as one "
            "(<code>aggregate --groups</code>), or check labels (<code>crowdwise audit</code>)."
        )
    bad = crowd.unreliable
    if len(bad) and not votes.anonymous:
        names = ", ".join(text(votes.annotators[a], 30) for a in bad[:5].tolist())
        share = float(votes.votes_per_annotator[bad].sum()) / votes.n_votes
        more = f" and {whole(len(bad) - 5)} more" if len(bad) > 5 else ""
        notes.append(f"{_some(len(bad), 'annotator')} with {percent(share)} of the votes look unreliable: {names}{more}.")
    if uncertainty.n_low:
        notes.append(
            f"{_some(uncertainty.n_low, 'item')} ({percent(uncertainty.n_low / n_open)}) under 80 % confidence: "
            "ask for more votes there."
        )
    if uncertainty.n_overruled:
        notes.append(f"{_some(uncertainty.n_overruled, 'item')} where the consensus is not the label with the most votes.")
    if uncertainty.n_empty:
        notes.append(f"{_some(uncertainty.n_empty, 'item')} without any vote.")
    if uncertainty.n_single:
        notes.append(f"{_some(uncertainty.n_single, 'item')} with a single vote.")
    alpha = facts["krippendorff_alpha"]
    if alpha is not None and alpha < TENTATIVE_ALPHA:
        notes.append(f"Agreement is low (&alpha; = {alpha:.2f}, under {TENTATIVE_ALPHA}): are the instructions clear?")
    agree, accurate = _typical(result)
    if agree - accurate > PULLED:
        notes.append(
            f"{percent(agree)} of votes agree with the consensus, yet accuracies average {percent(accurate)}: "
            "the method&rsquo;s prior outweighs the votes; compare annotators with each other only."
        )
    unjudged = int((crowd.grade[crowd.order] == UNJUDGED).sum())
    if unjudged and not votes.anonymous:
        notes.append(f"{_some(unjudged, 'annotator')} with too few votes to be judged.")
    absent = np.flatnonzero(np.bincount(result.codes[~result.unasked], minlength=votes.n_classes) == 0)
    if len(absent) and not result.unasked.all():
        names = ", ".join(text(name, 30) for name in votes.classes[absent[:5]])
        notes.append(
            f"{_some(len(absent), 'class', 'es')} that no item is labelled with: {names}"
            f"{' and others' if len(absent) > 5 else ''}."
        )
    return notes


def truth_table(result: Result, truth: Any) -> str:
    """Compare the result with majority vote on items of known class that were not given to the fit."""
    codes = np.array(truth)
    given = result.votes.is_known
    if codes.shape != (result.votes.n_items,):
        raise InputError(f"truth must hold one class code per item: expected {result.votes.n_items}, got shape {codes.shape}")
    n_given = 0
    if codes.dtype.kind in "iu":
        n_given = int((given & (codes >= 0)).sum())
        codes[given] = -1
    with warnings.catch_warnings():
        # The fit has warned of a single class already.
        warnings.simplefilter("ignore", DataWarning)
        majority = MajorityVote().fit(result.votes).posterior_
    rows, n_known = [], 0
    for name, posterior in ((text(result.method), result.posterior), ("majority vote", majority)):
        scores = score(posterior, codes)
        n_known = int(scores["n_known"])
        parts = [scores[key] for key in ("accuracy", "macro_f1", "auc", "log_loss", "brier", "ece", "ece_debiased")]
        rows.append((name, *("&ndash;" if np.isnan(value) else f"{value:.3f}" for value in parts)))
    caption = f"{counted(n_known, 'item')} of known class" + (
        f"; {whole(n_given)} given to the fit are left out" if n_given else ""
    )
    columns = ("Method", "Accuracy", "Macro F1", "AUC", "Log loss", "Brier", "Calibration error", "The same without chance")
    note = "Accuracy, F1 and AUC: higher is better; the others: lower is better. Tied classes share the credit. "
    note += "By chance even a perfect model has a calibration error; without chance it is zero on average."
    return table(caption, columns, rows, numeric=range(1, 8)) + f'<p class="note">{note}</p>'


def _typical(result: Result) -> tuple[float, float]:
    """Mean over votes of agreement with the consensus, and of the annotator's estimated accuracy."""
    votes = result.votes
    if not votes.n_votes:
        return 0.0, 0.0
    agree = float((votes.label == result.codes[votes.item]).mean())
    return agree, float(result.accuracy @ votes.votes_per_annotator) / votes.n_votes


def _some(count: int, noun: str, plural: str = "s") -> str:
    return f"<strong>{counted(count, noun, plural)}</strong>"
