"""What every test shares: Hypothesis profiles and the real datasets."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Before torch is loaded: test processes already share the cores, and threads that wait for each other cost more than they give.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell ignores Ctrl-C on behalf of what it starts in the background, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Derandomised, so that a red CI is about the change under test; fresh examples are drawn on people's machines.
IN_CI = os.environ.get("CI") == "true"
# The first call of a numba kernel compiles it, and on a busy machine everything takes longer.
IN_BOTH: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
IN_BOTH |= {"derandomize": IN_CI, "print_blob": IN_CI}
# A thousand examples of what everything else is made of: arrays and parts. Tables and files, whose examples cost most, get
# fewer: every method's contract reads such votes too, and the fuzzer damages a thousand files more. What is put together is
# tried on fewer still.
settings.register_profile("parts", max_examples=1000 if IN_CI else 100, **IN_BOTH)
settings.register_profile("answers", max_examples=150 if IN_CI else 100, **IN_BOTH)
settings.register_profile("whole", max_examples=60 if IN_CI else 20, **IN_BOTH)
settings.register_profile("once", max_examples=5, **IN_BOTH)
PROFILES = {"kernels": "parts", "parts": "parts", "data": "answers", "io": "answers"}
# Of these folders, whose tests start processes and browsers, one test takes as long as a hundred others. They come first, the
# longest before all, so that the processes of a run end together.
LONGEST = ["scale", "report", "campaign", "cli"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make test-fast`."""
    parser.addoption(
        "--once", action="store_true", help="every test with the first of its parameters and five Hypothesis examples"
    )


@pytest.hookimpl(trylast=True)  # after `-m`, which may leave out the first of the cases
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first; with --once, keep the first of the cases that differ in parameters only."""
    folders = [Path(item.path).relative_to(Path(__file__).parent).parts[0] for item in items]
    place = {
        item: LONGEST.index(folder) if folder in LONGEST else len(LONGEST) for item, folder in zip(items, folders, strict=True)
    }
    items.sort(key=lambda item: place[item])
    if config.getoption("once"):
        first = {item.nodeid.partition("[")[0]: item for item in reversed(items)}
        kept = [item for item in items if first[item.nodeid.partition("[")[0]] is item]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Keep the garbage collector from looking through all tests and modules, a million objects that stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # What is left is small, and the collector would look through all of it the more often.
        gc.set_threshold(700, 10, 100)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[Any]:
    """Load the Hypothesis profile of a test file's folder before the file is imported, which is when `given` looks for it."""
    if isinstance(collector, pytest.Module):
        folder = Path(collector.path).relative_to(Path(__file__).parent).parts[0]
        once = collector.config.getoption("once")
        settings.load_profile("once" if once else PROFILES.get(folder, "whole"))
    return (yield)


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """For every call of one command, typer makes all of them again, which takes longer than most calls in tests do."""
    from typer.main import get_command

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the directory of the real datasets, or skip the test and say why."""
    beside_checkout = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("CROWDWISE_SHARED_DATA", beside_checkout))
    if not path.is_dir():
        pytest.skip(f"no real datasets at {path}; set CROWDWISE_SHARED_DATA to their directory")
    return path


@pytest.fixture(scope="module")
def crowds() -> Any:
    """Simulated crowds of the benchmarks."""
    from benchmarks.crowds import dependent_crowds

    return dependent_crowds


@pytest.fixture(scope="module")
def prototype(shared_data: Path) -> Iterator[Any]:
    """The prototype that the check for shared errors comes from."""
    path = shared_data.parent / "methods" / "dependence_prototype.py"
    if not path.is_file():
        pytest.skip(f"no prototype to compare with at {path}")
    spec = importlib.util.spec_from_file_location("dependence_prototype", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]
