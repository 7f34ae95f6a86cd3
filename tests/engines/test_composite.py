"""Sums over cells of co-occurrences: compiled passes equal sparse products; codes by counting equal codes by sorting."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.data.simulate import simulate
from crowdwise.engines import composite, moments
from crowdwise.engines.moments import Cooccurrence, others_table
from crowdwise.kernels.cooccurrence import distinct


@pytest.fixture(scope="module")
def cells() -> Cooccurrence:
    return Cooccurrence.of(simulate(n_items=80, n_annotators=12, n_classes=3, votes_per_item=4, random_state=0).votes)


def test_an_em_step(cells: Cooccurrence, monkeypatch: pytest.MonkeyPatch) -> None:
    table, shares = others_table(cells)
    found = []
    for compiled_from in (0, 10**9):
        monkeypatch.setattr(composite, "COMPILED_FROM", compiled_from)
        found.append(composite.composite_step(cells, table, shares))
    for compiled, plain in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-12)


def test_a_symmetric_product(cells: Cooccurrence, monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(0).random((36, 3))
    dense = np.zeros((36, 36))
    dense[cells.left, cells.right] = dense[cells.right, cells.left] = cells.count_c
    for compiled_from in (0, 10**9):
        monkeypatch.setattr(moments, "COMPILED_FROM", compiled_from)
        np.testing.assert_allclose(cells.times(cells.count_c, table), dense @ table, rtol=1e-12)


def test_distinct_codes() -> None:
    code = np.random.default_rng(0).integers(0, 50, 200)
    for size in (50, 10**9):
        found, place = distinct(code, size)
        assert found.tolist() == sorted(set(code.tolist()))
        np.testing.assert_array_equal(found[place], code)
