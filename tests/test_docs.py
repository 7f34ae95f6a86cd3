"""Every command and every line of Python in the documentation runs, and prints what the page says it prints.

Pages are run from top to bottom, each in a folder and a namespace of its own:

- a fence ``python`` is executed, a fence ``sh`` holds ``crowdwise ...`` commands;
- a fence with ``title="FILE"`` is written to that file;
- a fence ``text`` below ``<!-- output -->`` is what the block before it printed, stdout before
  stderr, on a terminal 100 columns wide (``...`` stands for anything);
- ``<!-- exit N -->`` above a fence says that its last command ends with this code;
- ``<!-- needs PACKAGE -->`` skips a page where a package is not installed that crowdwise itself does not use.
"""

from __future__ import annotations

import io
import re
import runpy
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import crowdwise
from crowdwise.estimator.registry import METHODS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md", *sorted((ROOT / "docs" / "howto").glob("*.md"))]

FENCE = re.compile(
    r"(?:^<!-- exit (?P<code>\d+) -->\n)?"
    r"^```(?P<language>\w+)(?: title=\"(?P<file>[^\"]+)\")?\n(?P<body>.*?)^```$"
    r"(?:\n\n<!-- output -->\n```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)

# The README shows commands on files that its reader already has.
README_FILES = {
    "votes.csv": "item,annotator,label,region\n"
    + "".join(
        f"item-{n},{who},{'cat' if (n + slip) % 3 else 'dog'},{'north' if n % 2 else 'south'}\n"
        for n in range(1, 41)
        for who, slip in (("ada", 0), ("ben", 0), ("cleo", int(n % 5 == 0)))
    ),
    "votes/monday.csv": "item,annotator,label\n1,ada,cat\n1,ben,cat\n2,ada,dog\n",
    "votes/tuesday.csv": "item,annotator,label\n2,ben,dog\n3,ada,cat\n3,cleo,cat\n",
    "features.csv": "item,width,height\n" + "".join(f"item-{n},{n % 3},{n % 7}\n" for n in range(1, 41)),
    "truth.csv": "item,label\nitem-1,cat\nitem-3,dog\n",
    "families.csv": "annotator,group\nada,one\nben,one\n",
    "costs.csv": "true,label,cost\ncat,dog,1\ndog,cat,5\n",
    "edges.csv": "source,target\n" + "".join(f"item-{n},item-{n + 1}\n" for n in range(1, 40)),
    "comparisons.csv": "item_a,item_b,annotator,winner\n"
    + "".join(f"x{i},x{j},{who},x{i}\n" for i in range(4) for j in range(i + 1, 4) for who in ("ada", "ben")),
    "ratings.csv": "item,annotator,value\n"
    + "".join(f"x{n},{who},{n + shift}\n" for n in range(8) for who, shift in (("ada", 0.1), ("ben", -0.2), ("cleo", 0.4))),
    "grades.csv": "item,annotator,label\n"
    + "".join(f"x{n},{who},{('bad', 'fair', 'good')[n % 3]}\n" for n in range(9) for who in ("ada", "ben", "cleo")),
    "tags.csv": "item,annotator,label\n" + "".join(f"x{n},{who},red|{n % 2}\n" for n in range(9) for who in ("ada", "ben")),
    "pairs.csv": "item_a,item_b,annotator,same\n"
    + "".join(f"x{i},x{j},{who},{int(i % 5 == j % 5)}\n" for i in range(15) for j in range(i) for who in ("ada", "ben")),
    "votes.conll": "Ada B-PER B-PER\nsmiles O O\n\nParis B-LOC B-PER\n",
}


@dataclass(frozen=True)
class Block:
    """One fence of a page."""

    language: str
    body: str
    line: int
    file: str | None
    output: str | None
    code: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            match["language"],
            match["body"],
            text.count("\n", 0, match.start("body")) + 1,
            match["file"],
            match["output"],
            int(match["code"] or 0),
        )
        for match in FENCE.finditer(text)
    ]


class Screen(io.TextIOWrapper):
    """Standard output as a person sees it: commands print tables on a terminal, and CSV elsewhere."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        raw: Any = self.buffer
        return str(raw.getvalue().decode("utf-8"))


def commands_of(block: Block, *, only_ours: bool) -> list[list[str]]:
    lines = [shlex.split(line, comments=True) for line in block.body.replace("\\\n", " ").splitlines()]
    if only_ours:  # the README also installs and calls make
        return [words for words in lines if words[:1] == ["crowdwise"]]
    return [words for words in lines if words]


def run_command(words: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Run ``python -m crowdwise`` in this process; return its exit code and what it printed."""
    while "=" in words[0]:
        monkeypatch.setenv(*words.pop(0).split("=", 1))
    assert words[0] == "crowdwise", f"not a crowdwise command: {shlex.join(words)}"
    monkeypatch.setattr(sys, "argv", words)
    screen, errors = Screen(), io.StringIO()
    try:
        with redirect_stdout(screen), redirect_stderr(errors):
            runpy.run_module("crowdwise", run_name="__main__", alter_sys=False)
        code = 0
    except SystemExit as leave:
        code = int(leave.code or 0)
    return code, screen.text + errors.getvalue()


def run_block(block: Block, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *, readme: bool = False) -> str:
    """Run a block and return what it printed."""
    if block.file is not None:
        Path(block.file).write_text(block.body, encoding="utf-8")
    elif block.language == "python":
        # Submodules that earlier commands imported are no names of the package for a reader who starts here.
        for name in [name for name, value in vars(crowdwise).items() if isinstance(value, ModuleType)]:
            monkeypatch.delattr(crowdwise, name)
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(block.body, f"<line {block.line}>", "exec"), names)
        return printed.getvalue()
    elif block.language == "sh":
        commands = commands_of(block, only_ours=readme)
        printed_by_all = ""
        for last, words in zip(range(len(commands) - 1, -1, -1), commands, strict=True):
            code, printed_now = run_command(words, monkeypatch)
            printed_by_all += printed_now
            assert code == (0 if last else block.code), f"line {block.line}: exit code {code}\n{printed_now}"
        return printed_by_all
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A page may register a method of its own, and other tests read the registry too.
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(METHODS, "pooled-ds", METHODS["majority"])
    monkeypatch.delitem(METHODS, "pooled-ds")
    monkeypatch.delenv("CROWDWISE_DEBUG", raising=False)
    for name, value in {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    for package in re.findall(r"^<!-- needs (\w+) -->$", page.read_text(encoding="utf-8"), re.MULTILINE):
        pytest.importorskip(package, reason=f"{package} is not installed")
    names: dict[str, Any] = {"__name__": "__main__"}
    readme = page.name == "README.md"
    if readme:
        for name, text in README_FILES.items():
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text(text)
    checker, rules = OutputChecker(), ELLIPSIS | NORMALIZE_WHITESPACE
    for block in blocks_of(page):
        printed = run_block(block, names, monkeypatch, readme=readme)
        if block.output is not None:
            assert checker.check_output(block.output, printed, rules), f"line {block.line} printed\n{printed}"
    # What stands in a table of commands is typed as it is, too.
    for line in page.read_text(encoding="utf-8").splitlines() if readme else ():
        for command in re.findall(r"`(crowdwise [^`]+)`", line) if line.startswith("|") else ():
            code, printed = run_command(shlex.split(command), monkeypatch)
            assert code == 0, f"{command}\n{printed}"


def test_the_snippet_of_edges_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs" / "methods" / "graph-dawid-skene.md"
    (snippet,) = (block for block in blocks_of(page) if block.language == "python")
    exec(snippet.body, {"__name__": "__main__"})
    with_edges, without = map(float, capsys.readouterr().out.split())
    assert with_edges > without


def test_the_skeleton_of_a_method_is_the_file_that_the_page_shows() -> None:
    (shown,) = (block for block in blocks_of(ROOT / "docs" / "howto" / "your-first-method.md") if block.file == "pooled_ds.py")
    assert shown.body == (ROOT / "docs" / "examples" / "pooled_ds.py").read_text(encoding="utf-8")


def test_every_method_has_a_page_and_every_page_a_method() -> None:
    assert {page.stem for page in (ROOT / "docs" / "methods").glob("*.md")} == set(METHODS)


def test_choosing_a_method_mentions_all_of_them() -> None:
    page = (ROOT / "docs" / "howto" / "choose-a-method.md").read_text(encoding="utf-8")
    assert [name for name in METHODS if f"](../methods/{name}.md)" not in page] == []


def test_pages_hold_no_unknown_fence() -> None:
    known = {"python", "sh", "text"}
    for page in PAGES:
        strange = set(re.findall(r"^```(\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)) - known
        assert not strange, f"{page.name}: {strange} would neither run nor be shown as text"


def test_a_wrong_output_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n<!-- output -->\n```text\n3\n```\n")
    (block,) = blocks_of(page)
    printed = run_block(block, {}, monkeypatch)
    assert printed == "2\n"
    assert not OutputChecker().check_output(block.output or "", printed, ELLIPSIS)
