"""The online experiments of the tutorial on dog and web: accuracy as votes arrive.

    python benchmarks/online_tutorial.py [SET ...]

Recorded votes are replayed as a crowd that answers: whom to ask about what is said by a `Chooser`. Here items and annotators
are drawn at random; a policy (the tutorial's epsilon-greedy, say) is another function with the same arguments.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from time import perf_counter

import numpy as np
from page import SHARED, interval, provenance, put, table

import crowdwise
import crowdwise.errors
import crowdwise.io
from crowdwise.annotations import Annotations
from crowdwise.gold import encode_gold
from crowdwise.metrics import accuracy
from crowdwise.online.online_em import OnlineEM
from crowdwise.online.streaming import StreamingDawidSkene

SETS = ["dog", "web"]
SEEDS = 10
CHUNK = 50
#: Votes per item (mean) at which accuracy is noted.
AT = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0)

ONLINE: dict[str, Callable[[], object]] = {
    "online-em": OnlineEM,
    "online-em, t^-1": lambda: OnlineEM(power=1.0),
    "online-em, constant step 0.05": lambda: OnlineEM(step=0.05),
    "streaming-ds": StreamingDawidSkene,
    "streaming-ds, own labels": lambda: StreamingDawidSkene(own_labels=True),
}
BATCH = ("majority", "dawid-skene", "bayes-gc")

#: (model that has seen the votes so far or None, all recorded votes, votes still to be asked, how many, rng) -> votes to ask
#: next, as positions in the recorded votes. A policy scores (item, annotator) pairs with the model and picks among `left`.
Chooser = Callable[[object, Annotations, np.ndarray, int, np.random.Generator], np.ndarray]


def at_random(model: object, votes: Annotations, left: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(left, min(size, len(left)), replace=False)


def taken(votes: Annotations, index: np.ndarray) -> Annotations:
    """The votes at these positions, with the ids of all."""
    return Annotations.from_arrays(
        votes.items[votes.item[index]],
        votes.annotators[votes.annotator[index]],
        votes.classes[votes.label[index]],
        classes=votes.classes,
    )


def score(model: object, votes: Annotations, truth: np.ndarray, shares: np.ndarray) -> float:
    """Accuracy on all items; those without votes so far are guessed from the class shares."""
    posterior = np.tile(shares, (votes.n_items, 1))
    result = model.result_
    posterior[np.searchsorted(votes.items, result.votes.items)] = result.posterior
    return accuracy(posterior, truth)


def replay(
    votes: Annotations, truth: np.ndarray, seed: int, choose: Chooser = at_random
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Accuracy of every method at every stop, and seconds spent in each over the whole replay."""
    rng = np.random.default_rng(seed)
    models = {name: make() for name, make in ONLINE.items()}
    for model in models.values():
        model.fit(Annotations.from_arrays([], [], [], items=[], annotators=[], classes=votes.classes))
    stops = [round(mean * votes.n_items) for mean in AT if mean * votes.n_items < votes.n_votes] + [votes.n_votes]
    scores: dict[str, list[float]] = {name: [] for name in (*BATCH, *models)}
    seconds = dict.fromkeys(scores, 0.0)
    left, asked = np.arange(votes.n_votes), np.empty(0, np.int64)
    for stop in stops:
        while len(asked) < stop:
            chosen = choose(next(iter(models.values())), votes, left, min(CHUNK, stop - len(asked)), rng)
            left, asked = np.setdiff1d(left, chosen), np.concatenate([asked, chosen])
            arriving = taken(votes, chosen)
            for name, model in models.items():
                started = perf_counter()
                model.update(arriving)
                seconds[name] += perf_counter() - started
        so_far = taken(votes, asked)
        for name in BATCH:
            started = perf_counter()
            model = crowdwise.make(name).fit(so_far)
            seconds[name] += perf_counter() - started
            scores[name].append(score(model, votes, truth, model.prior_))
        for name, model in models.items():
            scores[name].append(score(model, votes, truth, model.prior_))
    return scores, {name: spent / (len(stops) if name in BATCH else stops[-1] / CHUNK) for name, spent in seconds.items()}


def main() -> None:
    parts = [provenance("python benchmarks/online_tutorial.py")]
    for name in sys.argv[1:] or SETS:
        votes = Annotations.read(SHARED / name / "annotations.csv").deduplicate()
        truth = encode_gold(votes, crowdwise.io.read_gold(SHARED / name / "truth.csv"))
        runs = [replay(votes, truth, seed) for seed in range(SEEDS)]
        stops = [f"{mean:g} per item" for mean in AT if mean * votes.n_items < votes.n_votes] + ["all votes"]
        parts.append(
            f"\n**{name}** ({votes.n_items:,} items, {votes.n_annotators} annotators, K = {votes.n_classes}, {votes.n_votes:,} "
            f"votes): accuracy in percent as votes arrive in random order, {CHUNK} at a time; mean and 95% interval over "
            f"{SEEDS} orders. Batch methods are fitted anew at every stop; online ones see every vote once. Seconds are of one "
            "refit, or of one update.\n"
        )
        rows = []
        for method in runs[0][0]:
            cells = [interval([scores[method][i] for scores, _ in runs], 100, 1) for i in range(len(stops))]
            rows.append([method, *cells, f"{np.mean([seconds[method] for _, seconds in runs]):.4f}"])
        parts.append(table(["", *stops, "seconds"], rows))
        print(parts[-1], flush=True)
    put("online tutorial", "\n".join(parts))


if __name__ == "__main__":
    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
    main()
