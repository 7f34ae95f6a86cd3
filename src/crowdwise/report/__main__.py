"""Draw the demo campaign: ``python -m crowdwise.report demo.svg`` (the README's picture) or ``demo.html`` (the page)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from crowdwise.data import datasets
from crowdwise.estimator.registry import make
from crowdwise.io.writer import replacing
from crowdwise.report.page import write_page
from crowdwise.report.picture import annotators_picture

__all__ = ["main"]


def main(arguments: Sequence[str]) -> None:
    """Write the file named by the only argument; its suffix says what."""
    if len(arguments) != 1 or not arguments[0].endswith((".svg", ".html")):
        sys.exit("usage: python -m crowdwise.report FILE.svg | FILE.html")
    demo = datasets.demo()
    result = make("dawid-skene").fit(demo.votes).result_
    if arguments[0].endswith(".html"):
        write_page(result, arguments[0], truth=demo.truth, title="Demo: 120 photos of animals")
        return
    with replacing(arguments[0]) as temporary:
        temporary.write_text(annotators_picture(result) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
