"""An audit in a few lines for people: what was checked, what is certified, how many labels are right, what more would show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from crowdwise.report.text import count, number, one_line

if TYPE_CHECKING:
    from crowdwise.trust.audit import Audit, Draw
    from crowdwise.trust.audit.estimates import Estimate

__all__ = ["audit_lines", "audit_page", "decide_lines", "draw_lines"]

_MOST_CLASSES = 10
# An interval wider than this says nothing that a reader could use.
_WIDEST = 0.6
# From so far apart on, the share among the checked labels and the estimate seem to contradict each other.
_APART = 0.02


def draw_lines(
    drawn: Draw,
    earlier: int,
    page: bool = False,
    risk: float = 0.05,
    votes: str = "VOTES",
    table: str = "FILE",
    shared: bool = False,
) -> Iterator[str]:
    """What was drawn, whether it can certify anything, and what to do with it.

    `votes` and `table` are the files as commands name them; `shared` says that annotators seem to share errors.
    """
    from crowdwise.trust.audit.growth import fewest_draws

    strata, new = drawn.plan.strata, len(drawn.item) - earlier
    after = f" after {earlier:,} earlier ones" if earlier else ""
    yield f"drew {count(new, 'item')}{after} of {strata.n_items:,} that can be checked; seed {drawn.plan.seed}"
    if len(drawn.item) == strata.n_items:
        yield "these are all of them: once they are checked, nothing is left to be certified"
    few = len(drawn.item) < min(fewest := fewest_draws(drawn.plan, drawn.plan.error, risk), strata.n_items)
    if few:
        yield (
            f"{count(len(drawn.item), 'check')} cannot certify anything at {_percent(drawn.plan.error)}, even if all labels "
            f"are right: that takes {fewest:,}, and more if some are wrong; crowdwise audit {votes} --more {table} draws "
            "further items"
        )
    where = (
        "choose the true class of each on the page and download the answers"
        if page
        else (
            'write the true class of each into the column "true label" (? where nobody can tell), without a look at the votes'
        )
    )
    yield f"{where}; then: crowdwise audit {votes} --checked {table}, with the same options"
    if shared or few:
        chooses = " --fuse-groups, where they help to choose who shares errors" if shared else ", which keeps them"
        yield f"or use them as known labels: crowdwise aggregate {votes} --gold {table}{chooses}"


def decide_lines(n: int, disputed: int, votes: str = "VOTES", table: str = "FILE") -> Iterator[str]:
    """What was drawn to decide which annotators share errors, and what to do with it."""
    which = f"drew {count(n, 'item')} of {disputed:,}" if n < disputed else f"these are all {count(n, 'item')}"
    yield f"{which} to which readings of the votes give different labels"
    yield (
        'write the true class of each into the column "true label" (leave it empty where nobody can tell), without a look at '
        f"the votes; then: crowdwise aggregate {votes} --gold {table} --fuse-groups, with the same options"
    )


def audit_lines(audit: Audit) -> Iterator[str]:
    """What was found."""
    yield from _checked(audit)
    yield from _certified(audit)
    yield f"right labels among all {audit.strata.n_items:,} that could be drawn: {_interval(audit.right, audit.level)}"
    yield from _apart(audit.right)
    shown = sorted(audit.by_class.items(), key=lambda pair: -pair[1].n_items)
    for code, found in shown[:_MOST_CLASSES] if len(shown) > 1 else []:
        name, checked = one_line(audit.result.votes.classes[code]), f"{found.n_checked:,} of {found.n_items:,} checked"
        yield f"  labelled {name}: {'too few checks to say' if _is_vague(found) else _interval(found, audit.level)}; {checked}"
    if len(shown) > _MOST_CLASSES:
        yield f"  and {count(len(shown) - _MOST_CLASSES, 'class')} more; --json lists all"
    yield from _outlook(audit)


def _checked(audit: Audit) -> Iterator[str]:
    checks, wrong = audit.checks, len(audit.corrected)
    looked, unclear = int((checks.code != -1).sum()), int((checks.code == -2).sum())
    found = f"{wrong:,} wrong and corrected" if wrong else "none wrong"
    yield f"{audit.result.method}: {count(looked, 'label')} checked, {found}" + (f", {unclear:,} unclear" if unclear else "")
    if checks.n_usable < looked:
        first, listed = one_line(audit.result.votes.items[checks.item[checks.n_usable]]), checks.listed[checks.n_usable]
        problem = "is not filled in" if listed else "is missing from the table"
        remedy = "Fill it in, or write ?" if listed else "Restore its row (--more writes it again), and fill it in"
        yield (
            f"draw {checks.n_usable + 1:,} (item {first}) {problem}: only the {count(checks.n_usable, 'draw')} before it count "
            f"for certificate and accuracy, for those after it may be filled in because they are easy. {remedy}"
        )


def _certified(audit: Audit) -> Iterator[str]:
    total, share, level = audit.strata.n_items, _percent(audit.error), _percent(audit.level)
    if audit.n_certified:
        yield (
            f"accept {audit.n_certified:,} of {total:,} labels ({audit.n_certified / total:.0%}; those with a confidence from "
            f"{number(audit.threshold)} before the audit): at most {share} of them are wrong, with probability {level}, "
            "whatever the votes are like"
        )
    else:
        yield (
            f"no labels are certified yet: the checks do not show of any set of labels, with probability {level}, that at most "
            f"{share} of them are wrong"
        )
    accepted, more, unclear = (
        int(which.sum()) for which in (audit.accept, audit.accept & ~audit.certified, audit.certified & ~audit.accept)
    )
    if more or unclear:
        without = f", without {unclear:,} that nobody could tell" if unclear else ""
        beside = f" and {more:,} more that are checked or known" if more else ""
        which = f"the {audit.n_certified:,} certified{without}{beside}" if audit.n_certified else "those checked or known"
        yield f"decision accept: {count(accepted, 'label')}, {which}"


def _apart(found: Estimate) -> Iterator[str]:
    checked = 1 - found.n_wrong / max(found.n_checked, 1)
    if not _is_vague(found) and checked - found.share > _APART:
        yield (
            f"  of the {found.n_checked:,} checked themselves {_percent(checked, 1)} are right, but sure items are checked "
            "more often than others: the share among the checked is not the estimate"
        )


def _is_vague(found: Estimate) -> bool:
    """Whether the checks leave nearly everything possible."""
    return found.high - found.low > _WIDEST


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
    if _is_vague(found):
        return f"too few checks count to say ({found.n_checked:,})"
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
            "right": None if _is_vague(e) else e.share,
            "low": None if _is_vague(e) else e.low,
            "high": None if _is_vague(e) else e.high,
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
            "Labels in all": audit.strata.n_items,
            "Checked": int((audit.checks.code != -1).sum()),
            "Wrong and corrected": len(audit.corrected),
        },
        "notes": list(audit_lines(audit)),
        "tables": {
            "Right labels by predicted class": pl.DataFrame(
                rows, schema_overrides=dict.fromkeys(("right", "low", "high"), pl.Float64)
            ),
            "Checked labels, the corrected ones first": checked,
            "Labels to review, the least certain first": frame.filter(frame["decision"] == "review").sort("confidence"),
        },
    }
