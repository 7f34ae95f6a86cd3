"""`write_page`: one self-contained HTML file that shows a result to those who pay for the labels.

Everything on it is counted, cut to a few rows or drawn from at most a thousand points, so that a
campaign of any size makes a page that opens at once. The same result makes the same bytes.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

from crowdwise.data.agreement import summary
from crowdwise.estimator.judgement import crowd_of
from crowdwise.estimator.outcome import Result
from crowdwise.report.blocks import (
    NOBODY,
    annotators_figures,
    annotators_table,
    document,
    item_figures,
    lead,
    save,
    settings_table,
    tiles,
)
from crowdwise.report.findings import findings, truth_table
from crowdwise.report.markup import plain
from crowdwise.report.stylesheet import STYLE
from crowdwise.report.uncertainty import least_certain_table, uncertainty_of
from crowdwise.trust.crowd.draws import told_from_chance

__all__ = ["write_page"]


def write_page(
    result: Result, path: str | PathLike[str], *, truth: Any = None, title: str | None = None, about: Any = None
) -> None:
    """Write a result as one HTML file, whole or not at all.

    Parameters
    ----------
    result : Result
    path : path
        The file to create or replace.
    truth : [N], optional
        Class codes of the items, -1 where unknown, as in `crowdwise.trust.metrics`; adds a comparison
        with majority vote. `crowdwise.data.gold.encode_gold` makes them from labels.
    title : str, optional
        Heading of the page.
    about : polars.DataFrame, optional
        What is known of the items, a row each in the order of the votes, as `crowdwise.io.read_kept` makes it.
    """
    save(page(result, truth=truth, title=title, about=about), path)


def page(result: Result, *, truth: Any = None, title: str | None = None, about: Any = None) -> str:
    """Return the page as text."""
    facts, crowd, uncertainty = summary(result.votes), told_from_chance(crowd_of(result), result), uncertainty_of(result)
    notes = findings(result, facts, crowd, uncertainty)
    heading = plain(title or "Consensus labels and their annotators", 200)
    look = "".join(f"<li>{note}</li>" for note in notes) or "<li>Nothing stands out.</li>"
    sections = [
        f"<h1>{heading}</h1>",
        lead(result),
        tiles(result, facts, uncertainty),
        "<h2>What to check</h2>",
        f'<ul class="look{"" if notes else " calm"}">{look}</ul>',
        "" if truth is None else "<h2>Against known classes</h2>" + truth_table(result, truth),
        "<h2>Annotators</h2>",
        NOBODY if result.votes.anonymous else annotators_figures(result, crowd) + annotators_table(result, crowd),
        "<h2>Items and classes</h2>",
        item_figures(result, uncertainty),
        "<h2>Least certain items</h2>" + least_certain_table(result, uncertainty, about=about),
        settings_table(result),
    ]
    return document(heading, STYLE, "<main>\n" + "\n".join(filter(None, sections)) + "\n</main>")
