"""How a file without a row per vote is laid out: lists in cells, counts per class, a column per annotator, an entry per id."""

from __future__ import annotations

from crowdwise.io.exports import Export, Request
from crowdwise.io.source import Source

__all__ = ["find_layout", "read_layout"]


def find_layout(source: Source, request: Request) -> str | None:
    """The layout of a table without columns of annotators and labels, or None if it is none of these."""
    if request.annotators is not None or request.transposed or not request.header:
        return "wide"
    if request.exclude is not None and not _names_people(source):
        return "wide"
    if source.kind in ("json", "jsonl"):
        from crowdwise.io.counts import counts_mapping
        from crowdwise.io.keyed import has_answers, is_keyed
        from crowdwise.io.listed_tables import list_keys

        if is_keyed(source) or has_answers(source):
            return "keyed"
        if list_keys(source.records):
            return "lists"
        return "counts" if counts_mapping(source.first) else None
    if source.kind not in ("delimited", "parquet", "arrow") or len(source.columns) < 2 or _names_people(source):
        return None
    from crowdwise.io.counts import count_columns
    from crowdwise.io.listed_tables import list_columns
    from crowdwise.io.roles import find_item
    from crowdwise.io.wide import looks_wide

    frame = source.table(source.columns).frame
    if list_columns(frame):
        return "lists"
    if any(dtype.is_nested() for dtype in frame.dtypes):
        from crowdwise.io.keyed import has_answers

        return "keyed" if has_answers(source) else None
    # Of so many columns none is a class that was counted.
    counted = count_columns(frame, request, find_item(frame, request, source.name)) if frame.width <= _MOST_COUNTED else []
    voting = looks_wide(source, request)
    # Beside columns of annotators, counts are what others made of their votes.
    return ("counts" if not set(voting).isdisjoint(counted) else "wide") if voting else "counts" if counted else None


_MOST_COUNTED = 1_000


def _names_people(source: Source) -> bool:
    """Whether a column with a usual name says who voted, several times: a row is then a vote, whatever the others hold."""
    from crowdwise.io.roles import by_alias

    if source.kind not in ("delimited", "parquet", "arrow"):
        return False
    found = by_alias(source.columns, "annotator")
    if len(found) != 1:
        return False
    people = source.table(found).frame[found[0]]
    return people.dtype.is_nested() is False and 1 < people.n_unique() < len(people)


def read_layout(source: Source, name: str, request: Request) -> Export:
    """Read a file of this layout."""
    if name == "keyed":
        from crowdwise.io.keyed import read_keyed

        return read_keyed(source, request)
    if name == "lists":
        from crowdwise.io.listed_tables import read_lists

        return read_lists(source, request)
    if name == "counts":
        from crowdwise.io.counts import read_counts

        return read_counts(source, request)
    from crowdwise.io.wide import read_wide

    return read_wide(source, request)
