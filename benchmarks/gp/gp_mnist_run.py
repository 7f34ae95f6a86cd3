"""The methods of gp_mnist.py, one run of one of them, and the runs there are."""

from __future__ import annotations

import base64
import json
import zlib
from time import process_time
from typing import Any

import numpy as np
import polars as pl

import crowdwise
from benchmarks.gp.gp_curve import Curve
from benchmarks.page import SHARED
from benchmarks.records import Records
from crowdwise.data.simulate import simulate
from crowdwise.trust.metrics import ece, log_loss, mean_true_probability

N_CLASSES = 10
ANNOTATORS = ("95%", "90%", "80%", "spammer", "adversary")
# Name in the tables: method, and settings beside those of the study.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "svgp gold": ("svgp", {}),
    "svgpcr": ("svgpcr", {}),
    "svgpcr, the paper's likelihood": ("svgpcr", {"likelihood": "robust-max", "epsilon": "fixed"}),
    "dawid-skene + svgp": ("svgp", {"init": "dawid-skene"}),
}
NEAREST = "3 nearest neighbours, true labels"
ONE_SCALE, STANDARDISED = "one scale", "standardised"
N_INDUCING = 100
SWEEP = (10, 25, 50, 100, 200, 500)
# Inducing points that are drawn of every digit, as many as in the paper.
SHOWN_POINTS = 3
# Wrong labels that are drawn.
N_WRONG = 4
# The batch is the paper's.
SETTINGS = {"epochs": 25, "batch_size": 500, "learning_rate": 3e-2}


def load(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels from 0 to 1, [N, 784], and digits; `part` is "" or "test_"."""
    images = np.load(SHARED / "mnist" / f"{part}images.npz")["images"]
    truth = pl.read_csv(SHARED / "mnist" / f"{part}truth.csv")["label"].to_numpy()
    return images.reshape(len(images), -1) / 255, truth


def true_confusions() -> np.ndarray:
    """P(vote | digit) of the five annotators, [A, K, K]; errors are spread evenly."""

    def right(share: float, shift: int = 0) -> np.ndarray:
        favourite = np.roll(np.eye(N_CLASSES), shift, axis=1)
        return share * favourite + (1 - share) / (N_CLASSES - 1) * (1 - favourite)

    return np.stack([right(0.95), right(0.90), right(0.80), right(1 / N_CLASSES), right(0.90, shift=1)])


def by_class(values: np.ndarray, truth: np.ndarray) -> list[float]:
    return [float(values[truth == k].mean()) for k in range(N_CLASSES)]


def run(method: str, pixels: str, n_inducing: int, seed: int, settings: dict, data: tuple) -> dict[str, Any]:
    """Train, judge on the test images and, where there are votes, on the labels and matrices that were recovered."""
    (X, truth), (X_test, truth_test) = data
    crowd = {"annotators": true_confusions(), "votes_per_item": len(ANNOTATORS), "classes": list(range(N_CLASSES))}
    votes = simulate(truth=truth, random_state=seed, **crowd).votes
    name, own = METHODS[method]
    scaling = "together" if pixels == ONE_SCALE else "columns"
    model = crowdwise.make(name, inducing=n_inducing, random_state=seed, scaling=scaling, **settings, **own)
    curve = Curve(model, X_test, truth_test, watched=method == "svgpcr" and pixels == ONE_SCALE)
    model.fit(X, truth if method == "svgp gold" else votes, progress=curve.progress)
    seconds = curve.seconds
    started = process_time()
    proba = model.predict_proba(X_test)
    test_seconds = process_time() - started
    right = proba.argmax(1) == truth_test
    given = proba[np.arange(len(truth_test)), truth_test]
    found = {
        "accuracy": float(right.mean()),
        "likelihood": mean_true_probability(proba, truth_test),
        "nll": log_loss(proba, truth_test),
        "ece": ece(proba, truth_test),
        "accuracy by class": by_class(right, truth_test),
        "likelihood by class": by_class(given, truth_test),
        "nll by class": by_class(-np.log(given), truth_test),
        "taken": model.likelihood_,
        "seconds": seconds,
        "test seconds": test_seconds,
        "curve": curve.points,
    }
    if method == "svgp gold":
        return found
    if method == "dawid-skene + svgp":
        recovered = crowdwise.make("dawid-skene").fit(votes).labels_
        found["recovered"] = float((recovered == truth).mean())
        found["errors"] = int((recovered != truth).sum())
        return found
    found |= recovery(model, truth)
    if seed == 0 and n_inducing == N_INDUCING and method == "svgpcr" and pixels == ONE_SCALE:
        found |= closely(model, truth)
    return found


def recovery(model: Any, truth: np.ndarray) -> dict[str, Any]:
    """How well labels and matrices were recovered; of how many wrong labels the true one was the second choice."""
    same = model.labels_ == truth
    second = np.argsort(-model.posterior_, axis=1, kind="stable")[:, 1]
    return {
        "recovered": float(same.mean()),
        # As the paper's, of the model alone; what is printed is tempered by experience with other crowds.
        "label likelihood": mean_true_probability(model.result_.model_posterior, truth),
        "errors": int((~same).sum()),
        "second": int((second == truth)[~same].sum()),
        "recovered by class": by_class(same, truth),
        "largest variance": float(model.result_.confusion_sd.max() ** 2),
        "matrix error": float(np.abs(model.confusion_ - true_confusions()).max()),
    }


def closely(model: Any, truth: np.ndarray) -> dict[str, Any]:
    """What the pictures of one run show: matrices, the surest inducing points of every digit, and wrong labels."""
    wrong = np.flatnonzero(model.labels_ != truth)
    points = model.inducing_points_
    proba = model.predict_proba(points)
    chosen = []
    for k in range(N_CLASSES):
        own = np.flatnonzero(proba.argmax(1) == k)
        chosen += [(k, which) for which in own[np.argsort(-proba[own, k], kind="stable")][:SHOWN_POINTS]]
    # 32 shades, packed, or these images would be most of the file.
    shades = (255 * points[[which for _, which in chosen]]).clip(0, 255).astype(np.uint8) & 0xF8
    return {
        "confusion": model.confusion_.round(4).tolist(),
        "inducing digits": [k for k, _ in chosen],
        "inducing": base64.b64encode(zlib.compress(shades.tobytes(), 9)).decode(),
        "wrong": [[int(which), model.posterior_[which].tolist()] for which in wrong[:N_WRONG]],
    }


def unpacked(images: str) -> np.ndarray:
    """Inducing points as they were before `closely` packed them, [n, 784], from 0 to 255."""
    return np.frombuffer(zlib.decompress(base64.b64decode(images)), dtype=np.uint8).reshape(-1, 784)


def nearest(pixels: str, data: tuple) -> dict:
    """Three nearest neighbours with true labels: what these images allow, whatever the classifier."""
    from sklearn.neighbors import KNeighborsClassifier

    (X, truth), (X_test, truth_test) = data
    spread = X.std(axis=0) if pixels == STANDARDISED else np.ones(X.shape[1])
    scale = np.where(spread > 0, spread, 1)
    model = KNeighborsClassifier(3, algorithm="brute").fit((X / scale).astype(np.float32), truth)
    return {"accuracy": float((model.predict((X_test / scale).astype(np.float32)) == truth_test).mean())}


class Study:
    """The runs there are, and those yet to do."""

    def __init__(self, settings: dict[str, Any], records: Records) -> None:
        self.settings, self.records = settings, records
        self.kept: dict[str, dict] = records.read()

    def key(self, method: str, pixels: str, n_inducing: int, seed: int) -> str:
        settings = json.dumps(self.settings | METHODS[method][1], sort_keys=True)
        return " / ".join([method, pixels, f"M={n_inducing}", f"seed {seed}", settings])

    def measure(self, wanted: list[tuple[str, str, int, int]]) -> None:
        data = load(""), load("test_")
        for each in wanted:
            if self.key(*each) not in self.kept:
                self.keep(self.key(*each), run(*each, self.settings, data))
        for pixels in (ONE_SCALE, STANDARDISED):
            if f"{NEAREST} / {pixels}" not in self.kept:
                self.keep(f"{NEAREST} / {pixels}", nearest(pixels, data))

    def keep(self, key: str, found: dict[str, Any]) -> None:
        self.kept[key] = found
        self.records.add(key, found)
        print(key, {k: round(v, 4) for k, v in found.items() if isinstance(v, float | int)}, flush=True)

    def runs(self, method: str, pixels: str, n_inducing: int, seeds: int) -> list[dict]:
        keys = (self.key(method, pixels, n_inducing, seed) for seed in range(seeds))
        return [self.kept[key] for key in keys if key in self.kept]
