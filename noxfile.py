"""The tests of the core on every supported Python, and with the lowest versions that pyproject.toml declares.

``make versions`` and ``make lowest`` run these sessions; ``make test`` runs every test with every extra on one Python.
Torch and Ray are left out, for they are large: `tests/without_extras.py` skips and names what needs them.
"""

from __future__ import annotations

from pathlib import Path

import nox
from packaging.requirements import Requirement

PYPROJECT = nox.project.load_toml("pyproject.toml")
PROJECT = PYPROJECT["project"]
PYTHONS = nox.project.python_versions(PYPROJECT)  # those of the classifiers
PYTEST = ("python", "-m", "pytest", "-p", "tests.without_extras", "-m", "not slow")

nox.options.sessions = ["tests"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the fast tests with the versions of constraints.txt; what follows `--` goes to pytest."""
    session.install("-c", "constraints.txt", "-e", ".[report,serve,test]")
    session.run(*PYTEST, *session.posargs)


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """Run the fast tests with the lowest declared version of every dependency; what follows `--` goes to pytest."""
    constraints = Path(session.create_tmp()) / "constraints-lowest.txt"
    constraints.write_text("\n".join(lowest_versions()) + "\n", encoding="utf-8")
    session.install("-c", str(constraints), "-e", ".[report,test]")
    # Old packages warn about new ones, and pages show what the versions of constraints.txt print.
    quiet = ("-W", "default::DeprecationWarning", "-W", "default::FutureWarning", "--ignore", "tests/test_docs.py")
    session.run(*PYTEST, *quiet, *session.posargs)


def lowest_versions() -> list[str]:
    """`name==version` for all that users install; tools that only the tests need stay as in constraints.txt."""
    extras = PROJECT["optional-dependencies"]
    declared = (*PROJECT["dependencies"], *extras["torch"], *extras["report"], *extras["scale"])
    lowest = {Requirement(text).name: text.replace(">=", "==") for text in declared}
    tools = {Requirement(text).name for text in extras["test"]} - lowest.keys()
    pinned = Path("constraints.txt").read_text(encoding="utf-8").splitlines()
    return [*lowest.values(), *(line for line in pinned if not line.startswith("#") and Requirement(line).name in tools)]
