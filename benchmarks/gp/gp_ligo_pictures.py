"""Pictures of gp_ligo.py: scores by M and by time, by the length of flows, and of single items and volunteers."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from scipy.stats import t

from benchmarks.gp.gp_ligo_run import CLOSELY, LENGTHS, sampled, volunteers
from benchmarks.gp.gp_ligo_tables import FEW, REFERENCE, Results
from benchmarks.gp.gravity_spy import CLASSES, GravitySpy, K

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RED, ORANGE, BLUE, GREY = "#c0392b", "#d68910", "#1b6ca8", "#666666"
# Of seeds.
SHADES = (ORANGE, BLUE, "#7d3c98")


def spread(values: list[float], times: float = 100) -> tuple[float, float]:
    """Mean, and half width of its 95% interval; none for one run."""
    scaled = times * np.array(values)
    if len(scaled) < 2:
        return float(scaled.mean()), 0.0
    return float(scaled.mean()), float(t.ppf(0.975, len(scaled) - 1) * scaled.std(ddof=1) / np.sqrt(len(scaled)))


def plain(axis: plt.Axes) -> None:
    axis.grid(color="#eeeeee")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def draw_sizes(results: Results, target: Path) -> None:
    """Accuracy and mean probability by M, with the networks as lines, and accuracy by time."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    families = {"svgpcr": RED, "svgpcr-nf L=9": ORANGE, "gpnetcr": BLUE}
    lines = {"aggnet": "-", "crowd-layer-vw": ":", "crowd-layer-vwb": "-.", "crowd-layer-mw": "--"}
    for axis, name in zip(axes, ("accuracy", "likelihood"), strict=False):
        for family, colour in families.items():
            sizes = [m for m in (10, 50, 100) if f"{family} M={m}" in results]
            if sizes:
                runs = [[one[name] for one in results[f"{family} M={m}"]] for m in sizes]
                mean, half = zip(*map(spread, runs), strict=True)
                axis.errorbar(sizes, mean, half, color=colour, marker="o", capsize=3, label=family)
        for entry, line in lines.items():
            if entry in results:
                mean = spread([one[name] for one in results[entry]])[0]
                axis.axhline(mean, color=GREY, linestyle=line, linewidth=1.1, label=entry)
        axis.set_xlabel("M: inducing points, or rows of the measurement set")
        axis.set_ylabel("test accuracy (%)" if name == "accuracy" else "mean probability of the true class (%)")
        axis.set_xticks([10, 50, 100])
        plain(axis)
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, fontsize=9, loc="outside lower left", ncols=7)
    curves = {"svgpcr M=10": "#e6b0aa", "svgpcr M=50": RED, "svgpcr M=100": "#641e16", "gpnetcr M=50": BLUE}
    for entry, colour in curves.items():
        for number, one in enumerate(results.get(entry, [])[:3]):
            time, accuracy = np.array(one["curve"]).T
            axes[2].plot(time, 100 * accuracy, color=colour, linewidth=1.4, label=None if number else entry)
    axes[2].set_xlabel("processor seconds of training")
    axes[2].set_ylabel("test accuracy (%)")
    axes[2].set_xlim(left=0)
    axes[2].legend(frameon=False, fontsize=8, loc="lower right")
    plain(axes[2])
    figure.savefig(target, dpi=110)
    plt.close(figure)


def draw_flows(results: Results, target: Path) -> None:
    """Three scores by the length of the flow: every seed beside its svgpcr, and the means."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    entries = {layers: f"svgpcr-nf L={layers} M=50" for layers in LENGTHS if f"svgpcr-nf L={layers} M=50" in results}
    base = results.get(REFERENCE, [])
    for axis, (heading, (name, times, _)) in zip(axes, FEW.items(), strict=True):
        for seed, colour in zip(sorted({one["seed"] for one in base}), SHADES, strict=False):
            runs = {layers: one for layers, entry in entries.items() for one in results[entry] if one["seed"] == seed}
            axis.plot(list(runs), [times * one[name] for one in runs.values()], "o-", color=colour, markersize=4, linewidth=1,
                      label=f"svgpcr-nf, seed {seed}")  # fmt: skip
            plain_one = next(one for one in base if one["seed"] == seed)
            axis.axhline(times * plain_one[name], color=colour, linestyle="--", linewidth=1, label=f"svgpcr, seed {seed}")
        means = [times * np.mean([one[name] for one in results[entry]]) for entry in entries.values()]
        axis.plot(list(entries), means, "-", color="black", linewidth=2, label="svgpcr-nf, mean")
        axis.axhline(times * np.mean([one[name] for one in base]), color="black", linestyle="--", label="svgpcr, mean")
        axis.set_title("test NLL, lower is better" if name == "nll" else f"{heading} (%)", fontsize=10)
        axis.set_xlabel("L: planar layers of the flow")
        axis.set_xticks(list(LENGTHS))
        axis.set_xlim(LENGTHS[0] - 0.4, LENGTHS[-1] + 0.4)
        plain(axis)
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, fontsize=9, loc="outside lower center", ncols=4)
    figure.savefig(target, dpi=110)
    plt.close(figure)


# -- single items and volunteers ------------------------------------------------------------------------


def chosen_items(proba: dict[str, np.ndarray], truth: np.ndarray) -> dict[str, int]:
    """Positions in the sample: the largest lead of svgpcr over the networks and theirs over it, then the first two drawn.

    A lead is between log-probabilities of the true class, the networks' being the mean of both.
    """
    process, *networks = (np.log(np.maximum(one[np.arange(len(truth)), truth], 1e-12)) for one in proba.values())
    lead = process - np.mean(networks, axis=0)
    chosen = {"largest lead of svgpcr": int(lead.argmax()), "largest lead of the networks": int(lead.argmin())}
    drawn = [place for place in range(len(truth)) if place not in chosen.values()]
    return chosen | {"drawn at random, first": drawn[0], "drawn at random, second": drawn[1]}


def draw_distributions(results: Results, data: GravitySpy, target: Path) -> None:
    """What three methods say of four test items; the true class is red."""
    first = {entry: results[entry][0] for entry in CLOSELY}
    truth = data.truth_test[sampled(data)]
    proba = {entry: np.array(one["sampled"]) for entry, one in first.items()}
    chosen = chosen_items(proba, truth)
    figure, axes = plt.subplots(len(chosen), len(proba), figsize=(11, 9), sharex=True, sharey=True, layout="constrained")
    for row, (words, place) in zip(axes, chosen.items(), strict=True):
        colours = [RED if k == truth[place] else "#7f9fbf" for k in range(K)]
        for axis, one in zip(row, proba.values(), strict=True):
            axis.bar(range(K), one[place], color=colours)
            behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
            words_of = f"true class: {one[place, truth[place]]:.2g}"
            axis.text(0.98, 0.95, words_of, transform=axis.transAxes, ha="right", va="top", fontsize=9, color=RED, bbox=behind)
            plain(axis)
        row[0].set_ylabel(f"{words}\n({CLASSES[truth[place]]})", fontsize=9)
    for axis, entry in zip(axes[0], proba, strict=True):
        axis.set_title(entry, fontsize=11)
    for axis in axes[-1]:
        axis.set_xticks(range(K), CLASSES, rotation=90, fontsize=8)
    axes[0, 0].set_ylim(0, 1.05)
    figure.savefig(target, dpi=110)
    plt.close(figure)


def draw_matrices(results: Results, data: GravitySpy, target: Path) -> None:
    """The true matrices of five volunteers above those that three methods estimate."""
    chosen = volunteers(data)
    rows = {"true": data.confusion[list(chosen.values())]}
    rows |= {entry: np.array(results[entry][0]["matrices"]) for entry in CLOSELY}
    figure, axes = plt.subplots(len(rows), len(chosen), figsize=(11, 8.8), sharex=True, sharey=True, layout="constrained")
    for line, (words, matrices) in zip(axes, rows.items(), strict=True):
        for axis, matrix in zip(line, matrices, strict=True):
            drawn = axis.imshow(matrix, vmin=0, vmax=1, cmap="Blues")
            axis.tick_params(length=0)
            for spine in axis.spines.values():
                spine.set_color("#cccccc")
        line[0].set_ylabel(f"{words}\n\ntrue class", fontsize=9)
        line[0].set_yticks(range(K), CLASSES, fontsize=5.5)
    for axis, (words, who) in zip(axes[0], chosen.items(), strict=True):
        axis.set_title(f"{words}\n({data.votes.votes_per_annotator[who]:,} votes)", fontsize=9)
    for axis in axes[-1]:
        axis.set_xticks(range(K), CLASSES, rotation=90, fontsize=5.5)
        axis.set_xlabel("vote", fontsize=9)
    figure.colorbar(drawn, ax=axes, shrink=0.5, label="probability").outline.set_visible(False)
    figure.savefig(target, dpi=110)
    plt.close(figure)
