"""The process from which those of the methods are forked, in Linux: what all of them import is imported once.

It reads methods to start from stdin, a line each, and writes the process of each to stdout, later again with its exit code.
When stdin ends it leaves, and the others, who watch a pipe that it holds, follow.

It imports and never computes, so that a fork is safe: pools of threads start with their first use, which is in the others.
(Of polars, idle threads of its memory are there from the start; they hand their locks over at a fork.)
"""

from __future__ import annotations

import os
import select
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

from crowdwise.trust.compare import worker

__all__ = ["main"]

_PAUSE = 0.005


def main(folder: str) -> None:
    """Start methods until nobody asks for more."""
    watched, held = os.pipe()
    running: set[int] = set()
    asked = b""
    while True:
        if select.select([0], [], [], _PAUSE if running else None)[0]:
            more = os.read(0, 4096)
            if not more:
                os._exit(0)
            *methods, asked = (asked + more).split(b"\n")
            for method in methods:
                process = os.fork()
                if process == 0:
                    os.close(held)
                    _run(folder, method.decode(), watched)
                # On both sides of the fork: whoever is told of the process may end its group at once.
                with suppress(OSError):
                    os.setpgid(process, process)
                running.add(process)
                os.write(1, b"%d\n" % process)
        while running:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                break
            running.discard(process)
            os.write(1, b"%d %d\n" % (process, os.waitstatus_to_exitcode(status)))


def _run(folder: str, method: str, watched: int) -> NoReturn:
    """Be the process of a method, as if started on its own: stdin tells of the end of the others, stderr is a file."""
    with suppress(OSError):
        os.setpgid(0, 0)
    code = 1
    try:
        errors = os.open(os.path.join(folder, method, "stderr"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for source, target in ((watched, 0), (os.open(os.devnull, os.O_WRONLY), 1), (errors, 2)):
            os.dup2(source, target)
        worker.main(folder, method)
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
