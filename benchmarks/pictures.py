"""Pictures of the evidence's start page, drawn from the tables that it cuts its own from."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.answers import CLASSIFIERS, SETS, column, label_sources, number, tables
from benchmarks.places import IMAGES


def dots(file: str, rows: dict[str, dict[str, float]], below: str, *, beside: float = 0.0, log: bool = False) -> None:
    """A line per row, a dot per value, their mean as a stroke; from the first row on top. The thin line is at `beside`."""
    import matplotlib

    matplotlib.rcParams |= {"svg.hashsalt": "crowdwise", "svg.fonttype": "none"}
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 0.34 * len(rows) + 0.8), layout="constrained")
    axes = figure.subplots()
    named = list(dict.fromkeys(name for values in rows.values() for name in values))
    for place, values in enumerate(rows.values()):
        for name, value in values.items():
            colour = f"C{named.index(name)}" if len(named) <= 6 else "#1b6ca8"
            axes.plot(value, place, "o", color=colour, alpha=0.65, markersize=5.5, label=name if place == 0 else None)
        if len(values) > 1:
            axes.plot(sum(values.values()) / len(values), place, "|", color="black", markersize=15, markeredgewidth=2)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(below, loc="right")
    axes.grid(axis="x", color="#dddddd")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xscale("log") if log else axes.axvline(beside, color="#777777", linewidth=0.8)
    if 1 < len(named) <= 6:
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    figure.savefig(IMAGES / file, metadata={"Date": None})


def draw() -> Iterator[str]:
    """The pictures of the questions whose rooms have none that fits."""
    labels = {name: gaps for name, _, gaps in label_sources()[0] if name != "majority"}
    dots("answer-labels.svg", labels, "points of accuracy above majority vote; a dot is a set, the stroke the mean")
    accuracy = {name: column(tables("classifiers", f"learn {name}")[0], "test accuracy") for name in SETS}
    gaps = {
        method: {
            name: number(found[method]) - number(found["two-stage majority"])
            for name, found in accuracy.items()
            if method in found
        }
        for method in CLASSIFIERS[1:]
    }
    dots("answer-classifiers.svg", gaps, "points of test accuracy above two-stage majority; the stroke is the mean")
    accepted = tables("calibration", "calibration", "Accepted")[0]
    wrong = {
        words: {
            name: number(cell.partition(": ")[2])
            for name, cell in column(accepted, f"5%, {how}").items()
            if ": " in cell and not cell.endswith("-")
        }
        for words, how in (("the model alone", "none"), ("as printed", "experience"), ("with half of the true labels", "gold"))
    }
    below = "percent wrong of those accepted at 5 percent (the line); a dot is a set, the stroke the mean"
    dots("answer-confidence.svg", wrong, below, beside=5)
    million = [row for row in tables("how-fast", "neighbours")[0].rows if row[0] == "1,000,000"]
    seconds = {f"{row[1]}: {row[2]}": {"seconds": number(row[3])} for row in million if row[3][0].isdigit()}
    dots("answer-speed.svg", seconds, "seconds for a million votes, on a scale of powers of ten", log=True)
    yield "four pictures: drawn"
