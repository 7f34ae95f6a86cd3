"""Three figures of the supplement of Kim et al. (2022): a fixed budget, the start and weight of Trace, sampled messages.

    python -m benchmarks run deep_supplement [--seeds N] [--sampled N]

Figure 6: 2,000 votes on MNIST's 4 and 9, few on many items or many on few. Figure 7: trace-reg and crowd-layer-mw from
confusion matrices that are the same for everybody, and trace-reg with growing weights. Figure 8: belief propagation with
sampled annotators beside the exact sum, without features.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.papers import belief_propagation
from benchmarks.papers.deep_robustness import FROM_FIELD, GOLD, NETWORK, NOISE, Data, Setting, build, digits
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "Do the figures of deepBP's supplement hold: budget, start and weight of Trace, sampled messages?",
    sections=("deep supplement",),
    data=("mnist",),
    packages=("torch",),
    renders=("",),
    quick="--seeds 1 --sampled 1",
    small={"BUDGET": 24, "PER_ITEMS": [2, 3], "N_ITEMS": 12, "N_TEST": 8, "DELTAS": [2], "WEIGHTS": [0.5], "SAMPLES": [10],
           "METHODS": ["deep-bp"], "EPOCHS": {"epochs": 1}, "TRUTHS": [[2, 1]]},
)  # fmt: skip

RUNS = Records("deep_supplement")
EPOCHS: dict[str, Any] = NETWORK
BUDGET, PER_ITEMS, PER_ANNOTATOR = 2000, (1, 2, 4, 5, 8, 10, 20), 4
N_ITEMS, PER_ITEM, N_TEST = 1000, 3, 2000
MAJORITY = "majority, then the network"
METHODS = (MAJORITY, "trace-reg", "crowd-layer-mw", "bayes-dgc", FROM_FIELD, "deep-mf", "deep-bp")
# Figure 7: diagonal of the start before the softmax, weight of the mean trace.
DELTAS, WEIGHTS, DELTA, WEIGHT = (1, 2, 3, 4, 5, 6), (0.5, 1.0, 1.5, 2.0), 2, 0.5
TRACE_SEEDS = 7
SAMPLES = (10, 20, 50, 100, 200, 400)
TRUTHS = ((2, 1), (1, 0.5), (0.5, 0.25))


def draw(n_items: int, per_item: int, truth: tuple[float, float], seed: int) -> Data:
    """Noisy images as in the other studies, and votes of one-coin annotators with four votes each."""
    small, label = digits(0)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(small))[: n_items + N_TEST]
    rows = (small[chosen] + NOISE * rng.standard_normal((len(chosen), small.shape[1]))).astype(np.float32)
    train, test = slice(n_items), slice(n_items, None)
    votes = simulate(
        n_annotators=n_items * per_item // PER_ANNOTATOR,
        n_classes=2,
        votes_per_item=per_item,
        annotators={"one-coin": 1.0},
        options={"one-coin": {"a": truth[0], "b": truth[1]}},
        activity="regular",
        truth=label[chosen][train],
        random_state=seed,
    ).votes
    return Data(rows[train], votes, label[chosen][train], rows[test], label[chosen][test])


def judged(model: Any, data: Data) -> dict[str, float]:
    model.fit(data.X, data.votes)
    return {
        "labels": accuracy(model.posterior_, data.truth),
        "test": accuracy(model.predict_proba(data.X_test), data.truth_test),
    }


# -- figure 6 ----------------------------------------------------------------------------------


def budget(method: str, per_item: int, seed: int) -> dict[str, float]:
    data = draw(BUDGET // per_item, per_item, (2, 1), seed)
    if method == "trace-reg":
        return judged(crowdwise.make(method, **EPOCHS, random_state=seed), data)
    if method == FROM_FIELD:
        field = crowdwise.make("mean-field", family="one-coin", annotator_prior="beta:2,1").fit(data.votes)
        own = {"family": "one-coin", "annotator_prior": "beta:2,1", "init": field.posterior_}
        return judged(crowdwise.make("deep-mf", **EPOCHS, **own, random_state=seed), data)
    model = build(GOLD if method == MAJORITY else method, Setting((2, 1), (2, 1)), seed)
    return judged(model, data)


def budget_table(seeds: int) -> str:
    rows = []
    for method in METHODS:
        cells = []
        for per_item in PER_ITEMS:
            runs = [
                RUNS.once(json.dumps(["budget", method, per_item, seed]), lambda s=seed, m=method, p=per_item: budget(m, p, s))
                for seed in range(seeds)
            ]
            cells.append(interval([run["test"] for run in runs], 100, 1))
        rows.append([method, *cells])
    return table(["method", *(f"{n} x {BUDGET // n:,}" for n in PER_ITEMS)], rows)


# -- figure 7 ----------------------------------------------------------------------------------


def started(method: str, delta: float, **settings: Any) -> Any:
    """The method, from confusion matrices that are the softmax of delta on the diagonal, for everybody."""
    import torch

    kind = type(crowdwise.make(method))

    class Started(kind):  # type: ignore[misc,valid-type]
        def _head(self, votes: Annotations, start: Any) -> Any:
            rows = (delta * torch.eye(votes.n_classes, dtype=start.dtype)).softmax(1)
            given = rows.expand(votes.n_annotators, votes.n_classes, votes.n_classes)
            return super()._head(votes, replace(start, confusion=given, identity=False))

    own = {"penalty": "trace"} if method == "trace-reg" else {}
    # As in the paper: nothing but these matrices says which class is which, and the penalty is there from the first epoch.
    return Started(**own, **settings, init="identity", warmup=0)


def sensitivity(method: str, delta: float, weight: float, seed: int) -> dict[str, float]:
    data = draw(N_ITEMS, PER_ITEM, (3, 1), seed)
    own = {"strength": weight / data.votes.n_annotators, "penalty_from": 0} if method == "trace-reg" else {}
    return judged(started(method, delta, **own, **EPOCHS, random_state=seed), data)


def usual(method: str, seed: int) -> dict[str, float]:
    return judged(crowdwise.make(method, **EPOCHS, random_state=seed), draw(N_ITEMS, PER_ITEM, (3, 1), seed))


def sensitivity_table(seeds: int) -> str:
    asked = [("trace-reg", DELTA, weight) for weight in WEIGHTS]
    asked += [(method, delta, WEIGHT) for method in ("trace-reg", "crowd-layer-mw") for delta in DELTAS]
    rows = []
    for method, delta, weight in dict.fromkeys(asked):
        key = [method, delta, weight if method == "trace-reg" else 0]
        runs = [
            RUNS.once(json.dumps(["start", *key, s]), lambda a=(method, delta, weight, s): sensitivity(*a))
            for s in range(seeds)
        ]
        rows.append(shown(method, f"{delta:g}", f"{weight:g}" if method == "trace-reg" else "-", runs))
    for method in ("trace-reg", "crowd-layer-mw"):
        runs = [RUNS.once(json.dumps(["usual", method, s]), lambda a=(method, s): usual(*a)) for s in range(seeds)]
        rows.append(shown(method, "defaults", "0.001 for each annotator" if method == "trace-reg" else "-", runs))
    return table(["method", "start", "weight", "training labels", "lowest", "new images", "lowest"], rows)


def shown(method: str, start: str, weight: str, runs: list[dict[str, float]]) -> list[str]:
    scores = []
    for score in ("labels", "test"):
        values = [run[score] for run in runs]
        scores += [interval(values, 100, 1), f"{100 * min(values):.1f}"]
    return [method, start, weight, *scores]


# -- figure 8 ----------------------------------------------------------------------------------


def sampled(truth: tuple[float, float], seed: int) -> dict[str, list[float]]:
    """Share of right labels and mean distance of beliefs from the exact ones: of the exact sum, then by sample size."""
    votes, right = belief_propagation.draw(seed, truth, 0)
    settings = {"family": "one-coin", "annotator_prior": f"beta:{truth[0]:g},{truth[1]:g}", "random_state": seed}
    exact = crowdwise.make("belief-propagation", **settings, integral="quadrature").fit(votes).result_.model_posterior
    found = {"exact": [accuracy(exact, right), 0.0]}
    for size in SAMPLES:
        model = crowdwise.make("belief-propagation", **settings, integral="monte-carlo", samples=size).fit(votes)
        belief = model.result_.model_posterior
        found[str(size)] = [accuracy(belief, right), float(np.abs(belief - exact)[:, 0].mean())]
    return found


def sampled_table(seeds: int) -> str:
    rows = []
    for truth in TRUTHS:
        runs = [RUNS.once(json.dumps(["sampled", truth, s]), lambda t=truth, s=s: sampled(t, s)) for s in range(seeds)]
        name = f"Beta({truth[0]:g}, {truth[1]:g})"
        sizes = [*map(str, SAMPLES), "exact"]
        rows.append([name, "right labels, %", *(interval([run[size][0] for run in runs], 100, 1) for size in sizes)])
        rows.append([name, "lowest seed, %", *(f"{100 * min(run[size][0] for run in runs):.1f}" for size in sizes)])
        rows.append([name, "distance of beliefs", *(interval([run[size][1] for run in runs], 1, 3) for size in sizes)])
    return table(["annotators", "", *(f"{size} draws" for size in SAMPLES), "exact"], rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=10, help="of figure 6; figure 7 has at most seven, as the paper")
    options.add_argument("--sampled", type=int, default=100, metavar="SEEDS", help="of figure 8")
    given = options.parse_args()
    few = min(given.seeds, TRACE_SEEDS)
    tables = budget_table(given.seeds), sensitivity_table(few), sampled_table(given.sampled)
    text = f"""{provenance("python -m benchmarks run deep_supplement", RUNS)}
Images are MNIST's 4 and 9 as in the studies above (14 x 14 pixels with noise, {N_TEST:,} for testing, the built-in network),
annotators are one-coin with {PER_ANNOTATOR} votes each. Mean ± half width of the 95% interval over seeds, in percent.

**Figure 6, a fixed budget**: {BUDGET:,} votes as votes per item x items, annotators from Beta(2, 1), which models with a
prior know; accuracy on new images, {given.seeds} seeds. Methods start as in the studies above.

{tables[0]}

**Figure 7, start and weight**: {N_ITEMS:,} items with {PER_ITEM} votes, annotators from Beta(3, 1), {few} seeds. Confusion
matrices of everybody start as the softmax of δ on the diagonal (the column *start*); the weight of trace-reg is that of the
mean trace over annotators, from the first epoch on. The paper writes the trace of the logarithm and does not say what its loss
is averaged over. Networks start from random weights, without a warm-up on labels; *defaults* are those of the methods: a start
from the labels of one-coin, and a small weight after ten epochs.

{tables[1]}

**Figure 8, sampled messages**: without features, {belief_propagation.N_ITEMS:,} items with {belief_propagation.PER_ITEM} votes,
the models know the prior, {given.sampled} seeds. Draws are `integral="monte-carlo"`, one set shared by all annotators and
rounds (the published code draws again); exact is `integral="quadrature"`, the default. Distance: mean absolute difference of
the beliefs in a class from the exact ones.

{tables[2]}
"""
    put("deep supplement", text)
