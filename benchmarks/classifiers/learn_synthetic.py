"""Claims of the papers on data with known truth: confusion error with more data, GeoCrowdNet's two cases, COINNet's outliers.

python -m benchmarks run learn_synthetic
"""

from __future__ import annotations

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.trust.metrics import confusion_error

BENCHMARK = Benchmark(
    "Do claims of the papers on confusion matrices hold on known truth?",
    sections=("learn synthetic",),
    packages=("torch",),
    renders=("",),
    small={"SEEDS": 1, "ENTRIES": {"two-stage": {}, "ccem": {}}},
)

RUNS = Records("learn_synthetic")

SEEDS = 3
K, WIDTH = 5, 10
ENTRIES = {
    "two-stage": {},
    "raykar": {},
    "aggnet": {},
    "ccem": {},
    "ccem, identity start": {"init": "identity"},
    "geocrowdnet-f": {},
    "geocrowdnet-w": {},
    "geocrowdnet-w, strength 0.1": {"strength": 0.1},
}


def items(n: int, spread: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes around fixed corners: X [n, WIDTH] and labels."""
    centre = np.random.default_rng(7).normal(size=(K, WIDTH))
    y = rng.integers(K, size=n)
    return (centre[y] + spread * rng.normal(size=(n, WIDTH))).astype(np.float32), y


def crowd(kind: str, n_annotators: int, rng: np.random.Generator) -> np.ndarray:
    """Confusion matrices, [A, K, K].

    no experts: every row a noisy mixture, the right label only the likeliest.
    experts: three of them are right nineteen times in twenty; the others guess, each with a bias of its own.
    """
    if kind == "no experts":
        return 0.25 * np.eye(K) + 0.75 * rng.dirichlet(np.ones(K), size=(n_annotators, K))
    matrices = rng.dirichlet(np.full(K, 5.0), size=(n_annotators, K))
    matrices[:3] = 0.95 * np.eye(K) + 0.05 / K
    return matrices / matrices.sum(2, keepdims=True)


def vote(y: np.ndarray, matrices: np.ndarray, per_item: int, rng: np.random.Generator) -> Annotations:
    who = np.array([rng.choice(len(matrices), per_item, replace=False) for _ in y])
    rows = matrices[who, y[:, None]]
    label = (rng.random((*who.shape, 1)) > rows.cumsum(2)[:, :, :-1]).sum(2)
    return Annotations.from_arrays(
        item=np.repeat(np.arange(len(y)), per_item), annotator=who.ravel(), label=label.ravel(), classes=list(range(K))
    )


@RUNS.each
def measured(entry: str, kind: str, n: int, seed: int, **settings) -> tuple[float, float]:
    """Test accuracy, and error of the confusion matrices (`crowdwise.trust.metrics.confusion_error`, classes not renamed)."""
    rng = np.random.default_rng(seed)
    matrices = crowd(kind, 10, rng)
    spread = 0.8 if kind == "no experts" else 1.5
    X, y = items(n, spread, rng)
    votes = vote(y, matrices, 3, rng)
    X_test, y_test = items(4000, spread, rng)
    model = crowdwise.make(entry.partition(",")[0], random_state=seed, **settings).fit(X, votes)
    truth = matrices[votes.annotators.astype(int)]
    return model.score(X_test, y_test), confusion_error(model.confusion_, truth, align=False)


@RUNS.each
def outlier_auc(seed: int) -> float:
    """Area under the ROC curve of COINNet's scores for items on which all annotators fail."""
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    X, y = items(2000, 0.5, rng)
    planted = rng.random(len(y)) < 0.1
    seen = np.where(planted, (y + rng.integers(1, K, len(y))) % K, y)
    matrices = 0.7 * np.eye(K) + 0.3 * rng.dirichlet(np.ones(K), size=(10, K))
    model = crowdwise.make("coinnet", random_state=seed).fit(X, vote(seen, matrices, 5, rng))
    return float(roc_auc_score(planted, model.outlier_scores_))


def main() -> None:
    parts = [
        f"\nTen annotators, three votes per item, K={K}, Gaussian classes in {WIDTH} dimensions; {SEEDS} seeds; mean ± half "
        "width of the 95% interval. *No experts*: well separated classes, annotators whose right answers are only slightly "
        "likelier than the others. *Experts*: overlapping classes, three annotators right in 19 of 20 votes, seven guessing.\n"
    ]
    cases = [("no experts", n) for n in (500, 2000)] + [("experts", n) for n in (200, 2000)]
    head = ["method", *(f"{kind}, {n:,} items" for kind, n in cases)]
    errors, accuracies = [], []
    for entry, settings in ENTRIES.items():
        runs = [[measured(entry, *case, seed, **settings) for seed in range(SEEDS)] for case in cases]
        errors.append([entry, *(interval([r[1] for r in case], 1, 3) for case in runs)])
        accuracies.append([entry, *(interval([r[0] for r in case], 100, 1) for case in runs)])
        print(errors[-1], accuracies[-1], flush=True)
    parts += ["**Error of the confusion matrices** (mean over annotators; lower is better).\n", table(head, errors)]
    parts += ["\n**Test accuracy.**\n", table(head, accuracies)]
    aucs = [outlier_auc(seed) for seed in range(SEEDS)]
    parts.append(
        "\n**Outliers.** 2,000 items, ten annotators, five votes each; on a tenth of the items all annotators see another "
        "class. "
        f"Area under the ROC curve of COINNet's `outlier_scores_`: {interval(aucs, 1, 3)} over {SEEDS} seeds.\n"
    )
    put("learn synthetic", "\n".join([provenance("python -m benchmarks run learn_synthetic", RUNS), *parts]))
