"""What every test shares: Hypothesis profiles and the real datasets."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# Before torch is loaded: test processes already share the cores, and threads that wait for each other cost more than they give.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell ignores Ctrl-C on behalf of what it starts in the background, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: the first call of a numba kernel compiles it.
settings.register_profile("local", deadline=None, max_examples=100)
# Derandomised, so that a red CI is about the change under test; fresh examples are drawn on people's machines.
settings.register_profile("ci", deadline=None, max_examples=1000, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the directory of the real datasets, or skip the test and say why."""
    beside_checkout = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("CROWDWISE_SHARED_DATA", beside_checkout))
    if not path.is_dir():
        pytest.skip(f"no real datasets at {path}; set CROWDWISE_SHARED_DATA to their directory")
    return path
