"""Which model labels the items of a campaign with features: twelve simulated crowds, random answers, a fit after every batch.

    python -m benchmarks run campaign_models                       # two seeds, written to its page
    python -m benchmarks run campaign_models --models raykar --dry-run

The default of campaigns was chosen in view of these crowds (see campaign_crowds.py), not of those of `versus_active.py`. A fall
is that of the share of right labels from one batch to the next. Networks take long: one seed.

Runs are kept in benchmarks/records/campaign_models.jsonl, so that an interrupted command resumes where it stopped.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import process_time
from typing import Any

import numpy as np

import crowdwise
import crowdwise.errors
from benchmarks.campaigns.active_curves import Crowd, recorded_rows
from benchmarks.campaigns.campaign_crowds import CROWDS, crowd_of
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "Which model should label the items of a campaign with features?",
    sections=("campaign models",),
    data=("rte", "cifar10n", "ner_mturk"),
    packages=("torch",),
    renders=("--models raykar yan crowd-em two-stage dawid",),
    quick="--seeds 1 --models two-stage --dry-run",
    small={"SIZE": 40, "STEPS": (1.0, 2.0), "RECORDED": ()},
)

RECORDS = Records("campaign_models")
SIZE = 240
# Votes per item at which a model is fitted.
STEPS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
DEFAULT = "raykar, auto, 20 rounds, from majority"
LAST = "last posterior"
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    DEFAULT: ("raykar", {"classifier": "auto", "init": "majority", "gaussian_iter": 20}),
    "raykar, auto, from majority": ("raykar", {"classifier": "auto", "init": "majority"}),
    "raykar, auto, from dawid-skene": ("raykar", {"classifier": "auto", "init": "dawid-skene"}),
    "raykar, auto, from the last fit": ("raykar", {"classifier": "auto", "init": LAST}),
    "raykar, gaussian, 8 rounds, from majority": (
        "raykar",
        {"classifier": "gaussian", "init": "majority", "gaussian_iter": 8},
    ),
    "raykar, gaussian, 20 rounds, from majority": (
        "raykar",
        {"classifier": "gaussian", "init": "majority", "gaussian_iter": 20},
    ),
    "raykar, gaussian, from majority": ("raykar", {"classifier": "gaussian", "init": "majority"}),
    "raykar, logistic, from majority": ("raykar", {"init": "majority"}),
    "raykar, logistic, from dawid-skene": ("raykar", {}),
    "yan, from majority": ("yan", {"init": "majority"}),
    "crowd-em, from majority": ("crowd-em", {"init": "majority"}),
    "two-stage, majority": ("two-stage", {"aggregator": "majority"}),
    "dawid-skene, votes alone": ("dawid-skene", {}),
    "ccem, from majority": ("ccem", {"init": "majority"}),
    "dalc": ("dalc", {}),
}
NETWORKS = ("ccem", "dalc")
# Recorded votes, on which the choice between the two classifiers was tried; not those of `versus_active.py`.
RECORDED = ("cifar10n", "rte", "ner_mturk")
TWO = (DEFAULT, "raykar, gaussian, 20 rounds, from majority", "raykar, logistic, from majority")


def answers_of(data: Crowd, n_votes: int, seed: int) -> Annotations:
    """So many random votes of a crowd, the first of one order."""
    oracle = data.oracle
    if oracle.allowed is not None:
        order = np.random.default_rng([2, seed]).permutation(oracle.allowed.n_votes)
        return replace(oracle.allowed, gold=None).take_votes(np.sort(order[:n_votes]))
    order = np.random.default_rng([2, seed]).permutation(oracle.said.size)
    item, annotator = np.divmod(order[:n_votes], oracle.said.shape[1])
    return Annotations.from_arrays(
        item, annotator, oracle.said[item, annotator],
        items=oracle.items.tolist(), annotators=oracle.annotators.tolist(), classes=oracle.classes.tolist(),
    )  # fmt: skip


def run(name: str, crowd: str, seed: int) -> list[list[float]]:
    """Labels, predictions of test items and processor seconds after every batch of random answers."""
    data = recorded_rows(crowd, 30, SIZE, seed) if crowd in RECORDED else crowd_of(crowd, SIZE, seed)
    method, settings = MODELS[name]
    last, points = "majority", []
    for step in STEPS:
        votes = answers_of(data, round(step * SIZE), seed)
        model = crowdwise.make(method, **(settings | ({"init": last} if settings.get("init") == LAST else {})))
        started = process_time()
        model.fit(*((votes,) if hasattr(model, "update") else (data.X, votes)))
        seconds = process_time() - started
        test = np.nan if hasattr(model, "update") else float((model.predict(data.X_test) == data.truth_test).mean())
        known = data.oracle.truth >= 0
        points.append([accuracy(model.result_.posterior[known], data.oracle.truth[known]), test, seconds])
        last = model.result_.model_posterior
    return points


def measured(names: list[str], crowds: Sequence[str], n_seeds: int) -> dict[str, dict[tuple[str, int], list[list[float]]]]:
    """Curves by model, crowd and seed."""
    found: dict[str, dict[tuple[str, int], list[list[float]]]] = {name: {} for name in names}
    for seed in range(n_seeds):
        for name in names:
            if seed and MODELS[name][0] in NETWORKS:
                continue
            for crowd in crowds:
                key = f"{name} / {crowd} / {seed}"
                found[name][crowd, seed] = RECORDS.once(key, partial(run, name, crowd, seed))
    return found


def rows_of(found: dict[str, dict[tuple[str, int], list[list[float]]]]) -> list[list[str]]:
    rows = []
    for name, runs in found.items():
        values = np.array(list(runs.values()), float)
        fall = np.maximum(-np.diff(values[:, :, 0], axis=1), 0).max(axis=1)
        gap = [np.mean(np.array(runs[key])[:, 0] - np.array(found[DEFAULT][key])[:, 0]) for key in runs]
        cells = [f"{100 * values[:, :, 0].mean():.1f}", "-" if name == DEFAULT else interval(gap, 100, 1)]
        cells += [f"{100 * values[:, :, 1].mean():.1f}" if np.isfinite(values[:, :, 1]).all() else "-"]
        rows.append([name, *cells, f"{100 * fall.mean():.1f}", f"{100 * fall.max():.0f}", f"{values[:, :, 2].mean():.2f}"])
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--models", nargs="*", help="whose name begins so", default=[""])
    options.add_argument("--dry-run", action="store_true", help="print the table, leave the page alone")
    given = options.parse_args()
    names = [name for name in MODELS if name == DEFAULT or name.startswith(tuple(given.models))]
    found = measured(names, CROWDS, given.seeds)
    by_set = {crowd: measured(list(TWO), [crowd], given.seeds) for crowd in RECORDED}
    recorded = [[crowd, *(row[1] for row in rows_of(runs))] for crowd, runs in by_set.items()]
    head = [
        "model",
        "labels (%)",
        "less the default's",
        "test items (%)",
        "fall, mean (points)",
        "largest",
        "processor s per fit",
    ]
    command = "python -m benchmarks run campaign_models" + (
        f" --models {' '.join(given.models)}" if given.models != [""] else ""
    )
    text = f"""{provenance(command, RECORDS)}
{len(CROWDS)} simulated crowds of {SIZE} items, {given.seeds} seeds (of networks one), random answers; means over fits at
{", ".join(f"{step:g}" for step in STEPS)} votes per item. Differences are paired, ± half width of the 95% interval over
crowds and seeds. A fall is the largest of a campaign.

{table(head, rows_of(found))}

The two classifiers and the choice between them on recorded votes, labels (%):

{table(["set", *TWO], recorded)}
"""
    if given.dry_run:
        print(text)
        return
    put("campaign models", text)


if __name__ == "__main__":
    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
    main()
