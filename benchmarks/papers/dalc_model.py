"""DALC without asking: Table 2 and figures 2 to 4 of Yang et al. (2018), with recorded crowds in the place of the private one.

    python -m benchmarks run dalc_model                            # ten seeds, written to its page
    python -m benchmarks run dalc_model --kept                     # from its records alone, without figure 2
    python -m benchmarks run dalc_model --seeds 1 --dry-run

Each method trains a classifier on the votes; accuracy and AUC are of items without votes. *MV* is two-stage with majority vote,
*LFC* learning from crowds, raykar, and with reliability that depends on the item, yan; *STAL* stal, and *DLC* dalc, by a linear
model (LR), or with a number per annotator and feature (sparse) instead of ten traits. Experts are simulated as in
dalc_table.py: queries of two intents, answers right with probability sigmoid(u . F x).

Runs are kept in benchmarks/records/dalc_model.jsonl, so that an interrupted command resumes where it stopped.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import crowdwise
import crowdwise.errors
from benchmarks import feature_sets
from benchmarks.declaration import Benchmark
from benchmarks.page import IMAGES, interval, provenance, put, table
from benchmarks.papers import dalc_table
from benchmarks.records import Records
from crowdwise.trust.metrics import accuracy, auc

BENCHMARK = Benchmark(
    "Does DALC's model beat simpler ones without asking?",
    sections=("dalc model", "dalc expertise", "dalc settings"),
    data=("labelme", "rte", "sentence_polarity"),
    packages=("torch",),
    renders=("--kept",),
    quick="labelme --seeds 1 --dry-run",
)

RECORDS = Records("dalc_model")
COMMAND = "python -m benchmarks run dalc_model"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "MV": ("two-stage", {"aggregator": "majority"}),
    "LFC": ("raykar", {}),
    "LFC, by item": ("yan", {}),
    "STAL": ("stal", {}),
    "DLC/LR": ("dalc", {"network": "linear"}),
    "DLC/Sparse": ("dalc", {"embedding": "full"}),
    "DLC": ("dalc", {}),
}
PAPER = {
    "MV": (".6068", ".6302"),
    "LFC": (".6070", ".6304"),
    "LFC, by item": ("-", "-"),
    "STAL": (".6091", ".6325"),
    "DLC/LR": (".6093", ".6325"),
    "DLC/Sparse": (".6710", ".6860"),
    "DLC": (".6886", ".7235"),
}
RECORDED = ("labelme", "rte", "sentence_polarity")
EXPERTS = "experts"
SETS = (EXPERTS, *RECORDED)
#: Users with 50 votes each, 5 votes per item; a fifth of the items is for testing.
SCALE, SIZE, TESTED = 0.05, (1e-3, 5_000), 0.2
#: Figure 4: what is varied, and on which sets.
VARIED = {"rank": (5, 10, 20, 50, 100), "penalty": (1e-4, 1e-3, 1e-2, 1e-1, 1.0)}
VARIED_ON = (EXPERTS, "labelme")
#: Votes that an annotator needs for a share of right ones to mean something.
FEWEST = 10


def experts(seed: int) -> tuple[feature_sets.FeatureSet, dalc_table.Crowd]:
    crowd = dalc_table.simulate("queries", "drawn", SIZE, seed, SCALE)
    cut = round((1 - TESTED) * len(crowd.X))
    votes = crowd.votes.take_items(np.arange(cut))
    return feature_sets.FeatureSet(crowd.X[:cut], votes, crowd.truth[:cut], crowd.X[cut:], crowd.truth[cut:]), crowd


def data_of(name: str, seed: int) -> feature_sets.FeatureSet:
    return experts(seed)[0] if name == EXPERTS else feature_sets.SETS[name](seed)


def fitted(method: str, settings: dict[str, Any], data: feature_sets.FeatureSet, seed: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
        model = crowdwise.make(method, **settings)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        return model.fit(data.X, data.votes)


def key_of(name: str, method: str, settings: dict[str, Any], seed: int) -> str:
    return json.dumps([name, method, settings, seed])


def kept_seeds(runs: Sequence[tuple[str, str, dict[str, Any]]], most: int) -> list[int]:
    """Seeds of which all of these runs, set with method and settings, are kept."""
    kept = RECORDS.read()
    return [seed for seed in range(most) if all(key_of(*one, seed) in kept for one in runs)]


def measured(name: str, method: str, settings: dict[str, Any], seed: int) -> dict[str, float]:
    """Fit, unless there is such a run."""

    def run() -> dict[str, float]:
        data, started = data_of(name, seed), process_time()
        model = fitted(method, settings, data, seed)
        seconds = process_time() - started
        probabilities, labelled = model.predict_proba(data.X_test), data.truth >= 0
        found = {
            "accuracy": accuracy(probabilities, data.truth_test),
            "auc": auc(probabilities, data.truth_test),
            "labels": accuracy(model.result_.posterior[labelled], data.truth[labelled]),
            "seconds": seconds,
        }
        print(name, method, settings, seed, found, flush=True)
        return found

    found: dict[str, float] = RECORDS.once(key_of(name, method, settings, seed), run)
    return found


@RECORDS.each
def expertise(name: str) -> dict[str, list[float]]:
    """Of the annotators with FEWEST votes and more: what dalc takes them for, and the share of their votes that is right."""
    data = data_of(name, 0)
    votes, model = data.votes, fitted("dalc", {}, data, 0)
    logit = np.einsum("ed,ed->e", model.traits(data.X)[votes.item], model.embedding_[votes.annotator])
    many, known = votes.votes_per_annotator >= FEWEST, data.truth[votes.item] >= 0
    counts = np.maximum(votes.votes_per_annotator, 1)
    learned = np.bincount(votes.annotator, dalc_table.sigmoid(logit), votes.n_annotators) / counts
    hit = np.bincount(votes.annotator, known & (votes.label == data.truth[votes.item]), votes.n_annotators)
    right = hit / np.maximum(np.bincount(votes.annotator, known, votes.n_annotators), 1)
    return {"learned": learned[many].tolist(), "right": right[many].tolist()}


def main_table(name: str, seeds: Sequence[int]) -> str:
    runs = {label: [measured(name, *METHODS[label], seed) for seed in seeds] for label in METHODS}
    ours = [run["accuracy"] for run in runs["LFC"]]
    rows = []
    for label, found in runs.items():
        against = [run["accuracy"] - base for run, base in zip(found, ours, strict=True)]
        rows.append(
            [
                f"{label} (`{METHODS[label][0]}`)",
                *(interval([run[column] for run in found], 100, 1) for column in ("accuracy", "auc", "labels")),
                "-" if label == "LFC" else interval(against, 100, 1),
                f"{np.mean([run['seconds'] for run in found]):.1f}",
                *PAPER[label],
            ]
        )
    header = ["method", "test accuracy", "test AUC", "labels", "accuracy less LFC's", "processor s"]
    header += ["*paper: accuracy*", "*paper: AUC*"]
    votes = data_of(name, 0).votes
    about = (
        f"**{name}**: {votes.n_items:,} items, {votes.n_annotators:,} annotators, {votes.n_votes:,} votes, K={votes.n_classes}"
    )
    return f"{about}; {len(seeds)} seeds.\n\n{table(header, rows)}\n"


def draw_experts(target: Path) -> None:
    """Figure 2: reliability and expertise, true and learned."""
    import matplotlib.pyplot as plt

    data, crowd = experts(0)
    votes = data.votes
    model = fitted("dalc", {}, data, 0)
    logit = np.einsum("ed,ed->e", model.traits(data.X)[votes.item], model.embedding_[votes.annotator])
    truly, learned = crowd.eta(votes.item, votes.annotator), dalc_table.sigmoid(logit)
    right, said = (dalc_table.share_right(votes, labels) for labels in (data.truth, model.result_.posterior.argmax(axis=1)))
    figure, axes = plt.subplots(2, 2, figsize=(8, 6), layout="constrained")
    for axis, values, name in zip(axes[0], (truly, right), ("reliability of a vote", "expertise of a user"), strict=True):
        axis.hist(values, bins=30, range=(0, 1), color="#4477aa")
        axis.set(xlabel=f"true {name}", ylabel="count")
    for axis, x, y, name in ((axes[1, 0], truly, learned, "reliability"), (axes[1, 1], right, said, "expertise")):
        axis.plot(x, y, ".", markersize=3, alpha=0.3, color="#4477aa")
        axis.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1)
        axis.set(xlabel=f"true {name}", ylabel=f"learned {name}", title=f"correlation {np.corrcoef(x, y)[0, 1]:.3f}")
    figure.savefig(target, dpi=110)
    plt.close(figure)


def draw_expertise(target: Path) -> str:
    """Figure 3: what dalc takes the annotators of recorded crowds for, beside the share of their votes that is right."""
    import matplotlib.pyplot as plt

    found = {name: expertise(name) for name in RECORDED}
    figure, axes = plt.subplots(1, len(RECORDED), figsize=(10, 3), layout="constrained")
    told = []
    for axis, (name, one) in zip(axes, found.items(), strict=True):
        learned, right = one["learned"], one["right"]
        axis.hist([learned, right], bins=20, range=(0, 1), label=["learned", "share of right votes"])
        axis.set(title=f"{name}, {len(learned)} annotators", xlabel="expertise", ylabel="annotators")
        fit = np.corrcoef(learned, right)[0, 1]
        told.append(f"{name} {np.mean(learned):.2f}, truly {np.mean(right):.2f} (correlation {fit:.2f})")
    axes[0].legend(fontsize=8)
    figure.savefig(target, dpi=110)
    plt.close(figure)
    return "; ".join(told)


def draw_settings(seeds: Sequence[int], target: Path) -> str:
    """Figure 4: traits and penalty."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(8, 6), layout="constrained", sharey="row")
    lines = []
    for row, name in enumerate(VARIED_ON):
        for axis, (setting, values) in zip(axes[row], VARIED.items(), strict=True):
            runs = [[measured(name, "dalc", {setting: value}, seed) for seed in seeds] for value in values]
            for column in ("accuracy", "auc"):
                found = 100 * np.array([[run[column] for run in some] for some in runs])
                spread = found.std(axis=1, ddof=1) if len(seeds) > 1 else np.zeros(len(values))
                axis.errorbar(values, found.mean(axis=1), spread, marker="o", capsize=3, label=column)
                shown = ", ".join(f"{value:g}: {mean:.1f}" for value, mean in zip(values, found.mean(axis=1), strict=True))
                lines.append(f"- {name}, `{setting}`, test {column}: {shown}")
            axis.set(xscale="log", xlabel=setting, title=name, ylabel="percent")
    axes[0, 0].legend()
    figure.savefig(target, dpi=110)
    plt.close(figure)
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("sets", nargs="*", default=list(SETS), metavar="SET", help=f"of {', '.join(SETS)}")
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--sweep", type=int, default=3, metavar="SEEDS", help="of traits and penalties, figure 4")
    options.add_argument("--kept", action="store_true", help="measure nothing, report the runs there are")
    options.add_argument("--dry-run", action="store_true", help="print the tables, write neither page nor pictures")
    told = options.parse_args()
    seeds: dict[str, Sequence[int]] = {name: range(told.seeds) for name in told.sets}
    sweep: Sequence[int] = range(told.sweep)
    if told.kept:
        seeds = {name: kept_seeds([(name, *one) for one in METHODS.values()], told.seeds) for name in told.sets}
        varied = [(setting, value) for setting, values in VARIED.items() for value in values]
        sweep = kept_seeds([(name, "dalc", {one: value}) for name in VARIED_ON for one, value in varied], told.sweep)
    tables = "\n".join(main_table(name, some) for name, some in seeds.items() if some)
    if told.dry_run:
        print(tables)
        return
    put(
        "dalc model",
        f"""{provenance(COMMAND, RECORDS)}
Mean ± half width of the 95% interval over seeds, in percent. A seed draws experts, queries and answers again; on recorded votes
it is that of the start, and on rte also of the split. The paper's columns are of its private set.

{tables}""",
    )
    if sweep:
        put_settings(sweep)
    if not told.kept:
        draw_experts(IMAGES / "dalc-experts.png")
    if not told.kept or all(json.dumps(["expertise", name]) in RECORDS.read() for name in RECORDED):
        put_expertise()


def put_settings(seeds: Sequence[int]) -> None:
    """Figure 4."""
    settings = draw_settings(seeds, IMAGES / "dalc-settings.png")
    bars = f"{len(seeds)} seeds (bars are standard deviations)"
    text = f"""**Figure 4**, {bars}. The paper finds a top at `rank` 10 and `penalty` 0.01.

![Traits and penalty](images/dalc-settings.png)

{settings}
"""
    put("dalc settings", f"{provenance(COMMAND, RECORDS)}\n{text}")


def put_expertise() -> None:
    """Figures 2 and 3; the former is drawn apart, of single votes, which no record has."""
    told = draw_expertise(IMAGES / "dalc-expertise.png")
    text = f"""**Figure 2**, experts, seed 0: true reliability of votes and expertise of users, and what `dalc` learns of them.

![Reliability and expertise, true and learned](images/dalc-experts.png)

**Figure 3**: learned expertise of those with at least {FEWEST} votes, mean: {told}. The paper's crowd has a mean of 0.88.

![Learned expertise of annotators](images/dalc-expertise.png)
"""
    put("dalc expertise", f"{provenance(COMMAND, RECORDS)}\n{text}")


if __name__ == "__main__":
    main()
