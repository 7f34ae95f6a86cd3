"""Figures on the pages of methods are those of the benchmarks, of this method, and of real sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import measured
import pytest

PAGE = """\
# Benchmarks

## Accuracy on real data

<!-- begin: real data -->
**Accuracy in percent** (the best in bold).

| set | majority | glad | mace |
|---|---:|---:|---:|
| cats (10 items) | 70.0 | **80.0** | 75.0 |
| dogs (20 items) | 60.0 | 61.0 | 62.0 |

**Log-loss** (lower is better).

| set | majority | glad | mace |
|---|---:|---:|---:|
| cats | 0.7 | 0.8 | 0.9 |
| dogs | 0.1 | 0.2 | 0.3 |
<!-- end: real data -->

## Classifiers trained on votes

<!-- begin: learn cats -->
**rte**: 10 items.

| method | test accuracy | seconds |
|---|---:|---:|
| two-stage majority | 50.0 | 1 |
| ccem | 52.0 | 2 |
| raykar, gaussian | 53.0 | 3 |
<!-- end: learn cats -->

## Speed

| method | seconds |
|---|---:|
| mace | 4 |
"""


@pytest.fixture(autouse=True)
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    real, speed = PAGE.split("## Speed")
    (tmp_path / "accuracy.md").write_text(real)
    (tmp_path / "speed.md").write_text(f"# Speed\n\n## Speed{speed}")
    monkeypatch.setattr(measured, "PAGES", tmp_path)
    monkeypatch.setitem(measured.REAL, "learn cats", ())
    measured.read_tables.cache_clear()
    yield
    measured.read_tables.cache_clear()


def test_columns_of_a_method_are_joined_by_set_with_majority_beside_them() -> None:
    shown = measured.results_of("glad").splitlines()
    assert shown[0] == "From [Accuracy on real data](../evidence/accuracy.md#accuracy-on-real-data)."
    assert shown[2] == "| set | glad: accuracy in percent | glad: log-loss | majority: accuracy in percent |"
    assert shown[4:] == ["| cats | **80.0** | 0.8 | 70.0 |", "| dogs | 61.0 | 0.2 | 60.0 |"]


def test_rows_of_a_method_and_its_variants_stand_beside_the_baseline() -> None:
    shown = measured.results_of("raykar").splitlines()
    assert shown[2:] == [
        "| set | method | test accuracy |",
        "|---|---:|---:|",
        "| rte | two-stage majority | 50.0 |",
        "| rte | raykar, gaussian | 53.0 |",
    ]


def test_tables_without_real_sets_are_links() -> None:
    assert measured.results_of("mace").endswith("Also measured: [Speed](../evidence/speed.md#speed).")


def test_a_method_that_no_real_set_knows_says_so() -> None:
    assert measured.results_of("kos") == "No real set has been measured with this method."


def test_a_method_is_not_taken_for_another_of_a_longer_name() -> None:
    assert "61.0" not in measured.results_of("gla")
    assert not measured.results_of("two-stage").startswith("From")
