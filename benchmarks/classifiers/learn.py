"""Every classifier on every set with features: accuracy on new items, recovered labels, NLL, ECE, collapsed runs.

    python -m benchmarks run learn [SET ...]        (labelme: ten seeds; larger sets fewer, see SEEDS)
    python -m benchmarks run learn rte --only "auto-classifier;raykar, gaussian" [--seeds N]    (their rows alone are replaced)
    python -m benchmarks run learn --relatives     (four relatives beside those they come from, four sets and one vote per item)

Runs are kept in benchmarks/.runs/SET.json (those of the choice in choice.json), so that an interrupted command goes on where
it stopped; delete the file, or the method in it, to measure anew.

No method sees a true label, except the row "gold". "chosen" is the method whose five-fold cross-validated
likelihood of held-out votes is best: what a user without any truth would pick.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from time import perf_counter

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.feature_sets import SETS, FeatureSet
from benchmarks.page import block, interval, provenance, put, table
from benchmarks.records import KEPT
from crowdwise.estimator.registry import classifiers
from crowdwise.methods.classify.soft_network import SoftNetwork
from crowdwise.trust.metrics import accuracy, ece, log_loss

BENCHMARK = Benchmark(
    "Which classifier learns best from votes, on seven sets with features?",
    sections=(
        "learn labelme",
        "learn cifar10n",
        "learn cifar10n_images",
        "learn sentence_polarity",
        "learn rte",
        "learn convarg_pairs",
        "learn ner_mturk",
        "learn relatives",
    ),
    data=("features",),
    packages=("torch",),
    quick="labelme --only raykar",
)

CLASSIFIERS = classifiers()

SEEDS = {"labelme": 10, "rte": 5, "sentence_polarity": 3, "cifar10n": 2, "convarg_pairs": 2, "ner_mturk": 2}
SEEDS["cifar10n_images"] = 2
# Networks on images take minutes here: the ones that differ most in kind.
ON_IMAGES = ["gold", "two-stage majority", "aggnet", "crowd-layer-mw", "ccem", "geocrowdnet-f"]
EPOCHS_ON_IMAGES = 12
# A run collapsed if it is this far below two stages with majority vote.
COLLAPSE = 0.10
# Seeds of the choice without gold.
CHOICES = 1
# Settings that a user would try too.
VARIANTS = {"raykar, gaussian": {"classifier": "gaussian"}, "svgpcr, softmax": {"likelihood": "softmax"}}
# Fewer seeds where a run takes long; and not tried in the choice without gold, which takes five fits each.
SLOW = {"svgpcr-nf": 3, "gpnetcr": 3, "dalc": 3, "auto-classifier": 3}
# Two classes only; the first two take the cube of the items.
CUBIC, BINARY, MOST_CUBIC = ("vgpcr", "rodr14"), ("rff", "vff"), 2_000
# Published relatives, those they are measured beside, and on what.
RELATIVES = ["two-stage majority", "aggnet", "ccem", "conal", "mbem", "annot-mix", "union-net"]
RELATIVES_ON, RELATIVES_SEEDS = ["labelme", "labelme, one vote per item", "rte", "sentence_polarity", "convarg_pairs"], 3
RUNS = KEPT


def entries(images: bool, data: FeatureSet) -> list[str]:
    if images:
        return ON_IMAGES
    skipped = ["svgp"]  # not a crowd method: see "gold, svgp"
    if data.votes.n_classes != 2:
        skipped += BINARY
    if data.votes.n_classes != 2 or data.votes.n_items > MOST_CUBIC:
        skipped += CUBIC
    return ["gold", "gold, svgp", "two-stage majority", *(name for name in CLASSIFIERS if name not in skipped), *VARIANTS]


def build(entry: str, seed: int, images: bool):
    settings = {"random_state": seed}
    network = {"epochs": EPOCHS_ON_IMAGES, "refit": False, "patience": 5} if images else {}
    if entry == "gold, svgp":
        return crowdwise.make("svgp", **settings)
    if entry in ("gold", "two-stage majority", "two-stage"):
        aggregator = "dawid-skene" if entry == "two-stage" else "majority"
        return crowdwise.make("two-stage", aggregator=aggregator, classifier=SoftNetwork(**network, **settings), **settings)
    name = entry.partition(",")[0]
    known = crowdwise.make(name).get_params()
    return crowdwise.make(name, **VARIANTS.get(entry, {}), **{k: v for k, v in (network | settings).items() if k in known})


def run(entry: str, data: FeatureSet, seed: int, images: bool) -> dict[str, float]:
    model = build(entry, seed, images)
    rows, votes = data.X, data.votes
    if entry.startswith("gold"):
        known = np.flatnonzero(data.truth >= 0)
        rows, votes = data.X[known], data.votes.classes[data.truth[known]]
    started = perf_counter()
    model.fit(rows, votes)
    seconds = perf_counter() - started
    proba = model.predict_proba(data.X_test)
    return {
        "test": accuracy(proba, data.truth_test),
        "labels": float("nan") if entry.startswith("gold") else accuracy(model.posterior_, data.truth),
        "nll": log_loss(proba, data.truth_test),
        "ece": ece(proba, data.truth_test),
        "seconds": seconds,
    }


def chosen(data: FeatureSet, seed: int) -> str:
    """The classifier with the best cross-validated likelihood of held-out votes."""
    folds = np.random.default_rng(seed).permutation(len(data.X)) % 5
    kept = RUNS / "choice.json"
    scores = json.loads(kept.read_text()) if kept.exists() else {}
    for name in entries(False, data)[3:]:
        if name in scores or name in SLOW:
            continue
        total = 0.0
        for fold in range(5):
            inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            model = build(name, seed, False).fit(data.X[inside], data.votes[inside])
            total += model.score(data.X[outside], data.votes[outside]) * data.votes[outside].n_votes
        scores[name] = total / data.votes.n_votes
        kept.write_text(json.dumps(scores))
    print({name: round(score, 4) for name, score in scores.items()}, flush=True)
    return max(scores, key=scores.get)


def one_vote(data: FeatureSet, seed: int) -> FeatureSet:
    """The same items with one of their votes each, drawn at random."""
    votes = data.votes
    order = np.random.default_rng(seed).permutation(votes.n_votes)
    _, first = np.unique(votes.item[order], return_index=True)
    kept = np.zeros(votes.n_votes, bool)
    kept[order[first]] = True
    return replace(data, votes=votes.take_votes(kept))


def relatives() -> None:
    """A table of its own, of fewer seeds than those of all methods."""
    header, rows = ["set", "method", "test accuracy", "recovered labels", "test NLL", "test ECE"], []
    for name in RELATIVES_ON:
        known, _, once = name.partition(", ")
        kept = RUNS / f"relatives-{name.replace(', ', '-').replace(' ', '-')}.json"
        results = json.loads(kept.read_text()) if kept.exists() else {}
        for seed in range(RELATIVES_SEEDS):
            data = SETS[known](seed)
            data = one_vote(data, seed) if once else data
            for entry in RELATIVES:
                if len(results.setdefault(entry, [])) > seed:
                    continue
                results[entry].append(run(entry, data, seed, images=False))
                print(name, seed, entry, {k: round(v, 4) for k, v in results[entry][-1].items()}, flush=True)
                RUNS.mkdir(exist_ok=True)
                kept.write_text(json.dumps(results))
        for entry in RELATIVES:
            cells = [interval([r[key] for r in results[entry]], scale, digits) for key, scale, digits in
                     (("test", 100, 1), ("labels", 100, 1), ("nll", 1, 3), ("ece", 1, 3))]  # fmt: skip
            rows.append([name, entry, *cells])
    about = f"\n{RELATIVES_SEEDS} seeds; mean ± half width of the 95% interval over seeds, which of three is wide.\n\n"
    put("learn relatives", provenance("python -m benchmarks run learn --relatives") + about + table(header, rows))


def row_of(entry: str, runs: list[dict[str, float]], base: float) -> list[str]:
    """A row of a table; `base` is the accuracy of two stages with majority vote, below which runs collapse."""
    collapsed = sum(r["test"] < base - COLLAPSE for r in runs)
    cells = [interval([r[key] for r in runs], scale, digits) for key, scale, digits in
             (("test", 100, 1), ("labels", 100, 1), ("nll", 1, 3), ("ece", 1, 3))]  # fmt: skip
    return [entry, *cells, f"{collapsed} of {len(runs)}", f"{np.mean([r['seconds'] for r in runs]):.1f}"]


def replace_rows(name: str, results: dict[str, list[dict[str, float]]]) -> None:
    """Put rows that were measured again into the table on the page, with a line that says so; the others stay as they are."""
    lines = block(f"learn {name}").strip().splitlines()
    base = next(float(line.split("|")[2].split()[0]) for line in lines if line.startswith("| two-stage majority |")) / 100
    for entry, runs in results.items():
        at = next(n for n, line in enumerate(lines) if line.startswith(f"| {entry} |"))
        lines[at] = "| " + " | ".join(row_of(entry, runs, base)) + " |"
        lines = [line for line in lines if not line.startswith(f"Row {entry}: ")]
    command = " ".join(f'"{word}"' if " " in word or ";" in word else word for word in sys.argv[1:])
    said = f"Row {', '.join(results)}: " + provenance(f"python -m benchmarks run learn {command}").strip()
    put(f"learn {name}", "\n".join([*lines, "", said]).replace("\n\n\n", "\n\n"))


def main() -> None:
    given = sys.argv[1:]
    if "--relatives" in given:
        relatives()
        return
    only = given.pop(given.index("--only") + 1).split(";") if "--only" in given else None
    fewer = int(given.pop(given.index("--seeds") + 1)) if "--seeds" in given else max(SEEDS.values())
    for name in [name for name in given if not name.startswith("--")] or SETS:
        images = name.endswith("_images")
        kept = RUNS / f"{name}.json"
        saved = json.loads(kept.read_text()) if kept.exists() else {}
        results: dict[str, list[dict[str, float]]] = {entry: saved.get(entry, []) for entry in entries(images, SETS[name](0))}
        for seed in range(min(SEEDS[name], fewer)):
            data = SETS[name](seed)
            for entry in results:
                if len(results[entry]) > seed or seed >= SLOW.get(entry, SEEDS[name]) or (only and entry not in only):
                    continue
                results[entry].append(run(entry, data, seed, images))
                print(name, seed, entry, {k: round(v, 4) for k, v in results[entry][-1].items()}, flush=True)
                RUNS.mkdir(exist_ok=True)
                kept.write_text(json.dumps(results))
        if only:
            replace_rows(name, {entry: results[entry] for entry in only if results.get(entry)})
            continue
        base = np.mean([r["test"] for r in results["two-stage majority"]])
        rows = []
        results = {entry: runs for entry, runs in results.items() if runs}
        for entry, runs in results.items():
            rows.append(row_of(entry, runs, base))
        if name == "labelme":
            picks = [chosen(SETS[name](seed), seed) for seed in range(CHOICES)]
            winner = max(set(picks), key=picks.count)
            found = rows[list(results).index(winner)]
            rows.append([f"*chosen without gold: {winner}* ({picks.count(winner)} of {CHOICES} seeds)", *found[1:]])
        votes = data.votes
        shape = "x".join(map(str, data.X.shape[1:]))
        about = (
            f"\n**{name}**: {votes.n_items:,} training items ({shape}), {votes.n_annotators:,} annotators, {votes.n_votes:,} "
            f"votes, K={votes.n_classes}; {len(data.truth_test):,} test items; {SEEDS[name]} seeds; mean ± half width of the "
            f"95% interval over seeds ({', '.join(SLOW)}: at most {max(SLOW.values())} seeds).\n"
        )
        head = ["method", "test accuracy", "recovered labels", "test NLL", "test ECE", "collapsed", "seconds"]
        put(f"learn {name}", provenance(f"python -m benchmarks run learn {name}") + about + "\n" + table(head, rows))
