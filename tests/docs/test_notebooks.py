"""Notebooks run from top to bottom, hold what their text says, and become pages and files that can be opened."""

from __future__ import annotations

import re
from pathlib import Path

import notebook_runs
import pytest
from notebook_runs import Cell, Output

FOLDER = notebook_runs.NOTEBOOKS
SOURCE = """\
# needs: torch, no_such_package

# %% [markdown]
# # Title
#
# What it is about.

# %%
value = 1 + 1
value

# %% [check]
assert value == 2
print("not shown")
"""


@pytest.fixture
def pages():  # type: ignore[no-untyped-def]
    return pytest.importorskip("notebook_pages", reason="mkdocs is not installed")


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_checks_hold(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    missing = notebook_runs.missing_for(source)
    if missing:
        pytest.skip(f"needs {', '.join(missing)}, which is not installed")
    cells, outputs = notebook_runs.cells_of(source), notebook_runs.executed(path)
    assert len(cells) == len(outputs)
    assert any(output.figures for output in outputs)
    assert any(cell.kind == "check" for cell in cells)


def test_links_of_notebooks_lead_to_pages(pages) -> None:  # type: ignore[no-untyped-def]
    for path in FOLDER.glob("*.py"):
        for link in re.findall(r"\]\(([^)#]+\.md)", path.read_text(encoding="utf-8")):
            target = (FOLDER / link).resolve()
            assert target.is_file() or target.stem in pages.ORDER, f"{path.name}: {link}"


def test_the_gallery_has_every_notebook(pages) -> None:  # type: ignore[no-untyped-def]
    assert sorted(pages.ORDER) == sorted(path.stem for path in FOLDER.glob("*.py"))


def test_a_script_is_divided_into_its_cells() -> None:
    assert notebook_runs.cells_of(SOURCE) == [
        Cell("markdown", "# Title\n\nWhat it is about.\n".rstrip()),
        Cell("code", "value = 1 + 1\nvalue"),
        Cell("check", 'assert value == 2\nprint("not shown")'),
    ]


def test_packages_that_are_not_here_are_named() -> None:
    assert "no_such_package" in notebook_runs.missing_for(SOURCE)


def test_a_cell_prints_the_value_of_its_last_line() -> None:
    assert notebook_runs.run_cells(notebook_runs.cells_of(SOURCE))[1] == Output("2\n")


def test_figures_belong_to_the_cell_that_draws_them() -> None:
    pytest.importorskip("matplotlib")
    draw = "from matplotlib import pyplot\n_, axes = pyplot.subplots()\naxes.set_title('A picture')"
    with_figure, without = notebook_runs.run_cells([Cell("code", draw), Cell("code", "1")])
    assert [title for title, _ in with_figure.figures] == ["A picture"]
    assert without.figures == ()


def test_a_claim_that_does_not_hold_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_runs, "CACHE", tmp_path / "cache")
    (tmp_path / "wrong.py").write_text(SOURCE.replace("value == 2", "value == 3"))
    with pytest.raises(RuntimeError, match=r"wrong\.py does not run(.|\n)*AssertionError"):
        notebook_runs.executed(tmp_path / "wrong.py")


def test_a_run_is_remembered_until_the_notebook_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_runs, "CACHE", tmp_path / "cache")
    path = tmp_path / "dice.py"
    path.write_text("# %%\nimport os\nos.getpid()\n")
    first = notebook_runs.executed(path)
    assert notebook_runs.executed(path) == first
    path.write_text("# %%\nimport os\nos.getpid()  # again\n")
    assert notebook_runs.executed(path) != first


def test_a_page_shows_what_cells_print_and_draw_and_no_checks(pages) -> None:  # type: ignore[no-untyped-def]
    cells = notebook_runs.cells_of(SOURCE)
    page = pages.page_of("name", cells, [Output(), Output("2\n", (("A picture", ""),)), Output("not shown")], [])
    assert "```python\nvalue = 1 + 1\nvalue\n```\n\n```text\n2\n```\n\n![A picture](name-1.png)" in page
    assert "(name.ipynb)" in page
    assert "not shown" not in page
    assert "assert" not in page
    assert "it needs torch" in pages.page_of("name", cells, [Output()] * 3, ["torch"])


def test_what_is_downloaded_is_a_notebook(pages) -> None:  # type: ignore[no-untyped-def]
    nbformat = pytest.importorskip("nbformat")
    png = "iVBORw0KGgo="
    made = pages.notebook_of(notebook_runs.cells_of(SOURCE), [Output(), Output("2\n", (("A picture", png),)), Output()])
    nbformat.validate(nbformat.from_dict(made))
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", "code"]
    assert made["cells"][1]["outputs"][1]["data"]["image/png"] == png
