"""The way into the benchmarks: declarations, the list, pages that are rendered from records, links, staleness."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from benchmarks import checking, declaration, listing, page, provenance, records, rendering, running
from benchmarks.declaration import ROOMS, scripts
from benchmarks.places import DOCS, EVIDENCE, HOW_FAST, ROOT


def test_every_script_with_a_main_declares_what_it_measures() -> None:
    found = scripts()
    tools = {"gravity_spy", "large_votes"}  # write or describe data, and are run by hand
    mains = {path.stem for path in (ROOT / "benchmarks").glob("*/*.py") if "def main()" in path.read_text(encoding="utf-8")}
    assert mains - tools == set(found)
    assert {script.room for script in found.values()} == set(ROOMS)
    assert all(script.declared.question.endswith("?") for script in found.values())
    flat = [path.name for path in (ROOT / "benchmarks").glob("*.py") if declaration.declaration(path)]
    assert flat == [], "scripts stand in rooms"


def test_every_block_is_on_a_page_and_belongs_to_one_benchmark() -> None:
    declared = [section for script in scripts().values() for section in script.declared.sections]
    assert len(declared) == len(set(declared))
    assert [section for section in declared if page.page_of(section) is None] == []
    rooms = [EVIDENCE / f"{room}.md" for room in ROOMS]
    written = {line[12:-4] for path in rooms for line in path.read_text(encoding="utf-8").splitlines() if "<!-- begin:" in line}
    assert {name.strip() for name in written} <= set(declared)


def test_every_block_comes_from_records() -> None:
    assert [script.name for script in scripts().values() if script.declared.sections and not script.declared.renders] == []


def test_every_block_says_which_code_made_it() -> None:
    # A line that is written before there are records names none.
    for path in EVIDENCE.rglob("*.md"):
        assert [
            line for line in path.read_text(encoding="utf-8").splitlines() if re.match("Measured on .* at ?\\.$", line)
        ] == []


def test_what_is_measured_is_there() -> None:
    for script in scripts().values():
        assert [path for path in script.measures if not (ROOT / path).exists()] == [], script.name


def test_a_declaration_is_read_without_importing_the_script(tmp_path: Path) -> None:
    script = tmp_path / "some.py"
    script.write_text('import no_such_package\nBENCHMARK = Benchmark("Why?", data=("rte",), small={"N": (1, 2)})\n')
    assert declaration.declaration(script) == declaration.Benchmark("Why?", data=("rte",), small={"N": (1, 2)})
    script.write_text("import no_such_package\n")
    assert declaration.declaration(script) is None


def test_the_list_names_missing_packages_and_data(tmp_path: Path) -> None:
    declared = declaration.Benchmark("Why?", packages=("no_such_package",), data=("rte",))
    own = declaration.Script("gp", "some", tmp_path, declared)
    assert own.missing(tmp_path) == ["package no_such_package", "data rte"]
    (tmp_path / "rte").mkdir()
    assert own.missing(tmp_path) == ["package no_such_package"]
    assert listing.needs(own).startswith("no_such_package (missing)")


def test_the_list_says_where_a_block_has_no_records_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "block", lambda section: "Measured on 2026-11-16 by `a` at 0123abcd.")
    monkeypatch.setattr(listing, "Records", lambda name: records.Records(name, tmp_path))
    for renders, words in (((), "measured 2026-11-16"), (("",), "rerun to record; measured 2026-11-16")):
        declared = declaration.Benchmark("Why?", sections=("some",), renders=renders)
        assert listing.state(declaration.Script("gp", "some", tmp_path, declared)).startswith(words)


def test_figures_are_stale_where_measured_files_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    provenance.changed_since.cache_clear()

    def commit(text: str) -> str:
        (tmp_path / "some.py").write_text(text)
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
        for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "x"]):
            subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
        return provenance.git("rev-parse", "--short=8", "HEAD").stdout.strip()

    first = commit("1")
    assert provenance.changed_since(first, ("some.py",)) == 0
    second = commit("2")
    provenance.changed_since.cache_clear()
    assert provenance.changed_since(first, ("some.py",)) == 1
    assert provenance.changed_since(first + "+", ("other.py",)) == 0
    assert provenance.changed_since(second, ("some.py",)) == 0
    assert provenance.changed_since("0123abcd", ("some.py",)) is None
    provenance.changed_since.cache_clear()


def test_a_page_names_the_days_and_commits_of_its_figures() -> None:
    text = "Measured on 2026-11-16 by `a` (x).\nRow b: Measured on 2026-11-17 to 2026-11-18 by `b` at 0123abcd+, 4567cdef (x)."
    assert provenance.measured_in(text) == [("2026-11-16", ""), ("2026-11-17", "0123abcd+")]


def test_a_line_names_a_day_and_code_also_before_the_first_run_is_recorded(tmp_path: Path) -> None:
    kept = records.Records("some", tmp_path)
    today = (str(date.today()), provenance.code())
    assert provenance.measured_in(page.provenance("a", kept)) == [today]
    kept.add("b", 1)
    assert provenance.measured_in(page.provenance("a", kept)) == [today]


def test_every_line_of_the_pages_says_when_its_figures_were_measured() -> None:
    for path in (*sorted(EVIDENCE.rglob("*.md")), HOW_FAST):
        text = path.read_text(encoding="utf-8")
        assert "` at ." not in text, path
        assert len(provenance.measured_in(text)) == len(re.findall(r"(?:^|: )Measured on ", text, re.MULTILINE)), path


def test_links_are_relative_to_the_page() -> None:
    text = "[a](images/a.png) [b](evidence/gp.md#x) [c](https://example.org) [d](#here) [e](../images/e.png)"
    assert page.relative(text, DOCS / "evidence" / "index.md") == (
        "[a](../images/a.png) [b](gp.md#x) [c](https://example.org) [d](#here) [e](../images/e.png)"
    )
    assert page.relative("[a](images/a.png)", DOCS / "how-fast.md") == "[a](images/a.png)"


def test_a_run_is_measured_once_and_never_while_pages_are_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, asked = records.Records("some", tmp_path), []

    def measure() -> float:
        asked.append(1)
        return 1 / 3

    assert kept.once("a", measure) == kept.once("a", measure) == 0.333333
    assert len(asked) == 1
    line = kept.lines()[0]
    assert line["machine"] == provenance.machine()
    assert line["code"] == provenance.code()
    assert len(line["day"]) == 10
    monkeypatch.setattr(records, "RENDERING", True)
    assert kept.once("a", measure) == 0.333333
    with pytest.raises(records.NotMeasuredError, match="some b"):
        kept.once("b", measure)
    assert len(asked) == 1
    assert [used["key"] for used in kept.used()] == ["a"]


def test_values_are_compared_without_seconds() -> None:
    kept = {"right": 0.9, "seconds": 1.0, "rows": [["a", float("nan"), None], [1, True, "x"]]}
    assert checking.compared(kept, kept | {"right": 0.90001, "seconds": 7.0}) == (7, 7)
    assert checking.compared(kept, kept | {"right": 0.91}) == (7, 6)
    assert checking.compared([1.0, 2.0], [1.0]) == (1, 0)


def test_a_check_measures_drawn_runs_again_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, now = records.Records("some", tmp_path), {"a": 0.5, "b": 0.6, "c": 0.7}
    for key, value in now.items():
        kept.add(key, value)
    before = kept.path.read_text()
    check = checking.Check("some", list(now))
    monkeypatch.setattr(records, "CHECKING", check)
    monkeypatch.setattr(records, "RENDERING", True)

    def missing() -> float:
        raise FileNotFoundError("no such thing")

    assert [kept.once("a", lambda: 0.5), kept.once("b", lambda: 0.9), kept.once("c", missing)] == [0.5, 0.6, 0.7]
    assert (check.runs, check.numbers, check.same) == (2, 2, 1)
    assert check.failed == "FileNotFoundError: no such thing"
    assert checking.said({"runs": 2, "numbers": 2, "same": 1}) == "2 runs measured again, 50% of 2 values as recorded"
    assert kept.path.read_text() == before


def test_the_list_says_what_became_of_a_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "Records", lambda name: records.Records(name, tmp_path))
    monkeypatch.setattr(listing, "changed_since", lambda commit, paths: 0)
    script = declaration.Script("gp", "some", tmp_path, declaration.Benchmark("Why?"))
    stale = "stale (2 measured files changed since)"
    assert listing.confirmed(script, stale) == stale
    records.Records("checks", tmp_path).add("some", {"runs": 1, "numbers": 4, "same": 4})
    assert listing.confirmed(script, "current") == "current"
    assert listing.confirmed(script, stale).startswith(
        "confirmed (2 measured files changed since); 1 run measured again, all values as recorded on "
    )
    monkeypatch.setattr(listing, "changed_since", lambda commit, paths: 3)
    assert listing.confirmed(script, stale).startswith("stale (")
    assert listing.confirmed(script, stale).endswith(", 3 files ago")
    monkeypatch.setattr(listing, "changed_since", lambda commit, paths: 0)
    records.Records("checks", tmp_path).add("some", {"runs": 1, "numbers": 4, "same": 3})
    assert listing.confirmed(script, stale).startswith("stale (")


def test_all_methods_stand_beside_the_same_majority_vote() -> None:
    answers = importlib.import_module("benchmarks.answers")
    sources, _ = answers.label_sources()
    majority = answers.number(next(own["*mean*"] for name, own, _ in sources if name == "majority"))
    for name, own, gaps in sources:
        assert sum(gaps.values()) / len(gaps) == pytest.approx(answers.number(own["*mean*"]) - majority, abs=0.06), name


@pytest.mark.parametrize(
    ("name", "arguments", "section"),
    [("extreme_spammers", "", "extreme spammers"), ("gp_ligo", "--study overlap --kept", "gp overlap")],
)
def test_a_block_comes_from_its_records(name: str, arguments: str, section: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = {}
    script = scripts()[name]
    assert arguments in script.declared.renders
    module = running.load(script)
    monkeypatch.setattr(module, "put", lambda section, text: written.update({section: text}))
    monkeypatch.setattr(records, "RENDERING", True)
    running.call(module, script, arguments.split())
    assert written[section].strip() == page.block(section).strip()


def test_what_traits_and_penalty_do_to_dalc_comes_from_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = {}
    module = running.load(scripts()["dalc_model"])
    monkeypatch.setattr(
        module, "put", lambda section, text: written.update({section: page.relative(text, EVIDENCE / "papers.md")})
    )
    monkeypatch.setattr(module, "IMAGES", tmp_path)
    monkeypatch.setattr(records, "RENDERING", True)
    module.put_settings(range(3))
    assert written["dalc settings"].strip() == page.block("dalc settings").strip()
    with pytest.raises(records.NotMeasuredError, match="dalc_model"):
        module.put_settings(range(4))


def test_the_tables_of_the_start_page_are_those_of_the_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m benchmarks page` cuts them out again."""
    answers = importlib.import_module("benchmarks.answers")
    written = {}
    monkeypatch.setattr(answers, "put", lambda section, text, path=None: written.update({(section, path): text}))
    assert rendering.answer is answers.answer
    list(answers.answer())
    for (section, path), text in written.items():
        stands = page.relative(text.strip(), path or page.page_of(section))
        assert page.block(section, path).strip() == stands, f"{section}: run python -m benchmarks page"
        header = stands.splitlines()[next(n for n, line in enumerate(stands.splitlines()) if line.startswith("|"))]
        assert header.count("|") - 1 <= 8
        if section != "without data":
            assert sum(line.startswith("|") for line in stands.splitlines()) - 2 <= 8


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SystemExit, match="no benchmark is called"):
        running.script_of("no_such_benchmark")


@pytest.mark.slow
def test_every_benchmark_runs_quickly() -> None:
    """All in one process, which loads libraries once; each may take a minute of the processor, and says why it is left out."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "run", "all", "--quick"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    lines = done.stdout.splitlines()
    assert len(lines) == len(scripts())
    print(done.stdout)
