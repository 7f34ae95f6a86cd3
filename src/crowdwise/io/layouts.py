"""How a file without a row per vote is laid out: lists, counts, columns of annotators, an entry per id."""

from __future__ import annotations

from crowdwise.io.exports import Export, Request
from crowdwise.io.source import Source

__all__ = ["find_layout", "read_layout"]


def find_layout(source: Source, request: Request) -> str | None:
    """The layout of a table without columns of annotators and labels, or None if it is none of these."""
    if request.annotators is not None or request.transposed:
        return "wide"
    if not request.header:
        from crowdwise.io.wide import looks_wide

        if not looks_wide(source, request):
            from crowdwise.io.headless import refuse_rows_of_votes

            refuse_rows_of_votes(source, request)
        return "wide"
    if request.exclude is not None and not _names_people(source):
        return "wide"
    if source.kind in ("json", "jsonl"):
        from crowdwise.io.counts import counted_keys
        from crowdwise.io.keyed import has_answers, is_keyed
        from crowdwise.io.listed_tables import list_keys

        if is_keyed(source) or has_answers(source):
            return "keyed"
        if list_keys(source.records):
            return "lists"
        if source.kind == "json" and not isinstance(source.document, list):
            from crowdwise.io.keyed import refuse_wrapped

            return refuse_wrapped(source)
        return "counts" if counted_keys(source) else _of_flat(source, request)
    if source.kind not in ("delimited", "parquet", "arrow") or len(source.columns) < 2 or _names_people(source):
        return None
    from crowdwise.io.counts import rows_of_labels
    from crowdwise.io.listed_tables import list_columns
    from crowdwise.io.paired_columns import pairs_of

    frame = source.table(source.columns).frame
    if source.kind == "delimited" and {request.item, request.annotator, request.label} == {None}:
        from crowdwise.io.headless import check_first_row

        check_first_row(frame, source, request)
    rows = rows_of_labels(source, request) if request.annotator is None else None
    # Nobody is left who could have voted: a label in every row, and perhaps how often.
    if rows is not None and set(source.columns) == set(rows) - {None} and frame[rows[0]].n_unique() < frame.height:
        return "counts"
    if list_columns(frame):
        return "lists"
    if pairs_of(source.columns):
        return "pairs"
    if any(dtype.is_nested() for dtype in frame.dtypes):
        from crowdwise.io.keyed import has_answers

        return "keyed" if has_answers(source) else None
    return _of_columns(source, request)


_MOST_COUNTED = 1_000
# Records that are looked at to see whether something stands inside a field.
_SAMPLE = 50


def _of_flat(source: Source, request: Request) -> str | None:
    """The layout of records with a field per annotator, as {"id": 7, "gpt": "A", "claude": "B"}, or per class; else None."""
    from crowdwise.io.roles import by_alias

    inner = any(isinstance(value, dict | list) for _, record in source.records[:_SAMPLE] for value in record.values())
    if inner or not source.records or by_alias(source.names, "annotator"):
        return None
    return _of_columns(source, request)


def _of_columns(source: Source, request: Request) -> str | None:
    """The layout of a table with a column per annotator, or per class; None where it has neither."""
    from crowdwise.io.counts import count_columns
    from crowdwise.io.roles import compares, find_item
    from crowdwise.io.wide import looks_wide

    if compares(source.names):
        return None
    frame = source.table(source.names).frame
    # Of so many columns none is a class that was counted.
    item = find_item(frame, request, source.name)
    counted = count_columns(frame, request, item, source.name) if frame.width <= _MOST_COUNTED else []
    voting = looks_wide(source, request)
    if not set(counted) & set(voting) and frame.width <= _MOST_COUNTED:
        from crowdwise.io.tallies import refuse_counts_or_labels, refuse_shares, share_columns

        shares = share_columns(frame)
        if shares and set(voting) <= set(shares):
            refuse_shares(shares, source.name, request, people=False)
        if voting:
            refuse_counts_or_labels(frame, voting, source.name, request)
    if not voting and not counted:
        _refuse_grids(source, request)
    # Beside columns of annotators, counts are what others made of their votes.
    return ("counts" if not set(voting).isdisjoint(counted) else "wide") if voting else "counts" if counted else None


def _refuse_grids(source: Source, request: Request) -> None:
    """Refuse columns that answer several questions, and are no table of votes otherwise."""
    from crowdwise.io.asked_columns import refuse_grid
    from crowdwise.io.wide import is_form

    if not is_form(source.columns) and len(source.columns) <= _MOST_COUNTED:
        refuse_grid(source.columns[1:], source.name, request)


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
    if name == "pairs":
        from crowdwise.io.paired_columns import read_pairs

        return read_pairs(source, request)
    if name == "counts":
        from crowdwise.io.counts import read_counts

        return read_counts(source, request)
    from crowdwise.io.wide import read_wide

    return read_wide(source, request)
