"""Gaussian processes and networks on made-up data of the size of Gravity Spy (Morales-Alvarez et al. 2020, 4.3 and 5).

    python benchmarks/gp_ligo.py                              # all methods, three seeds, written to docs/benchmarks.md
    python benchmarks/gp_ligo.py --study fifth                # ten seeds at a fifth of the size, written there too
    python benchmarks/gp_ligo.py --scale 0.02 --seeds 0 --dry-run
    python benchmarks/gp_ligo.py --methods "svgpcr M=50" aggnet --seeds 0 1 --dry-run

See gravity_spy.py for the data. Every run has a process of its own, so that its memory is its own: peak resident memory
of training and prediction beyond what was resident when data and libraries were loaded. The seed draws data, crowd and
training: of one seed all methods have the same data, so that differences are taken seed by seed. Test accuracy is also
taken after every epoch, with the clock stopped. `--overlap` makes the classes harder or easier to tell apart.

Runs are kept in benchmarks/.runs/gp_ligo.json, so that an interrupted command goes on where it stopped; changed settings,
scales and data are measured anew, `--again METHOD` too. Tables show the runs of this scale that exist.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import gravity_spy
import numpy as np
from gravity_spy import CLASSES
from page import interval, provenance, put, table

# Name: scale, seeds, and the section of the page.
STUDIES = {"full": (1.0, range(3), "gp ligo"), "fifth": (0.2, range(10), "gp ligo fifth")}
# Differences are taken to this one.
REFERENCE = "svgpcr M=50"
# 350 steps make an epoch at full size: fewer epochs than by default, and inducing points move earlier.
EPOCHS = {"svgpcr": 20, "svgpcr-nf": 12, "gpnetcr": 8, "svgp": 20}
PROCESS = {"batch_size": 500}
EARLIER = {"frozen": 2}
# Name in the tables: method, settings, and what the paper found on the true set (accuracy, likelihood).
METHODS: dict[str, tuple[str, dict[str, Any], tuple[str, str]]] = {
    "svgpcr M=10": ("svgpcr", {"inducing": 10, **PROCESS, **EARLIER}, (".8355", ".8126")),
    "svgpcr M=50": ("svgpcr", {"inducing": 50, **PROCESS, **EARLIER}, (".9184", ".9154")),
    "svgpcr M=100": ("svgpcr", {"inducing": 100, **PROCESS, **EARLIER}, (".9183", ".9149")),
    "svgpcr-nf L=9 M=10": ("svgpcr-nf", {"layers": 9, "inducing": 10, **PROCESS, **EARLIER}, (".7765", ".7346")),
    "svgpcr-nf L=3 M=50": ("svgpcr-nf", {"layers": 3, "inducing": 50, **PROCESS, **EARLIER}, ("", "")),
    "svgpcr-nf L=9 M=50": ("svgpcr-nf", {"layers": 9, "inducing": 50, **PROCESS, **EARLIER}, (".9189", ".9152")),
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
BY_CLASS = (
    "svgpcr M=10", "svgpcr M=50", "svgpcr M=100", "svgpcr-nf L=9 M=50", "gpnetcr M=10", "gpnetcr M=50",
    "aggnet", "crowd-layer-vw", "crowd-layer-vwb", "crowd-layer-mw",
)  # fmt: skip
# A run has arrived when its test accuracy stays within this of the last.
ARRIVED = 0.003
# Test rows shown to the network at once while it is trained, so that watching takes no memory of note.
SHOWN = 2_000
RUNS = Path(__file__).parent / ".runs" / "gp_ligo.json"
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "gp-ligo.png"


# -- one run, in a process of its own -----------------------------------------------------------


def megabytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(field))


def run(entry: str, settings: dict[str, Any], seed: int, scale: float, overlap: float) -> dict[str, Any]:
    import torch

    import crowdwise
    from crowdwise.methods.classify.soft_network import SoftNetwork
    from crowdwise.methods.classify.trained import TrainedClassifier
    from crowdwise.trust.metrics import auc, brier, ece, log_loss, mean_true_probability

    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
    name = METHODS[entry][0]
    started = perf_counter()
    data = gravity_spy.made(seed, scale, shape=gravity_spy.Shape(overlap=overlap))
    made_in = perf_counter() - started
    # The peak of making the data is not of the method: the kernel starts anew from what is resident now. Where it may not,
    # the answer is too large, never too small.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    loaded = megabytes("VmRSS")
    if name == "gold":
        network = SoftNetwork(random_state=seed)
        model = crowdwise.make("two-stage", aggregator="majority", classifier=network, random_state=seed)
    else:
        model = crowdwise.make(name, random_state=seed, **settings)
    watched: list[Any] = []
    curve: list[tuple[float, float]] = []
    paused = 0.0

    def build(*given: Any) -> Any:
        made = own_network(*given)
        watched.append((made[0], given[1].dtype))
        return made

    def progress(*_: Any) -> None:
        """Test accuracy of the network as it is, beside the seconds of training so far."""
        nonlocal paused
        if not watched:
            return
        stopped = perf_counter()
        network, dtype = watched[-1]
        network.eval()
        with torch.no_grad():
            parts = torch.from_numpy(data.X_test).split(SHOWN)
            answer = torch.cat([network(part.to(dtype)).argmax(1) for part in parts]).numpy()
        network.train()
        curve.append((stopped - started - paused, float((answer == data.truth_test).mean())))
        paused += perf_counter() - stopped

    # A prediction by flows takes as long as an epoch: they are not watched.
    if isinstance(model, TrainedClassifier) and name != "svgpcr-nf":
        own_network = model._network
        model._network = build
    true_labels = name in ("gold", "svgp")
    y = np.array(CLASSES)[data.truth] if true_labels else data.votes
    started = perf_counter()
    model.fit(data.X, y, progress=progress)
    seconds = perf_counter() - started - paused
    predicting = []
    for _ in range(3):
        started = perf_counter()
        proba = model.predict_proba(data.X_test)
        predicting.append(perf_counter() - started)
    known = model.classes_.tolist()
    proba = proba[:, [known.index(name) for name in CLASSES]]
    truth = data.truth_test
    right, given = proba.argmax(1) == truth, proba[np.arange(len(truth)), truth]
    return {
        "accuracy": float(right.mean()),
        "likelihood": mean_true_probability(proba, truth),
        "nll": log_loss(proba, truth),
        "brier": brier(proba, truth),
        "auc": auc(proba, truth),
        "ece": ece(proba, truth),
        "labels": float("nan") if true_labels else float((model.posterior_.argmax(1) == data.truth).mean()),
        "seconds": seconds,
        "predicting": float(np.median(predicting)),
        "memory": megabytes("VmHWM") - loaded,
        "loaded": loaded,
        "made in": made_in,
        "epochs": len(curve) or model.result_.n_iter,
        "accuracy by class": [float(right[truth == k].mean()) for k in range(len(CLASSES))],
        "likelihood by class": [float(given[truth == k].mean()) for k in range(len(CLASSES))],
        "curve": curve,
    }


# -- all runs ------------------------------------------------------------------------------------


def settings_of(entry: str, epochs: int | None) -> dict[str, Any]:
    name, settings, _ = METHODS[entry]
    return settings | ({"epochs": epochs or EPOCHS[name]} if name in EPOCHS else {})


def key_of(entry: str, settings: dict[str, Any], seed: int, scale: float, overlap: float) -> str:
    return json.dumps([entry, settings, seed, scale, overlap, gravity_spy.EDITION], sort_keys=True)


def kept() -> dict[str, Any]:
    return json.loads(RUNS.read_text()) if RUNS.exists() else {}


def measure(entries: list[str], seeds: list[int], scale: float, overlap: float, epochs: int | None) -> None:
    """Run what is not kept; a seed goes through all methods before the next."""
    for seed in seeds:
        for entry in entries:
            settings = settings_of(entry, epochs)
            key = key_of(entry, settings, seed, scale, overlap)
            if key in kept():
                continue
            given = json.dumps([entry, settings, seed, scale, overlap])
            done = subprocess.run([sys.executable, __file__, "--one", given], stdout=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"seed {seed}: {entry} failed", flush=True)
                continue
            result = {"seed": seed} | json.loads(done.stdout.splitlines()[-1])
            # Read anew: another command may have written meanwhile.
            RUNS.parent.mkdir(exist_ok=True)
            RUNS.write_text(json.dumps(kept() | {key: result}))
            plain = {name: round(value, 4) for name, value in result.items() if not isinstance(value, list)}
            print(f"seed {seed}: {entry} {plain}", flush=True)


def found(
    entries: list[str], seeds: list[int], scale: float, overlap: float, epochs: int | None
) -> dict[str, list[dict[str, Any]]]:
    """The kept runs of every method that has any."""
    runs = kept()
    keys = {e: [key_of(e, settings_of(e, epochs), seed, scale, overlap) for seed in seeds] for e in entries}
    return {e: [runs[key] for key in keys[e] if key in runs] for e in entries if any(key in runs for key in keys[e])}


def arrival(one: dict[str, Any]) -> float:
    """Seconds after which test accuracy stays within ARRIVED of the last epoch's; NaN where no curve was taken."""
    if not one["curve"]:
        return float("nan")
    time, accuracy = np.array(one["curve"]).T
    away = np.flatnonzero(np.abs(accuracy - accuracy[-1]) > ARRIVED)
    return float(time[away[-1] + 1 if len(away) else 0])


# -- tables and picture ---------------------------------------------------------------------------


MARKS = {
    "NLL": ("nll", 1, 3),
    "Brier": ("brier", 1, 4),
    "ECE": ("ece", 1, 3),
    "accuracy": ("accuracy", 100, 2),
    "AUC": ("auc", 100, 2),
    "mean probability of the true class": ("likelihood", 100, 2),
    "recovered": ("labels", 100, 2),
}


def differences(results: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Methods minus the reference, by seeds that both have, where these are two or more."""
    base = {one["seed"]: one for one in results.get(REFERENCE, [])}
    rows = []
    for entry, runs in results.items():
        both = [(one, base[one["seed"]]) for one in runs if one["seed"] in base]
        if entry == REFERENCE or len(both) < 2:
            continue
        cells = [interval([one[name] - other[name] for one, other in both], times, digits)
                 for name, times, digits in list(MARKS.values())[:-1]]  # fmt: skip
        rows.append([entry, str(len(both)), *cells])
    about = f"**Differences to {REFERENCE}**, taken seed by seed on the same data.\n"
    return [about, table(["method", "seeds", *list(MARKS)[:-1]], rows) + "\n"] if rows else []


def tables(results: dict[str, list[dict[str, Any]]]) -> str:
    def cell(entry: str, name: str, times: float, digits: int) -> str:
        return interval([one[name] for one in results[entry]], times, digits)

    rows = []
    for entry in results:
        paper = " / ".join(value for value in METHODS[entry][2] if value) or "-"
        marks = [cell(entry, name, times, digits) for name, times, digits in MARKS.values()]
        rows.append([entry, *marks, paper])
    parts = [
        "**Test items**, proper scores first: negative log-likelihood (NLL) and Brier score, lower is better; ECE; accuracy "
        "(%); AUC (%; mean over pairs of classes); the mean probability of the true class (%), which the paper calls "
        "likelihood. That one is an improper score: a model that is unsure scores most, in expectation, by claiming to be "
        "certain. Then training labels recovered (%). The last column is the paper's accuracy / likelihood on the true set, "
        "other data.\n",
        table(["method", *MARKS, "paper"], rows) + "\n",
        *differences(results),
    ]
    rows = []
    for entry, runs in results.items():
        arrived = [arrival(one) for one in runs] if METHODS[entry][0] in EPOCHS else [float("nan")]
        epochs = f"{np.mean([one['epochs'] for one in runs]):.0f}"
        cells = [cell(entry, "seconds", 1, 0), interval(arrived, 1, 0), cell(entry, "predicting", 1000, 0)]
        rows.append([entry, str(len(runs)), epochs, *cells, f"{max(one['memory'] for one in runs):,}"])
    parts.append(
        "**Cost**: epochs (of the networks: until early stopping, plus those of the refit), seconds of training, seconds "
        f"until test accuracy stays within {100 * ARRIVED:.1f} points of the last epoch's, milliseconds to predict all test "
        "items, and the largest peak of memory beyond data and libraries.\n"
    )
    head = ["method", "runs", "epochs", "training (s)", f"within {100 * ARRIVED:.1f} (s)", "prediction (ms)", "memory (MB)"]
    parts.append(table(head, rows) + "\n")
    shown = [entry for entry in BY_CLASS if entry in results]
    share = gravity_spy.Shape().shares()[1]
    for name in ("accuracy", "likelihood") if shown else ():
        rows = []
        for k in np.argsort(-share, kind="stable"):
            means = [np.mean([one[f"{name} by class"][k] for one in results[entry]]) for entry in shown]
            rows.append([CLASSES[k], f"{share[k] / share.sum():.1%}", *(f"{100 * mean:.1f}" for mean in means)])
        rows.append(["*all*", "", *(f"{100 * np.mean([one[name] for one in results[e]]):.1f}" for e in shown)])
        title = {"accuracy": "Accuracy", "likelihood": "Mean probability of the true class,"}[name]
        parts.append(f"**{title} by class** (%; mean over seeds).\n")
        parts.append(table(["class", "share in the test", *shown], rows) + "\n")
    return "\n".join(parts)


def draw(results: dict[str, list[dict[str, Any]]], target: Path) -> None:
    """Accuracy and likelihood by M, with the networks as lines, and accuracy by time."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from scipy.stats import t

    def spread(entry: str, name: str) -> tuple[float, float]:
        values = 100 * np.array([one[name] for one in results[entry]])
        if len(values) < 2:
            return values.mean(), 0.0
        return values.mean(), t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))

    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2))
    families = {"svgpcr": "#c0392b", "svgpcr-nf L=9": "#d68910", "gpnetcr": "#1b6ca8"}
    lines = {"aggnet": "-", "crowd-layer-vw": ":", "crowd-layer-vwb": "-.", "crowd-layer-mw": "--"}
    for axis, name in zip(axes, ("accuracy", "likelihood"), strict=False):
        for family, colour in families.items():
            sizes = [m for m in (10, 50, 100) if f"{family} M={m}" in results]
            if sizes:
                mean, half = zip(*(spread(f"{family} M={m}", name) for m in sizes), strict=True)
                axis.errorbar(sizes, mean, half, color=colour, marker="o", capsize=3, label=family)
        for entry, line in lines.items():
            if entry in results:
                axis.axhline(spread(entry, name)[0], color="#666666", linestyle=line, linewidth=1.1, label=entry)
        axis.set_xlabel("M: inducing points, or rows of the measurement set")
        axis.set_ylabel("test accuracy (%)" if name == "accuracy" else "mean probability of the true class (%)")
        axis.set_xticks([10, 50, 100])
        axis.grid(color="#eeeeee")
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].legend(handles, labels, frameon=False, fontsize=8)
    curves = {"svgpcr M=10": "#e6b0aa", "svgpcr M=50": "#c0392b", "svgpcr M=100": "#641e16", "gpnetcr M=50": "#1b6ca8"}
    longest = 0.0
    for entry, colour in curves.items():
        for number, one in enumerate(results.get(entry, [])):
            time, accuracy = np.array(one["curve"]).T
            longest = max(longest, time[-1] / 60)
            axes[2].plot(time / 60, 100 * accuracy, color=colour, linewidth=1.4, label=None if number else entry)
    if longest > 8:
        axes[2].axvline(10, color="#999999", linestyle="--", linewidth=1)
        axes[2].annotate("10 minutes", (10, 0.02), xycoords=("data", "axes fraction"), fontsize=8, color="#666666")
    axes[2].set_xlabel("minutes of training")
    axes[2].set_ylabel("test accuracy (%)")
    axes[2].grid(color="#eeeeee")
    axes[2].legend(frameon=False, fontsize=8, loc="lower right")
    figure.tight_layout()
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=110)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS, metavar="METHOD")
    options.add_argument(
        "--study", choices=STUDIES, default="full", help="full: three seeds; fifth: ten, at a fifth of the size"
    )
    options.add_argument("--seeds", nargs="*", type=int, help="others than the study's")
    options.add_argument("--scale", type=float, help="share of items, volunteers and votes, if not the study's; at least 0.02")
    options.add_argument("--overlap", type=float, default=1.0, help="of the classes: 0 is none, 1 the study's")
    options.add_argument("--epochs", type=int, help="of the Gaussian processes, to try others than the study's")
    options.add_argument("--again", nargs="*", default=[], choices=METHODS, metavar="METHOD", help="forget their kept runs")
    options.add_argument("--dry-run", action="store_true", help="print the tables, write neither page nor figure")
    options.add_argument("--picture", type=Path, help="draw the figure here, also with --dry-run")
    options.add_argument("--one", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        print(json.dumps(run(*json.loads(given.one))))
        return
    if given.again:
        RUNS.write_text(json.dumps({key: one for key, one in kept().items() if json.loads(key)[0] not in given.again}))
    scale, seeds, section = STUDIES[given.study]
    asked = given.scale is None and given.overlap == 1 and given.epochs is None
    if not asked and not given.dry_run:
        raise SystemExit("only a study with its own size, overlap and epochs is written to the page; add --dry-run")
    scale, seeds = given.scale or scale, list(seeds) if given.seeds is None else given.seeds
    measure(given.methods, seeds, scale, given.overlap, given.epochs)
    results = found(given.methods if given.dry_run else list(METHODS), seeds, scale, given.overlap, given.epochs)
    if given.picture:
        draw(results, given.picture)
    text = page_text(given.study, scale, seeds, given.overlap) + tables(results)
    if given.dry_run:
        print("" if asked else f"A trial, not the study described here: epochs {given.epochs or 'of the study'}.\n\n", text)
        return
    if given.study == "full":
        draw(results, PICTURE)
    put(section, text)


def page_text(study: str, scale: float, seeds: list[int], overlap: float) -> str:
    """What stands above the tables."""
    shape = gravity_spy.Shape()
    sizes = [round(scale * size) for size in (gravity_spy.N_ITEMS, gravity_spy.N_VOTES, gravity_spy.N_ANNOTATORS)]
    given = " ".join(map(str, seeds))
    picture = "![Accuracy and mean probability of the true class by M, and accuracy by time](images/gp-ligo.png)\n\n"
    return (
        provenance(f"python benchmarks/gp_ligo.py --study {study} --seeds {given}")
        + f"\nMade-up data like Gravity Spy's (`benchmarks/gravity_spy.py`): {sizes[0]:,} training items with "
        f"{gravity_spy.N_FEATURES} features, {sizes[1]:,} votes by {sizes[2]:,} volunteers, {len(CLASSES)} classes, from 26% "
        f"to 0.9% of {gravity_spy.N_TEST:,} test items; in training their shares to the power {shape.training_power}. "
        f"{100 * shape.other_votes:.1f}% of the votes are for Other, {100 * shape.repeats:.0f}% by someone who has voted on "
        f"the item already; overlap {overlap:g}. Gaussian processes: batches of 500, "
        f"{EPOCHS['svgpcr']} epochs (svgpcr-nf {EPOCHS['svgpcr-nf']}, the first half of which are svgpcr's; gpnetcr "
        f"{EPOCHS['gpnetcr']}), float64, inducing points move after {EARLIER['frozen']}; all else is default. "
        "Networks: all defaults (float32, early stopping on the votes of a tenth of the items, then a refit). "
        f"Seeds {given.replace(' ', ', ')}; mean ± half width of the 95% interval over seeds.\n\n"
        + (picture if study == "full" else "")
    )


if __name__ == "__main__":
    main()
