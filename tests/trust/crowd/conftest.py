"""Simulated crowds of the benchmarks, and the prototype that the check for dependence comes from."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CROWDS = Path(__file__).parents[3] / "benchmarks" / "dependent_crowds.py"


def loaded(name: str, path: Path) -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.fixture(scope="module")
def crowds() -> Iterator[Any]:
    yield from loaded("dependent_crowds", CROWDS)


@pytest.fixture(scope="module")
def prototype(shared_data: Path) -> Iterator[Any]:
    path = shared_data.parent / "methods" / "dependence_prototype.py"
    if not path.is_file():
        pytest.skip(f"no prototype to compare with at {path}")
    yield from loaded("dependence_prototype", path)
