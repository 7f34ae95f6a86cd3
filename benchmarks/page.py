"""Write a measured table into a page of the docs, between the markers of its section."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from benchmarks import records as kept
from benchmarks.places import DOCS, EVIDENCE, HOW_FAST, IMAGES, QUICK, SHARED
from benchmarks.provenance import changed_on, code, day_of, machine

__all__ = ["HOW_FAST", "IMAGES", "SHARED", "block", "interval", "page_of", "provenance", "put", "table"]


def put(section: str, text: str, path: Path | None = None) -> None:
    """Replace what stands between ``<!-- begin: section -->`` and ``<!-- end: section -->`` on the page that has them.

    Links in the text are written as from the folder of the docs and made relative to the page. In a quick run or a check the
    text is only printed.
    """
    print(text)
    if QUICK or kept.CHECKING:
        return
    path = path or page_of(section)
    if path is None:
        raise SystemExit(f"no page has a section {section!r}")
    text = relative(text.strip(), path)
    page = path.read_text(encoding="utf-8")
    path.write_text(_between(section).sub(lambda found: f"{found[1]}{text}\n{found[3]}", page), encoding="utf-8")
    print(f"written to {path.name}, section {section}")


def relative(text: str, path: Path) -> str:
    """Links from the folder of the docs as links from a page."""
    if not path.is_relative_to(DOCS):
        return re.sub(r"\]\((?![a-z]+:|#|/)([^)\s]+)\)", r"](docs/\1)", text)
    folder = path.parent.relative_to(DOCS).as_posix()
    up = "" if folder == "." else "../" * (folder.count("/") + 1)

    def link(found: re.Match[str]) -> str:
        beside = found[1].removeprefix(f"{folder}/")
        return f"]({beside})" if beside != found[1] else f"]({up}{found[1]})"

    return re.sub(r"\]\((?![a-z]+:|#|/|\.\./)([^)\s]+)\)", link, text)


def page_of(section: str) -> Path | None:
    """The page that has a section: one of the evidence, or the one on speed."""
    pages = [*sorted(EVIDENCE.rglob("*.md")), HOW_FAST]
    return next((path for path in pages if _between(section).search(path.read_text(encoding="utf-8"))), None)


def block(section: str, path: Path | None = None) -> str:
    """What stands in a section."""
    path = path or page_of(section)
    found = _between(section).search(path.read_text(encoding="utf-8")) if path else None
    return found[2] if found else ""


def _between(section: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- begin: {re.escape(section)} -->\n)(.*?)(<!-- end: {re.escape(section)} -->)", re.DOTALL)


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; the first column is left, the others right aligned."""
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def provenance(command: str, records: kept.Records | None = None) -> str:
    """One line that says how the numbers below it came about; with records, when and by which code those were made."""
    lines = records.used() if records else []
    if not lines:
        # Nothing is recorded: what is measured after this line was asked for is of today.
        return f"Measured on {date.today()} by `{command}` at {code()} ({machine()}).\n"
    days = sorted({line.get("day") or day_of(line["code"]) for line in lines} - {""})
    codes = ", ".join(dict.fromkeys(line["code"] for line in lines))
    machines = "; or ".join(dict.fromkeys(line["machine"] for line in lines if "machine" in line))
    if days:
        when = days[0] + (f" to {days[-1]}" if days[-1] != days[0] else "")
    else:
        # Commits that this history does not have: no later than the file of records was last changed.
        when = f"{changed_on(records.path)} or before"
    return f"Measured on {when} by `{command}` at {codes}" + (f" ({machines})" if machines else "") + ".\n"


def interval(values: list[float], scale: float, digits: int) -> str:
    """Mean, and the half width of its 95% interval over seeds (Student's t); a dash where there is nothing to measure."""
    import numpy as np
    from scipy.stats import t

    scaled = scale * np.asarray(values)
    if np.isnan(scaled).any():
        return "-"
    if len(scaled) < 2:
        return f"{scaled[0]:.{digits}f}"
    half = t.ppf(0.975, len(scaled) - 1) * scaled.std(ddof=1) / np.sqrt(len(scaled))
    return f"{scaled.mean():.{digits}f} ±{half:.{digits}f}"
