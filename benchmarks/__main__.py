"""The way into the benchmarks.

    python -m benchmarks list [ROOM]                  what there is, what it needs, and the state of its figures
    python -m benchmarks run NAME [--quick] [...]     measure; all further arguments are the benchmark's own (--help: which)
    python -m benchmarks run all --quick              every benchmark, tiny, as a test that they run
    python -m benchmarks page                         the pages again, from the records and tables there are
    python -m benchmarks check [NAME ...]             does today's code give what is recorded? a few runs, at most 40 s each

Figures are stale where files of the library that a benchmark measures (its room's, or its declaration says which) differ from
those of the commit that the figures name; where only a day is named, the last commit of that day counts. Most changes of files
change no figure: `check` measures some runs again, drawn at random; where all values are as recorded `list` says *confirmed*.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def main(words: list[str]) -> int:
    match words:
        case ["list", *rooms]:
            from benchmarks.listing import listing

            print("\n".join(listing(rooms)))
        case ["run", name, *own] if "--quick" in own:
            return _quick(name, [word for word in own if word != "--quick"])
        case ["run", name, *own]:
            from benchmarks.running import run

            run(name, own)
        case ["check", *names]:
            from benchmarks.checking import check

            for line in check(names):
                print(line, flush=True)
        case ["page"]:
            from benchmarks.rendering import render

            print("\n".join(render()))
        case _:
            print(__doc__)
            return 0 if words in (["--help"], ["-h"], []) else 2
    return 0


def _quick(name: str, own: list[str]) -> int:
    """A process whose folders are temporary ones, with small simulated sets among them."""
    with tempfile.TemporaryDirectory() as folder:
        # Before any module of the benchmarks is loaded: they read it once.
        os.environ["CROWDWISE_QUICK"] = folder
        from benchmarks.running import run_quickly
        from benchmarks.small_data import write

        write(Path(folder) / "data")
        return run_quickly(name, own)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
