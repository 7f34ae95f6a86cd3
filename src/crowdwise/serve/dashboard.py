"""The parts of the dashboard as markup; text of strangers comes in through `crowdwise.data.markup` alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.data.markup import counted, percent, plain, table, text, whole
from crowdwise.report.charts import MOST_CLASSES, confidence_picture, shares_picture
from crowdwise.serve.brain import HOUR
from crowdwise.serve.drawing import history_picture, hours_picture, interval_picture, moment

if TYPE_CHECKING:
    from crowdwise.serve.service import Service

__all__ = ["dashboard"]

_PEOPLE, _ITEMS, _BINS = 100, 20, 20


def dashboard(service: Service) -> str:
    """All parts, each with a name by which the page replaces it."""
    progress = service.progress()
    parts = {
        "head": _head(service, progress),
        "tiles": _tiles(service, progress),
        "pictures": _pictures(service),
        "items": _items(service),
        "annotators": _annotators(service),
    }
    return "".join(f'<section data-part="{name}">{markup}</section>' for name, markup in parts.items())


def _head(service: Service, progress: dict[str, Any]) -> str:
    lines = []
    if progress["stop"]:
        lines.append(f"<li>The target is reached: {plain(progress['stop'], 200)}. No more questions are handed out.</li>")
    if "failed" in service.brain.facts:
        lines.append(f"<li>Inference has failed: {plain(service.brain.facts['failed'], 300)}</li>")
    fit = service.brain.live.fit
    notes = [] if fit is None else list(fit.notes[:3])
    lines += [f"<li>{plain(note, 300)}</li>" for note in notes]
    look = f'<ul class="look{"" if "failed" in service.brain.facts else " calm"}">{"".join(lines)}</ul>' if lines else ""
    return f"<h1>{text(service.settings.campaign.name, 80)}</h1>{look}"


def _tiles(service: Service, progress: dict[str, Any]) -> str:
    expected, audit = progress["expected_accuracy"], progress["audit"]
    target = percent(progress["target"])
    # Known labels alone would look as if all others were lost.
    waiting = None if progress["inferred"] or not progress["votes"] else ("&ndash;", _waiting(service))
    sure = f"{percent(progress['sure'])} of items are 95&nbsp;% sure"
    rows = [
        ("Labelled", *(waiting or (whole(progress["labelled"]), f"of {counted(progress['items'], 'item')}"))),
        ("Votes", whole(progress["votes"]), f"{whole(progress['votes_last_hour'])} in the last hour"),
        ("Mean confidence", *(waiting or (_share(progress["mean_confidence"]), sure))),
        ("Expected right", *(waiting or _expected(expected))),
        (
            "Proven right",
            "&ndash;" if audit is None or not audit["counted"] else percent(audit["certified"]),
            f"target {target}"
            if audit is None
            else f"{whole(audit['checked'])} of {whole(audit['drawn'])} checked; target {target}",
        ),
        (
            "Spent",
            _money(progress["spent"]),
            "no budget set" if progress["budget"] is None else f"of {_money(progress['budget'])}",
        ),
        ("Votes to go", *_to_go(progress)),
        ("Expected finish", *_finish(progress)),
    ]
    made = "".join(f"<div><dt>{name}</dt><dd>{value}</dd><small>{about}</small></div>" for name, value, about in rows)
    return f'<dl class="tiles">{made}</dl>'


def _share(value: float | None) -> str:
    return "&ndash;" if value is None or value != value else percent(value)


def _money(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".").replace(",", "\u202f")


def _waiting(service: Service) -> str:
    return "no fit yet" if "failed" in service.brain.facts else "fitting&nbsp;&hellip;"


def _expected(expected: dict[str, float] | None) -> tuple[str, str]:
    if expected is None or expected["low"] != expected["low"]:
        return "&ndash;", "after the first fit"
    if expected["low"] == 0 and expected["high"] == 1:
        return "&ndash;", "too few votes overlap to say"
    about = f"{percent(expected['low'])} to {percent(expected['high'])} in nine of ten crowds"
    return _share(expected["expected"]), about


def _to_go(progress: dict[str, Any]) -> tuple[str, str]:
    plan = progress["votes_to_go"]
    if plan is None:
        return "&ndash;", "after the first fit"
    if not plan["votes"] < float("inf"):
        return "&ndash;", "out of reach with these annotators"
    more = progress["left"] is not None and plan["votes"] > progress["left"]
    about = f"{whole(plan['low'])} to {whole(plan['high'])}" if plan["high"] < float("inf") else f"{whole(plan['low'])} or more"
    return whole(plan["votes"]), f"{about}{'; more than is left' if more else ''}"


def _finish(progress: dict[str, Any]) -> tuple[str, str]:
    if progress["stop"]:
        return "now", "the target is reached"
    finish = progress["expected_finish"]
    if finish is None:
        return "&ndash;", "no votes in the last hour" if progress["votes_last_hour"] <= 0 else "not known"
    hours, when = progress["votes_to_go"]["votes"] / progress["votes_last_hour"], moment(finish)
    return (f"{hours:,.1f} h" if hours < 100 else f"{hours / 24:,.0f} days"), f"at the rate of now: {when}"


def _pictures(service: Service) -> str:
    from crowdwise.serve.service import now

    live = service.brain.live
    with live.lock:
        label, confidence, n_votes = live.label.copy(), live.confidence, live.n_votes.copy()
    sure = confidence[label >= 0] if service.brain.live.fit is not None else np.empty(0)
    counts = np.bincount(np.minimum((sure * _BINS).astype(int), _BINS - 1), minlength=_BINS)
    snapshots = service.history()
    figures = [hours_picture(dict(service.brain.hours), now() // HOUR), confidence_picture(counts)]
    if snapshots:
        figures.insert(0, history_picture(snapshots, service.settings.target.accuracy))
    fit = service.brain.live.fit
    if fit is not None and len(sure) and n_votes.sum():
        votes = fit.result.votes
        ours = np.bincount(label[label >= 0], minlength=votes.n_classes) / len(sure)
        figures.append(shares_picture(votes.classes, ours, votes.label_shares, np.arange(min(votes.n_classes, MOST_CLASSES))))
    return f'<div class="pair">{"".join(f"<figure class=card>{one}</figure>" for one in figures)}</div>'


def _items(service: Service) -> str:
    live = service.brain.live
    with live.lock:
        confidence, label, n_votes = live.confidence, live.label.copy(), live.n_votes.copy()
        open_still = np.flatnonzero((label >= 0) & (live.truth < 0))
        order = open_still[np.argsort(confidence[open_still], kind="stable")][:_ITEMS]
        rows = [
            (text(live.names[n], 60), text(live.classes[label[n]], 40), percent(float(confidence[n])), whole(n_votes[n]))
            for n in order.tolist()
        ]
    if not rows:
        waiting = live.fit is None and n_votes.sum()
        return f"<h2>Items to look at</h2><p>{_waiting(service) if waiting else 'No item has a label yet.'}</p>"
    caption = f"The {counted(len(rows), 'item')} whose label is least certain"
    return f"<h2>Items to look at</h2>{table(caption, ('item', 'label', 'confidence', 'votes'), rows, numeric=(2, 3))}"


def _annotators(service: Service) -> str:
    everybody, rows = service.annotators(), []
    for one in everybody[:_PEOPLE]:
        accuracy, flags = one.get("accuracy"), str(one.get("flags") or "")
        paint = "good" if flags == "" else "unsure" if flags == "unknown" else "bad"
        shown = "&ndash;"
        if accuracy is not None and one.get("accuracy_low") is not None:
            low, high = one["accuracy_low"], one["accuracy_high"]
            shown = f"{percent(accuracy)} <small>{percent(low)} to {percent(high)}</small>"
            shown += interval_picture(accuracy, low, high, paint)
        mark = f'<span class="mark mark-{paint}">{plain(flags)}</span>' if flags else ""
        reason = f"<small>{plain(one.get('reasons') or '', 200)}</small>"
        worst = text(one["worst_confusion"], 40) if one.get("worst_confusion") else "&ndash;"
        rows.append((text(one["annotator"], 40), mark + reason, shown, whole(one["votes_now"]), worst))
    if not rows:
        return "<h2>Annotators</h2><p>Nobody has voted yet.</p>"
    more = "" if len(everybody) <= _PEOPLE else f"; the first {_PEOPLE} of {whole(len(everybody))}"
    columns = ("annotator", "flags", "accuracy, with its 95&nbsp;% interval", "votes", "likeliest error")
    return f"<h2>Annotators</h2>{table(f'Those that deserve a look first{more}', columns, rows, numeric=(3,))}"
