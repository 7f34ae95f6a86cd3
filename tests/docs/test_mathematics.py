"""Every formula of the pages is one that the bundled KaTeX can show, with the fonts that are bundled."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tools.bundle_katex import slim

from crowdwise.estimator.registry import METHODS

DOCS = Path(__file__).resolve().parents[2] / "docs"
DISPLAYED = re.compile(r"^\$\$\n(.*?)^\$\$$", re.MULTILINE | re.DOTALL)
IN_LINE = re.compile(r"(?<![$`\\])\$([^$\n]+)\$(?!\$)")
CHECK = """
const katex = require(process.argv[1]);
const faults = JSON.parse(require("fs").readFileSync(0, "utf8")).flatMap(([page, formula]) => {
  try { katex.renderToString(formula, { strict: "error" }); return []; } catch (fault) { return [`${page}: ${fault.message}`]; }
});
console.log(JSON.stringify(faults));
"""


def formulas() -> list[tuple[str, str]]:
    """Every formula with its page."""
    found = []
    for page in sorted(DOCS.rglob("*.md")):
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        alone = DISPLAYED.findall(text)
        found += [(page.name, formula) for formula in (*alone, *IN_LINE.findall(DISPLAYED.sub("", text)))]
    return found


def test_every_page_of_a_method_has_its_mathematics() -> None:
    shown = {page for page, formula in formulas() if "\n" in formula}
    assert [name for name in METHODS if f"{name}.md" not in shown] == []


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, to ask KaTeX itself")
def test_katex_can_show_every_formula() -> None:
    command = ["node", "-e", CHECK, str(DOCS / "katex" / "katex.min.js")]
    asked = subprocess.run(command, input=json.dumps(formulas()), capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(asked.stdout) == []


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, to ask KaTeX itself")
def test_a_formula_that_katex_cannot_show_is_noticed() -> None:
    command = ["node", "-e", CHECK, str(DOCS / "katex" / "katex.min.js")]
    wrong = json.dumps([["page.md", r"\frac{1}{"]])
    asked = subprocess.run(command, input=wrong, capture_output=True, text=True, check=True, timeout=60)
    assert "page.md" in asked.stdout


def test_no_formula_asks_for_a_font_that_is_left_out() -> None:
    asking = re.compile(r"\\(?:text|math)(?:tt|sf|frak|scr)|\\(?:tt|sf|frak)\b")
    assert [page for page, formula in formulas() if asking.search(formula)] == []


def test_styles_and_fonts_go_together() -> None:
    styles = (DOCS / "katex" / "katex.min.css").read_text(encoding="utf-8")
    assert set(re.findall(r"url\(fonts/([^)]*)\)", styles)) == {path.name for path in (DOCS / "katex" / "fonts").iterdir()}


def test_only_fonts_in_use_and_of_today_stay_in_the_styles() -> None:
    face = "@font-face{font-family:KaTeX_%s;src:url(fonts/KaTeX_%s.woff2) format(%s),url(fonts/KaTeX_%s.ttf) format(%s)}"
    main, fraktur = (face % (name, name, '"woff2"', name, '"truetype"') for name in ("Main", "Fraktur"))
    kept = '@font-face{font-family:KaTeX_Main;src:url(fonts/KaTeX_Main.woff2) format("woff2")}.mord{color:red}'
    assert slim(main + fraktur + ".mord{color:red}") == kept
