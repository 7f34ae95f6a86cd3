"""Pages that load something from elsewhere are found, and so is a search that needs a server."""

from __future__ import annotations

from pathlib import Path

import pytest

offline_check = pytest.importorskip("offline_check", reason="mkdocs is not installed")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "search_index.js").write_text("var __index = {}")
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="style.css"><script src="../a.js"></script><a href="https://example.org">elsewhere</a>'
    )
    (tmp_path / "style.css").write_text("@font-face { src: url(fonts/a.woff2) }")
    return tmp_path


def test_links_and_files_of_the_site_are_fine(site: Path) -> None:
    assert list(offline_check.faults(site)) == []


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://example.org/a.js"></script>',
        '<link rel="stylesheet" href="//example.org/a.css">',
        "<img alt=x src=https://example.org/a.png>",
    ],
)
def test_what_a_page_loads_from_elsewhere_is_found(site: Path, tag: str) -> None:
    (site / "more.html").write_text(tag)
    (found,) = offline_check.faults(site)
    assert found.startswith("more.html loads ")
    assert "//example.org/a." in found


def test_what_a_style_loads_from_elsewhere_is_found(site: Path) -> None:
    (site / "style.css").write_text("@font-face { src: url('https://example.org/a.woff2') }")
    assert list(offline_check.faults(site)) == ["style.css loads https://example.org/a.woff2"]


def test_a_search_that_needs_a_server_is_found(site: Path) -> None:
    (site / "search" / "search_index.js").unlink()
    assert "without which the search needs a server" in next(offline_check.faults(site))
