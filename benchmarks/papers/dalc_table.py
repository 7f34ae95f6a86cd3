"""DALC's synthetic table: labels, reliability and expertise recovered from simulated users (Yang et al. 2018, Table 1).

    python -m benchmarks run dalc_table                            # three seeds, written to its page
    python -m benchmarks run dalc_table --scale 0.1 --seeds 1

Users and traits have ten numbers, all drawn from U(-0.3, 0.6); a user's reliability on an item is
eta = sigmoid(u . F x). Each user labels a share rho of the 50,000 items. In the paper a vote is right where eta > 1/2
("thresholded"); the model itself says that it is right with probability eta ("drawn"). Both are measured.

Seconds are of the processor: run with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import resource
from dataclasses import dataclass
from time import process_time

import numpy as np
import polars as pl
import torch

import crowdwise
import crowdwise.errors
from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "Does DALC recover labels, reliability and expertise of simulated users?",
    sections=("dalc table",),
    data=("mnist",),
    packages=("torch",),
    renders=("",),
    quick="--scale 0.01 --seeds 1",
    small={
        "SETTINGS": {"epochs": 1, "validation": 0.0},
        "SOURCES": ("queries",),
        "SIZES": ((0.01, 500),),
        "VOTES_ALONE": ("majority",),
        "DALC": {"dalc": {}},
    },
)

N_ITEMS, N_TRAITS = 50_000, 10
LOW, HIGH = -0.3, 0.6
#: Mean reliability of the paper's crowd; the features are scaled by one number to have it.
MEAN_RELIABILITY = 0.65
RHOS = (1e-4, 1e-3, 1e-2, 1e-1)
#: Share of the items that a user labels, and the users. The paper has 50,000 throughout; so many votes are too many for dalc
#: here, which has as many in every crowd as in the first. What needs no features also gets one crowd of the paper's own size.
Size = tuple[float, int]
SIZES: tuple[Size, ...] = ((1e-4, 50_000), (1e-3, 5_000), (1e-2, 500), (1e-1, 50))
WHOLE: Size = (1e-3, 50_000)
FORMS = ("thresholded", "drawn")
SOURCES = ("queries", "digits")
SETTINGS = {"epochs": 20, "validation": 0.0}
DALC = {
    "dalc": {},
    "dalc, linear (DLC/LR)": {"network": "linear"},
    "dalc, full (DLC/Sparse)": {"embedding": "full"},
    "dalc, penalty 0.01": {"penalty": 0.01, "projection_penalty": 0.01},
}
VOTES_ALONE = ("majority", "one-coin", "dawid-skene")
PAPER = {
    "accuracy": dict(zip(RHOS, ("99.06", "99.96", "99.98", "100"), strict=True)),
    "reliability": dict(zip(RHOS, (".5751", ".5891", ".6323", ".6768"), strict=True)),
    "expertise": dict(zip(RHOS, (".9438", ".9921", ".9956", ".9998"), strict=True)),
}
# Pairs at random, and items over which a user's long-run expertise is taken.
PAIRS, SOME_ITEMS = 500_000, 1000
RUNS = Records("dalc_table")


@dataclass(frozen=True)
class Crowd:
    """Simulated users and their votes; eta of a pair is the sigmoid of `user[a] . trait[n]`."""

    X: np.ndarray
    truth: np.ndarray
    trait: np.ndarray
    user: np.ndarray
    votes: Annotations
    thresholded: bool

    def eta(self, item: np.ndarray, who: np.ndarray) -> np.ndarray:
        return sigmoid(np.einsum("ed,ed->e", self.trait[item], self.user[who]))

    def long_run(self, item: np.ndarray) -> np.ndarray:
        """Share of these items that each user would label right, [A]."""
        eta = sigmoid(self.user @ self.trait[item].T)
        return (eta > 0.5).mean(axis=1) if self.thresholded else eta.mean(axis=1)


def sigmoid(s: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-s))


def digits(rng: np.random.Generator, n_items: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Images of MNIST, as they are and moved by one or two pixels, in 7 x 7 blocks: [n, 49] from 0 to 1, and the digit."""
    parts = [(np.load(SHARED / "mnist" / f"{part}images.npz")["images"], f"{part}truth.csv") for part in ("", "test_")]
    images = np.concatenate([images for images, _ in parts])
    truth = np.concatenate([pl.read_csv(SHARED / "mnist" / name)["label"].to_numpy() for _, name in parts])
    moves = [(0, 0)] + [(down, right) for down in (-2, -1, 0, 1, 2) for right in (-2, -1, 0, 1, 2) if (down, right) != (0, 0)]
    copy = np.zeros(n_items, int)
    copy[len(images) :] = rng.integers(1, len(moves), max(n_items - len(images), 0))
    which = np.arange(n_items) % len(images)
    moved = np.empty((n_items, 49), np.float32)
    for number, move in enumerate(moves):
        rows = np.flatnonzero(copy == number)
        shifted = np.roll(images[which[rows]], move, axis=(1, 2))
        moved[rows] = shifted.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49) / 255
    return moved, truth[which], 10


def queries(rng: np.random.Generator, n_items: int, n_words: int = 200) -> tuple[np.ndarray, np.ndarray, int]:
    """Simulated short texts of two intents: counts of some three words, [n, 200], drawn from the words of the intent."""
    truth = rng.integers(2, size=n_items)
    length = 1 + rng.poisson(2, n_items)
    words = rng.dirichlet(np.full(n_words, 0.3), 2)
    X = np.stack([rng.multinomial(count, words[intent]) for count, intent in zip(length, truth, strict=True)])
    return X.astype(np.float32), truth, 2


def scaled(size: Size, scale: float) -> tuple[int, int, int]:
    """Items, users and votes per user; of a smaller pool a user labels as many items as of the whole."""
    n_items = round(scale * N_ITEMS)
    return n_items, max(round(scale * size[1]), 2), min(round(size[0] * N_ITEMS), n_items)


def simulate(source: str, form: str, size: Size, seed: int, scale: float) -> Crowd:
    """Items, users and votes; everything is drawn anew for every seed."""
    rng = np.random.default_rng(seed)
    n_items, n_users, each = scaled(size, scale)
    X, truth, n_classes = {"digits": digits, "queries": queries}[source](rng, n_items)
    user = rng.uniform(LOW, HIGH, (n_users, N_TRAITS))
    trait = X @ rng.uniform(LOW, HIGH, (X.shape[1], N_TRAITS))
    one, other = rng.integers(n_items, size=20_000), rng.integers(n_users, size=20_000)
    raw = np.einsum("ed,ed->e", trait[one], user[other])
    # Bisection: the mean reliability grows with the scale as long as most log-odds are positive.
    below, above = 0.0, 1.0
    while sigmoid(above * raw).mean() < MEAN_RELIABILITY:
        above *= 2
    for _ in range(40):
        middle = (below + above) / 2
        below, above = (middle, above) if sigmoid(middle * raw).mean() < MEAN_RELIABILITY else (below, middle)
    X, trait = (above * X).astype(np.float32), above * trait
    item = np.concatenate([rng.choice(n_items, each, replace=False) for _ in range(n_users)])
    who = np.repeat(np.arange(n_users), each)
    eta = sigmoid(np.einsum("ed,ed->e", trait[item], user[who]))
    right = eta > 0.5 if form == "thresholded" else rng.random(len(eta)) < eta
    wrong = (truth[item] + rng.integers(1, n_classes, len(item))) % n_classes
    label = np.where(right, truth[item], wrong)
    votes = Annotations.from_arrays(item, who, label, items=range(n_items), annotators=range(n_users), classes=range(n_classes))
    return Crowd(X, truth, trait, user, votes, form == "thresholded")


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.corrcoef(first, second)[0, 1]) if first.std() > 0 and second.std() > 0 else float("nan")


def share_right(votes: Annotations, labels: np.ndarray) -> np.ndarray:
    """Share of each user's votes that agree with these labels (codes), [A]: what the paper calls expertise."""
    right = votes.label == labels[votes.item]
    return np.bincount(votes.annotator, right, votes.n_annotators) / np.maximum(votes.votes_per_annotator, 1)


def run(method: str, crowd: Crowd, seed: int, settings: dict) -> dict:
    """Fit, and compare with what the votes were made of."""
    votes, started = crowd.votes, process_time()
    if method in DALC:
        model = crowdwise.make("dalc", random_state=seed, **settings, **DALC[method]).fit(crowd.X, votes)
    else:
        model = crowdwise.make(method).fit(votes)
    seconds = process_time() - started
    posterior = model.result_.posterior
    expertise = share_right(votes, crowd.truth)
    some = votes.votes_per_item > 0
    found = {
        "accuracy": accuracy(posterior, crowd.truth),
        "accuracy, voted": accuracy(posterior[some], crowd.truth[some]),
        "expertise": correlation(share_right(votes, posterior.argmax(axis=1)), expertise),
        "seconds": seconds,
        "votes": votes.n_votes,
        "without votes": float(1 - some.mean()),
        "right votes": float((votes.label == crowd.truth[votes.item]).mean()),
    }
    rng = np.random.default_rng(seed)
    judged = rng.choice(votes.n_items, min(SOME_ITEMS, votes.n_items), replace=False)
    if method in DALC:
        traits, embedding = model.traits(crowd.X), model.embedding_
        mean = np.concatenate([sigmoid(u @ traits[judged].T).mean(axis=1) for u in np.array_split(embedding, 25)])
        found["predicted"] = float((model.predict(crowd.X) == crowd.truth).mean())
    else:
        # One accuracy for all items: the reliability of every pair of the user.
        mean = model.result_.accuracy
        traits, embedding = (
            np.ones((votes.n_items, 1)),
            np.log(mean.clip(1e-12) / (1 - mean).clip(1e-12)).clip(-30, 30)[:, None],
        )

    def learnt(item: np.ndarray, who: np.ndarray) -> np.ndarray:
        # Full embeddings are as wide as the table: not all votes at once.
        parts = np.array_split(np.arange(len(item)), 25)
        return sigmoid(np.concatenate([np.einsum("ed,ed->e", traits[item[p]], embedding[who[p]]) for p in parts]))

    item, who = rng.integers(votes.n_items, size=PAIRS), rng.integers(votes.n_annotators, size=PAIRS)
    found |= {
        "reliability": correlation(learnt(votes.item, votes.annotator), crowd.eta(votes.item, votes.annotator)),
        "reliability, random pairs": correlation(learnt(item, who), crowd.eta(item, who)),
        "long run": correlation(mean, crowd.long_run(judged)),
    }
    found["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return found


#: Method, source, form, size and seed of a run.
Wanted = tuple[str, str, str, Size, int]


class Study:
    """The runs there are, and those yet to do."""

    def __init__(self, settings: dict, scale: float) -> None:
        self.settings, self.scale = settings, scale
        self.kept: dict[str, dict] = {}
        self.made: tuple[list, Crowd] | None = None

    def key(self, method: str, source: str, form: str, size: Size, seed: int) -> str:
        n_items, n_users, _ = scaled(size, self.scale)
        told = json.dumps(self.settings | DALC[method], sort_keys=True) if method in DALC else "{}"
        return " / ".join([method, source, form, f"rho={size[0]:g}", f"{n_items} items, {n_users} users", f"seed {seed}", told])

    def measure(self, wanted: list[Wanted]) -> None:
        for method, *kind in wanted:
            key = self.key(method, *kind)
            self.kept[key] = RUNS.once(key, lambda m=method, k=kind: run(m, self.crowd(k), k[-1], self.settings))

    def crowd(self, kind: list) -> Crowd:
        """Methods that follow each other meet the same one."""
        if self.made is None or self.made[0] != kind:
            self.made = kind, simulate(*kind, self.scale)
        return self.made[1]

    def cell(self, name: str, method: str, kind: tuple[str, str, Size], seeds: int, scale: float, digits: int) -> str:
        found = [one[name] for one in self.runs(method, kind, seeds) if name in one]
        return interval(found, scale, digits) if found else "-"

    def runs(self, method: str, kind: tuple[str, str, Size], seeds: int) -> list[dict]:
        keys = (self.key(method, *kind, seed) for seed in range(seeds))
        return [self.kept[key] for key in keys if key in self.kept]


def tables(study: Study, seeds: int) -> str:
    shown = (
        ("accuracy", "label accuracy, %", 100, 2),
        ("reliability", "reliability, voted pairs", 1, 3),
        ("reliability, random pairs", "reliability, random pairs", 1, 3),
        ("expertise", "expertise, votes cast", 1, 4),
        ("long run", "expertise, all items", 1, 3),
    )
    parts = []
    for source in SOURCES:
        for form in FORMS:
            rows = []
            for size in (*SIZES[:2], WHOLE, *SIZES[2:]):
                name, kind = f"{size[0]:g}, {scaled(size, study.scale)[1]:,}", (source, form, size)
                if form == "thresholded" and size != WHOLE:
                    paper = [PAPER[what][size[0]] if what in PAPER else "-" for what, *_ in shown]
                    rows.append([f"{size[0]:g}, 50,000", "*paper*", *paper, "-", "-", "-"])
                for method in (*DALC, *VOTES_ALONE):
                    cells = [study.cell(what, method, kind, seeds, *how) for what, _, *how in shown]
                    if cells[0] == "-":
                        continue
                    right, seconds = (
                        study.cell(*each)
                        for each in (("right votes", method, kind, seeds, 100, 1), ("seconds", method, kind, seeds, 1, 0))
                    )
                    rows.append([name, method, *cells, right, seconds, str(len(study.runs(method, kind, seeds)))])
            if not any(row[1] != "*paper*" for row in rows):
                continue
            head = ["rho, users", "", *(words for _, words, *_ in shown), "right votes, %", "seconds", "seeds"]
            parts.append(f"**{source}, {form}**\n\n" + table(head, rows) + "\n")
    peak = max((one["peak GB"] for one in study.kept.values()), default=0.0)
    return "\n".join(parts) + f"\nMost memory of any run: {peak:.1f} GB.\n"


def about(study: Study) -> str:
    sizes = []
    for size in SIZES:
        n_items, n_users, each = scaled(size, study.scale)
        sizes.append(f"{n_users:,} users with {each:,} votes each at {size[0]:g}")
    return (
        f"\nThe protocol of Yang et al. (2018), Table 1: {n_items:,} items, users u and traits F with {N_TRAITS} rows, all "
        f"entries drawn from U({LOW}, {HIGH}), reliability eta = sigmoid(u . F x). The printed sign is turned, because with it "
        "eta would lie below one half; x is scaled by one number, so that eta is 0.65 on average as in the paper. A user "
        "labels a share rho of the items. *Thresholded*, as in the paper, a vote is right if and only if eta > 1/2, so that "
        "votes tell the sign of the log-odds and no more: a low correlation of reliabilities is a fact of the protocol. "
        "*Drawn*, it is right with probability eta, as the model says. Wrong votes are uniform over the other classes.\n\n"
        "Where we depart: the paper's items are private queries. *queries* are simulated, some three words of 200, K = 2; "
        "*digits* are 25,000 images of MNIST, and as many moved by a pixel or two, in 7 x 7 blocks (49 columns, K = 10). The "
        "paper has 50,000 users throughout, up to 250 million votes. Where rho is large we have fewer users. Each casts as "
        f"many votes as in the paper ({', '.join(sizes)}), but an item has {n_users * each / n_items:g} votes throughout, "
        "where the paper's have 5, 50, 500 and 5,000. So the first column of the paper can be compared, and of the others what "
        "votes tell of a user; labels are harder here. Methods without features also get the paper's own crowd at 0.001. "
        + ", ".join(f"{name} {value}" for name, value in study.settings.items())
        + "; all else is default.\n\n"
        "Correlations are Pearson's, over the pairs that were voted on, and over pairs drawn at random. *Expertise, votes "
        "cast* is the share of right ones among a user's votes, told by the inferred labels and by the true ones. That is how "
        "we read the paper, which defines the true one and does not say how the learnt one is computed; it needs labels and "
        "nothing else. *Expertise, all items* compares the "
        "mean of the learnt eta over items with the share of all items that the user would label right. Label accuracy counts "
        "items without votes, where a method without features guesses. Mean ± half width of the 95% interval over seeds; "
        "items, users and votes are drawn anew for every seed. Seconds are processor time of one thread.\n\n"
    )


def wanted_runs(seeds: int, sources: list[str], forms: list[str]) -> list[Wanted]:
    """What matters most comes first, so that an interrupted study says the most."""
    wanted: list[Wanted] = []
    for seed in range(seeds):
        for source in sources:
            kinds = [(source, form, size, seed) for form in forms for size in SIZES]
            wanted += [(method, *kind) for kind in kinds for method in (*VOTES_ALONE, "dalc")]
            wanted += [(method, source, form, WHOLE, seed) for form in forms for method in VOTES_ALONE]
    # Weights per user and column take minutes per round where columns are many: the variants on the digits alone.
    kinds = [("digits", form, size, seed) for seed in range(seeds) for form in forms for size in SIZES[:2]]
    return wanted + [(method, *kind) for kind in kinds if kind[0] in sources for method in DALC if method != "dalc"]


def main() -> None:
    torch.set_num_threads(1)
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--scale", type=float, default=1.0, help="share of the items and users")
    options.add_argument("--sources", nargs="+", choices=SOURCES, default=list(SOURCES))
    options.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    options.add_argument("--epochs", type=int, default=SETTINGS["epochs"])
    given = options.parse_args()
    study = Study(SETTINGS | {"epochs": given.epochs}, given.scale)
    study.measure(wanted_runs(given.seeds, given.sources, given.forms))
    put("dalc table", provenance("python -m benchmarks run dalc_table", RUNS) + about(study) + tables(study, given.seeds))
