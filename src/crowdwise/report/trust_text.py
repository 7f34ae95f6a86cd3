"""Calibrations, decisions, flags of annotators, questions and plans in a few lines for people, and as data for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from crowdwise.report.text import count, number, one_line, some

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.campaign.assign import Assignments
    from crowdwise.campaign.planning import Plan
    from crowdwise.estimator.costs import Costs
    from crowdwise.estimator.outcome import Result
    from crowdwise.kernels.types import Integers
    from crowdwise.trust.calibration.calibrating import Calibrated
    from crowdwise.trust.calibration.decisions import Decisions
    from crowdwise.trust.crowd.table import Findings

__all__ = ["calibration_document", "calibration_lines", "cost_facts", "cost_lines", "decision_lines"]
__all__ += ["flag_lines", "plan_facts", "plan_lines", "question_facts", "question_lines", "race_table", "reason_lines"]
__all__ += ["prediction_lines", "score_line"]


def calibration_document(done: Calibrated) -> dict[str, Any]:
    """Everything, for JSON."""
    document: dict[str, Any] = {"method": done.result.method, "how": done.how, "account": done.account, **done.facts}
    for name, curve in (("before", done.before), ("after", done.after)):
        if curve is not None:
            document["n_checked"] = curve.n_known
            document[name] = {**curve.facts(), "curve": curve.frame().to_dicts()}
    return document


def calibration_lines(done: Calibrated) -> Iterator[str]:
    """What was done, and the measures before and after it."""
    yield f"{done.result.method}: {done.account}"
    if done.before is None or done.after is None:
        yield "no true labels to check it by; give some with --truth FILE"
        return
    yield f"checked on {count(done.before.n_known, 'item')} with a true label:"
    for name, curve in (("before", done.before), ("after", done.after)):
        low, high = curve.ece_interval
        without = f"{number(curve.ece_debiased)} without chance"
        yield (
            f"{name:>6}: ECE {number(curve.ece)} (95% interval {number(low)} to {number(high)}; {without}), "
            f"Brier {number(curve.brier)}, log-loss {number(curve.log_loss)}, AUC {number(curve.auc) or 'undefined'}, "
            f"confidence {number(curve.mean_confidence)}, accuracy {number(curve.mean_accuracy)}"
        )
        if done.how == "none":
            break


def prediction_lines(facts: Mapping[str, Any], ignored: list[str]) -> Iterator[str]:
    """Columns that were ignored, on how many rows there are votes, and how good predictions are where that is known."""
    if ignored:
        yield f"ignored columns that the model was not trained on: {some(ignored, 5)}"
    if "n_rows_with_votes" in facts:
        rows = count(facts["n_items"], "row")
        yield f"votes on {facts['n_rows_with_votes']:,} of {rows}; the others have the classifier's own answer"
    if "n_known" in facts:
        yield score_line(facts)


def score_line(scores: Mapping[str, Any]) -> str:
    """The main measures of `crowdwise.trust.metrics.score` in one line; a word where one is undefined."""
    named = {"accuracy": "accuracy", "AUC": "auc", "log-loss": "log_loss", "Brier": "brier", "ECE": "ece"}
    shown = ", ".join(f"{name} {number(scores[key]) or 'undefined'}" for name, key in named.items())
    if debiased := number(scores["ece_debiased"]):
        shown += f" ({debiased} without chance)"
    return f"{shown} on {count(int(scores['n_known']), 'known label')}"


def _range(error: float | None) -> str:
    return "" if error is None else f"; in nine of ten crowds below {number(error)}"


def decision_lines(decisions: Decisions, error: float, risk: float) -> Iterator[str]:
    """How many are accepted and what is known of their error."""
    from crowdwise.trust.calibration.selection import least_known

    found, facts = decisions.selection, decisions.facts()
    yield f"{decisions.result.method}: {decisions.account}"
    accepted, total = facts["n_accepted"], facts["n_accepted"] + facts["n_review"]
    chosen = decisions.accept & (decisions.known < 0)
    limit = f" (confidence from {number(float(decisions.result.confidence[chosen].min()))})" if accepted else ""
    rest = f"; {count(decisions.n_known, 'label')} known" if decisions.n_known else ""
    yield f"accept {accepted:,} of {count(total, 'item')}{limit}, review {total - accepted:,}{rest}"
    if total == 0:
        yield "every item has a true label, so that there is nothing to decide; crowdwise compare measures methods by them"
    elif not decisions.checked:
        if accepted:
            expected = float((1 - decisions.result.confidence[chosen]).mean())
            yield f"expected error of the accepted: {number(expected)}{_range(decisions.range_error)}"
        else:
            smallest = float(1 - decisions.result.confidence[decisions.known < 0].max())
            yield (
                f"no labels, however few, stay within {number(error)} as far as experience goes: the surest has an expected "
                f"error of {number(smallest)}; ask for more votes, or allow a larger --error"
                if smallest > error
                else f"no labels stay within {number(error)} in so many crowds; allow a larger --error or a smaller --assurance"
            )
        yield "to measure the error on these labels: crowdwise audit, or true labels with --truth FILE"
    elif found.interval is None:
        verb = "is" if decisions.n_known == 1 else "are"
        yield (
            f"nothing is accepted: it takes at least {least_known(error, risk)} surest items with a true label, nearly all "
            f"right, to show an error within {number(error)}; {decisions.n_known:,} {verb} known: "
            "add true labels, or allow a larger --error or --risk"
        )
    else:
        low, high = found.interval
        yield (
            f"checked on {count(found.n_checked, 'accepted item')} with a true label: {found.n_wrong:,} wrong, "
            f"{number(found.n_wrong / found.n_checked)} (95% interval {number(low)} to {number(high)}); "
            f"within {number(error)} with probability {number(1 - risk)}"
        )
    if decisions.sets is not None and total:
        yield f"label sets: {number(decisions.mean_set_size)} labels on average, {decisions.sets_account}"


def flag_lines(found: Findings, dropped: bool) -> Iterator[str]:
    """The flagged by name, kind by kind."""
    for kind, report in found.reports.items():
        if report.flagged:
            more = f" and {len(report.flagged) - 10} more" if len(report.flagged) > 10 else ""
            yield f"{'dropped, ' if dropped and kind == 'spammer' else ''}{kind}: {some(report.flagged, 10)}{more}"
    for note in found.notes:
        yield f"note: {one_line(note)}"


def reason_lines(table: pl.DataFrame, most: int = 20) -> Iterator[str]:
    """Why the flagged are flagged, a line each, the least accurate first."""
    flagged = table.filter((table["flags"] != "") & (table["flags"] != "unknown")).sort("accuracy", nulls_last=True)
    for row in flagged.head(most).iter_rows(named=True):
        yield one_line(f"{row['annotator']}: {row['reasons']}")
    if flagged.height > most:
        yield f"... and {flagged.height - most} more; write all with -o FILE"


def question_facts(found: Assignments, policy: str, budget: float) -> dict[str, Any]:
    """What was asked for, what it costs, and how right the labels are expected to be."""
    result = found.state.result
    return {
        "method": result.method,
        "policy": policy,
        "budget": budget,
        "n_questions": len(found),
        "n_pool": len(found.state.pool.items),
        "cost": float(found.cost.sum()),
        "expected_accuracy": _accuracy_facts(result, found.state.pool.items),
    }


def question_lines(found: Assignments, facts: dict[str, Any], other: str = "") -> Iterator[str]:
    """How many questions to how many annotators, and what is expected of the labels now.

    `other` is the method by which other commands, asked for none, would say it.
    """
    yield (
        f"{count(len(found), 'question')} about {count(len(set(found.item.tolist())), 'item')} of {facts['n_pool']:,} to "
        f"{count(len(set(found.annotator.tolist())), 'annotator')}, at a cost of {number(facts['cost'])}"
        if len(found)
        else "no question"
    )
    if facts["cost"] + float(found.state.pool.cost.max(initial=0)) <= facts["budget"]:
        yield "the budget is not spent: capacities, --most, --per-item and earlier votes leave nothing else to ask"
    who, times = Counter(found.annotator.tolist()).most_common(1)[0] if len(found) else (0, 0)
    if len(found) >= 5 and times > len(found) / 2 and not found.state.pool.limited:
        name = one_line(found.state.result.votes.annotators[who])
        yield f"{times} of them to {name}, because nobody's answers are limited (--capacity FILE limits them)"
    from crowdwise.campaign.stopping import accuracy_words

    said = accuracy_words(found.state.result, found.state.pool.items)
    differs = other not in ("", facts["method"]) and "unknown" not in said
    yield f"{facts['method']}: {said}{f' (aggregate and plan say it of {other}; -m {other} here too)' if differs else ''}"


def plan_facts(found: Plan, result: Result) -> dict[str, Any]:
    """A plan as data, and how right the labels of the result are expected to be now."""
    more = {"mean": found.votes, "low": found.low, "high": found.high}
    return {"expected_accuracy": _accuracy_facts(result), "more_votes": more, "out_of_reach": found.out_of_reach}


def _accuracy_facts(result: Result, items: Integers | None = None) -> dict[str, float | None]:
    """The expected accuracy with its range; nothing where nothing can be said."""
    from crowdwise.campaign.stopping import expected_accuracy, unknown_for

    found = (None, None, None) if unknown_for(result, items) else expected_accuracy(result, items=items)
    return dict(zip(("mean", "low", "high"), found, strict=True))


def plan_lines(found: Plan, result: Result) -> Iterator[str]:
    """How right the labels are expected to be now, and how many more votes the target takes."""
    from crowdwise.campaign.stopping import accuracy_words, expected_accuracy, unknown_for

    yield f"now, by {result.method}: {accuracy_words(result)}"
    if not unknown_for(result):
        yield "as far as experience with other crowds goes; to measure it on these labels: crowdwise audit"
    target = f"target {number(found.target)} with probability {number(found.probability)}"
    if found.votes == 0:
        yield f"{target}: reached"
    elif found.out_of_reach == 1:
        instead = "check some labels (crowdwise audit), or find better annotators"
        yield f"{target}: out of reach within 50 more votes per item; {instead}"
    else:
        end = f"to {found.high:,.0f}" if found.high < float("inf") else "and more"
        votes = f"about {count(round(found.votes), 'more vote')} (90% interval {found.low:,.0f} {end})"
        yield f"{target}: {votes}, {found.votes / max(result.votes.n_items, 1):.1f} per item"
        if found.out_of_reach:
            yield f"out of reach within 50 more votes per item in {found.out_of_reach:.0%} of the simulated campaigns"
        if not unknown_for(result) and expected_accuracy(result)[0] >= found.target:
            yield "a target is reached when the lower end of the range reaches it, not when its middle does"


def race_table(ends: pl.DataFrame) -> pl.DataFrame:
    """The ends of a race of policies, in the columns that fit a screen."""
    import polars as pl

    error = pl.format(" ± {}", pl.col("standard_error").round(3)).fill_null("")
    return ends.select(
        "policy",
        pl.col("votes").round().cast(pl.Int64),
        pl.concat_str(pl.col("accuracy").round(3), error).alias("accuracy"),
        pl.format("{} ({} to {})", *(pl.col(name).round(2) for name in ("expected_accuracy", "expected_low", "expected_high")))
        .fill_null("unknown")
        .alias("expected (in nine of ten crowds)"),
        pl.col("on_the_way").alias("mean on the way"),
    )


def cost_facts(items: pl.DataFrame) -> dict[str, Any]:
    """What labels are expected to cost, and how many items have none by choice."""
    without = items["note"] == "abstained"
    return {"expected_cost": float(items["expected_cost"].sum()), "n_abstained": int(without.sum())}


def cost_lines(costs: Costs, expected_cost: float, n_abstained: int) -> Iterator[str]:
    """The same, and which mistake is the most expensive."""
    left = "" if costs.abstain is None else f"; {count(n_abstained, 'item')} without a label by --abstain"
    yield f"labels that cost least: {expected_cost:,.4g} expected in all{left}"
    true, label, cost = costs.dearest()
    if not costs.are_alike:
        yield f"the most expensive mistake is to label an item {label} that is {true}: {cost:g}"
