"""``python -m tests.fuzz --cases 1000000 --jobs 2``: damaged files of every format, read by processes that are watched.

A run that was stopped continues where it was, if seed, jobs and folder are the same. Every finding is printed with its seed,
its number and its file; ``--only N`` tries one case in this process, with a traceback.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.runner import run_cases


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "crowdwise-fuzz")
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    folder = options.folder / str(options.seed)
    if options.only is not None:
        return _one(options.seed, options.only, folder)
    started, shown = time.monotonic(), [started_at := time.monotonic()]

    def tell(running: list[Any]) -> None:
        if time.monotonic() - shown[0] > 60:
            shown[0] = time.monotonic()
            print(
                f"{time.monotonic() - started_at:,.0f} s, at case {min((job.seen[0] for job in running), default=-1):,}",
                flush=True,
            )

    found = run_cases(options.seed, options.start, options.start + options.cases, options.jobs, folder, tell)
    counts: Counter[str] = Counter()
    for line in (folder / "counts.jsonl").read_text().splitlines() if (folder / "counts.jsonl").exists() else ():
        counts.update(json.loads(line))
    print(f"{options.cases:,} cases in {time.monotonic() - started:,.0f} s: {dict(counts)}")
    for (what, place), n in Counter((each["what"][:160], each["place"]) for each in found).most_common():
        first = next(each for each in found if (each["what"][:160], each["place"]) == (what, place))
        print(f"{n:6} x {what} [{place}]\n         --seed {first['seed']} --only {first['case']}: {first['file']}")
    return 1 if found else 0


def _one(seed: int, index: int, folder: Path) -> int:
    from tests.fuzz.seeds import make_seeds
    from tests.fuzz.targets import attack
    from tests.fuzz.worker import _place, case

    seeds = make_seeds()
    name, called, content, rng = case(seed, index, seeds)
    path = folder / "one" / called
    _place(path, name, content, seeds)
    print(path, attack(path, name, rng))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
