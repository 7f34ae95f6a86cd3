"""Skip, and name, the test files whose imports need an extra that is not installed: ``pytest -p tests.without_extras``.

Only for environments that leave extras out on purpose (the sessions of ``noxfile.py``). Without this plugin such a
file is an error, so that ``make test`` never passes because something was not installed.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

EXTRAS = frozenset({"gpytorch", "linear_operator", "matplotlib", "ray", "safetensors", "torch"})


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    missing = _missing(report.call.excinfo.value) if report.failed else None
    if missing:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: needs {missing}, which is not installed")
    return report


def _missing(problem: BaseException | None) -> str | None:
    """Return the absent package behind an error of collection; pytest chains its own error to the original."""
    while problem is not None:
        if isinstance(problem, ModuleNotFoundError) and (problem.name or "").split(".")[0] in EXTRAS:
            return problem.name
        problem = problem.__cause__ or problem.__context__
    return None
