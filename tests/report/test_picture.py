from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from crowdwise.data import datasets
from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make
from crowdwise.report import annotators_picture
from crowdwise.report.__main__ import main

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ["<script>alert(1)</script>", "a & b", '"quoted"', "\x00\x0b", "\u202eabc", "猫" * 50]


def texts(picture: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_rows_are_sorted_and_complete() -> None:
    result = make("dawid-skene").fit(datasets.demo().votes).result_
    names = [text for text in texts(annotators_picture(result)) if text.startswith("annotator-")]
    assert names[0] == "annotator-12"
    assert sorted(names) == sorted(result.votes.annotators.tolist())


def test_marks_stand_where_the_numbers_say() -> None:
    result = make("dawid-skene").fit(datasets.demo().votes).result_
    frame = result.annotators_frame().filter(result.annotators_frame()["accuracy"] > 0.5).sort("accuracy")
    picture = ElementTree.fromstring(annotators_picture(result))
    # A circle inside a group is an annotator above chance; the plot begins at 168 and is 330 wide.
    shown = [float(circle.get("cx", 0)) for circle in picture.iterfind(f"{SVG}g/{SVG}circle")]
    assert shown == pytest.approx([168 + 330 * accuracy for accuracy in frame["accuracy"]], abs=0.06)
    row = frame.row(0, named=True)
    low, high = row["accuracy"] - 2 * row["accuracy_sd"], row["accuracy"] + 2 * row["accuracy_sd"]
    assert f"{100 * row['accuracy']:.1f} % ({100 * low:.1f} to {100 * high:.1f}), {row['n_votes']} votes" in annotators_picture(
        result
    )


def test_hostile_names_make_valid_xml() -> None:
    votes = Annotations.from_arrays(
        [n for n in range(10) for _ in HOSTILE], HOSTILE * 10, ["cat", "dog"] * (5 * len(HOSTILE)), classes=["cat", "dog"]
    )
    picture = annotators_picture(make("majority").fit(votes).result_)
    assert {element.tag for element in ElementTree.fromstring(picture).iter()} <= {
        SVG + name for name in ("svg", "title", "rect", "text", "path", "g", "circle")
    }


def test_a_large_crowd_is_shown_by_its_ends() -> None:
    rng = np.random.default_rng(0)
    votes = Annotations.from_arrays(np.repeat(np.arange(400), 5), rng.integers(0, 100, 2000), rng.integers(0, 3, 2000))
    picture = annotators_picture(make("majority").fit(votes).result_)
    assert "… 61 others …" in picture


def test_has_its_own_background_and_no_style_sheet() -> None:
    picture = annotators_picture(make("dawid-skene").fit(datasets.demo().votes).result_)
    first = next(ElementTree.fromstring(picture).iter(f"{SVG}rect"))
    assert (first.get("fill"), first.get("x"), first.get("y")) == ("#ffffff", "0.0", "0.0")
    assert "<style" not in picture


@pytest.mark.slow
def test_command_writes_the_readme_picture_without_warnings(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "crowdwise.report", str(tmp_path / "demo.svg")], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    committed = Path(__file__).resolve().parents[2] / "docs" / "images" / "demo.svg"
    assert (tmp_path / "demo.svg").read_bytes() == committed.read_bytes(), (
        "run: python -m crowdwise.report docs/images/demo.svg"
    )


def test_command_refuses_other_files() -> None:
    with pytest.raises(SystemExit, match="usage"):
        main(["demo.pdf"])
