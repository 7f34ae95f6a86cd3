"""Skip, and name, what needs an extra that is not installed: ``pytest -p tests.without_extras``.

Only for environments that leave extras out on purpose (the sessions of ``noxfile.py``). Without this plugin such a
test fails, so that ``make test`` never passes because something was not installed.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any

import pytest

EXTRAS = ("fastapi", "gpytorch", "matplotlib", "ray", "safetensors", "sqlalchemy", "torch", "uvicorn")
ABSENT = {name for name in EXTRAS if find_spec(name) is None}
# How crowdwise refuses; commands print it, and tests of commands quote it when they fail.
REFUSAL = re.compile(r"needs? (\w+).*pip install ['\"]crowdwise\[", re.IGNORECASE)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a file that imports something absent."""
    return _skipped((yield), collector.path, lambda report: report.call.excinfo)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that meets something absent on its way."""
    return _skipped((yield), item.path, lambda _: call.excinfo)


def _skipped(report: Any, path: Any, excinfo_of: Any) -> Any:
    missing = _missing(excinfo_of(report).value) if report.failed else None
    if missing:
        report.outcome = "skipped"
        report.longrepr = (str(path), 0, f"Skipped: needs {missing}, which is not installed")
    return report


def _missing(problem: BaseException | None) -> str | None:
    """Return the absent package behind an error; errors are chained to what caused them."""
    while problem is not None:
        refusal = REFUSAL.search(str(problem))
        name = problem.name if isinstance(problem, ModuleNotFoundError) else refusal and refusal[1]
        if name and name.partition(".")[0].lower() in ABSENT:
            return name
        problem = problem.__cause__ or problem.__context__
    return None
