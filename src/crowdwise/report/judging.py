"""Which judges belong together and what their votes cost, as files and names say it; what is lost goes into notes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError, SettingError
from crowdwise.io.verdict_places import PLACES
from crowdwise.io.verdicts import Verdicts
from crowdwise.kernels.types import Floats
from crowdwise.report.text import count, some
from crowdwise.trust.judges.families import PEOPLE, Families, by_name

# Names of a family and of groups within it.
Groups = tuple[str, ...]

__all__ = ["families_by_name", "families_by_table", "place_lines", "prices_of", "repeat_lines", "verdict_lines"]
__all__ += ["with_people"]

# Fewer pairs in both orders than these show nothing.
_LEAST_PAIRS = 20
_HUMAN = re.compile(r"(?i)(?<![^\W\d_])(humans?|person|people|experts?)(?![^\W\d_])").search


def families_by_table(votes: Annotations, known: Mapping[str, Groups], path: Path, notes: list[str]) -> Mapping[str, Groups]:
    """Annotator -> family, as a table has it; one that names nobody of these votes is refused."""
    present = {str(name) for name in votes.annotators}
    if not present & set(known):
        raise InputError(f"--families: {path} names no annotator of these votes, such as {some(sorted(present), 3)}")
    absent = sorted(set(known) - present)
    if absent:
        notes.append(f"{count(len(absent), 'name')} of {path} gave no votes: {some(absent, 5)}")
    return known


def families_by_name(votes: Annotations, mark: str, levels: int, notes: list[str]) -> Mapping[str, Groups]:
    """Annotator -> family and groups within it, what stands in names before so many marks."""
    known = by_name(votes.annotators, mark, levels)
    if not known:
        notes.append(f"no name of a judge has a {mark!r}, so everybody stands alone")
    deeper = [path for path in by_name(votes.annotators, mark, levels + 1).values() if len(path) > levels]
    if len(set(deeper)) < len(deeper):
        more = f"--levels {levels + 1} counts judges that share one part more as one first"
        notes.append(f"names have further parts: {more}")
    return known


def with_people(
    votes: Annotations, known: Mapping[str, Groups], people: Sequence[str] | None, notes: list[str] | None = None
) -> Families:
    """The families, and who is a person: names of annotators or of families, which must exist where they are given."""
    present = {str(name) for name in votes.annotators} | {path[0] for path in known.values() if path}
    lost = [name for name in people or () if name not in present]
    if lost:
        raise SettingError(f"--people: nobody, and no family, is called {lost[0]!r}")
    who = Families.of(votes, known, people or PEOPLE)
    likely = [str(name) for name, person in zip(votes.annotators, who.person, strict=True) if not person and _HUMAN(str(name))]
    if likely and people is None and notes is not None:
        notes.append(
            f"{some(likely, 3)} {'counts as a judge' if len(likely) == 1 else 'count as judges'}: --people NAME makes a person "
            "of one; known labels are read with --gold FILE, and --not NAME leaves such a column out"
        )
    return who


def prices_of(
    votes: Annotations, who: Families, known: Mapping[str, float], path: Path | None, notes: list[str]
) -> Floats | None:
    """The price of a vote of everybody, [A], by name, by model or by family; None where there are no prices.

    A table at `path` that names nobody of these votes is refused.
    """
    names = [str(name) for name in votes.annotators]
    # Of the judge itself, of the smallest group that has a price, or of its family.
    ways = zip(names, *who.inner_name, who.name, strict=True)
    price = np.array([next((known[way] for way in path if way in known), np.nan) for path in ways])
    lost = [name for name, one, person in zip(names, price, who.person, strict=True) if np.isnan(one) and not person]
    if path is not None and len(lost) == len(names):
        raise InputError(f"--prices: {path} names no annotator of these votes, such as {some(names, 3)}")
    if known and lost:
        notes.append(f"no price is known of {some(lost, 5)}: panels are compared without prices")
    return price if np.isfinite(price).any() else None


def verdict_lines(pairs: Verdicts) -> list[str]:
    """What was left out of a file of verdicts, and what it does not say."""
    dropped = f"dropped {count(pairs.n_missing, 'row')} without a verdict"
    nameless = "no column names the question, so that pairs are compared over all of them"
    said = [dropped] * (pairs.n_missing > 0) + [nameless] * (pairs.question is None)
    won = np.where(pairs.in_order, pairs.chose_first, 1 - pairs.chose_first)
    rows = pl.DataFrame({"pair": pairs.pair, "judge": pairs.judge, "order": pairs.in_order, "won": np.sign(won - 0.5)})
    asked = rows.group_by("pair", "judge", "order").agg(pl.col("won").mean()).group_by("pair", "judge").agg("won")
    both = np.array(asked.filter(pl.col("won").list.len() == 2)["won"].to_list()).reshape(-1, 2)
    other = int((both.prod(axis=1) < 0).sum())
    if len(both) >= _LEAST_PAIRS and other > 0.8 * len(both):
        said.append(
            f"in {other:,} of {len(both):,} pairs that a judge saw in both orders the other answer wins in the other order: a "
            "verdict is read as the place where an answer stood; if it names the answer, remove the column that says which "
            "stood first"
        )
    return said


def place_lines(votes: Annotations) -> list[str]:
    """Votes for places cancel out where judges give both on one item, as they do where pairs are asked in both orders."""
    if votes.soft or not {str(name).lower() for name in votes.classes.tolist()} <= {*PLACES, "c"} - {"1", "2"}:
        return []
    rows = pl.DataFrame({"item": votes.item, "annotator": votes.annotator, "label": votes.label})
    asked = rows.group_by("item", "annotator").agg(pl.len().alias("n"), pl.col("label").n_unique().alias("said"))
    again = asked.filter(pl.col("n") > 1)
    other = int((again["said"] > 1).sum())
    if again.height < _LEAST_PAIRS or 2 * other < again.height:
        return []
    names = " and ".join(map(str, votes.classes.tolist()[:2]))
    return [
        f"in {other:,} of {again.height:,} cases a judge says both {names} of one item, and such votes cancel out: if pairs "
        "were asked in both orders, add a column swapped (true where the second stood first)"
    ]


def repeat_lines(votes: Annotations) -> list[str]:
    """That several votes of a judge on an item, such as samples of one model, are one."""
    again = (votes.annotator[1:] == votes.annotator[:-1]) & (votes.item[1:] == votes.item[:-1])
    if votes.soft or votes.anonymous or not again.any():
        return []
    return [
        f"{int(again.sum()):,} of {votes.n_votes:,} votes repeat a judge's vote on the same item; those of one judge on an "
        "item are one soft vote (--repeats last or first takes one of them)"
    ]
