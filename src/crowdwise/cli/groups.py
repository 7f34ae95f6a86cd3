"""Annotators who belong together and count as one: ``--groups``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.job import count, naming, note, refuse, some
from crowdwise.cli.options import MethodOptions

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.data.annotations import Annotations
    from crowdwise.engines.readings import Reading
    from crowdwise.estimator.outcome import Result
    from crowdwise.kernels.types import Integers

__all__ = ["Grouped", "check_groups", "read_grouped"]

_SINGLE = "{} is about single annotators, and --groups makes several of them one; leave one out"


@dataclass(frozen=True, eq=False)
class Grouped:
    """Votes as they were read, the group of every annotator, [A], -1 for those who stand alone, and the votes of groups."""

    votes: Annotations
    code: Integers
    fused: Annotations

    def people(self, result: Result) -> pl.DataFrame:
        """The table of annotators of a fit to the fused votes, in which a group has the votes of its members."""
        from crowdwise.trust.crowd.members import counted

        if self.fused is self.votes:
            return result.annotators_frame()
        return counted(result.annotators_frame(), self.votes, self.code, self.names, result.codes)

    @property
    def names(self) -> list[str]:
        """The groups that count as one."""
        alone = int((self.code < 0).sum())
        return [] if self.fused is self.votes else [str(name) for name in self.fused.annotators[alone:]]

    def named(self, table: pl.DataFrame) -> pl.DataFrame:
        """A table of single annotators with the groups as they were given, before its flags."""
        import polars as pl

        if not self.names:
            return table
        groups = self.names
        pairs = zip(self.votes.annotators.tolist(), self.code.tolist(), strict=True)
        group = {name: groups[code] for name, code in pairs if code >= 0}
        names = [group.get(name) for name in table["annotator"].to_list()]
        rest = table.drop("group", strict=False)
        return rest.insert_column(rest.columns.index("flags"), pl.Series("group", names, dtype=pl.String))

    def explains(self, reading: Reading) -> bool:
        """Whether every group of a reading of the votes lies inside one that is given."""
        inside = (self.code[group.members] for group in reading.groups)
        return all(codes[0] >= 0 and (codes == codes[0]).all() for codes in inside)


def check_groups(method: MethodOptions, *others: tuple[Any, list[str]]) -> None:
    """Refuse options about single annotators beside --groups."""
    refuse(_SINGLE, *others, (method, ["history", "trusted"]))


def read_grouped(votes: Annotations, path: Path) -> Grouped:
    """Make one annotator of every group of the table, and say which."""
    from crowdwise.io.annotator_tables import read_families
    from crowdwise.methods.labels.grouping import given_groups
    from crowdwise.trust.crowd.fusion import fused, met

    families = read_families(path)
    with naming(f"--groups: {path}"):
        given, names = given_groups(votes, families)
    absent = sorted({str(name) for name in families} - {str(name) for name in votes.annotators})
    if absent:
        note(f"{count(len(absent), 'name')} of {path} gave no votes: {some(absent, 5)}")
    code, left = met(votes, given, names)
    apart = [name for name in names if name not in (left or ())]
    if left and apart:
        note(f"no two members of {some(apart, 5)} voted on the same item, so they count alone")
    if not left:
        note("no group has two annotators who voted on one item, so everybody counts alone")
        return Grouped(votes, code, votes)
    size = int((code >= 0).sum())
    note(f"{count(size, 'annotator')} count as {count(len(left), 'group')}: {some(left, 5)}{', ...' * (len(left) > 5)}")
    return Grouped(votes, code, fused(votes, code, left))
