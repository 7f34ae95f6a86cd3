"""What a command may load: a budget per command, without a clock.

Packages take long to load: polars and scipy.special tenths of a second each, numba, scipy.stats and scikit-learn more. One that
is not in the budget of a command, or a module of crowdwise too many, fails here with its name. Where a command has a reason to
load more, write it into `BUDGET`; where it needs less by now, take it out.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from crowdwise.cli.app import PANEL_OF

TABLES = "lazy_loader typer numpy polars"
# Command line -> packages it may load, beside what these load themselves, and most modules of crowdwise.
BUDGET = {
    "--version": ("lazy_loader typer", 20),
    "--help": ("lazy_loader typer typer.rich_utils", 54),
    "aggregate --help": ("lazy_loader typer typer.rich_utils", 25),
    "methods": ("lazy_loader typer rich.table", 25),
    "summary votes.csv": (TABLES, 47),
    "convert votes.csv -o votes.jsonl": (TABLES, 50),
    "simulate -o simulated.csv": (TABLES, 45),
    "aggregate votes.csv": (TABLES, 90),
    "aggregate votes.csv -m dawid-skene": (TABLES, 85),
    "aggregate votes.csv -m majority": (TABLES, 80),
    "annotators votes.csv": (f"{TABLES} scipy.stats", 112),
    "judges votes.csv -m dawid-skene": (f"{TABLES} scipy.special", 125),
    "explain i1 votes.csv": (f"{TABLES} rich.table", 90),
    "calibrate votes.csv --truth truth.csv": (f"{TABLES} scipy.optimize", 120),
    "review votes.csv": (TABLES, 105),
    "audit votes.csv --check 5 -o check.csv": (f"{TABLES} numba scipy.linalg", 155),
    "report votes.csv -o page.html": (f"{TABLES} scipy.stats", 145),
    "compare votes.csv --methods majority,one-coin": (TABLES, 95),
    "fairness votes.csv --groups groups.csv": (f"{TABLES} scipy.sparse", 100),
    "suggest votes.csv": (TABLES, 100),
    "plan votes.csv --target 0.9": (TABLES, 95),
    "serve --new campaign.toml": ("lazy_loader typer", 25),
    "label-studio --help": ("lazy_loader typer typer.rich_utils", 25),
    "simulate-campaign --items 50 --policies random --campaigns 1 --no-plot": (f"{TABLES} scipy.optimize", 115),
    "rank pairs.csv": (f"{TABLES} scipy.optimize", 105),
    "regress numbers.csv": (f"{TABLES} scipy.sparse scipy.optimize", 105),
    "cluster same.csv": (f"{TABLES} scipy.sparse", 95),
    "spans spans.jsonl": (TABLES, 95),
    "train votes.csv --features features.csv -m raykar --save model": (f"{TABLES} sklearn", 100),
    "predict model --features features.csv": (f"{TABLES} sklearn", 90),
    "demo": (f"{TABLES} scipy.special", 105),
}
# Loads packages one after the other, and for every command line a process branches off where its own are loaded: so each is
# loaded once, and none by a command that may not. Of every line: what was loaded before, what after, and why it failed.
RUN = """
import json, os, sys, traceback

def branch(act, *given):
    child = os.fork()
    if not child:
        try:
            act(*given)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, given

def run(line):
    before, failure = sorted(sys.modules), None
    sys.argv = ["crowdwise", *line.split()]
    try:
        from crowdwise.cli import main
        main()
    except SystemExit as stop:
        failure = f"exit code {stop.code}" if stop.code else None
    told = json.dumps([line, before, sorted(sys.modules), failure]) + "\\n"
    with open("loaded.jsonl", "a") as file:
        file.write(told)

def load(package, after):
    if package:
        __import__(package)
    for line in after.pop("", []):
        branch(run, line)
    for following in {names.split()[0]: None for names in after}:
        rest = {}
        for names, lines in after.items():
            first, _, others = names.partition(" ")
            if first == following:
                rest[others] = lines
        branch(load, following, rest)

load(None, json.load(open("lines.json")))
"""


def packages(modules: list[str]) -> set[str]:
    """Packages of others by name; of scipy, whose parts are large, the public parts."""
    found = set()
    for module in modules:
        package, *inner = module.split(".")
        if package == "crowdwise" or package in sys.stdlib_module_names or package.startswith("_"):
            continue
        found.add(f"scipy.{inner[0]}" if package == "scipy" and inner and inner[0][0] != "_" else package)
    # What Cython's modules leave behind.
    return found - {"cython_runtime"}


@pytest.fixture(scope="module")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("small"), random.Random(0)
    truth = {f"i{n}": rng.choice("ab") for n in range(40)}
    votes = [(i, f"w{a}", k if rng.random() < 0.8 else rng.choice("ab")) for i, k in truth.items() for a in range(5)]
    span = {"start": 0, "end": 4, "label": "PER"}
    tables = {
        "votes": ("item,annotator,label", votes),
        "truth": ("item,label", truth.items()),
        "groups": ("item,group", [(i, rng.choice("xy")) for i in truth]),
        "features": ("item,x,y", [(i, rng.random(), rng.random()) for i in truth]),
        "pairs": (
            "first,second,annotator,winner",
            [(f"i{n}", f"i{n + 1}", a, f"i{n}") for n in range(6) for a in "vw"],
        ),
        "numbers": ("item,annotator,value", [(f"i{n}", f"w{a}", n + rng.random()) for n in range(10) for a in range(4)]),
        "same": ("first,second,annotator,same", [(f"i{n}", f"i{m}", "w", n % 2 == m % 2) for n in range(9) for m in range(n)]),
    }
    for name, (header, rows) in tables.items():
        (folder / f"{name}.csv").write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    rows = [{"text": f"Anna went {n}", "spans": [span], "_annotator_id": f"w{a}"} for n in range(5) for a in range(3)]
    (folder / "spans.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return folder


def test_import_crowdwise_loads_nothing_of_others() -> None:
    program = "import json, sys, crowdwise; print(json.dumps(sorted(sys.modules)))"
    modules = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    assert packages(modules) <= {"lazy_loader", "distutils-precedence"}
    ours = [module for module in modules if module.startswith("crowdwise")]
    assert len(ours) <= 10, ours


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot branch off there")
def test_commands_load_what_they_need(small_files: Path) -> None:
    lines: dict[str, list[str]] = {}
    for line, (names, _) in BUDGET.items():
        lines.setdefault(names, []).append(line)
    (small_files / "lines.json").write_text(json.dumps(lines))
    done = subprocess.run([sys.executable, "-c", RUN], cwd=small_files, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = {line: rest for line, *rest in map(json.loads, (small_files / "loaded.jsonl").read_text().splitlines())}
    assert set(told) == set(BUDGET)
    wrong = []
    for line, (before, after, failure) in told.items():
        names, most = BUDGET[line]
        if failure:
            wrong.append(f"crowdwise {line}: {failure}\n{done.stderr}")
        if new := packages(after) - packages(before):
            wrong.append(f"crowdwise {line}: loads {', '.join(sorted(new))} beside {names}")
        ours = [module.removeprefix("crowdwise.") for module in after if module.startswith("crowdwise.")]
        if len(ours) > most:
            wrong.append(f"crowdwise {line}: loads {len(ours)} modules of crowdwise, {most} may be: {', '.join(ours)}")
    assert not wrong, "\n".join(wrong)


def test_every_command_has_a_budget() -> None:
    assert {line.split()[0] for line in BUDGET if line[0] != "-"} == set(PANEL_OF)
