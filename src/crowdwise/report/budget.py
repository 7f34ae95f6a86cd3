"""What more votes would buy: simulated campaigns to a few targets, by `crowdwise.campaign.planning`."""

from __future__ import annotations

from collections.abc import Callable

from crowdwise.campaign.planning import Plan, plans
from crowdwise.estimator.outcome import Result
from crowdwise.report.charts import WIDTH
from crowdwise.report.markup import caption, fill, percent, stroke, svg, table, whole
from crowdwise.report.review import unit_of

__all__ = ["budget", "plans_of"]

_LADDER = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999)
_STEPS = 3
# Confidences that exceed the accuracy by less say nothing about a plan.
_NOTABLE = 0.02
# Campaigns to simulate: nineteen make an interval of 90 %; large sets vary little and cost much.
_REPEATS, _FEW_REPEATS, _LARGE = 19, 7, 100_000


def plans_of(result: Result, progress: Callable[[str, int, int | None], None] | None = None) -> list[Plan]:
    """Plans for the next few targets above what is expected now; none where nothing can be said."""
    votes = result.votes
    if unit_of(result) == "share" or not votes.n_items or not votes.n_votes or votes.n_classes < 2:
        return []
    now = float(result.posterior.max(axis=1).mean())
    # A step that takes away less than a quarter of the errors is none.
    targets = [target for target in _LADDER if 1 - target < 0.75 * (1 - now)][:_STEPS]
    repeats = _REPEATS if votes.n_votes <= _LARGE else _FEW_REPEATS
    # What is expected is about as likely as not.
    return plans(result, targets, 0.5, repeats=repeats, progress=progress)


def budget(
    result: Result,
    price: float | None = None,
    gap: float = 0.0,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> str:
    """Return what the next targets cost, as a picture and a table.

    Parameters
    ----------
    price : float, optional
        Of one vote.
    gap : float
        By how much confidences exceed the accuracy on known classes.
    progress : function, optional
        Called with what is simulated, how many are done, and how many there are.
    """
    made = plans_of(result, progress)
    if not made and result.votes.n_classes < 2:
        return "<p>The votes name one class only, so nothing says how many more would improve the labels.</p>"
    if not made:
        why = (
            "This method counts votes and has no model to predict more of them; fit a model, such as the default, to plan."
            if unit_of(result) == "share"
            else "According to the model, more votes would improve the labels very little."
        )
        return f"<p>{why}</p>"
    n_items = result.votes.n_items
    rows = []
    for one in made:
        if one.out_of_reach == 1:
            rows.append((percent(one.target), "out of reach", "", "", ""))
            continue
        end = f"to {whole(one.high)}" if one.high < float("inf") else "and more"
        cost = "" if price is None else f"{one.votes * price:,.2f}".replace(",", "\u202f")
        rows.append((percent(one.target), whole(one.votes), f"{one.votes / n_items:.2f}", f"{whole(one.low)} {end}", cost))
    columns = ["Expected right labels", "More votes", "Per item", "Interval of the simulations", "Cost"]
    width = 5 if price is not None else 4
    numbers = table("What the next steps cost", columns[:width], [row[:width] for row in rows], numeric=range(1, width))
    note = (
        f"Now {percent(made[0].now)} are expected to be right, after {whole(result.votes.n_votes)} votes. New votes go to the "
        "least certain items, from annotators like these. With so many, a target is as likely as not to be reached; in 19 "
        "crowds of 20, which <code>crowdwise plan</code> takes unless asked otherwise, it needs many more. The estimate relies "
        "on the model: where confidences are too high, it asks for too few votes."
    )
    if gap > _NOTABLE:
        note += f" <strong>On the known classes they are too high by {percent(gap)}, so more votes will be needed.</strong>"
    if any(one.out_of_reach > 0 for one in made):
        note += " Out of reach: not even fifty more votes per item were enough in some or all simulations."
    figure = f'<figure class="card narrow">{_picture(made)}</figure>' if any(one.out_of_reach < 1 for one in made) else ""
    return f'<p>{note}</p><div class="pair">{figure}<div>{numbers}</div></div>'


def _picture(made: list[Plan]) -> str:
    """Expected share of right labels against more votes."""
    left, top, width, height = 64.0, 50.0, WIDTH - 64.0 - 90.0, 220.0
    reached = [one for one in made if one.out_of_reach < 1]
    most = max(one.high if one.high < float("inf") else one.votes for one in reached)
    points = [(0.0, made[0].now), *((one.votes, one.target) for one in reached)]
    bottom = max(min(share for _, share in points) - 0.15 * (points[-1][1] - points[0][1]), 0)
    span = max(points[-1][1] - bottom, 1e-9) * 1.05

    def place(votes: float, share: float) -> tuple[float, float]:
        return left + width * votes / max(most, 1), top + height * (1 - (share - bottom) / span)

    parts = [caption("What more votes buy", 16, 26, extra=' font-size="16" font-weight="600"')]
    for votes, share in points:
        x, y = place(votes, share)
        parts.append(f'<path d="M{left} {y:.1f}h{width}" {stroke("rule")}/>')
        parts.append(caption(percent(share), left - 8, y + 4, paint="muted", anchor="end", extra=' font-size="12"'))
    line = "L".join("{:.1f} {:.1f}".format(*place(*point)) for point in points)
    parts.append(f'<path d="M{line}" stroke-width="2" {stroke("good")}/>')
    for one in reached:
        x, y = place(one.votes, one.target)
        low, high = (place(min(end, most), one.target)[0] for end in (one.low, one.high))
        parts.append(
            f'<path d="M{low:.1f} {y:.1f}H{high:.1f}m0 -4v8M{low:.1f} {y - 4:.1f}v8" stroke-width="1.5" {stroke("good")}/>'
        )
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {fill("good")}/>')
        parts.append(caption(f"+{whole(one.votes)}", max(high, x) + 8, y + 4, paint="muted", extra=' font-size="12"'))
    parts.append(f'<circle cx="{left:.1f}" cy="{place(*points[0])[1]:.1f}" r="5" {fill("ink")}/>')
    parts.append(f'<path d="M{left} {top + height}h{width}" {stroke("muted")}/>')
    parts.append(caption("now", left, top + height + 18, paint="muted", anchor="middle"))
    parts.append(caption("more votes &rarr;", left + width, top + height + 18, paint="muted", anchor="end"))
    return svg(WIDTH, top + height + 32, "Expected share of right labels against the number of further votes", parts)
