"""Moment methods: starts for EM where the vote fails, what they estimate before EM, and recovery of confusion matrices.

    python -m benchmarks run moments [--seeds 50] [--curve-seeds 5]

Fifty random crowds of which 40 % are spammers or adversaries: accuracy of Dawid-Skene from vote shares and from
``init="moments"``, and of moment methods with and without the rounds of EM that polish their estimate. Then the error of the
confusion matrices against the number of votes, for every method, also as docs/images/recovery.svg.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

import crowdwise
from benchmarks.declaration import Benchmark
from benchmarks.page import IMAGES, interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.simulate import simulate
from crowdwise.estimator.registry import label_methods
from crowdwise.trust.metrics import accuracy, confusion_error

BENCHMARK = Benchmark(
    "Do moment starts save EM where the vote fails, and are confusion matrices recovered?",
    sections=("moments",),
    renders=("",),
    quick="--seeds 1 --curve-seeds 1",
    small={"ITEMS": (50,)},
)

RUNS = Records("moments")
METHODS = label_methods()
# Those that EM polishes by default, and their names without it.
POLISHED = ("spectral-ds", "tensor-admm", "multi-spa", "cnmf", "sym-nmf", "pgd")
BARE = {f"{name}, `polish=0`": name for name in POLISHED}

PICTURE = IMAGES / "recovery.svg"
HONEST = [{"one-coin": 1.0}, {"dirichlet": 1.0}, {"one-coin": 0.5, "dirichlet": 0.5}]
# Good annotators, or weak ones whom consistent adversaries outvote.
STRENGTH = [{}, {"one-coin": {"a": 6, "b": 3}, "dirichlet": {"diagonal": 4}}]
# Shares of the 40 % who are not honest.
FAULTY = [
    {"uniform-spammer": 1.0}, {"constant-spammer": 1.0}, {"cyclic-adversary": 1.0},
    {"uniform-spammer": 0.5, "cyclic-adversary": 0.5},
    {"uniform-spammer": 0.34, "constant-spammer": 0.33, "cyclic-adversary": 0.33},
]  # fmt: skip
ITEMS = (50, 100, 200, 500, 1000, 2000)


def crowd(seed: int):
    """A random crowd: honest 60 %, faulty 40 %; sizes, classes and votes per item drawn, too."""
    rng = np.random.default_rng(seed)
    mix = {name: 0.6 * share for name, share in HONEST[seed % len(HONEST)].items()}
    for name, share in FAULTY[seed % len(FAULTY)].items():
        mix[name] = 0.4 * share
    return simulate(
        n_items=int(rng.integers(300, 1001)), n_annotators=int(rng.integers(15, 41)), n_classes=int(rng.integers(2, 5)),
        votes_per_item=int(rng.integers(4, 11)), annotators=mix, random_state=seed,
        options={name: given for name, given in STRENGTH[seed % len(STRENGTH)].items() if name in mix},
    )  # fmt: skip


def started(seed: int) -> dict[str, float]:
    """Of one crowd: accuracies by method or start, and the relative gain of EM's bound from moments over that from votes."""
    drawn = crowd(seed)
    votes, truth = drawn.votes, drawn.truth
    found = {"majority": accuracy(crowdwise.make("majority").fit(votes).posterior_, truth)}
    bound = {}
    for init in ("votes", "moments"):
        model = crowdwise.make("dawid-skene", init=init).fit(votes)
        found[init], bound[init] = accuracy(model.posterior_, truth), float(model.trace_[-1])
    found["bound"] = (bound["moments"] - bound["votes"]) / abs(bound["votes"])
    for name in POLISHED:
        for polish in (0, 10):
            found[f"{name} {polish}"] = accuracy(crowdwise.make(name, polish=polish).fit(votes).posterior_, truth)
    return found


def starts(seeds: int) -> str:
    runs = [RUNS.once(json.dumps(["start", seed]), lambda seed=seed: started(seed)) for seed in range(seeds)]
    majority, votes, moments, bound = np.array([[run[n] for n in ("majority", "votes", "moments", "bound")] for run in runs]).T
    gap = moments - votes
    low, high = np.quantile(np.random.default_rng(0).choice(gap, (2000, len(gap))).mean(axis=1), (0.025, 0.975))
    counts = (gap > 0.005).sum(), (np.abs(gap) <= 0.005).sum(), (gap < -0.005).sum()
    line = [
        '`init="moments"`',
        f"{100 * moments.mean():.2f}",
        f"{100 * gap.mean():+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]",
        " / ".join(map(str, counts)),
        f"{(bound > 1e-6).sum()} / {(bound < -1e-6).sum()}",
    ]
    header = [
        "start of dawid-skene",
        "accuracy",
        "gain over vote start, 95% interval",
        "better / same / worse",
        "bound higher / lower",
    ]
    return "\n".join([
        f"\n**Starts.** {seeds} crowds, 40 % of whose annotators are spammers or adversaries (majority vote: "
        f"{100 * majority.mean():.2f}). Same: within half a point.\n",
        table(header, [
            ["vote shares", f"{100 * votes.mean():.2f}", "", "", ""],
            line,
        ]),
        "\n**Without polish.** The same crowds: the labels that moments alone give, and after ten rounds of EM.\n",
        polish_table(runs),
    ])  # fmt: skip


def polish_table(runs: list[dict[str, float]]) -> str:
    rows = []
    for name in POLISHED:
        bare, done = (np.array([run[f"{name} {polish}"] for run in runs]) for polish in (0, 10))
        votes = np.array([run["votes"] for run in runs])
        gaps = (interval(list(one), 100, 2) for one in (done - bare, bare - votes, done - votes))
        rows.append([name, f"{100 * bare.mean():.2f}", f"{100 * done.mean():.2f}", *gaps])
    header = ["method", "moments alone", "polished", "polish adds", "alone, over dawid-skene", "polished, over dawid-skene"]
    return table(header, rows)


def recovered(n_items: int, seed: int, methods: list[str]) -> dict[str, float]:
    """Error of the confusion matrices by method, on one crowd."""
    mix = {"dirichlet": 0.7, "uniform-spammer": 0.15, "cyclic-adversary": 0.15}
    drawn = simulate(n_items, 20, 3, 8, mix, class_prior=[0.5, 0.3, 0.2], random_state=seed)
    models = {name: crowdwise.make(BARE[name], polish=0) if name in BARE else crowdwise.make(name) for name in methods}
    return {name: confusion_error(model.fit(drawn.votes).confusion_, drawn.confusion) for name, model in models.items()}


def recovery(seeds: int) -> tuple[str, dict[str, list[float]]]:
    # "auto" takes one of the others.
    methods = [*(name for name, method in METHODS.items() if method.needs == "votes" and name != "auto"), *BARE]
    errors: dict[str, list[float]] = {name: [] for name in methods}
    for n_items in ITEMS:
        runs = [
            RUNS.once(json.dumps(["recovery", n_items, seed]), lambda n=n_items, seed=seed: recovered(n, seed, methods))
            for seed in range(seeds)
        ]
        for name in methods:
            errors[name].append(float(np.mean([run[name] for run in runs])))
    text = (
        f"\n**Recovery.** Mean L1 error of confusion rows; 20 annotators (70 % honest, 15 % spammers, 15 % adversaries), three "
        f"classes, eight votes per item, mean of {seeds} crowds.\n\n"
    )
    body = [[name, *(f"{value:.3f}" for value in values)] for name, values in errors.items()]
    return text + table(["method", *(f"{8 * n:,} votes" for n in ITEMS)], body), errors


def draw(errors: dict[str, list[float]]) -> None:
    """A plain SVG of the curves, moment methods in colour."""
    named = [name for name in errors if name not in BARE]
    width, height, left, top, bottom = 760, 100 + 13 * len(named), 60, 20, 50
    xs = np.log10([8 * n for n in ITEMS])
    x = left + (xs - xs[0]) / np.ptp(xs) * (width - left - 190)
    values = np.array(list(errors.values()))
    low, high = np.log10(values.min()), np.log10(values.max())

    def y(value):
        return top + (high - np.log10(value)) / max(high - low, 1e-9) * (height - top - bottom)

    colours = ["#1b6ca8", "#c0392b", "#1e8449", "#8e44ad", "#d68910", "#117a65", "#a04000", "#5d6d7e"]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">']
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for at, n in zip(x, ITEMS, strict=True):
        parts.append(f'<text x="{at:.0f}" y="{height - 30}" text-anchor="middle">{8 * n:,}</text>')
        parts.append(f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{top}" y2="{height - bottom}" stroke="#eee"/>')
    for value in (0.05, 0.1, 0.2, 0.5, 1.0):
        if low <= np.log10(value) <= high:
            parts.append(f'<text x="{left - 8}" y="{y(value) + 4:.0f}" text-anchor="end">{value}</text>')
            parts.append(f'<line x1="{left}" x2="{x[-1]:.0f}" y1="{y(value):.0f}" y2="{y(value):.0f}" stroke="#eee"/>')
    parts.append(f'<text x="{(left + x[-1]) / 2:.0f}" y="{height - 10}" text-anchor="middle">votes</text>')
    turn = f'transform="rotate(-90 15 {height / 2:.0f})" text-anchor="middle"'
    parts.append(f'<text x="15" y="{height / 2:.0f}" {turn}>error of confusion rows</text>')
    moment = [name for name in named if METHODS[name].family == "moments"]
    order = sorted(named, key=lambda one: errors[one][-1], reverse=True)
    # Names beside the ends of their curves, 13 apart, pushed down from above and up from below.
    places = [float(y(errors[name][-1])) for name in order]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + 13)
    for i in range(len(places)):
        places[-1 - i] = min(places[-1 - i], height - bottom - 13 * i)
    for name, place in zip(order, places, strict=True):
        colour = colours[moment.index(name) % len(colours)] if name in moment else "#bbb"
        points = " ".join(f"{a:.1f},{y(value):.1f}" for a, value in zip(x, errors[name], strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{2 if name in moment else 1}"/>')
        parts.append(
            f'<text x="{x[-1] + 24:.0f}" y="{place + 4:.0f}" fill="{colour if name in moment else "#777"}">{name}</text>'
        )
    for name, plain in BARE.items():
        colour = colours[moment.index(plain) % len(colours)]
        points = " ".join(f"{a:.1f},{y(value):.1f}" for a, value in zip(x, errors[name], strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="5 4"/>')
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text("\n".join([*parts, "</svg>\n"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--curve-seeds", type=int, default=5)
    asked = parser.parse_args()
    first = starts(asked.seeds)
    second, errors = recovery(asked.curve_seeds)
    text = "\n".join(
        [
            provenance("python -m benchmarks run moments", RUNS),
            first,
            second,
            "\n![Recovery of confusion matrices](images/recovery.svg)\n\nDashed: moments without polish.",
        ]
    )
    draw(errors)
    put("moments", text)
