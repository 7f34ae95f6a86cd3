"""Write a measured table into a page of the docs, between the markers of its section."""

from __future__ import annotations

import platform
import re
from datetime import date
from importlib.metadata import version
from pathlib import Path

from benchmarks.places import DOCS, HOW_FAST, IMAGES, SHARED

__all__ = ["HOW_FAST", "IMAGES", "SHARED", "interval", "provenance", "put", "table"]

PAGE = DOCS / "benchmarks.md"


def put(section: str, text: str, path: Path = PAGE) -> None:
    """Replace what stands in a page between ``<!-- begin: section -->`` and ``<!-- end: section -->``."""
    page = path.read_text()
    pattern = re.compile(rf"(<!-- begin: {section} -->\n).*?(<!-- end: {section} -->)", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"{path} has no section {section!r}")
    path.write_text(pattern.sub(lambda found: f"{found[1]}{text.strip()}\n{found[2]}", page))
    print(text)
    print(f"written to {path.name}, section {section}")


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; the first column is left, the others right aligned."""
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def provenance(command: str) -> str:
    """One line that says how the numbers below it came about."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "polars"))
    return f"Measured on {date.today()} by `{command}` (Python {platform.python_version()}, {libraries}; 2 cores).\n"


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
