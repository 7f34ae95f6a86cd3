"""The online experiments of the tutorial on dog and web: accuracy as votes arrive.

    python -m benchmarks run online_tutorial                                 # ten orders, written to its page
    python -m benchmarks run online_tutorial --orders 3

Recorded votes are replayed as a crowd that answers. Three ways to ask: in random order, the same for all methods; a random
item, the annotator by the tutorial's epsilon-greedy choice (chance of a random one 0.5 up to the hundredth vote, 0.05 after
it); and the most uncertain item, the annotator as before. In the latter two every method asks its own questions, and only
pairs that were recorded can be asked.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import crowdwise
import crowdwise.errors
import crowdwise.io
from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import IMAGES, interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.campaign.campaign import race
from crowdwise.campaign.oracle import RecordedCrowd
from crowdwise.data.annotations import Annotations
from crowdwise.methods.online.online_em import OnlineEM
from crowdwise.methods.online.streaming import StreamingDawidSkene
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "How fast do online methods get there as votes arrive, and does choosing annotators help?",
    sections=("online tutorial",),
    data=("dog", "web"),
    renders=("",),
    quick="--orders 1",
    small={"SETS": ("dog",)},
    leaves_out=("draw",),
)

SETS = ("dog", "web")
CHUNK = {"dog": 50, "web": 100}
#: Votes per item (mean) at which accuracy is noted, and those that tables show; all votes come last.
AT = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 7.0)
SHOWN = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
#: Where questions are chosen, a quarter of the recorded votes is left in the end: else there is nothing to choose from.
CHOSEN_SHARE = 0.75

ONLINE: dict[str, Callable[[], Any]] = {
    "online-em": OnlineEM,
    "online-em, t^-1": lambda: OnlineEM(power=1.0),
    "online-em, constant step 0.05": lambda: OnlineEM(step=0.05, average=False),
    "streaming-ds": StreamingDawidSkene,
    "streaming-ds, prior of bayes-gc": lambda: StreamingDawidSkene(diagonal=5, own_labels=0),
}
BATCH = ("majority", "dawid-skene", "bayes-gc")
#: Protocols of choice, and the methods that ask their own questions there.
CHOICES = {"annotator": "random+epsilon-greedy", "item and annotator": "entropy+epsilon-greedy"}
ASKING = ("majority", "dawid-skene", "online-em", "streaming-ds")
RANDOM = "random order"

RUNS = Records("online_tutorial")
PICTURE = IMAGES / "online-tutorial.png"
#: "set / protocol / method": for every order, accuracy at every stop and seconds of an update or refit.
Runs = dict[str, list[dict[str, Any]]]


@RUNS.each
def size_of(name: str) -> dict[str, int]:
    votes, _ = labelled(name)
    return {"items": votes.n_items, "annotators": votes.n_annotators, "classes": votes.n_classes, "votes": votes.n_votes}


def stops_of(size: dict[str, int], share: float = 1.0) -> list[int]:
    """Numbers of votes at which accuracy is noted."""
    inner = [round(mean * size["items"]) for mean in AT if mean * size["items"] < share * size["votes"]]
    return [*inner, size["votes"]] if share == 1 else inner


def taken(votes: Annotations, index: np.ndarray) -> Annotations:
    """The votes at these positions, with the ids of all."""
    return Annotations.from_arrays(
        votes.items[votes.item[index]],
        votes.annotators[votes.annotator[index]],
        votes.classes[votes.label[index]],
        classes=votes.classes,
    )


def right(model: Any, votes: Annotations, truth: np.ndarray) -> float:
    """Share of right labels among all items; those without votes so far are guessed from the class shares."""
    posterior = np.tile(model.prior_, (votes.n_items, 1))
    posterior[np.searchsorted(votes.items, model.items_)] = model.posterior_
    return accuracy(posterior, truth)


@RUNS.each
def replay(name: str, seed: int) -> dict[str, dict[str, Any]]:
    """All methods on the votes in one random order: online ones see every vote once, batch ones are refitted at every stop."""
    (votes, truth), chunk = labelled(name), CHUNK[name]
    order = np.random.default_rng(seed).permutation(votes.n_votes)
    models = {name: make() for name, make in ONLINE.items()}
    for model in models.values():
        model.fit(Annotations.from_arrays([], [], [], items=[], annotators=[], classes=votes.classes))
    runs: dict[str, dict[str, Any]] = {name: {"accuracy": [], "seconds": []} for name in (*BATCH, *models)}
    seen = 0
    for stop in stops_of(size_of(name)):
        while seen < stop:
            arriving = taken(votes, order[seen : min(seen + chunk, stop)])
            seen += arriving.n_votes
            for method, model in models.items():
                started = perf_counter()
                model.update(arriving)
                runs[method]["seconds"].append(perf_counter() - started)
        so_far = taken(votes, order[:seen])
        for method in BATCH:
            started = perf_counter()
            model = crowdwise.make(method).fit(so_far)
            runs[method]["seconds"].append(perf_counter() - started)
            runs[method]["accuracy"].append(right(model, votes, truth))
        for method, model in models.items():
            runs[method]["accuracy"].append(right(model, votes, truth))
    return {method: run | {"seconds": float(np.mean(run["seconds"]))} for method, run in runs.items()}


@RUNS.each
def campaign(name: str, protocol: str, method: str, seed: int) -> dict[str, Any]:
    """One method that asks its own questions; accuracy is read off its curve at the stops."""
    votes, truth = labelled(name)
    crowd = RecordedCrowd(votes)
    crowd.truth = truth.astype(np.int64)
    model = ONLINE[method]() if method in ONLINE else crowdwise.make(method)
    stops = stops_of(size_of(name), CHOSEN_SHARE)
    curve = race([CHOICES[protocol]], crowd, model, stops[-1], CHUNK[name], seeds=[seed], explore=0.0)
    return {"accuracy": np.interp(stops, curve["votes"].to_numpy(), curve["accuracy"].to_numpy()).tolist()}


def measure(orders: int) -> Runs:
    """All runs; an order goes through everything before the next begins."""
    results: Runs = {}
    for seed in range(orders):
        for name in SETS:
            for method, run in replay(name, seed).items():
                results.setdefault(f"{name} / {RANDOM} / {method}", []).append(run)
            for protocol in CHOICES:
                for method in ASKING:
                    results.setdefault(f"{name} / {protocol} / {method}", []).append(campaign(name, protocol, method, seed))
    return results


def cells(runs: list[dict[str, Any]], stops: list[int], size: dict[str, int]) -> list[str]:
    """Mean and interval at the stops that tables show."""
    wanted = [round(mean * size["items"]) for mean in SHOWN]
    shown = [stops.index(stop) if stop in stops else None for stop in wanted]
    places = [*shown, len(stops) - 1] if stops[-1] == size["votes"] else shown
    return ["" if i is None else interval([run["accuracy"][i] for run in runs], 100, 1) for i in places]


def tables(results: Runs, name: str, orders: int) -> str:
    size = size_of(name)
    parts = [
        f"\n**{name}** ({size['items']:,} items, {size['annotators']} annotators, K = {size['classes']}, {size['votes']:,} "
        f"votes, {CHUNK[name]} at a time). Accuracy on all items in percent at so many votes per item.\n"
    ]
    heads = [f"{mean:g}" for mean in SHOWN]
    rows = []
    for method in (*BATCH, *ONLINE):
        runs = results[f"{name} / {RANDOM} / {method}"][:orders]
        seconds = 1000 * np.mean([run["seconds"] for run in runs])
        rows.append([method, *cells(runs, stops_of(size), size), f"{seconds:.1f}"])
    parts.append(table([RANDOM, *heads, "all", "ms"], rows) + "\n")
    for protocol in CHOICES:
        rows = []
        for method in ASKING:
            runs = results[f"{name} / {protocol} / {method}"][:orders]
            rows.append([method, *cells(runs, stops_of(size, CHOSEN_SHARE), size)])
        parts.append(table([f"{protocol} chosen", *heads], rows) + "\n")
    return "\n".join(parts)


def draw(results: Runs, orders: int) -> None:
    """Accuracy against votes per item: a row per set, a panel per way to ask."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from scipy.stats import t

    looks = {
        "majority": ("#999999", "--"),
        "dawid-skene": ("#444444", ":"),
        "bayes-gc": ("#1e8449", ":"),
        "online-em": ("#1b6ca8", "-"),
        "online-em, t^-1": ("#7fb3d5", "-"),
        "streaming-ds": ("#c0392b", "-"),
    }
    protocols = (RANDOM, *CHOICES)
    figure, axes = plt.subplots(len(SETS), len(protocols), figsize=(11, 3.3 * len(SETS)), squeeze=False, sharey="row")
    for row, name in zip(axes, SETS, strict=True):
        size = size_of(name)
        for axis, protocol in zip(row, protocols, strict=True):
            stops = np.array(stops_of(size, 1.0 if protocol == RANDOM else CHOSEN_SHARE)) / size["items"]
            for method, (colour, line) in looks.items():
                runs = results.get(f"{name} / {protocol} / {method}", [])[:orders]
                if not runs:
                    continue
                values = 100 * np.array([run["accuracy"] for run in runs])
                mean = values.mean(axis=0)
                axis.plot(stops, mean, line, color=colour, label=method)
                if len(values) > 1:
                    half = t.ppf(0.975, len(values) - 1) * values.std(axis=0, ddof=1) / np.sqrt(len(values))
                    axis.fill_between(stops, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
            axis.set_title(f"{name}: {protocol}" + ("" if protocol == RANDOM else " chosen"), fontsize=10)
            axis.grid(color="#eeeeee")
        row[0].set_ylabel("accuracy (%)")
    for axis in axes[-1]:
        axis.set_xlabel("votes per item")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=6, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--orders", type=int, default=10)
    given = options.parse_args()
    results = measure(given.orders)
    text = (
        provenance("python -m benchmarks run online_tutorial", RUNS)
        + "\nThe tutorial shows curves only, so there are no figures of its to stand beside these. "
        f"Mean ± half width of the 95% interval over {given.orders} orders. In random order online methods see every vote "
        "once, in updates of the size given, and batch methods are fitted again at every stop; *ms* is of one update, or of "
        "one refit. Where the annotator is chosen, the item is random and the annotator the best by what is known of "
        "them, or a random one with a chance of 0.5 up to the hundredth vote and 0.05 after it, among those recorded on the "
        "item; where both are chosen, the item is the most uncertain. Every method asks its own questions there, and "
        "batch methods are fitted again after every update. The end of these tables is three quarters of the votes: with all "
        "of them asked there is nothing left to choose. Ties are credited 1/#tied in random order, and go to the first class "
        "where questions are chosen, which is to the disadvantage of majority.\n\n"
        "![Accuracy as votes arrive](images/online-tutorial.png)\n"
        + "\n".join(tables(results, name, given.orders) for name in SETS)
    )
    draw(results, given.orders)
    put("online tutorial", text)
