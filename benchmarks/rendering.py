"""Pages from what was measured: blocks of benchmarks with records, and the tables of the start page."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import records
from benchmarks.answers import answer
from benchmarks.declaration import scripts
from benchmarks.pictures import draw
from benchmarks.running import call, load


def render() -> Iterator[str]:
    """Render every block that records suffice for; say which are left as they are, and why."""
    records.RENDERING = True
    try:
        for script in scripts().values():
            for arguments in script.declared.renders:
                command = f"{script.name} {arguments}".strip()
                if missing := script.missing():
                    yield f"{command}: left as it is, needs {', '.join(missing)}"
                    continue
                try:
                    call(load(script), script, arguments.split())
                    yield f"{command}: rendered"
                except records.NotMeasuredError as lacking:
                    yield f"{command}: left as it is, not measured: {lacking}"
    finally:
        records.RENDERING = False
    yield from answer()
    yield from draw()
