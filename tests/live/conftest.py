"""Tests against real programs, which take minutes: only where somebody asks for them (`make test-live`)."""

from __future__ import annotations

import os

if not os.environ.get("CROWDWISE_LIVE"):
    collect_ignore_glob = ["test_*.py"]
