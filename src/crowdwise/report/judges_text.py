"""A crowd of judges in a few sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from crowdwise.report.text import count, one_line, some

if TYPE_CHECKING:
    from crowdwise.trust.judges import Families, Findings

__all__ = ["bias_lines", "family_lines", "narrow", "panel_lines"]

# A judge that adds fewer bits than this to what the others say hardly adds anything; of two classes there is one bit in all.
_LITTLE = 0.01
_LEVEL = 0.05
# A panel that is better than no judge by less than this is no better.
_HARDLY = 0.005


def family_lines(families: Families, source: str) -> Iterator[str]:
    """Who counts as one, and who are people."""
    code, names = families.fused_code, families.fused_names
    for j, name in enumerate(names):
        members = code == j
        named = families.inner_name[-1] if families.inner_name else families.name
        models = len({name for name, inside in zip(named, members, strict=True) if inside and name})
        within = f" of {count(models, 'model')}" if models > 1 else ""
        yield f"{count(int(members.sum()), 'judge')}{within} share errors as one family ({source}): {one_line(name)}"
    if names and source == "found":
        yield (
            "families that are found are taken to have no groups within them; if they are prompts of several models, expected "
            "accuracies are far too high: name them (--families, --by-name or --parts with --levels)"
        )
    if families.person.any():
        yield f"{int(families.person.sum())} of {len(families.person)} annotators are people, by whom human votes are measured"


def panel_lines(found: Findings, target: float, n_classes: int) -> Iterator[str]:
    """What judges add, what panels are worth, and how far to believe that."""
    if found.model is None:
        if n_classes < 2:
            yield "all votes are for one class, and say nothing of how often anybody is right: name all classes (--classes A,B)"
            return
        yield (
            "how often anybody is right cannot be seen in votes of fewer than three independent voices: name known labels "
            "(--gold FILE), or add a judge of another family or a person"
        )
        return
    table = found.table.filter(~found.table["person"]).drop_nulls("bits_added")
    little = table.filter(table["bits_added"] < _LITTLE)["annotator"].to_list()
    if table.height:
        most = table.row(int(table["bits_added"].arg_max() or 0), named=True)
        yield f"most is added by {one_line(most['annotator'])}: {most['bits_added']:.2f} bits given all the others"
    if little:
        yield f"next to nothing, less than {_LITTLE} bits, is added by {some(little, 5)}{_more(little, 5)}"
    together = table.filter(table["family"].is_duplicated() & (table["family"] != "")).unique("family", maintain_order=True)
    for row in together.iter_rows(named=True):
        yield f"{one_line(row['family'])} as a whole adds {row['family_bits_added']:.2f} bits"
    if "model" in table.columns:
        models = table.filter((table["model"] != "") & table.select("family", "model").is_duplicated())
        for row in models.unique(["family", "model"], maintain_order=True).iter_rows(named=True):
            said = f"{one_line(row['model'])} of {one_line(row['family'])}"
            yield f"{said} as a whole adds {row['model_bits_added']:.2f} bits"
    if found.people is not None:
        right = float((found.people.diagonal() * found.model.prior_k).sum())
        yield f"a human vote is taken to be right in {right:.0%} of the cases"
    for row in found.panels.iter_rows(named=True):
        if not row["panel"].startswith("best") or row["panel"] == "best 3":
            yield panel_line(row)
    named = found.panels["panel"].to_list()
    aimed = [row for row in found.panels.iter_rows(named=True) if f" for {target:g}" in row["panel"] and not row["n_people"]]
    if named and not aimed:
        yield f"no panel of these judges alone is expected to reach {target:g}"
    elif all(row["accuracy_low"] is not None and row["accuracy_low"] < target for row in aimed):
        yield f"no panel of these judges alone reaches {target:g} with a margin, in nine of ten drawn sets of votes"
    if named:
        blind = float(found.model.prior_k.max())
        if found.panels["accuracy"][0] < blind + _HARDLY:
            # One label for everything is as good, so that a target which is reached says nothing for a judge.
            yield (
                f"one label for all items is expected to be right in {blind:.3f} of the cases by itself: these votes do not "
                "show what judges are worth"
            )
        yield (
            "expected where every judge of a panel votes on every item, and judges err independently between families, given "
            "the class and how hard an item is; to measure it, check some labels: crowdwise audit"
        )
        n_items = 0 if found.posterior is None else len(found.posterior)
        n_each = int(found.table["n_votes"].sum()) / max(n_items, 1)
        if n_each < 0.9 * found.table.height:
            yield (
                f"in these votes an item has {n_each:.1f} of {count(found.table.height, 'judge')}: what is expected of their "
                "labels stands in the table of labels (--labels)"
            )


def panel_line(row: dict[str, Any]) -> str:
    """One panel: who, how accurate, at what price, and what that is in human votes."""
    people = f" and {count(row['n_people'], 'person')}" if row["n_people"] else ""
    names = row["judges"].split(", ")
    who = f" ({some(names, 4)}{_more(names, 4)}{people})" if row["panel"] != "all judges" else ""
    least = "" if row["accuracy_low"] is None else f" ({row['accuracy_low']:.3f} or more in nine of ten drawn sets of votes)"
    said = f"{row['panel']}{who}: expected accuracy {row['accuracy']:.3f}{least}"
    if row["price"] is not None:
        said += f", {row['price']:.4g} per label"
    if row["human_votes"] is not None:
        said += ", worth more human votes than can be compared" if math.isinf(row["human_votes"]) else (
            f", worth {row['human_votes']:.1f} human votes"
        )  # fmt: skip
    return said if row["right_on_gold"] is None else f"{said}; right on {row['right_on_gold']:.0%} of the known labels"


def bias_lines(table: pl.DataFrame) -> Iterator[str]:
    """Which judges favour a place or length."""
    if "first_advantage" in table.columns:
        asked = table.filter(table["n_swapped"] > 0)
        if not asked.height:
            yield (
                "no pair was asked in both orders, so that a favoured place cannot be told from better answers standing first: "
                "ask some pairs twice, swapped"
            )
        sure = asked.filter(asked["position_p"] < _LEVEL / max(asked.height, 1))
        for row in sure.iter_rows(named=True):
            yield (
                f"{one_line(row['annotator'])} favours the {'first' if row['first_advantage'] > 0 else 'second'} place: the "
                f"same answer wins {100 * abs(row['first_advantage']):.0f} points more often there "
                f"(p {_chance(row['position_p'])}); crowdwise rank --method noisy-bt takes it out of a ranking"
            )
    if "length_slope" in table.columns:
        known = "length_slope_given_truth" in table.columns
        for row in table.iter_rows(named=True):
            kind = "length_slope_given_truth" if known else "length_slope"
            slope, error = row[kind], row[f"{kind}_se"]
            if slope is not None and error is not None and abs(slope) > 1.96 * error:
                chance = 1 / (1 + math.exp(-slope))
                yield (
                    f"{one_line(row['annotator'])} prefers the {'longer' if slope > 0 else 'shorter'}: twice as long wins "
                    f"{chance:.0%} of the time, all else equal{', the right answer included' if known else ''}"
                )


def _chance(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"= {p:.2g}"


def _more(names: list[Any], shown: int) -> str:
    return f" and {len(names) - shown} more" if len(names) > shown else ""


def narrow(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns that fit a screen."""
    groups = [pl.col(name) for name in ("family", "model") if name in frame.columns]
    shown = [pl.col("annotator"), *groups, pl.col("n_votes")]
    if "accuracy" in frame.columns:
        parts = (pl.col(name).round(2) for name in ("accuracy", "accuracy_low", "accuracy_high"))
        shown += [pl.format("{} ({} to {})", *parts).alias("accuracy"), pl.col("bits").round(2), pl.col("bits_added").round(3)]
    more = ("price", "consistency", "first_advantage", "length_slope", "length_slope_given_truth")
    return frame.select(*shown, *(pl.col(name).round(4) for name in more if name in frame.columns))
