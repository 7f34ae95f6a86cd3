"""Names of the package."""

from __future__ import annotations

import subprocess
import sys

import crowdwise.campaign as active


def test_every_public_name_is_there_and_documented() -> None:
    assert dir(active) == sorted(active.__all__)
    for name in active.__all__:
        assert getattr(active, name).__doc__, name


def test_other_names_are_refused() -> None:
    assert not hasattr(active, "Ledger")


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, crowdwise.campaign; assert 'polars' not in sys.modules and 'crowdwise.campaign.loop' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
