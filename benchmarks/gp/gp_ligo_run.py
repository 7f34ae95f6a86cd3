"""The methods of gp_ligo.py, and one run of one of them."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.gp import gravity_spy
from benchmarks.gp.gravity_spy import CLASSES, GravitySpy, K

# 350 steps make an epoch at full size: fewer epochs than by default, and inducing points move earlier.
EPOCHS = {"svgpcr": 20, "svgpcr-nf": 12, "gpnetcr": 8, "svgp": 20}
PROCESS: dict[str, Any] = {"batch_size": 500}
EARLIER: dict[str, Any] = {"frozen": 2}
LENGTHS = range(2, 12)
# Name in the tables: method, settings, and what the paper found on the true set (accuracy, likelihood).
METHODS: dict[str, tuple[str, dict[str, Any], tuple[str, str]]] = {
    "svgpcr M=10": ("svgpcr", {"inducing": 10, **PROCESS, **EARLIER}, (".8355", ".8126")),
    "svgpcr M=50": ("svgpcr", {"inducing": 50, **PROCESS, **EARLIER}, (".9184", ".9154")),
    "svgpcr M=100": ("svgpcr", {"inducing": 100, **PROCESS, **EARLIER}, (".9183", ".9149")),
    "svgpcr-nf L=9 M=10": ("svgpcr-nf", {"layers": 9, "inducing": 10, **PROCESS, **EARLIER}, (".7765", ".7346")),
    **{
        f"svgpcr-nf L={layers} M=50": (
            "svgpcr-nf",
            {"layers": layers, "inducing": 50, **PROCESS, **EARLIER},
            (".9189", ".9152") if layers == 9 else ("", ""),
        )
        for layers in LENGTHS
    },
    "svgpcr-nf L=9 M=100": ("svgpcr-nf", {"layers": 9, "inducing": 100, **PROCESS, **EARLIER}, (".9197", ".9157")),
    "gpnetcr M=10": ("gpnetcr", {"measured": 10, **PROCESS}, (".9185", ".9157")),
    "gpnetcr M=50": ("gpnetcr", {"measured": 50, **PROCESS}, (".9186", ".9158")),
    "gpnetcr M=100": ("gpnetcr", {"measured": 100, **PROCESS}, (".9184", ".9155")),
    "aggnet": ("aggnet", {}, (".8957", ".8871")),
    "crowd-layer-vw": ("crowd-layer-vw", {}, (".8886", ".8175")),
    "crowd-layer-vwb": ("crowd-layer-vwb", {}, (".8985", ".8387")),
    "crowd-layer-mw": ("crowd-layer-mw", {}, (".8956", ".8528")),
    "svgp M=50, true labels": ("svgp", {"inducing": 50, **PROCESS, **EARLIER}, ("", "")),
    "network, true labels": ("gold", {}, ("", "")),
}
# The best of each kind in the paper, which are looked at closely.
CLOSELY = ("svgpcr M=50", "aggnet", "crowd-layer-mw")
# Test items of which these keep their probabilities.
N_SAMPLED = 100
# Votes of a volunteer whose matrix is judged.
ENOUGH = 100


def settings_of(entry: str, epochs: int | None) -> dict[str, Any]:
    """Settings of a method, with other epochs of the Gaussian processes than EPOCHS where given."""
    name, settings, _ = METHODS[entry]
    return settings | ({"epochs": epochs or EPOCHS[name]} if name in EPOCHS else {})


def run(entry: str, settings: dict[str, Any], seed: int, scale: float, overlap: float, closely: bool) -> dict[str, Any]:
    """Train and judge; with `closely` keep what the pictures of single items and volunteers need."""
    import torch

    import crowdwise
    from benchmarks.gp.gp_curve import Curve
    from crowdwise.methods.classify.soft_network import SoftNetwork

    torch.set_num_threads(1)
    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
    name = METHODS[entry][0]
    data = gravity_spy.made(seed, scale, shape=gravity_spy.Shape(overlap=overlap))
    # The peak of making the data is not of the method: the kernel counts again from what is resident now. Where it may not,
    # the answer is too large, never too small.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    loaded = megabytes("VmRSS")
    if name == "gold":
        network = SoftNetwork(random_state=seed)
        model = crowdwise.make("two-stage", aggregator="majority", classifier=network, random_state=seed)
    else:
        # Columns of made-up features have no unit: processes standardise each, without a choice.
        columns = {"scaling": "columns"} if name in EPOCHS else {}
        model = crowdwise.make(name, random_state=seed, **columns, **settings)
    true_labels = name in ("gold", "svgp")
    # A prediction by flows takes as long as an epoch: they are not watched.
    curve = Curve(model, data.X_test, data.truth_test, watched=name not in ("svgpcr-nf", "gold"))
    model.fit(data.X, np.array(CLASSES)[data.truth] if true_labels else data.votes, progress=curve.progress)
    seconds = curve.seconds
    predicting = []
    for _ in range(3):
        started = process_time()
        proba = model.predict_proba(data.X_test)
        predicting.append(process_time() - started)
    order = [model.classes_.tolist().index(known) for known in CLASSES]
    proba = proba[:, order]
    result = scores(proba, data.truth_test) | {
        "labels": float("nan") if true_labels else float((model.posterior_[:, order].argmax(1) == data.truth).mean()),
        "matrix error": float("nan"),
        "taken": model.likelihood_ if name in EPOCHS else "",
        "seconds": seconds,
        "predicting": float(np.median(predicting)),
        "memory": megabytes("VmHWM") - loaded,
        "epochs": len(curve.points) or model.result_.n_iter,
        "curve": curve.points,
    }
    if not true_labels:
        matrices = model.confusion_[:, order][:, :, order]
        result["matrix error"] = matrix_error(matrices, data)
        result["counted error"] = matrix_error(counted(data), data)
        if closely:
            result["sampled"] = proba[sampled(data)].tolist()
            result["matrices"] = matrices[list(volunteers(data).values())].round(4).tolist()
    return result


def megabytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(field))


def scores(proba: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    from crowdwise.trust.metrics import auc, brier, ece, log_loss, mean_true_probability

    right, given = proba.argmax(1) == truth, proba[np.arange(len(truth)), truth]
    return {
        "accuracy": float(right.mean()),
        "likelihood": mean_true_probability(proba, truth),
        "nll": log_loss(proba, truth),
        "brier": brier(proba, truth),
        "auc": auc(proba, truth),
        "ece": ece(proba, truth),
        "accuracy by class": [float(right[truth == k].mean()) for k in range(K)],
        "likelihood by class": [float(given[truth == k].mean()) for k in range(K)],
    }


# -- single items and volunteers --------------------------------------------------------------------


def sampled(data: GravitySpy) -> np.ndarray:
    """Test items drawn at random, the same for all methods."""
    return np.random.default_rng(0).choice(len(data.truth_test), size=N_SAMPLED, replace=False)


def volunteers(data: GravitySpy) -> dict[str, int]:
    """Five of those with at least ENOUGH votes who are right in half of the classes' cases or more, by their true matrices."""
    votes, diagonal = data.votes.votes_per_annotator, data.confusion[:, np.arange(K), np.arange(K)]
    able = np.flatnonzero((votes >= ENOUGH) & (diagonal.mean(1) >= 0.5))
    matrix = data.confusion[able]
    ripple, violin, blip, koifish, other = map(CLASSES.index, ("1400Ripple", "Violin", "Blip", "Koifish", "Other"))
    habits = {
        "most often Violin\nfor 1400Ripple": matrix[:, ripple, violin],
        "most often 1400Ripple\nfor Violin": matrix[:, violin, ripple],
        "most often Koifish\nfor Blip": matrix[:, blip, koifish],
        "most often Other\nfor all else": np.delete(matrix[:, :, other], other, axis=1).mean(1),
        "votes nearest 200": -np.abs(votes[able] - 200),
    }
    chosen: dict[str, int] = {}
    for words, habit in habits.items():
        free = ~np.isin(able, list(chosen.values()))
        chosen[words] = int(able[free][np.argmax(habit[free])])
    return chosen


def matrix_error(matrices: np.ndarray, data: GravitySpy) -> float:
    """Mean absolute error of the entries, over volunteers with ENOUGH votes; rows weigh as much as their class in training."""
    busy = data.votes.votes_per_annotator >= ENOUGH
    share = np.bincount(data.truth, minlength=K) / len(data.truth)
    return float((np.abs(matrices[busy] - data.confusion[busy]).mean(2) @ share).mean())


def counted(data: GravitySpy) -> np.ndarray:
    """Matrices by counting votes with the truth in view, under the prior that svgpcr has by default, [A, K, K]."""
    votes = data.votes
    cell = (votes.annotator.astype(np.int64) * K + data.truth[votes.item]) * K + votes.label
    counts = np.bincount(cell, minlength=votes.n_annotators * K * K).reshape(-1, K, K)
    counts = counts + np.where(np.eye(K, dtype=bool), 2.0, 1 / (K - 1))
    return counts / counts.sum(2, keepdims=True)
