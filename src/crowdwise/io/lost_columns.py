"""Where no column has a usual name of its role: the only one with a word of it, or an error with the way out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from crowdwise.data.columns import lost_columns, plural_label
from crowdwise.errors import InputError, listed
from crowdwise.io.advice import instead
from crowdwise.io.exports import Request
from crowdwise.io.roles import by_alias, by_id, by_words, compares, example, suggested
from crowdwise.io.second_header import below_second_header
from crowdwise.io.source import Source
from crowdwise.io.voting_columns import voting_columns

__all__ = ["column_by_words", "no_votes"]

# Exports in which the platform has put the votes together: the mark of each, and which of its exports holds votes.
_MADE = {
    "_trusted_judgments": "an aggregated report of Appen, without the votes; download the full report, of a row per judgment",
    "CONFIDENCE:": "aggregated results of Toloka, without the votes; download the assignments, which name who answered",
}


def column_by_words(
    source: Source,
    role: str,
    wanted: Mapping[str, str | None],
    request: Request,
    taken: Mapping[str, str],
    lost: Sequence[str],
    problem: str,
) -> str:
    """The only column whose name has a word of the role in it; or the problem, with a command that solves it.

    `wanted` has the columns that the user names, by role; `lost` are the roles of which no column is found.
    """
    found = [] if wanted[role] is not None or role == "item" else by_words(source.names, role)
    if len(found) == 1:
        return found[0]
    _refuse_made(source.names, source.name)
    problem = lost_columns(source.names, wanted, lost, source.name) or problem
    if wanted[role] is not None:
        raise InputError(problem)
    # Beside an item that is not recognised either, probabilities are what to say first.
    _refuse_probabilities(source, lost, request)
    _refuse_shares(source, role, request)
    # A command that fails on the next column is no help.
    if len(lost) > 1 and not compares(source.names):
        way = "" if source.kind in ("json", "jsonl") else example(source, request, lost)
        advice = way and f", for example: {way}"
    else:
        advice = suggested(source, role, request, taken)
    no_item = request.item is None and not by_alias(source.names, "item")
    across = _transposed(source, request) if no_item else ""
    nobody = _swapped(source, request, taken) or _nobody(source, request) if role == "annotator" and not advice else ""
    several = _several(source, request) if role == "label" and len(lost) < 2 else ""
    ticks = _ticks(source, request) if role == "label" and len(lost) < 2 else ""
    raise InputError(f"{problem}{advice}{several}{ticks}{across}{nobody}{'' if advice else _deeper(source)}")


def no_votes(names: Sequence[str], source: Source, request: Request) -> str:
    """What to do with a table in which neither annotators nor labels are found."""
    known = request.item is not None or bool(by_alias(names, "item"))
    lost = ["item"] * (not known) + ["annotator", "label"]
    found = lost_columns(names, {"item": request.item}, lost, source.name)
    if compares(names):
        return f"{found.partition('. Name them')[0]}. These are comparisons: {instead('rank', source.name)}"
    _refuse_made(names, source.name)
    if source.kind in ("json", "jsonl"):
        return f"{found}{_deeper(source)}"
    way = example(source, request, lost)
    if way:
        return f"{found}, for example: {way}"
    ways = [replace(request, format=None).command(source.name, "--format", layout) for layout in ("wide", "counts")]
    across = "" if known else _transposed(source, request)
    return f"{found}; if there is a column per annotator: {ways[0]}; if votes are counted per class: {ways[1]}{across}"


def _transposed(source: Source, request: Request) -> str:
    """The command for a table with a row per person and one set of labels in its columns; else nothing."""
    names = source.names
    people = by_alias(names, "annotator") or by_words(names, "annotator") or by_id(names)
    if not people or len(names) < 4 or by_alias(names, "label") or source.kind in ("json", "jsonl"):
        return ""
    frame = below_second_header(source.table(names), Request()).frame
    alone = frame[people[0]].n_unique() == frame.height
    # A series of names may be anything: Question 1, Question 2.
    if not alone or len(voting_columns(frame, [name for name in names if name != people[0]], series=names)) < 3:
        return ""
    return f"; if there is a row per person, and a column per item: {replace(request, transposed=True).command(source.name)}"


def _ticks(source: Source, request: Request) -> str:
    """The command for a table with a column per label that is ticked or not; else nothing."""
    if source.kind in ("json", "jsonl") and any(isinstance(value, dict | list) for value in source.first.values()):
        return ""
    from crowdwise.io.ticks import tick_columns

    names = [name for name in source.names if not by_id([name])]
    found, one = tick_columns(source.table(names).frame, names)
    if not found:
        return ""
    kind = () if one else ("--type", "multilabel")
    way = replace(request, label=",".join(found)).command(source.name, *kind)
    return f"; if each of {listed(map(repr, found), 4)} is a label that was ticked: {way}"


def _several(source: Source, request: Request) -> str:
    """The command for a table with a column of several labels; else nothing."""
    name = plural_label(source.names)
    way = "" if name is None else request.command(source.name, "--type", "multilabel")
    return f"; if {name!r} holds several labels: {way}" if way else ""


def _refuse_made(names: Sequence[str], source: str) -> None:
    """Refuse an export of what a platform made of the votes, and say where these are."""
    for mark, said in _MADE.items():
        if any(name.startswith(mark) for name in names):
            raise InputError(f"{source}: {said}")


def _deeper(source: Source) -> str:
    """What to do with records that hold answers inside their fields, in a shape that is not read."""
    if source.kind not in ("json", "jsonl") or not any(isinstance(value, dict | list) for value in source.first.values()):
        return ""
    return "; where answers stand deeper in the records, write them as a table first, a row per vote"


def _swapped(source: Source, request: Request, taken: Mapping[str, str]) -> str:
    """The command for a table whose subjects are people, as experiments have; else nothing."""
    people = [name for name in by_alias(source.names, "item") if name.lower() in ("subject", "subject_id", "subjectid")]
    if source.kind in ("json", "jsonl") or not people or request.item is not None:
        return ""
    way = example(source, replace(request, annotator=people[0]), ("item",))
    return f"; if {people[0]!r} is who answered: {way}" if way else ""


def _nobody(source: Source, request: Request) -> str:
    """The command for a table that does not say who voted."""
    if source.kind not in ("delimited", "parquet", "arrow"):
        return ""
    from crowdwise.io.counts import rows_of_labels

    found = rows_of_labels(source, request)
    way = replace(request, format="counts").command(source.name)
    return "" if found is None else f"; if nobody knows who voted: {way}"


def _refuse_probabilities(source: Source, lost: Sequence[str], request: Request) -> None:
    """Refuse records without a label that map classes to probabilities or their logs, with the command that reads them."""
    if "label" in lost and source.kind in ("json", "jsonl") and request.label is None:
        from crowdwise.io.tallies import is_distribution, is_log_distribution

        mappings = {name: cell for name, cell in source.first.items() if isinstance(cell, dict)}
        found = [name for name, cell in mappings.items() if is_distribution(cell) or is_log_distribution(cell)]
        if found:
            logs = "" if is_distribution(mappings[found[0]]) else "log-"
            way = replace(request, question=None).command(source.name, "--probabilities", found[0])
            raise InputError(
                f"{source.name}: no label field; {found[0]!r} holds {logs}probabilities of the classes. Read them: {way} "
                "(probabilities=... in Python)"
            )


def _refuse_shares(source: Source, role: str, request: Request) -> None:
    """Refuse a table without a column of labels whose rows are probabilities, with the command that reads them."""
    if role == "label" and source.kind in ("delimited", "parquet", "arrow") and request.label is None:
        from crowdwise.io.tallies import log_columns, refuse_shares, share_columns

        frame = source.table(source.columns).frame
        shares, logs = share_columns(frame), log_columns(frame)
        if shares or logs:
            refuse_shares(shares or logs, source.name, replace(request, question=None), people=True, logs=not shares)
