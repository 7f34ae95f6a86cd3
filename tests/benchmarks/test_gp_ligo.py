"""How the benchmark of Gravity Spy's size chooses runs, items and volunteers, and what it computes from its records."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest


@pytest.fixture(scope="module")
def modules():
    from benchmarks import page, records
    from benchmarks.gp import gp_curve, gp_ligo, gp_ligo_pictures, gp_ligo_run, gp_ligo_tables, gravity_spy

    own = (gp_curve, gp_ligo, gp_ligo_pictures, gp_ligo_run, gp_ligo_tables, gravity_spy, page, records)
    return SimpleNamespace(**{module.__name__.rpartition(".")[2]: module for module in own})


@pytest.fixture(scope="module")
def data(modules):
    return modules.gravity_spy.made(0, 0.02, n_test=200)


def result(seed: int, nll: float) -> dict:
    marks = ("accuracy", "likelihood", "brier", "auc", "ece", "labels", "matrix error", "counted error", "predicting")
    numbers = dict.fromkeys(marks, 0.5) | {"seconds": 9.0, "memory": 1, "epochs": 2}
    lists = {"accuracy by class": [0.5] * 15, "likelihood by class": [0.5] * 15}
    return numbers | lists | {"seed": seed, "nll": nll, "taken": "softmax", "curve": [[1.0, 0.5], [2.0, 0.9], [3.0, 0.902]]}


def test_studies_have_seeds_of_their_own_per_method(modules):
    gp_ligo = modules.gp_ligo
    fifth = gp_ligo.STUDIES["fifth"]
    runs = gp_ligo.wanted(fifth, list(fifth.seeds), None)
    assert sum(entry == "svgpcr M=50" for entry, _, _ in runs) == 10
    assert sum(entry == "gpnetcr M=10" for entry, _, _ in runs) == 3
    assert [seed for _, seed, _ in runs] == sorted(seed for _, seed, _ in runs)
    overlap = gp_ligo.STUDIES["overlap"]
    assert len(gp_ligo.wanted(overlap, list(overlap.seeds), None)) == 3 * 3 * 4
    assert gp_ligo.wanted(overlap, ["aggnet"], [7])[0] == ("aggnet", 7, 0.5)
    # No two studies share a section, and a run of one is never taken for a run of another.
    assert len({study.section for study in gp_ligo.STUDIES.values()}) == len(gp_ligo.STUDIES)
    keys = [gp_ligo.key_of("svgpcr M=50", 0, study, study.overlaps[0]) for study in gp_ligo.STUDIES.values()]
    assert len(set(keys)) == len(keys)


def test_what_is_kept_is_not_run_again_and_tables_count_it(modules, tmp_path, monkeypatch):
    gp_ligo = modules.gp_ligo
    study = replace(gp_ligo.STUDIES["flows"], kept=gp_ligo.Records("some", tmp_path))
    asked = []

    def pretend(command, **_):
        entry, _, seed, *_ = json.loads(command[-1])
        asked.append((entry, seed))
        nll = {"svgpcr M=50": 1.0, "svgpcr-nf L=2 M=50": 1.25}[entry] + 0.1 * seed
        return SimpleNamespace(returncode=0, stdout=json.dumps(result(seed, nll)))

    monkeypatch.setattr(gp_ligo.subprocess, "run", pretend)
    monkeypatch.setattr(modules.records, "code", lambda: "abc")
    monkeypatch.setattr(modules.records, "machine", lambda: "here")
    runs = gp_ligo.wanted(study, ["svgpcr M=50", "svgpcr-nf L=2 M=50"], [0, 1])
    gp_ligo.measure(study, runs)
    gp_ligo.measure(study, runs)
    gp_ligo.measure(study, runs[:1], again=["svgpcr M=50"])
    assert asked == [run[:2] for run in runs] + [("svgpcr M=50", 0)]
    results = gp_ligo.found(study, runs, 1.0)
    text = gp_ligo.page_text("flows", study, {1.0: results})
    assert text.splitlines()[0].endswith(" at abc (here).")
    row = next(line for line in text.splitlines() if line.startswith("| svgpcr-nf L=2"))
    # Two runs, 1.25 and 1.35, and the same difference for both seeds.
    assert row.split(" | ")[1:3] == ["2", "1.300 ±0.635"]
    assert row.split(" | ")[5] == "0.250 ±0.000"
    modules.gp_ligo_pictures.draw_flows(results, tmp_path / "flows.png")
    assert (tmp_path / "flows.png").stat().st_size > 0


def test_arrival_is_when_accuracy_stays_near_its_last(modules):
    assert modules.gp_ligo_tables.arrival(result(0, 1.0)) == 2.0
    assert np.isnan(modules.gp_ligo_tables.arrival({"curve": []}))


def test_matrices_are_compared_row_by_row_with_the_shares_of_training(modules, data):
    run = modules.gp_ligo_run
    assert run.matrix_error(data.confusion, data) == 0
    # An error of 0.3 in two of fifteen entries of one class's row, for all volunteers.
    wrong = data.confusion.copy()
    wrong[:, 2, 0] += 0.3
    wrong[:, 2, 1] -= 0.3
    assert run.matrix_error(wrong, data) == pytest.approx(0.6 / 15 * (data.truth == 2).mean())
    idle = data.votes.votes_per_annotator < 100
    wrong = data.confusion.copy()
    wrong[idle] = 0
    assert idle.any()
    assert run.matrix_error(wrong, data) == 0


def test_counted_matrices_are_votes_by_true_class(modules, data):
    found = modules.gp_ligo_run.counted(data)
    votes, who = data.votes, int(data.votes.votes_per_annotator.argmax())
    own = votes.annotator == who
    blips = own & (data.truth[votes.item] == 2)
    # Prior: 2 for the right label, 1 spread over fourteen others.
    assert found[who, 2, 2] == pytest.approx(((votes.label[blips] == 2).sum() + 2) / (blips.sum() + 3))
    np.testing.assert_allclose(found.sum(2), 1)


def test_five_different_volunteers_are_chosen_by_their_true_habits(modules, data):
    chosen = modules.gp_ligo_run.volunteers(data)
    assert len(set(chosen.values())) == 5
    assert data.votes.votes_per_annotator[list(chosen.values())].min() >= 100
    able = (data.votes.votes_per_annotator >= 100) & (np.einsum("akk->ak", data.confusion).mean(1) >= 0.5)
    first = chosen["most often Violin\nfor 1400Ripple"]
    assert data.confusion[first, 1, 13] == data.confusion[able, 1, 13].max()


def test_items_are_the_largest_leads_and_the_first_drawn(modules):
    truth = np.zeros(5, dtype=int)
    sure = {"svgpcr": [0.5, 0.1, 0.9, 0.5, 0.5], "one": [0.5, 0.9, 0.5, 0.4, 0.5], "other": [0.5, 0.8, 0.3, 0.5, 0.5]}
    proba = {name: np.stack([np.array(p), 1 - np.array(p)], axis=1) for name, p in sure.items()}
    chosen = modules.gp_ligo_pictures.chosen_items(proba, truth)
    assert list(chosen.values()) == [2, 1, 0, 3]


def test_the_clock_stands_still_while_a_network_is_judged(modules):
    import torch

    now = [0.0]

    class Slow(torch.nn.Module):
        def forward(self, rows):
            now[0] += 100
            return rows

    class Model:
        def _network(self, rows, start):
            return Slow(), None

    model = Model()
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    curve = modules.gp_curve.Curve(model, X, np.array([0, 1, 0, 1]), clock=lambda: now[0])
    curve.progress()
    model._network(None, SimpleNamespace(dtype=torch.float64))
    for _ in range(2):
        now[0] += 3
        curve.progress()
    assert curve.points == [(3.0, 0.75), (6.0, 0.75)]
    assert curve.seconds == 6
