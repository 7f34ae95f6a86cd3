"""Where figures come from: the code, the machine and the versions that made them, and whether the code has changed since."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

from benchmarks.places import ROOT

LIBRARIES = ("numpy", "numba", "polars")


def git(*words: str) -> subprocess.CompletedProcess[str]:
    """A git command on this checkout; without git it fails like one that does not know the commit."""
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return subprocess.CompletedProcess(words, 127, "", "")


def code() -> str:
    """The commit of the working tree, with a plus where library or scripts differ from it; else the version of the package."""
    commit = git("rev-parse", "--short=8", "HEAD")
    if commit.returncode:
        return version("crowdwise")
    changed = git("diff", "--quiet", "HEAD", "--", "src", "benchmarks/*.py", "benchmarks/**/*.py").returncode
    return commit.stdout.strip() + ("+" if changed else "")


@cache
def machine() -> str:
    """Processor, cores, memory, and the versions of Python and of the libraries that compute."""
    memory = _line("/proc/meminfo", "MemTotal")
    size = f", {round(int(memory.split()[0]) / 2**20)} GB" if memory else ""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processor = _line("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return f"Python {platform.python_version()}, {libraries}; {processor}, {cores} cores{size}"


def _line(file: str, field: str) -> str:
    """A figure of this machine, where the system tells it (Linux)."""
    lines = Path(file).read_text().splitlines() if Path(file).exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), "")


@cache
def changed_since(commit: str, paths: tuple[str, ...]) -> int | None:
    """How many of these files differ from a commit; None where the history does not have it."""
    done = git("diff", "--name-only", commit.rstrip("+"), "--", *paths)
    return None if done.returncode else len(done.stdout.splitlines())


@cache
def last_of(day: str) -> str:
    """The last commit of a day or before it, for figures that name a day and no commit."""
    return git("rev-list", "-1", "--abbrev-commit", "--abbrev=8", f"--before={day} 23:59:59 +0000", "HEAD").stdout.strip()


@cache
def day_of(commit: str) -> str:
    """When a commit was made; empty where the history does not have it."""
    return git("show", "-s", "--format=%cs", commit.rstrip("+")).stdout.strip()


def changed_on(path: Path) -> str:
    """The day on which a file was last committed; empty where it never was."""
    return git("log", "-1", "--format=%cs", "--", str(path)).stdout.strip()


def measured_in(text: str) -> list[tuple[str, str]]:
    """Days and, where they are named, commits of the lines "Measured on ..." of a text."""
    return re.findall(r"Measured on (\d{4}-\d\d-\d\d)(?: to [\d-]+| or before)? by `[^`]*`(?: at ([0-9a-f]{7,}\+?))?", text)
