"""What asking about a path costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from crowdwise.cli.fitting import SAVED, is_saved
from crowdwise.estimator.storage import FILE_NAME


def test_the_name_of_a_saved_model_is_that_of_the_storage() -> None:
    assert SAVED == FILE_NAME


def test_a_saved_model_is_known_and_stdin_is_none(run: Run, folder: Path) -> None:
    run("aggregate", "votes.csv", "-m", "majority", "--save", "model", "-q")
    assert is_saved("model")
    assert not is_saved("votes.csv")
    assert not is_saved("-")


def test_asking_loads_nothing() -> None:
    code = (
        "import sys; from crowdwise.cli.fitting import is_saved; is_saved('x');"
        "print('numpy' in sys.modules, 'polars' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


@pytest.mark.slow
def test_a_small_file_asks_nothing_of_scale(folder: Path) -> None:
    code = (
        "import sys; from crowdwise.cli import app;"
        "app(['aggregate', 'votes.csv', '-m', 'majority', '-q'], standalone_mode=False);"
        "print([name for name in sys.modules if name.startswith('crowdwise.scale.')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
