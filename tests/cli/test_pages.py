"""``--page`` of the commands whose answers are not one class per item."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run

COMPARED = "item_a,item_b,annotator,winner\nx,y,ann,x\ny,z,ann,y\nx,z,bob,x\nz,x,bob,x\n"
NUMBERS = "item,annotator,value\nx,ann,1\nx,bob,2\ny,ann,3\ny,bob,5\nz,ann,2\nz,bob,2.5\n"
SAME = "item_a,item_b,annotator,same\n" + "".join(
    f"x{i},x{j},{who},{int(i % 2 == j % 2)}\n" for i in range(6) for j in range(i) for who in ("ann", "bob")
)
TAGS = "Ada B-PER B-PER\nran O O\n\nParis B-LOC O\n"
SETS = "item,annotator,label\nx,ann,red|blue\nx,bob,red\ny,ann,none\ny,bob,blue\n"


@pytest.mark.parametrize(
    ("given", "text", "words"),
    [
        (["rank", "in.csv"], COMPARED, "Ranking from comparisons"),
        (["regress", "in.csv"], NUMBERS, "Numbers from many annotators"),
        (["regress", "in.csv", "--method", "median"], NUMBERS, "widest intervals"),
        (["cluster", "in.csv", "--clusters", "2"], SAME, "Clusters"),
        (["spans", "in.csv", "--format", "conll"], TAGS, "Spans from tagged tokens"),
        (["aggregate", "in.csv", "--type", "multilabel"], SETS, "Sets of labels"),
    ],
)
@pytest.mark.filterwarnings("ignore::crowdwise.errors.CrowdwiseWarning")
def test_a_page_is_written_beside_the_tables(run: Run, folder: Path, given: list[str], text: str, words: str) -> None:
    (folder / "in.csv").write_text(text)
    run(*given, "-o", "out.csv", "--page", "page.html")
    markup = (folder / "page.html").read_text()
    assert words in markup
    assert "How it was computed" in markup
    assert (folder / "out.csv").exists()


@pytest.mark.parametrize("command", ["rank", "regress", "cluster", "spans"])
def test_a_page_ends_in_html(run: Run, folder: Path, command: str) -> None:
    (folder / "in.csv").write_text(COMPARED)
    assert "a page ends in .html" in run(command, "in.csv", "--page", "page.txt", code=2).stderr
