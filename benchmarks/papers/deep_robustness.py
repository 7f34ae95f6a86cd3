"""The four robustness studies of Kim et al. (2022), and how sure mean field and belief propagation are, on digits.

    python -m benchmarks run deep_robustness [--seeds N]

A network tells MNIST's 4 from 9 in small noisy images. 1,000 training images have three votes each, from 750
annotators with four votes each whose accuracies come from a Beta distribution; extreme spammers answer every
image at random. Figures: docs/images/deep-robustness.png, deep-overconfidence.png.

The studies: (1) blurred images and the ceiling of the network's probabilities; (2) the true prior, which the model
knows; (3) one extreme spammer and a wrong prior; (4) more of them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl
from scipy.ndimage import gaussian_filter

import crowdwise
import crowdwise.errors
from benchmarks.declaration import Benchmark
from benchmarks.page import IMAGES, SHARED, interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.methods.classify.soft_network import SoftNetwork
from crowdwise.trust.metrics import accuracy, ece

BENCHMARK = Benchmark(
    "Is deepBP robust as its paper says: features, priors, spammers?",
    sections=("deep robustness",),
    data=("mnist",),
    packages=("torch",),
    renders=("",),
    quick="--seeds 1",
    small={"N_TRAIN": 12, "N_ANNOTATORS": 9, "N_TEST": 8, "NETWORK": {"epochs": 1}, "FEATURE_SEEDS": 1},
    leaves_out=("draw_studies", "draw_sureness"),
)

RUNS = Records("deep_robustness")
DIGITS = (4, 9)
N_TRAIN, N_ANNOTATORS, PER_ITEM, N_TEST = 1000, 750, 3, 2000
# Spread of the grey levels (0 to 255) of the noise in every pixel of the small image: a network trained on the true
# labels is then useful but far from perfect, as the paper's on cats and dogs.
NOISE = 60.0
NETWORK: dict[str, Any] = {"epochs": 60, "patience": 10}
LABEL_ONLY = ("majority", "mean-field", "belief-propagation")
# deep-mf from the labels that mean-field finds with the same prior, where a majority vote is the default.
FROM_FIELD = "deep-mf, mean-field start"
DEEP = ("crowd-layer-mw", "bayes-dgc", FROM_FIELD, "deep-mf", "deep-bp")
# In study 1: those with a ceiling, and those without.
CLIPPED, UNCLIPPED = ("deep-bp", "deep-mf"), ("crowd-layer-mw", "bayes-dgc")
GOLD = "true labels"
VARIATIONAL = ("mean-field", "belief-propagation", FROM_FIELD, "deep-mf", "deep-bp")
BINS = np.linspace(0.5, 1, 11)


@dataclass(frozen=True)
class Setting:
    """Beta of the truth and of the model, extreme spammers, blur radius of the images, ceiling of the network."""

    truth: tuple[float, float]
    model: tuple[float, float]
    spammers: int = 0
    blur: float = 0
    ceiling: float = 0.9

    def key(self, method: str) -> str:
        """What a run of the method depends on: runs that studies share are made once."""
        parts = [method, f"truth={self.truth[0]:g},{self.truth[1]:g}"]
        if method == GOLD:
            return f"{method} blur={self.blur:g}"
        if method not in ("majority", "crowd-layer-mw"):
            parts.append(f"model={self.model[0]:g},{self.model[1]:g}")
        parts.append(f"spammers={self.spammers}")
        if method not in LABEL_ONLY:
            parts.append(f"blur={self.blur:g}")
        if method.startswith(("deep-mf", "deep-bp")):
            parts.append(f"ceiling={self.ceiling:g}")
        return " ".join(parts)


BLURS, CEILINGS = (0, 2, 4, 8), (0.55, 0.7, 0.8, 0.9, 1.0)
FEATURES = {(r, c): Setting((1, 0.5), (1, 0.5), blur=r, ceiling=c) for r in BLURS for c in CEILINGS}
PRIORS = {a: Setting((a, a / 2), (a, a / 2)) for a in (0.2, 0.5, 1.0, 1.5, 2.0)}
MISMATCH = {a: Setting((2, 1), (2, a), spammers=1) for a in (0.8, 1.0, 1.2, 1.4, 1.6)}
SPAMMERS = {n: Setting((2, 1), (2, 1.4), spammers=n) for n in (0, 1, 2, 4, 8)}
DETAIL = MISMATCH[1.4]
# Study 1 is the largest, and its differences are the clearest.
FEATURE_SEEDS = 5


# -- data --------------------------------------------------------------------------------------


@cache
def digits(blur: float) -> tuple[np.ndarray, np.ndarray]:
    """All images of the pair as rows of 14 x 14 pixels, blurred before they shrink, and their classes."""
    images, truth = [], []
    for part in ("", "test_"):
        images.append(np.load(SHARED / "mnist" / f"{part}images.npz")["images"])
        truth.append(pl.read_csv(SHARED / "mnist" / f"{part}truth.csv").sort("item")["label"].to_numpy())
    label = np.concatenate(truth)
    kept = np.isin(label, DIGITS)
    pixels = gaussian_filter(np.concatenate(images)[kept].astype(np.float32), (0, blur, blur))
    small = pixels.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(pixels), -1)
    return small, (label[kept] == DIGITS[1]).astype(int)


@dataclass(frozen=True)
class Data:
    X: np.ndarray
    votes: Annotations
    truth: np.ndarray
    X_test: np.ndarray
    truth_test: np.ndarray


def draw(setting: Setting, seed: int, n_train: int = 0, n_annotators: int = 0, n_test: int = 0) -> Data:
    """Images and votes; with the same seed, settings differ in nothing but what they say."""
    n_train, n_annotators, n_test = n_train or N_TRAIN, n_annotators or N_ANNOTATORS, n_test or N_TEST
    small, label = digits(setting.blur)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(small))[: n_train + n_test]
    # Noise comes after the blur: it is what keeps a network from undoing the blur.
    rows = (small[chosen] + NOISE * rng.standard_normal((len(chosen), small.shape[1]))).astype(np.float32)
    train, test = slice(n_train), slice(n_train, None)
    n = n_annotators + setting.spammers
    votes = simulate(
        n_annotators=n,
        n_classes=2,
        votes_per_item=PER_ITEM,
        annotators={"one-coin": n_annotators / n, "extreme-spammer": setting.spammers / n},
        options={"one-coin": {"a": setting.truth[0], "b": setting.truth[1]}},
        activity="regular",
        truth=label[chosen][train],
        random_state=seed,
    ).votes
    return Data(rows[train], votes, label[chosen][train], rows[test], label[chosen][test])


# -- runs --------------------------------------------------------------------------------------


def build(method: str, setting: Setting, seed: int) -> Any:
    right, wrong = setting.model
    if method == GOLD:
        return crowdwise.make("two-stage", aggregator="majority", classifier=SoftNetwork(**NETWORK, random_state=seed))
    if method == "majority":
        return crowdwise.make(method)
    if method in LABEL_ONLY:
        # How sure the paper's models are, not what experience with other crowds makes of it; labels are the same.
        return crowdwise.make(method, family="one-coin", annotator_prior=f"beta:{right:g},{wrong:g}", confidence="model")
    own: dict[str, Any] = {"confidence": "model"}
    if method == "bayes-dgc":
        own |= {"annotator_prior": f"dir:{right:g},{wrong:g}"}
    elif method != "crowd-layer-mw":
        own |= {"family": "one-coin", "annotator_prior": f"beta:{right:g},{wrong:g}", "ceiling": setting.ceiling}
    if method == FROM_FIELD:
        own["init"] = build("mean-field", setting, seed).fit(draw(setting, seed).votes).posterior_
    return crowdwise.make(method.partition(",")[0], **NETWORK, **own, random_state=seed)


def run(method: str, setting: Setting, seed: int) -> dict[str, Any]:
    data = draw(setting, seed)
    model = build(method, setting, seed)
    started = perf_counter()
    if method in LABEL_ONLY:
        model.fit(data.votes)
    else:
        model.fit(data.X, data.votes.classes[data.truth] if method == GOLD else data.votes)
    found: dict[str, Any] = {"seconds": perf_counter() - started}
    if method != GOLD:
        found["labels"] = accuracy(model.posterior_, data.truth)
    if method not in LABEL_ONLY:
        found["test"] = accuracy(model.predict_proba(data.X_test), data.truth_test)
    if method in VARIATIONAL and setting == DETAIL:
        sure = model.posterior_.max(axis=1)
        found["confidence"], found["ece"] = float(sure.mean()), ece(model.posterior_, data.truth)
        found["histogram"] = np.histogram(sure, BINS)[0].tolist()
        found["spammer"] = float(np.trace(model.confusion_[-1]) / 2)
    return found


def wanted(seed: int) -> list[tuple[str, Setting]]:
    """Every run of a seed, each once."""
    runs = [(m, s) for study in (PRIORS, MISMATCH, SPAMMERS) for s in study.values() for m in (*LABEL_ONLY, *DEEP)]
    if seed < FEATURE_SEEDS:
        runs += [(m, s) for s in FEATURES.values() for m in (*CLIPPED, *UNCLIPPED, GOLD, *LABEL_ONLY)]
    return list({s.key(m): (m, s) for m, s in runs}.values())


def measure(seeds: int) -> dict[str, list[dict[str, Any]]]:
    results: dict[str, list[dict[str, Any]]] = {}
    for seed in range(seeds):
        for method, setting in wanted(seed):
            key = setting.key(method)
            found = RUNS.once(f"{key} seed={seed}", lambda m=method, s=setting, seed=seed: run(m, s, seed))
            results.setdefault(key, []).append(found)
    return results


# -- tables ------------------------------------------------------------------------------------


def cell(values: list[float]) -> str:
    """Mean with its interval, and the worst seed in brackets, in percent."""
    return f"{interval(values, 100, 1)} ({100 * min(values):.1f})"


def features_table(results: dict[str, list[dict[str, Any]]], score: str) -> str:
    first = FEATURES[BLURS[0], CEILINGS[0]]
    rows = []
    for blur in BLURS:
        for method in CLIPPED:
            settings = [FEATURES[blur, c] for c in CEILINGS]
            rows.append(
                [str(blur), method, *(cell([r[score] for r in results[s.key(method)][:FEATURE_SEEDS]]) for s in settings)]
            )
        beside = (*UNCLIPPED, GOLD) if score == "test" else UNCLIPPED
        for method in beside:
            alone = cell([r[score] for r in results[FEATURES[blur, CEILINGS[0]].key(method)][:FEATURE_SEEDS]])
            rows.append([str(blur), method, *[""] * (len(CEILINGS) - 1), alone])
    shown = table(["blur radius", "method", *(f"ceiling {c:g}" for c in CEILINGS)], rows)
    if score == "test":
        return shown
    runs = {m: results[first.key(m)][:FEATURE_SEEDS] for m in LABEL_ONLY}
    named = [f"{m} {cell([r['labels'] for r in found])}" for m, found in runs.items()]
    return f"{shown}\n\nWithout features: {', '.join(named)}."


def study_table(results: dict[str, list[dict[str, Any]]], study: dict[Any, Setting], head: str, score: str) -> str:
    methods = DEEP if score == "test" else (*LABEL_ONLY, *DEEP)
    rows = [[m, *(cell([r[score] for r in results[s.key(m)]]) for s in study.values())] for m in methods]
    return table(["method", *(head.format(value) for value in study)], rows)


def sure_table(results: dict[str, list[dict[str, Any]]]) -> str:
    rows = []
    for method in VARIATIONAL:
        runs = results[DETAIL.key(method)]
        spammer = [r["spammer"] for r in runs]
        rows.append(
            [
                method,
                cell([r["labels"] for r in runs]),
                interval([r["confidence"] for r in runs], 100, 1),
                interval([r["ece"] for r in runs], 1, 3),
                f"{np.mean([r['histogram'][-1] / sum(r['histogram']) for r in runs]):.0%}",
                f"{np.median(spammer):.2f} ({min(spammer):.2f} to {max(spammer):.2f})",
            ]
        )
    head = ["method", "labels", "mean confidence", "ECE", "items above 95%", "spammer's accuracy, median (range)"]
    return table(head, rows)


# -- figures -----------------------------------------------------------------------------------

COLOURS = {
    "majority": "#999999",
    "mean-field": "#e69f00",
    "belief-propagation": "#56b4e9",
    "crowd-layer-mw": "#009e73",
    "bayes-dgc": "#cc79a7",
    FROM_FIELD: "#d55e00",
    "deep-mf": "#d55e00",
    "deep-bp": "#0072b2",
}
MARKS = dict(zip(COLOURS, "xs^Dvss^", strict=True))


def dashes(method: str) -> str:
    """Methods without features are dashed, the other start is dotted."""
    return "--" if method in LABEL_ONLY else ":" if method == FROM_FIELD else "-"


def curve(axes: Any, x: list[float], runs: list[list[float]], label: str, **style: Any) -> None:
    """Means over seeds, with bars for their 95% intervals."""
    from scipy.stats import t

    values = 100 * np.array(runs)
    n = values.shape[1]
    half = t.ppf(0.975, n - 1) * values.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else None
    axes.errorbar(x, values.mean(axis=1), half, label=label, capsize=2, markersize=4, linewidth=1.3, **style)


def draw_studies(results: dict[str, list[dict[str, Any]]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 8), layout="constrained")
    grid = figure.subplots(2, 4, sharey="row")
    for row, (score, name) in enumerate((("labels", "training labels"), ("test", "new images"))):
        for shade, blur in zip(("#08306b", "#2171b5", "#6baed6", "#b0c4d8"), BLURS, strict=True):
            runs = [[r[score] for r in results[FEATURES[blur, c].key("deep-bp")][:FEATURE_SEEDS]] for c in CEILINGS]
            curve(grid[row, 0], list(CEILINGS), runs, f"deep-bp, blur {blur}", color=shade, marker="^")
        if score == "labels":
            without = np.mean([r["labels"] for r in results[FEATURES[0, 0.9].key("belief-propagation")][:FEATURE_SEEDS]])
            grid[row, 0].axhline(100 * without, color="black", linestyle=":", label="belief-propagation")
            grid[row, 0].legend(fontsize=8, loc="lower left")
        grid[row, 0].set_ylabel(f"accuracy on {name} (%)")
        for column, study in enumerate((PRIORS, MISMATCH, SPAMMERS), start=1):
            shown = (*LABEL_ONLY, *DEEP) if score == "labels" else DEEP
            # Side by side, so that bars do not hide each other.
            for shift, method in zip(np.linspace(-0.2, 0.2, len(shown)), shown, strict=True):
                runs = [[r[score] for r in results[s.key(method)]] for s in study.values()]
                style = {"color": COLOURS[method], "marker": MARKS[method], "linestyle": dashes(method)}
                curve(grid[row, column], list(np.arange(len(study)) + shift), runs, method, **style)
            grid[row, column].set_xticks(range(len(study)), [f"{value:g}" for value in study])
    titles = ("1. blurred features", "2. true prior Beta(a, a/2)", "3. one spammer, model Beta(2, a2)", "4. more spammers")
    below = ("ceiling", "a", "a2 (truth: 1)", "extreme spammers, model Beta(2, 1.4)")
    for column in range(4):
        grid[0, column].set_title(titles[column], fontsize=11)
        grid[1, column].set_xlabel(below[column])
    for axes in grid.flat:
        axes.grid(alpha=0.25)
    handles, labels = grid[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=8, fontsize=10, frameon=False)
    figure.savefig(IMAGES / "deep-robustness.png", dpi=110)


def draw_sureness(results: dict[str, list[dict[str, Any]]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for row, method in enumerate(VARIATIONAL):
        runs = results[DETAIL.key(method)]
        colour, line = COLOURS[method], dashes(method)
        shares = 100 * np.sum([r["histogram"] for r in runs], axis=0) / sum(sum(r["histogram"]) for r in runs)
        left.stairs(shares, BINS, color=colour, linestyle=line, linewidth=1.8, label=method)
        found = 100 * np.sort([r["labels"] for r in runs])
        middle.plot(np.arange(1, len(found) + 1), found, color=colour, linestyle=line, marker=MARKS[method], markersize=4)
        spread = np.linspace(-0.18, 0.18, len(runs))
        right.scatter([r["spammer"] for r in runs], row + spread, color=colour, marker=MARKS[method], s=22)
    left.set(title="How sure of the label found", xlabel="posterior probability of the label", ylabel="items (%)")
    middle.set(title="Runs from the worst to the best", xlabel="rank of the seed", ylabel="labels recovered (%)")
    right.set(title="What the extreme spammer is taken for", xlabel="estimated accuracy (truth: 0.5)", xlim=(-0.05, 1.05))
    middle.xaxis.get_major_locator().set_params(integer=True)
    right.set_yticks(range(len(VARIATIONAL)), VARIATIONAL)
    right.invert_yaxis()
    right.axvline(0.5, color="black", linestyle=":")
    for axes in (left, middle, right):
        axes.grid(alpha=0.25)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=10, frameon=False)
    figure.savefig(IMAGES / "deep-overconfidence.png", dpi=110)


# -- the page ----------------------------------------------------------------------------------

# Labels recovered below which a run counts as collapsed: little more than a coin's half.
COLLAPSED = 0.6


def findings(results: dict[str, list[dict[str, Any]]]) -> str:
    """What the tables show, with numbers from the runs."""
    keys = {s: None for study in (PRIORS, MISMATCH, SPAMMERS) for s in study.values()}

    def labels(method: str) -> list[float]:
        return [r["labels"] for key in {s.key(method): None for s in keys} for r in results[key]]

    def collapsed(method: str) -> str:
        found = np.array(labels(method))
        return f"{(found < COLLAPSED).sum()} of {len(found)}"

    def mean(method: str, setting: Setting, seeds: int | None = None) -> float:
        return 100 * float(np.mean([r["labels"] for r in results[setting.key(method)][:seeds]]))

    blurred = [FEATURES[BLURS[-1], c] for c in CEILINGS]
    features = [mean("deep-bp", s, FEATURE_SEEDS) for s in blurred]
    gaps = ", ".join(f"{mean('deep-bp', s) - mean('deep-mf', s):.1f}" for s in PRIORS.values())
    one = ", ".join(f"{mean('deep-mf', s):.1f} beside {mean('deep-bp', s):.1f}" for s in MISMATCH.values())
    four = SPAMMERS[4]
    return (
        "The paper's main claim holds: belief propagation never collapses. In studies 2 to 4 the worst run of deep-bp recovers "
        f"{100 * min(labels('deep-bp')):.1f}% of the labels and the worst of belief-propagation "
        f"{100 * min(labels('belief-propagation')):.1f}%. Fewer than {COLLAPSED:.0%} come back in {collapsed('mean-field')} "
        f"runs of mean-field, {collapsed('crowd-layer-mw')} of crowd-layer-mw (which knows no prior), {collapsed('bayes-dgc')} "
        f"of bayes-dgc, and {collapsed(FROM_FIELD)} of deep-mf if it starts from what mean-field finds. The start decides: "
        f"from a majority vote it is {collapsed('deep-mf')} for deep-mf. Not as in the paper, deep-mf then keeps up with "
        f"deep-bp under one spammer ({one}% of labels for the five priors); under four it falls behind "
        f"({mean('deep-mf', four):.1f} beside {mean('deep-bp', four):.1f}%).\n\n"
        "In study 2, the lead of deep-bp over deep-mf grows as annotators become hammers and adversaries, as in the paper: "
        f"{gaps} points of training labels for a = {', '.join(f'{a:g}' for a in PRIORS)}. "
        f"In study 1, images that say nothing (blur {BLURS[-1]}) leave deep-bp at {min(features):.1f} to {max(features):.1f}% "
        f"for every ceiling, beside {mean('belief-propagation', blurred[0], FEATURE_SEEDS):.1f}% without features. The "
        "paper needs a low ceiling there; this small network with dropout does no harm at any, and a low ceiling "
        "only costs accuracy where images are clear.\n\n"
        "Mean field is overconfident, as the paper says: where it fails it is almost sure of every label. It takes the spammer "
        "for a nearly perfect annotator, where the paper's runs take it for an adversary (ours start from vote shares, with "
        "which whoever answers everything agrees). The beliefs of belief-propagation are spread out and rather too modest. "
        "Those of deep-bp are not: its network has learned from the same votes, so it is too sure of its training labels, "
        "though less so than deep-mf."
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=10)
    given = options.parse_args()
    results = measure(given.seeds)
    about = (
        f"\nThe studies of Kim et al. (2022) on MNIST's {DIGITS[0]} and {DIGITS[1]} in place of dogs and cats: {N_TRAIN:,} "
        f"training images with {PER_ITEM} votes each from {N_ANNOTATORS} one-coin annotators with 4 votes each, {N_TEST:,} "
        f"test images, 14 x 14 pixels with noise of {NOISE:g} grey levels (of 255) added after any blur, the built-in MLP. An "
        f"extreme spammer answers all {N_TRAIN:,} images at random. Every model is given the same prior of annotators (rows of "
        "confusion matrices for bayes-dgc); majority and the crowd layer have none. The methods bayes-dgc, deep-mf and "
        'deep-bp start from a majority vote; "mean-field start" is from the labels of mean-field with the same prior. '
        "Accuracy in percent: mean ± half width of "
        f"the 95% interval over {given.seeds} seeds ({min(FEATURE_SEEDS, given.seeds)} in study 1), and the "
        "worst seed in brackets.\n"
    )
    studies = (
        ("2. True prior Beta(a, a/2), known to the models.", PRIORS, "a = {:g}"),
        ("3. One extreme spammer; truth Beta(2, 1), models Beta(2, a2).", MISMATCH, "a2 = {:g}"),
        ("4. Extreme spammers; truth Beta(2, 1), models Beta(2, 1.4).", SPAMMERS, "spammers: {}"),
    )
    parts = [provenance(f"python -m benchmarks run deep_robustness --seeds {given.seeds}", RUNS), about, findings(results)]
    parts.append("\n![The four studies](images/deep-robustness.png)\n")
    parts += [
        "**1. Blurred features and the ceiling**, Beta(1, 0.5); methods without a ceiling stand in the last column. Training "
        "labels:\n",
        features_table(results, "labels"),
    ]
    parts += ["\nNew images:\n", features_table(results, "test")]
    for title, study, head in studies:
        parts += [f"\n**{title}** Training labels:\n", study_table(results, study, head, "labels")]
        parts += ["\nNew images:\n", study_table(results, study, head, "test")]
    parts += ["\n**Overconfidence**, study 3 at a2 = 1.4.\n", sure_table(results)]
    parts.append("\n![How sure mean field and belief propagation are](images/deep-overconfidence.png)")
    draw_studies(results)
    draw_sureness(results)
    put("deep robustness", "\n".join(parts))
