"""Would a temperature, fitted to held-out votes, make the probabilities of networks more honest?

    python -m benchmarks run network_temperature

A tenth of the items judges a training; the temperature under which their votes are likeliest (with the fitted annotators)
is then applied to what the network says of test items. "Truth" fits it to the true labels of the same tenth instead.
Runs are kept in benchmarks/.runs/network_temperature.json.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.feature_sets import SETS
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.trust.metrics import ece, log_loss

BENCHMARK = Benchmark(
    "Would a temperature fitted to held-out votes make networks more honest?",
    sections=("network temperature",),
    data=("labelme", "rte", "sentence_polarity"),
    packages=("torch",),
    renders=("",),
    small={"PARTS": (("labelme", 60),), "METHODS": ("aggnet",), "SEEDS": 1},
)

PARTS = (("labelme", 300), ("labelme", 1000), ("rte", 600), ("sentence_polarity", 1000))
METHODS = ("ccem", "aggnet")
SEEDS = 3
RUNS = Records("network_temperature")


def main() -> None:
    header = ["set", "items", "method", "T by votes", "T by truth"]
    header += [f"{what}, {how}" for what in ("NLL", "ECE") for how in ("as it is", "T by votes", "T by truth")]
    rows = []
    for name, n_items in PARTS:
        for method in METHODS:
            runs = [measured(name, n_items, method, seed) for seed in range(SEEDS)]
            scores = [f"{what}{how}" for what in ("nll", "ece") for how in ("", "_votes", "_truth")]
            columns = [("t_votes", 2), ("t_truth", 2), *((score, 3) for score in scores)]
            rows.append([name, str(n_items), method, *(interval([r[key] for r in runs], 1, digits) for key, digits in columns)])
    about = f"\n{SEEDS} seeds; mean ± half width of the 95% interval over seeds.\n\n"
    put("network temperature", provenance("python -m benchmarks run network_temperature", RUNS) + about + table(header, rows))


@RUNS.each
def measured(name: str, n_items: int, method: str, seed: int) -> dict[str, float]:
    data = SETS[name](seed)
    order = np.random.default_rng(seed).permutation(len(data.X))[:n_items]
    held, taught = np.sort(order[: n_items // 10]), np.sort(order[n_items // 10 :])
    model = crowdwise.make(method, random_state=seed, validation_data=(data.X[held], data.votes[held]))
    model.fit(data.X[taught], data.votes[taught])
    log_f = np.log(model.predict_proba(data.X[held]).clip(1e-300))
    votes = data.votes[held]
    evidence = np.zeros_like(log_f)
    np.add.at(evidence, votes.item, np.log(model.confusion_[votes.annotator, :, votes.label].clip(1e-30)))
    known = np.flatnonzero(data.truth[held] >= 0)
    certain = np.full((len(known), log_f.shape[1]), -1e3)
    certain[np.arange(len(known)), data.truth[held][known]] = 0.0
    temperatures = {"": 1.0, "_votes": best(log_f, evidence), "_truth": best(log_f[known], certain)}
    tested = np.flatnonzero(data.truth_test >= 0)
    log_test, truth = np.log(model.predict_proba(data.X_test[tested]).clip(1e-300)), data.truth_test[tested]
    found = {f"t{how}": value for how, value in temperatures.items()}
    for how, value in temperatures.items():
        proba = np.exp(log_softmax(log_test / value, axis=1))
        found |= {f"nll{how}": log_loss(proba, truth), f"ece{how}": ece(proba, truth)}
    return found


def best(log_f: np.ndarray, evidence: np.ndarray) -> float:
    """The temperature under which what is known of the items is likeliest."""

    def loss(log_t: float) -> float:
        return -float(logsumexp(log_softmax(log_f / np.exp(log_t), axis=1) + evidence, axis=1).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(np.log(0.2), np.log(6.0)), method="bounded").x))
