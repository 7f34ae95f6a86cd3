"""Pictures of gp_mnist.py."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import matplotlib.ticker
import numpy as np

from benchmarks.gp.gp_mnist_run import (
    ANNOTATORS,
    N_CLASSES,
    N_INDUCING,
    ONE_SCALE,
    SHOWN_POINTS,
    SWEEP,
    Study,
    load,
    true_confusions,
    unpacked,
)

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RED = "#c0392b"


def draw_confusions(confusion: np.ndarray, path: Path) -> None:
    """The true matrices above the recovered ones."""
    figure, axes = plt.subplots(2, len(ANNOTATORS), figsize=(10.5, 4.2), sharex=True, sharey=True, layout="constrained")
    for row, matrices, words in zip(axes, (true_confusions(), confusion), ("true", "recovered"), strict=True):
        for axis, matrix in zip(row, matrices, strict=True):
            drawn = axis.imshow(matrix, vmin=0, vmax=1, cmap="Blues")
            axis.set_xticks(range(0, N_CLASSES, 3))
            axis.set_yticks(range(0, N_CLASSES, 3))
            axis.tick_params(length=0, labelsize=8)
            for spine in axis.spines.values():
                spine.set_color("#cccccc")
        row[0].set_ylabel(f"{words}\n\ndigit")
    for axis, name in zip(axes[0], ANNOTATORS, strict=True):
        axis.set_title(name, fontsize=10)
    for axis in axes[1]:
        axis.set_xlabel("vote")
    bar = figure.colorbar(drawn, ax=axes, shrink=0.8, label="probability")
    bar.outline.set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_inducing(points: np.ndarray, digits: np.ndarray, path: Path) -> None:
    """Inducing points as images, a column per digit that they are taken for, the surest first."""
    figure, axes = plt.subplots(SHOWN_POINTS, N_CLASSES, figsize=(7.5, 2.6))
    for axis in axes.flat:
        axis.set_axis_off()
    for k in range(N_CLASSES):
        axes[0, k].set_title(str(k), fontsize=11)
        for axis, image in zip(axes[:, k], points[digits == k], strict=False):
            axis.imshow(image.reshape(28, 28), vmin=0, vmax=255, cmap="gray_r")
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.89, wspace=0.06, hspace=0.06)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_errors(wrong: list[tuple[int, list[float]]], path: Path) -> None:
    """Digits whose label was not recovered, above their posterior; the true digit is red."""
    images, truth = load("")
    figure, axes = plt.subplots(
        2, len(wrong), figsize=(2.7 * len(wrong), 4.2), height_ratios=(1.3, 1), squeeze=False, layout="constrained"
    )
    for (upper, lower), (which, posterior) in zip(axes.T, wrong, strict=True):
        upper.imshow(images[which].reshape(28, 28), cmap="gray_r")
        upper.set_axis_off()
        upper.set_title(f"true {truth[which]}, taken for {int(np.argmax(posterior))}", fontsize=10)
        colours = [RED if k == truth[which] else "#7f9fbf" for k in range(N_CLASSES)]
        lower.bar(range(N_CLASSES), posterior, color=colours)
        lower.set_xticks(range(N_CLASSES))
        lower.set_ylim(0, 1)
        lower.set_xlabel("digit")
        lower.spines[["top", "right"]].set_visible(False)
    axes[1, 0].set_ylabel("probability")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_time(study: Study, seeds: int, path: Path) -> None:
    """Test accuracy after every epoch against processor seconds, every seed, for several M."""
    figure, axis = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
    shades = plt.get_cmap("viridis")(np.linspace(0.9, 0, len(SWEEP)))
    for n_inducing, colour in zip(SWEEP, shades, strict=True):
        for number, one in enumerate(study.runs("svgpcr", ONE_SCALE, n_inducing, seeds)):
            seconds, accuracy = np.array(one["curve"]).T
            label = None if number else f"M = {n_inducing}"
            axis.plot(seconds, accuracy, "-", marker=".", markersize=4, linewidth=1.2, color=colour, label=label)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    axis.xaxis.set_minor_formatter(matplotlib.ticker.LogFormatter(minor_thresholds=(2, 0.6)))
    axis.set_xlabel("processor seconds of training")
    axis.set_ylabel("test accuracy")
    axis.grid(color="#eeeeee", which="both")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_sweep(study: Study, seeds: int, path: Path) -> None:
    """Accuracy, likelihood and seconds against M: every seed, and a line through the medians."""
    panels = (("accuracy", "test accuracy"), ("likelihood", "test likelihood"), ("seconds", "training, seconds"))
    figure, axes = plt.subplots(1, len(panels), figsize=(10, 3), layout="constrained")
    for axis, (key, words) in zip(axes, panels, strict=True):
        found = {m: [one[key] for one in study.runs("svgpcr", ONE_SCALE, m, seeds)] for m in SWEEP}
        found = {m: values for m, values in found.items() if values}
        axis.plot(list(found), [np.median(values) for values in found.values()], "-", color=RED, linewidth=1.8)
        for m, values in found.items():
            axis.plot([m] * len(values), values, "o", color=RED, markersize=4)
        if key != "seconds":
            gold = np.mean([one[key] for one in study.runs("svgp gold", ONE_SCALE, N_INDUCING, seeds)])
            axis.axhline(gold, color="#888888", linestyle="--", linewidth=1)
            axis.text(SWEEP[0], gold, f"true labels, M = {N_INDUCING}", va="bottom", fontsize=8, color="#666666")
        else:
            axis.set_ylim(bottom=0)
        axis.set_xscale("log")
        axis.set_xticks(SWEEP, [str(m) for m in SWEEP])
        axis.minorticks_off()
        axis.set_xlim(SWEEP[0] / 1.2, SWEEP[-1] * 1.2)
        axis.set_xlabel("inducing points, M")
        axis.set_title(words, fontsize=10)
        axis.grid(color="#eeeeee")
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw(study: Study, seeds: int, folder: Path) -> None:
    first = study.runs("svgpcr", ONE_SCALE, N_INDUCING, 1)[0]
    folder.mkdir(exist_ok=True, parents=True)
    draw_confusions(np.array(first["confusion"]), folder / "gp-mnist-confusion.png")
    draw_inducing(unpacked(first["inducing"]), np.array(first["inducing digits"]), folder / "gp-mnist-inducing.png")
    if first["wrong"]:
        draw_errors(first["wrong"], folder / "gp-mnist-errors.png")
    draw_sweep(study, seeds, folder / "gp-mnist-m.png")
    draw_time(study, seeds, folder / "gp-mnist-time.png")
