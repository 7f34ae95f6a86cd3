"""An audit in a few lines for people: what was checked, what is certified, how many labels are right, what more would show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from crowdwise.report.text import count, number, one_line

if TYPE_CHECKING:
    from crowdwise.trust.audit import Audit, Draw
    from crowdwise.trust.audit.estimates import Estimate

__all__ = ["audit_lines", "audit_page", "draw_lines"]

_MOST_CLASSES = 10


def draw_lines(drawn: Draw, earlier: int, page: bool = False) -> Iterator[str]:
    """What was drawn, and what to do with it."""
    strata, new = drawn.plan.strata, len(drawn.item) - earlier
    after = f" after {earlier:,} earlier ones" if earlier else ""
    yield f"drew {count(new, 'item')}{after} of {strata.n_items:,} that can be checked; seed {drawn.plan.seed}"
    if len(drawn.item) == strata.n_items:
        yield "these are all of them: once they are checked, nothing is left to be certified"
    where = (
        "choose the true class of each on the page and download the answers"
        if page
        else (
            'write the true class of each into the column "true label" (? where nobody can tell), without a look at the votes'
        )
    )
    yield f"{where}; then: crowdwise audit VOTES --checked FILE, with the same options"


def audit_lines(audit: Audit) -> Iterator[str]:
    """What was found."""
    yield from _checked(audit)
    yield from _certified(audit)
    yield f"right labels among all {audit.strata.n_items:,} that could be drawn: {_interval(audit.right, audit.level)}"
    shown = sorted(audit.by_class.items(), key=lambda pair: -pair[1].n_items)
    for code, found in shown[:_MOST_CLASSES] if len(shown) > 1 else []:
        name, checked = one_line(audit.result.votes.classes[code]), f"{found.n_checked:,} of {found.n_items:,} checked"
        yield f"  labelled {name}: {_interval(found, audit.level)}; {checked}"
    if len(shown) > _MOST_CLASSES:
        yield f"  and {count(len(shown) - _MOST_CLASSES, 'class')} more; --json lists all"
    yield from _outlook(audit)


def _checked(audit: Audit) -> Iterator[str]:
    checks, wrong = audit.checks, len(audit.corrected)
    looked, unclear = int((checks.code != -1).sum()), int((checks.code == -2).sum())
    found = f"{wrong:,} wrong and corrected" if wrong else "none wrong"
    yield f"{audit.result.method}: {count(looked, 'label')} checked, {found}" + (f", {unclear:,} unclear" if unclear else "")
    if checks.n_usable < looked:
        first = one_line(audit.result.votes.items[checks.item[checks.n_usable]])
        yield (
            f"draw {checks.n_usable + 1:,} (item {first}) is not filled in: only the {checks.n_usable:,} draws before it count "
            "for certificate and accuracy, for those after it may be filled in because they are easy. Fill it in, or write ?"
        )


def _certified(audit: Audit) -> Iterator[str]:
    total, share, level = audit.strata.n_items, _percent(audit.error), _percent(audit.level)
    if audit.n_certified:
        yield (
            f"accept {audit.n_certified:,} of {total:,} labels ({audit.n_certified / total:.0%}; confidence from "
            f"{number(audit.threshold)}): at most {share} of them are wrong, with probability {level}, "
            "whatever the votes are like"
        )
    else:
        yield (
            f"no labels are certified yet: the checks do not show of any set of labels, with probability {level}, that at most "
            f"{share} of them are wrong"
        )


def _outlook(audit: Audit) -> Iterator[str]:
    if audit.n_certified == audit.strata.n_items:
        return
    steps = [f"about {checks:,} more for {share:.0%}" for checks, share in audit.outlook]
    more = " beyond these" if audit.n_certified else ""
    if steps:
        yield f"checks to certify more of the items, if errors go on as estimated: {', '.join(steps)}"
    else:
        yield f"more checks are not expected to certify anything{more}: too many labels seem wrong for {_percent(audit.error)}"


def _interval(found: Estimate, level: float) -> str:
    low, high = _percent(found.low, 1), _percent(found.high, 1)
    return f"{_percent(found.share, 1)} ({_percent(level)} interval {low} to {high})"


def _percent(share: float, digits: int = 4) -> str:
    """A share as percent: 5%, 2.5%, 93.1%."""
    return f"{round(100 * share, digits):g}%"


def audit_page(audit: Audit) -> dict[str, Any]:
    """Parts of a page of `crowdwise.report.write_answers`."""
    import polars as pl

    from crowdwise.data.encode import series_of

    classes = audit.result.votes.classes
    rows = [
        {
            "labelled": str(classes[k]),
            "right": e.share,
            "low": e.low,
            "high": e.high,
            "checked": e.n_checked,
            "items": e.n_items,
        }
        for k, e in audit.by_class.items()
    ]
    frame, names = audit.frame(), series_of(classes)
    looked = frame["note"].is_in(["checked", "unclear"])
    proposed = names[audit.result.codes].alias("proposed")
    checked = frame.select("item", proposed, "label", "note").filter(looked)
    checked = checked.sort(checked["proposed"] == checked["label"], maintain_order=True)
    return {
        "title": "Audit of labels",
        "facts": {
            "Certified labels": audit.n_certified,
            "Of": audit.strata.n_items,
            "Checked": int((audit.checks.code != -1).sum()),
            "Wrong and corrected": len(audit.corrected),
        },
        "notes": list(audit_lines(audit)),
        "tables": {
            "Right labels by predicted class": pl.DataFrame(rows),
            "Checked labels, the corrected ones first": checked,
            "Labels to review, the least certain first": frame.filter(frame["decision"] == "review").sort("confidence"),
        },
    }
