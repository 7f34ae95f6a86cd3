"""Where benchmarks read and write: folders of this checkout, and other ones for a quick run.

`CROWDWISE_QUICK` names a folder that holds small simulated sets in place of the real ones and takes all that a run writes; the
processes that a benchmark starts inherit it. `CROWDWISE_SHARED_DATA` names the folder of the real sets.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
EVIDENCE = DOCS / "evidence"
HOW_FAST = DOCS / "how-fast.md"

QUICK = Path(os.environ["CROWDWISE_QUICK"]) if os.environ.get("CROWDWISE_QUICK") else None
SHARED = QUICK / "data" if QUICK else Path(os.environ.get("CROWDWISE_SHARED_DATA", ROOT.parent / "shared" / "data"))
# Records are part of the repository; what is kept beside them only saves time when a command is run again.
RECORDS = QUICK / "records" if QUICK else ROOT / "benchmarks" / "records"
KEPT = QUICK / "kept" if QUICK else ROOT / "benchmarks" / ".runs"
IMAGES = QUICK / "images" if QUICK else DOCS / "images"
