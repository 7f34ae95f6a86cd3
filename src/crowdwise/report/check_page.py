"""A page on which a person checks labels: offline, by keyboard, one item at a time; the answers are downloaded as CSV."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from os import PathLike
from typing import TYPE_CHECKING, Any

from crowdwise.report.blocks import document, save
from crowdwise.report.full import safe_json
from crowdwise.report.markup import clean
from crowdwise.report.stylesheet import REPORT_STYLE

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.trust.audit import Draw

__all__ = ["check_page", "write_check_page"]

_LINK, _IMAGE = re.compile(r"https?://[^\s\"'<>]+$"), re.compile(r"[^\s\"'<>:]+\.(png|jpe?g|gif|webp)$", re.IGNORECASE)
_LONGEST = 20_000

_STYLE = """
.bar{display:flex;flex-wrap:wrap;gap:8px 16px;align-items:center;margin:12px 0}
.bar progress{flex:1;min-width:120px;accent-color:var(--good)}
#content{padding:16px;min-height:120px;white-space:pre-wrap;overflow-wrap:anywhere}
#content h2{margin:0 0 8px;font-size:1.1rem}
#content dl{margin:0}#content dt{font-size:.8125rem;color:var(--muted);margin-top:10px}#content dd{margin:0}
#content img{max-width:100%;max-height:60vh;display:block}
#choices{display:flex;flex-wrap:wrap;gap:8px;margin:16px 0}
#choices button{min-height:44px;padding:6px 16px}
#choices button[aria-pressed=true]{background:var(--right);color:var(--bright);border-color:var(--right)}
kbd{font:inherit;font-size:.8125rem;border:1px solid var(--rule);border-radius:4px;padding:0 5px;color:inherit}
#choices kbd{margin-right:6px}
"""


def write_check_page(drawn: Draw, path: str | PathLike[str], **options: Any) -> str:
    """Write the page as one HTML file, whole or not at all; options are those of `check_page`."""
    save(check_page(drawn, **options), path)
    waiting = sum(known is None for known in drawn.known)
    return f"{waiting:,} items to check in a browser"


def check_page(drawn: Draw, *, content: Sequence[pl.DataFrame] = (), labels: bool = False, name: str = "check") -> str:
    """Return the page as text.

    Parameters
    ----------
    content : frames, optional
        What to show of the items, each with a row per item of the votes. Links and names of pictures are shown as such.
    labels : bool
        Show the proposed label too.
    name : str
        Answers are downloaded as NAME-answers.csv, and kept in the browser under this name and the design until then.
    """
    frame = drawn.frame(labels=labels)
    rows = []
    for code, row in zip(drawn.item.tolist(), frame.iter_rows(named=True), strict=True):
        cells = [pair for table in content for pair in table.row(code, named=True).items() if pair[1] is not None]
        shown = [(clean(key, 100), *_kind(str(value))) for key, value in cells]
        rows.append(
            {
                "item": str(row["item"]),
                "known": row["true label"],
                "proposed": None if not labels else f"{clean(row['label'])} ({row['confidence']:.2f})",
                "draw": row["draw"],
                "stratum": row["stratum"],
                "weight": round(row["weight"], 6),
                "shown": shown,
            }
        )
    data = {
        "classes": [str(label) for label in drawn.result.votes.classes],
        "design": drawn.plan.design,
        "name": re.sub(r"[^\w.-]+", "-", name),
        "rows": rows,
    }
    only_ids = (
        ""
        if content
        else '<p class="lead">Only the ids of the items are shown here: give <code>--show items.csv</code>, a table '
        "with the column item and columns of text, links or pictures, to see the items themselves.</p>"
    )
    script = files("crowdwise.report").joinpath("check.js").read_text(encoding="utf-8")
    body = (
        '<main><h1>Check labels</h1><p class="lead">Choose the true class of each item, without a look at the votes. Keys: '
        "numbers choose, <kbd>?</kbd> cannot tell, <kbd>←</kbd> <kbd>→</kbd> move, <kbd>Backspace</kbd> "
        "clears. Answers stay in this browser; download them when you stop.</p>"
        f"{only_ids}"
        '<div class="bar"><progress id="done"></progress><span id="count" aria-live="polite"></span>'
        '<button type="button" id="back">← Back</button><button type="button" id="next">Next →</button>'
        '<button type="button" id="download">Download answers</button></div>'
        '<article id="content" class="card" tabindex="-1" aria-live="polite"></article>'
        '<div id="choices" role="group" aria-label="True class"></div><noscript>This page needs JavaScript.</noscript></main>'
    )
    # Pictures of the items themselves, and nothing else, may be loaded.
    made = document("Check labels", REPORT_STYLE + _STYLE, body, data=safe_json(data), script=script)
    return made.replace("default-src 'none';", "default-src 'none'; img-src 'self' file: http: https:;", 1)


def _kind(value: str) -> tuple[str, str]:
    """Whether a text is a picture, a link or text, and the text."""
    path = value.strip().partition("?")[0]
    if _IMAGE.match(path) or (_LINK.match(value.strip()) and re.search(r"\.(png|jpe?g|gif|webp)$", path, re.IGNORECASE)):
        return "image", value.strip()
    return ("link", value.strip()) if _LINK.match(value.strip()) else ("text", value[:_LONGEST])
