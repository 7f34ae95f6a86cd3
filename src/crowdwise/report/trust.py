"""Can the confidences be trusted: against known classes where there are any, else against votes that were held out."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.campaign.stopping import expected_accuracy
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning
from crowdwise.estimator.registry import aggregators, make_aggregator
from crowdwise.kernels.types import Integers
from crowdwise.report.charts import WIDTH
from crowdwise.report.findings import truth_table
from crowdwise.report.markup import caption, counted, fill, percent, stroke, svg, table, whole
from crowdwise.report.review import unit_of
from crowdwise.trust.calibration.curves import Reliability, reliability
from crowdwise.trust.fitted_method import method_of, settings_of
from crowdwise.trust.heldout import deal
from crowdwise.trust.metrics import accuracy, bootstrap_interval

if TYPE_CHECKING:
    from crowdwise.estimator.outcome import Result
    from crowdwise.report.annotators import Detections

__all__ = ["reliability_picture", "trust"]


# Held-out votes cost a second fit; beyond this many votes it must be asked for.
_MOST_VOTES = 1_000_000
# Fewer known classes than this say little about a share.
_FEWEST = 20


def trust(result: Result, truth: Integers | None, detections: Detections) -> str:
    """Return what is known of the calibration, with the pictures that show it."""
    parts = [_own_words(result)]
    if truth is not None and (truth >= 0).any():
        parts += [_against_truth(result, truth), truth_table(result, truth)]
    else:
        parts.append(
            "<p>No true labels were given, so it is not known how often labels of 90&nbsp;% are right. Some gold labels, "
            "a hundred drawn at random, would show it: <code>--truth gold.csv</code>.</p>"
        )
        parts.append(_against_votes(result))
    groups = detections.reports.get("group")
    if groups is not None and len(groups.codes):
        parts.append(
            f"<p><strong>{counted(len(groups.codes), 'annotator')}</strong> share errors with others (see above). Where their "
            "votes decide, confidences are too high.</p>"
        )
    return "".join(parts)


def _own_words(result: Result) -> str:
    mean, low, high = expected_accuracy(result)
    if np.isnan(mean) or result.votes.n_classes < 2:
        return ""
    if unit_of(result) == "share":
        return (
            "<p>This method counts votes: its confidence is the share of the votes for a label, not a probability that the "
            "label is right.</p>"
        )
    expects = f"<p><strong>{percent(mean)}</strong> of the labels are expected to be right"
    if (low, high) == (0, 1):
        return f"{expects}; votes are too few to say how far that is true.</p>"
    if result.confidence_source == "experience":
        span = f"between {percent(low)} and {percent(high)}"
        return f"{expects} by experience with other crowds; in nine of ten of them, with the luck of these items, {span}.</p>"
    return f"{expects} by the model itself (90&nbsp;% interval {percent(low)} to {percent(high)}, if the model is right).</p>"


def _against_truth(result: Result, truth: Integers) -> str:
    n_known = int((truth >= 0).sum())
    # The measures of a few thousand items are known well enough; resampling more would only take longer.
    some = truth if n_known <= 5000 else np.where(np.cumsum(truth >= 0) <= 5000, truth, -1)
    bins = reliability(result.posterior, some, n_bins=10 if n_known >= 200 else 5, n_resamples=200)
    span = bootstrap_interval(accuracy, result.posterior, some, n_resamples=200)
    right, surest = accuracy(result.posterior, truth), float(result.confidence[truth >= 0].mean())
    words = f"Mean confidence {percent(surest)}, {percent(right)} right"
    verdict = _verdict(surest, *span)
    rows = [
        ("Right labels", percent(right), f"{percent(span[0])} to {percent(span[1])}"),
        ("Mean confidence", percent(surest), ""),
        ("Calibration error", f"{bins.ece:.3f}", "{:.3f} to {:.3f}".format(*bins.ece_interval)),
        ("Calibration error without chance", f"{bins.ece_debiased:.3f}", ""),
    ]
    few = f" The class of only {n_known} items is known: this is a first impression." if n_known < _FEWEST else ""
    picture = reliability_picture(
        bins, "Are labels right as often as their confidence says?", "confidence of the label", "right labels"
    )
    figure = f'<figure class="card narrow">{picture}<figcaption>{words}: the model is {verdict}.{few}</figcaption></figure>'
    numbers = table(
        f"On {counted(n_known, 'item')} of known class", ("Measure", "Value", "95 % interval"), rows, numeric=(1, 2)
    )
    return f'<div class="pair">{figure}<div>{numbers}</div></div>'


def _against_votes(result: Result) -> str:
    """Fit to four fifths of the votes and predict the others: a test of the model that needs no truth."""
    votes = result.votes
    name = method_of(result)
    known = aggregators().get(name)
    # A stack would have all its methods compared again.
    if known is None or known.family == "choice" or result.history is not None:
        return ""
    if votes.n_votes > _MOST_VOTES or votes.n_classes < 2:
        return ""
    fold = deal(votes, 5)
    index = np.flatnonzero(fold == 0)
    if len(index) < _FEWEST:
        return ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        try:
            rest = make_aggregator(name, **settings_of(result)).fit(votes.take_votes(fold != 0)).result_
        except CrowdwiseError:
            return ""
    index = index[rest.votes.votes_per_annotator[votes.annotator[index]] > 0]
    if len(index) < _FEWEST:
        return ""
    predicted = np.einsum("ek,ekl->el", rest.posterior[votes.item[index]], rest.confusion[votes.annotator[index]])
    # The bootstrap is for the calibration error, which is not asked for here.
    bins = reliability(predicted, votes.label[index].astype(np.int64), n_bins=10, n_resamples=1)
    right, claimed = bins.mean_accuracy, bins.mean_confidence
    title = "Does the model predict votes it has not seen?"
    picture = reliability_picture(bins, title, "predicted probability", "votes predicted correctly")
    margin = float(2 * np.sqrt(right * (1 - right) / len(index)))
    words = (
        f"{counted(len(index), 'vote')} were held out and predicted from the others: {percent(right)} correctly, and "
        f"{percent(claimed)} were expected. The model is {_verdict(claimed, right - margin, right + margin)}. This tests the "
        "model of annotators, not the labels themselves."
    )
    return f'<figure class="card narrow">{picture}<figcaption>{words}</figcaption></figure>'


def _verdict(claimed: float, low: float, high: float) -> str:
    return "too sure" if claimed > high else "not sure enough" if claimed < low else "about as sure as it should be"


def reliability_picture(bins: Reliability, title: str, across: str, up: str) -> str:
    """Share of right answers against confidence, with intervals; on the diagonal both are equal."""
    left, top, size = 64.0, 50.0, 320.0
    low = min(float(bins.confidence.min(initial=1)), float(bins.low.min(initial=1)))
    start = max(np.floor(low * 10) / 10, 0.0)
    start = min(start, 0.9)
    scale = size / (1 - start)

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (x - start) * scale, top + size - (y - start) * scale

    parts = [caption(title, 16, 26, extra=' font-size="16" font-weight="600"')]
    step = 0.1 if start >= 0.5 else 0.25 if start == 0 else 0.2
    for tick in np.arange(np.ceil(start / step - 1e-9) * step, 1.0001, step).tolist():
        x, y = place(tick, tick)
        parts.append(f'<path d="M{left} {y:.1f}h{size}M{x:.1f} {top}v{size}" {stroke("rule")}/>')
        parts.append(caption(f"{100 * tick:.0f} %", left - 8, y + 4, paint="muted", anchor="end"))
        parts.append(caption(f"{100 * tick:.0f} %", x, top + size + 18, paint="muted", anchor="middle"))
    (x, y), (u, v) = place(start, start), place(1, 1)
    parts.append(f'<path d="M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}" stroke-dasharray="4 3" {stroke("ink")}/>')
    largest = float(max(bins.n_items.max(initial=0), 1))
    for b, count in enumerate(bins.n_items.tolist()):
        x, y = place(float(bins.confidence[b]), float(bins.accuracy[b]))
        top_y, bottom_y = place(0, float(bins.high[b]))[1], place(0, float(bins.low[b]))[1]
        claimed, right = percent(float(bins.confidence[b])), percent(float(bins.accuracy[b]))
        tip = f"<title>confidence {claimed}, right {right}: {whole(count)}</title>"
        whisker = f"M{x:.1f} {top_y:.1f}V{bottom_y:.1f}m-4 0h8M{x - 4:.1f} {top_y:.1f}h8"
        bar = f'<path d="{whisker}" stroke-width="1.5" {stroke("good")}/>'
        mark = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3 + 4 * np.sqrt(count / largest):.1f}" {fill("good")}/>'
        parts.append(f"<g>{tip}{bar}{mark}</g>")
    parts.append(caption(f"{across} &rarr;", left + size, top + size + 40, paint="muted", anchor="end"))
    parts.append(caption(f"&uarr; {up}", left, top - 8, paint="muted"))
    parts.append(caption("below the dashed line: too sure", left, top + size + 60, paint="muted"))
    return svg(
        max(left + size + 24, WIDTH - 60), top + size + 74, f"{title} {len(bins.n_items)} bins with 95 % intervals", parts
    )
