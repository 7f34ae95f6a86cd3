"""Every method has a page with all that a reader needs, and every example on it runs."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import code_lists
import method_pages
import pytest
from typer.testing import CliRunner

from crowdwise.cli import app
from crowdwise.engines.gradient import stopping
from crowdwise.estimator.registry import METHODS

PAGES = Path(__file__).resolve().parents[2] / "docs" / "methods"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Networks take seconds; votes alone a moment.
every_example = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * bool(method.features)) for name, method in METHODS.items()]
)


def completed(name: str) -> str:
    return method_pages.complete((PAGES / f"{name}.md").read_text(encoding="utf-8"), name)


def test_every_page_says_when_to_use_a_method_and_where_it_is_from() -> None:
    for name in METHODS:
        page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
        for lead in (r"\*\*Use it\*\* \w", r"\*\*Not\*\* \w", r"\*\*References?\.\*\* \w"):
            assert len(re.findall(rf"^{lead}", page, re.MULTILINE)) == 1, f"{name}.md: {lead}"


def test_every_page_has_each_section_once_and_the_reference_last() -> None:
    generated = ["Parameters", "On real data", "Reference"]
    for name in METHODS:
        page = completed(name)
        assert [title for title in re.findall(r"^## (.*)$", page, re.MULTILINE) if title in generated] == generated, name
        assert PYTHON.search(page), f"{name}: no example"
        assert "**Reference" not in page, name
        assert method_pages.EXAMPLE_MARKER not in page, name
        assert page.partition("## Reference")[2].strip(), name


class Notes:
    """Stands for the files of a build, in which every method has its page."""

    def get_file_from_path(self, path: str) -> str:
        return path


def test_pages_link_to_the_class_on_the_page_of_the_api() -> None:
    api = code_lists.estimator_sections(Notes())  # type: ignore[arg-type]
    for name in METHODS:
        (anchor,) = re.findall(r"\]\(\.\./api\.md#(class-\w+)\)", completed(name))
        assert f"### {METHODS[name].cls.__name__} {{ #{anchor} }}" in api
        assert f"[`{name}`](methods/{name}.md)" in api


@every_example
def test_the_example_of_a_page_runs_and_is_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A tenth of the steps that networks take on small sets is enough for classes so far apart.
    monkeypatch.setattr(stopping, "_STEPS", 100)
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = io.StringIO()
    with redirect_stdout(printed):
        for block in PYTHON.findall(completed(name)):
            exec(compile(block, f"<example of {name}>", "exec"), names)
    assert printed.getvalue()
    # Two thirds right are far above chance, with two classes or more and for correlations.
    assert METHODS[name].edges or names["right"] > 2 / 3


def test_the_commands_of_pages_have_these_options() -> None:
    commands = {method_pages.command_of(method).rpartition(" --method ")[0] for method in METHODS.values()} - {""}
    for command in commands:
        _, verb, *words = command.split()
        shown = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "200"}).stdout
        assert all(word in shown for word in words if word.startswith("--")), command


def test_all_settings_of_a_method_are_listed_with_the_defaults_of_its_name() -> None:
    table = method_pages.parameters(METHODS["trace-reg"])
    assert "| `penalty` | `'trace'` |" in table
    assert all(f"| `{entry['name']}` |" in table for entry in METHODS["trace-reg"].describe()["settings"])


def test_what_a_class_adds_is_listed_and_what_all_have_is_not() -> None:
    added = dict(method_pages.own_members(METHODS["svgpcr"].cls))
    assert "latent(X, covariance)" in added
    assert not {"fit", "predict_proba", "items_frame"} & {name.partition("(")[0] for name in added}
