"""Tests mirror the rooms: what fails in a room has a failing test in the folder of its name."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "crowdwise"
# Folders of tests that are no room: the contract of all methods, damaged files, and what stands beside the package.
OTHER_FOLDERS = {"contract": SOURCE, "fuzz": SOURCE, "live": SOURCE} | {
    name: TESTS.parent / name for name in ("tools", "benchmarks", "docs")
}
# Of the package as a whole.
TOP_LEVEL = {"test_docs.py", "test_exports.py", "test_layout.py"}


def test_only_tests_of_the_whole_package_stand_outside_the_rooms() -> None:
    assert {path.name for path in TESTS.glob("test_*.py")} <= TOP_LEVEL


def test_every_folder_of_tests_is_a_room_or_a_part_of_one() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path()}
    homeless = [
        folder.as_posix()
        for folder in sorted(folders)
        if folder.parts[0] not in OTHER_FOLDERS and not (SOURCE / folder / "__init__.py").exists()
    ]
    assert homeless == []
    assert all(path.is_dir() for path in OTHER_FOLDERS.values())


def test_every_part_of_a_room_has_tests() -> None:
    packages = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("__init__.py")} - {Path()}
    # In a folder of its own (or in those below it), or in one file of its name.
    untested = [
        package.as_posix()
        for package in sorted(packages)
        if not any((TESTS / package).rglob("test_*.py")) and not (TESTS / package.with_name(f"test_{package.name}.py")).exists()
    ]
    assert untested == []
