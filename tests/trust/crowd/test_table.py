from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.methods.labels.helpers import quiet
from tests.trust.crowd.crowds import fit

from crowdwise.data.annotations import Annotations
from crowdwise.data.datasets import demo
from crowdwise.data.simulate import simulate
from crowdwise.errors import InputError, MissingExtraError
from crowdwise.estimator.judgement import crowd_of
from crowdwise.estimator.registry import make
from crowdwise.report.plot.crowd import plot_confusions
from crowdwise.trust.crowd.pruning import refit_without
from crowdwise.trust.crowd.table import examine, with_dropped


@pytest.mark.slow
def test_one_row_per_annotator_with_words() -> None:
    crowd = simulate(1500, 20, 3, 8, {"one-coin": 0.8, "uniform-spammer": 0.1, "colluder": 0.1}, random_state=0)
    found = examine(fit(crowd.votes), time=np.random.default_rng(0).random(crowd.votes.n_votes))
    table = found.table
    assert set(found.reports) == {"spammer", "copier", "colluder", "group", "drift"}
    assert table["accuracy"].is_sorted(descending=True)
    assert ((table["accuracy_low"] <= table["accuracy"]) & (table["accuracy"] <= table["accuracy_high"])).all()
    assert found.spammers == ["annotator-17", "annotator-18"]
    rows = {row["annotator"]: row for row in table.iter_rows(named=True)}
    assert rows["annotator-17"]["flags"] == "spammer"
    assert "perfect annotator" in rows["annotator-17"]["reasons"] or "alike" in rows["annotator-17"]["reasons"]
    assert rows["annotator-19"]["flags"].startswith("copier")
    assert rows["annotator-01"]["flags"] == ""
    assert rows["annotator-01"]["worst_confusion"].startswith("class-")
    assert rows["annotator-17"]["bits"] < 0.02 < 0.2 < rows["annotator-01"]["bits"]


@pytest.mark.slow
def test_intervals_hold_the_true_accuracy() -> None:
    inside = []
    for seed in range(5):
        crowd = simulate(1000, 20, 3, 6, "one-coin", random_state=seed)
        table = examine(fit(crowd.votes)).table.sort("annotator")
        true = np.einsum("akk->ak", crowd.confusion).mean(axis=1)
        inside += list((table["accuracy_low"].to_numpy() <= true) & (true <= table["accuracy_high"].to_numpy()))
    assert np.mean(inside) > 0.85


def test_refit_keeps_items_gold_and_records() -> None:
    votes = demo().votes.with_gold({"photo-001": "fox"})
    model = make("dawid-skene").fit(votes, history={"annotator-01": (30, 1), "annotator-10": (1, 9)})
    everyone_on_first = votes.annotators[votes.annotator[: votes.item_ptr[2]][votes.item[: votes.item_ptr[2]] == 1]].tolist()
    rest = refit_without(model.result_, everyone_on_first)
    frame = rest.items_frame()
    assert frame.height == 120
    assert frame["note"].to_list()[:2] == ["known", "no votes"]
    np.testing.assert_allclose(rest.posterior[1], rest.class_prior, atol=1e-9)
    assert rest.votes.n_annotators == 12 - len(everyone_on_first)
    assert rest.history is not None
    expected = [model.result_.history[a] for a in range(12) if votes.annotators[a] not in everyone_on_first]
    np.testing.assert_allclose(rest.history, expected)
    assert refit_without(model.result_, []) is model.result_
    with pytest.raises(InputError, match="nobody is left"):
        refit_without(model.result_, votes.annotators)
    with pytest.raises(InputError, match="7 of 12 annotators would be dropped, most of the crowd"):
        refit_without(model.result_, votes.annotators[:7])
    assert refit_without(model.result_, votes.annotators[:7], even_most=True).votes.n_annotators == 5


@pytest.mark.slow
def test_the_dropped_stay_listed() -> None:
    before = examine(fit(demo().votes)).table
    after = before.head(10)
    table = with_dropped(before, after)
    assert table["annotator"].to_list() == before["annotator"].to_list()
    assert all(text.endswith("dropped") for text in table["flags"].tail(2))


@pytest.mark.slow
def test_plots_are_written_whole(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = fit(demo().votes)
    assert plot_confusions(result, tmp_path / "c.png") == 12
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert plot_confusions(result, tmp_path / "c.svg", annotators=["annotator-12"]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.png", "c.svg"]
    with pytest.raises(InputError, match="ends in"):
        plot_confusions(result, tmp_path / "c.txt")


def test_plots_name_the_extra_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"crowdwise\[report\]"):
        plot_confusions(fit(demo().votes), tmp_path / "c.png")


def test_nobody_is_unknown_whose_accuracy_is_above_chance() -> None:
    votes = simulate(300, 40, 2, 4, "one-coin", random_state=2).votes
    result = fit(votes)
    table = examine(result).table
    crowd = crowd_of(result)
    chance = dict(zip(votes.annotators.tolist(), crowd.chance.tolist(), strict=True))
    unknown = table.filter(table["flags"] == "unknown")
    assert unknown.height
    assert all(row["accuracy_low"] <= chance[row["annotator"]] for row in unknown.iter_rows(named=True))


def test_every_detector_is_announced() -> None:
    steps: list[tuple[str, int, int | None]] = []
    examine(fit(demo().votes), progress=lambda *step: steps.append(step))
    assert steps == [(f"looking for {name}s", n, 4) for n, name in enumerate(["spammer", "copier", "colluder", "group"])]


def test_who_never_meets_anybody_is_unknown_for_that_reason() -> None:
    labels = ["a", "b"] * 20
    alone = Annotations.from_arrays(range(40), ["ann"] * 40, labels)
    few = Annotations.from_arrays([0, 1, 2] * 2, ["ann"] * 3 + ["bob"] * 3, [*labels[:3]] * 2)
    for votes, reason in ((alone, "nobody else voted on the same items"), (few, "too few votes to tell from chance")):
        with quiet():
            table = examine(fit(votes)).table
        assert table.filter(annotator="ann")["reasons"].item() == reason
