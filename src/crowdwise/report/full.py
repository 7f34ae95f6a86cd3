"""`write_report`: the page that a project lead reads in five minutes, and searches for an hour.

One file without a network: pictures are SVG, tables are HTML that a script of some two hundred lines makes searchable.
Only what is shown is written into it, at most two thousand items and two thousand annotators, so that a campaign of any
size makes a page of some hundred kilobytes to two megabytes. The same arguments make the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from crowdwise.estimator.outcome import Result
from crowdwise.report import sections as parts
from crowdwise.report.annotators import annotators_data
from crowdwise.report.blocks import document, save
from crowdwise.report.budget import budget
from crowdwise.report.markup import plain
from crowdwise.report.network import network
from crowdwise.report.review import items_data, why_of
from crowdwise.report.stylesheet import REPORT_STYLE
from crowdwise.report.trust import trust

__all__ = ["fingerprint", "in_sections", "report_page", "safe_json", "table_script", "write_report"]


def write_report(
    fitted: Any,
    path: str | PathLike[str],
    *,
    truth: Any = None,
    title: str | None = None,
    time: Any = None,
    price: float | None = None,
    fdr: float = 0.05,
    groups: Any = None,
    made: Mapping[str, str] | None = None,
    about: Any = None,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> None:
    """Write the report of a fit as one HTML file, whole or not at all.

    Parameters
    ----------
    fitted : Result or fitted estimator
        An estimator that chose its method (it has `choice_`) has the choice shown.
    path : path
        The file to create or replace.
    truth : mapping, frame, Series or sequence, optional
        True labels of all or some items, which were not given to the fit, in any shape that ``fit(votes, gold)`` takes.
    title : str, optional
        Heading of the page.
    time : [E] or frame, optional
        When votes were given: tests who changed along it (see `crowdwise.trust.crowd.drift`).
    price : float, optional
        Of one vote; adds costs to the plan.
    fdr : float
        Expected share of wrong flags among the flags of each detector.
    groups : mapping, frame, Series or sequence, optional
        The group of every item (see `crowdwise.data.groups.groups_of`); adds how groups are treated.
    made : mapping, optional
        Lines for "How it was computed", such as the command and the date.
    about : polars.DataFrame, optional
        What is known of the items, a row each in the order of the votes, as `crowdwise.io.read_kept` makes it.
    progress : function, optional
        Called with what is computed, the steps done, and their number.
    """
    more = {"truth": truth, "title": title, "time": time, "price": price, "fdr": fdr, "groups": groups, "made": made}
    save(report_page(fitted, **more, about=about, progress=progress), path)


def report_page(
    fitted: Any,
    *,
    truth: Any = None,
    title: str | None = None,
    time: Any = None,
    price: float | None = None,
    fdr: float = 0.05,
    groups: Any = None,
    made: Mapping[str, str] | None = None,
    about: Any = None,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> str:
    """Return the report as text; see `write_report`."""
    result: Result = getattr(fitted, "result_", fitted)
    facts = parts.facts_of(result, truth, time, fdr, progress)
    why = why_of(result, facts.uncertainty.least_certain)
    heading = plain(title or "Labels from votes: what to trust", 200)
    # Order of the page: what it is, what to do, whom to trust, what it rests on.
    sections = [
        ("short", "In short", parts.in_short(facts)),
        ("data", "The data", parts.data_section(facts)),
        ("choice", "The method, and why", parts.choice_section(fitted, facts)),
        ("labels", "The labels", parts.labels_section(facts)),
        ("review", "Items to review first", parts.review_section(facts, why, about)),
        ("annotators", "Annotators", parts.annotators_section(facts)),
        ("alike", "Annotators who answer alike", network(result, facts.crowd, facts.detections)),
        ("trust", "Can the confidences be trusted?", trust(result, facts.truth, facts.detections)),
        ("budget", "What more votes would buy", budget(result, price, parts.gap_of(facts), progress)),
        ("computed", "How it was computed", parts.computed_section(result, made or {})),
    ]
    if groups is not None:
        from crowdwise.report.fairness import fairness

        sections.insert(-2, ("groups", "How groups are treated", fairness(result, groups, facts.truth, fdr)))
    data = {
        "items": items_data(result, facts.uncertainty, why, about),
        "annotators": annotators_data(result, facts.crowd, facts.detections),
    }
    return in_sections(heading, sections, data)


def in_sections(heading: str, sections: Sequence[tuple[str, str, str]], data: Any) -> str:
    """Return a page of sections, each with its id, its title and what is inside, and the data of its searchable tables."""
    links = "".join(f'<li><a href="#{name}">{words}</a></li>' for name, words, _ in sections)
    body = "\n".join(f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{words}</h2>{inside}</section>'
                     for name, words, inside in sections)  # fmt: skip
    page = (
        f'<a class="skip" href="#short">Skip to the content</a>\n<main>\n<header><h1>{heading}</h1>'
        f'<nav aria-label="Contents"><ol>{links}</ol></nav></header>\n{body}\n</main>'
    )
    return document(heading, REPORT_STYLE, page, data=safe_json(data), script=table_script())


def safe_json(data: Any) -> str:
    """Return JSON that no HTML parser can leave: `<` would begin a tag or end the script."""
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return written


@cache
def table_script() -> str:
    """Return the code that makes tables searchable."""
    return files("crowdwise.report").joinpath("tables.js").read_text(encoding="utf-8")


def fingerprint(name: str, path: str | PathLike[str] | None) -> dict[str, str]:
    """What says later whether a file is still the same: its name and checksum, for `made`; empty where there is no file."""
    if path is None or not Path(path).is_file():
        return {}
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256") if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read())
    return {name: f"{Path(path).name} (SHA-256 {digest.hexdigest()[:16]}…)"}
