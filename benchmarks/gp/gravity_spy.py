"""Made-up data of the size and shape of Gravity Spy: what `gp_ligo.py` trains on.

    python -m benchmarks run gravity_spy [--scale 0.1] [--overlap 2]      # the sizes, and how good the crowd is

The true set (Morales-Alvarez et al. 2020) is not public in this form: 173,565 glitches of LIGO with 256 features each, 15
classes, 1,828,981 votes by 3,443 volunteers, and 9,997 test items. What is imitated, and from where:

shares      of the classes among test items: least squares on the per-class and global accuracies in the paper's tables 4
            to 7, which they reproduce to 0.0001. Experts chose the test items, so that training items have other shares;
            which, the paper does not say: here they are powers of those of the test, the exponent `training_power`
features    a random network with rectified outputs over a small latent space, where every class has clusters of its own in
            the midst of others'; a loudness scales the whole row; some items of a class lie between it and a class that
            looks like it, as many as the paper's accuracies of the class suggest
activity    heavy-tailed: most volunteers give some dozens of votes or fewer, a few give tens of thousands
votes       a confusion matrix per volunteer. Beginners err more than experts, and on classes that look alike; each has
            favourites among the errors (Violin Mode for 1400 Ripple, or the other way round); conservative ones resort to
            Other; some answer the same or anything, whatever they see; some swap two classes. Items between two classes
            are confused by all, so votes on an item are not quite independent given its class. "Other" is 10.12% of the
            votes (section 4.2 of the paper): unsure volunteers say it as much oftener as that takes. Some vote on an item
            twice, the second time without regard to the first; how many do in the true set is not known
overlap     of the classes: how many items lie between two. No number in the paper fixes it, and the order of methods may
            depend on it, so that it can be varied; the same seed has the same items, more or fewer of them in between

Clusters and network are the same for every seed; items, volunteers and votes are drawn anew. The constants were set in about
ten trials by what a linear model, a small network and svgp reach on true labels, and by nothing that a crowd method does.
Clusters were made fewer in one of them because svgp with M = 50 did poorly, where the paper finds so many enough: the data
were thus made to suit inducing points as the paper's do.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from crowdwise.data.annotations import Annotations

# Part of the key of kept runs: raise it whenever the data change.
EDITION = 2
N_ITEMS, N_TEST, N_ANNOTATORS, N_VOTES, N_FEATURES = 173_565, 9_997, 3_443, 1_828_981, 256

# class: share (%), clusters, share of items that lie between it and another, and the classes that look like it
LOOKS: dict[str, tuple[float, int, float, dict[str, float]]] = {
    "1080Line": (26.0, 3, 0.06, {"1400Ripple": 3, "Violin": 2, "Other": 1}),
    "1400Ripple": (1.2, 2, 0.20, {"Violin": 3, "1080Line": 3, "Other": 1}),
    "Blip": (12.1, 3, 0.08, {"Koifish": 3, "RepeatingBlips": 2, "Other": 1}),
    "ExtremelyLoud": (0.9, 1, 0.40, {"Koifish": 4, "Blip": 1, "Other": 2}),
    "Koifish": (2.3, 2, 0.20, {"Blip": 4, "ExtremelyLoud": 2, "Other": 1}),
    "LowFrequencyBurst": (11.6, 3, 0.20, {"LowFrequencyLines": 3, "ScatteredLight": 3, "Other": 1}),
    "LowFrequencyLines": (14.2, 3, 0.16, {"LowFrequencyBurst": 3, "ScatteredLight": 2, "PowerLine": 1}),
    "NoGlitch": (3.2, 2, 0.35, {"LowFrequencyLines": 3, "Other": 2, "Whistle": 1}),
    "Other": (2.6, 4, 0.95, {"Blip": 2, "NoGlitch": 2, "LowFrequencyBurst": 2, "Whistle": 1, "Scratchy": 1, "1080Line": 1}),
    "PowerLine": (2.4, 2, 0.25, {"LowFrequencyLines": 3, "LowFrequencyBurst": 1, "Other": 1}),
    "RepeatingBlips": (1.2, 1, 0.55, {"Blip": 5, "Koifish": 1, "Other": 1}),
    "ScatteredLight": (10.4, 3, 0.06, {"LowFrequencyLines": 3, "LowFrequencyBurst": 3, "Other": 1}),
    "Scratchy": (1.6, 2, 0.18, {"ScatteredLight": 1, "Whistle": 2, "Other": 3}),
    "Violin": (9.1, 2, 0.03, {"1400Ripple": 4, "1080Line": 2, "Other": 1}),
    "Whistle": (1.2, 2, 0.15, {"Scratchy": 2, "NoGlitch": 1, "Other": 3}),
}
CLASSES = list(LOOKS)
K = len(CLASSES)
OTHER = CLASSES.index("Other")

# Latent space: its width, how far classes and their clusters are from each other, and the width of a cluster (one in all).
LATENT, APART, WITHIN = 12, 0.4, 3.0
HIDDEN, NOISE, LOUDNESS = 64, 0.75, 0.45
# Share of the volunteers that do not look, and that swap classes.
SPAMMERS, ADVERSARIES = 0.04, 0.01
# Rows and votes worked on at once, so that nothing larger than the result is ever held.
ROWS, VOTES = 20_000, 200_000


@dataclass(frozen=True)
class Shape:
    """What can be varied of the data.

    `other_votes` is the share of votes that say Other, as it is where None; `repeats` the share of votes by someone who has
    voted on the item already; training shares are those of the test to the power `training_power`; `overlap` times as many
    items as in LOOKS lie between two classes.
    """

    other_votes: float | None = 0.1012
    repeats: float = 0.02
    training_power: float = 0.8
    overlap: float = 1.0

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the classes in training and in test, [K] each."""
        test = np.array([look[0] for look in LOOKS.values()])
        training = test**self.training_power
        return training / training.sum(), test / test.sum()


# Nothing of it: equal shares in training and test, everyone once on an item. What edition 1 was.
PLAIN = Shape(other_votes=None, repeats=0.0, training_power=1.0)


@dataclass(frozen=True)
class GravitySpy:
    """Training rows with votes, test rows, and the truth of both as class codes; the volunteers' matrices, [A, K, K]."""

    X: np.ndarray
    votes: Annotations
    truth: np.ndarray
    X_test: np.ndarray
    truth_test: np.ndarray
    confusion: np.ndarray


def made(seed: int = 0, scale: float = 1.0, n_test: int = N_TEST, shape: Shape | None = None) -> GravitySpy:
    """Draw a set; `scale` shrinks items, volunteers and votes alike."""
    shape = shape or Shape()
    training_share, test_share = shape.shares()
    if scale < 0.02:
        # The most popular items would want more votes than there are volunteers.
        raise ValueError(f"scale must be at least 0.02, got {scale}")
    n_items, n_annotators, n_votes = (round(scale * size) for size in (N_ITEMS, N_ANNOTATORS, N_VOTES))
    items, test, crowd = (np.random.default_rng([seed, stream]) for stream in range(3))
    X, truth, seen = _items(n_items, items, training_share, shape.overlap)
    X_test, truth_test, _ = _items(n_test, test, test_share, shape.overlap)
    n_again = round(shape.repeats * n_votes)
    activity = _activity(n_annotators, n_votes - n_again, n_items // 4, crowd)
    confusion = _matrices(activity, crowd)
    item, annotator = _assigned(n_items, activity, crowd)
    if n_again:
        # Busy volunteers meet an item again more often, in proportion to their votes.
        order = np.sort(np.concatenate([np.arange(len(item)), crowd.choice(len(item), size=n_again, replace=False)]))
        item, annotator = item[order], annotator[order]
    if shape.other_votes is not None:
        confusion = _cautious(confusion, _met(item, annotator, truth, seen, n_annotators), shape.other_votes)
    label = _votes(item, annotator, truth, seen, confusion, crowd)
    item_ptr = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=n_items))])
    votes = Annotations(
        item_ptr=item_ptr,
        annotator=annotator.astype(np.int32),
        label=label.astype(np.int16),
        items=np.arange(n_items),
        annotators=np.arange(n_annotators),
        classes=np.array(CLASSES),
    )
    return GravitySpy(X, votes, truth, X_test, truth_test, confusion)


def _alike() -> np.ndarray:
    """How classes look like others, [K, K]: rows sum to one, nothing on the diagonal."""
    alike = np.zeros((K, K))
    for row, (_, _, _, others) in enumerate(LOOKS.values()):
        for name, weight in others.items():
            alike[row, CLASSES.index(name)] = weight
    return alike / alike.sum(1, keepdims=True)


class _World:
    """Clusters [C, LATENT] with their classes [C], and the network that turns latent places into features."""

    def __init__(self) -> None:
        rng = np.random.default_rng(2020)
        n_clusters = np.array([look[1] for look in LOOKS.values()])
        # Classes that look alike are neighbours.
        middle = rng.normal(size=(K, LATENT))
        middle = APART * (0.6 * middle + 0.8 * _alike() @ middle)
        self.first = np.concatenate([[0], np.cumsum(n_clusters)])
        self.n_clusters = n_clusters
        self.centre = np.repeat(middle, n_clusters, axis=0) + WITHIN * rng.normal(size=(n_clusters.sum(), LATENT))
        self.spread = rng.uniform(0.5, 1.2, size=(n_clusters.sum(), LATENT))
        self.inner = rng.normal(size=(LATENT, HIDDEN)) * 0.35
        self.shift = rng.normal(size=HIDDEN)
        self.outer = (rng.normal(size=(HIDDEN, N_FEATURES)) / np.sqrt(HIDDEN)).astype(np.float32) * 1.5
        self.bias = rng.normal(size=N_FEATURES).astype(np.float32) * 0.3 - 0.1


def _items(n: int, rng: np.random.Generator, share: np.ndarray, overlap: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features [n, D], classes [n], and how often others take each item for which class: codes and chances, [n, 2]."""
    world, alike = _World(), _alike()
    truth = rng.choice(K, size=n, p=share)
    between = rng.random(n) < overlap * np.array([look[2] for look in LOOKS.values()])[truth]
    taken_for = _drawn(alike[truth], rng)
    place = between * rng.random(n)  # 0: at home; 1: in the midst of the other class
    own, foreign = (world.first[c] + (rng.random(n) * world.n_clusters[c]).astype(int) for c in (truth, taken_for))
    X = np.empty((n, N_FEATURES), dtype=np.float32)
    for start in range(0, n, ROWS):
        part = slice(start, start + ROWS)
        mix = place[part, None]
        centre = (1 - mix) * world.centre[own[part]] + mix * world.centre[foreign[part]]
        size = len(centre)
        # Rows of a chi-square with ten degrees make the clusters heavy-tailed.
        tail = np.sqrt(10 / rng.chisquare(10, size=(size, 1)))
        latent = centre + world.spread[own[part]] * tail * rng.normal(size=(size, LATENT))
        hidden = np.tanh(latent @ world.inner + world.shift).astype(np.float32)
        loud = np.exp(LOUDNESS * rng.normal(size=(size, 1))).astype(np.float32)
        noise = NOISE * rng.standard_normal((size, N_FEATURES), dtype=np.float32)
        X[part] = np.maximum(loud * (hidden @ world.outer + world.bias) + noise, 0)
    return X, truth, np.stack([taken_for, 0.6 * place], axis=1)


def _activity(n_annotators: int, n_votes: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Votes of every volunteer, [A]: at least one, at most `most`, `n_votes` in all."""
    wish = np.exp(rng.normal(0, 2.3, size=n_annotators))
    low, high = 0.0, float(n_votes)
    for _ in range(100):
        factor = (low + high) / 2
        activity = np.clip(np.round(wish * factor), 1, most).astype(int)
        low, high = (factor, high) if activity.sum() < n_votes else (low, factor)
    # The busiest that may still give more take what rounding left.
    lacking = n_votes - activity.sum()
    chosen = np.argsort(-activity, kind="stable")
    free = chosen[(activity[chosen] < most) & (activity[chosen] > 1 + abs(lacking))]
    activity[free[0]] += lacking
    return activity


def _matrices(activity: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Confusion matrices, [A, K, K]: rows are true classes."""
    n = len(activity)
    alike = _alike()
    # Chance of an error: falls with experience, differs between volunteers and between classes.
    hardness = 0.6 + 2.0 * np.array([look[2] for look in LOOKS.values()])
    skill = -0.5 - 0.20 * np.log(activity) + 0.5 * rng.normal(size=n)
    level = 1 / (1 + np.exp(-skill[:, None] - 0.5 * rng.normal(size=(n, K))))
    error = np.clip(level * hardness, 0.005, 0.9)
    favourite = rng.gamma(np.maximum(2 * alike, 0.02), size=(n, K, K))
    favourite[:, np.arange(K), np.arange(K)] = 0
    favourite /= favourite.sum(2, keepdims=True)
    habit = rng.beta(0.7, 3, size=(n, 1, 1))  # of saying Other where unsure
    wrong = 0.9 * favourite + 0.1 / K
    wrong = (1 - habit) * wrong + habit * np.eye(K)[OTHER]
    confusion = (1 - error[:, :, None]) * np.eye(K) + error[:, :, None] * wrong
    kind = rng.random(n)
    constant = rng.dirichlet(np.full(K, 0.15), size=n)
    confusion = np.where((kind < SPAMMERS)[:, None, None], constant[:, None, :], confusion)
    likeliest = alike.argmax(1)
    swapped = confusion.copy()
    columns = np.arange(K)
    swapped[:, columns, columns], swapped[:, columns, likeliest] = (
        confusion[:, columns, likeliest],
        confusion[:, columns, columns],
    )
    return np.where((kind > 1 - ADVERSARIES)[:, None, None], swapped, confusion)


def _met(item: np.ndarray, annotator: np.ndarray, truth: np.ndarray, seen: np.ndarray, n_annotators: int) -> np.ndarray:
    """How many votes of every volunteer are on what looks like which class, in expectation, [A, K]."""
    met = np.zeros(n_annotators * K)
    for looks, chance in ((truth, 1 - seen[:, 1]), (seen[:, 0].astype(int), seen[:, 1])):
        met += np.bincount(annotator * K + looks[item], chance[item], minlength=n_annotators * K)
    return met.reshape(n_annotators, K)


def _cautious(confusion: np.ndarray, met: np.ndarray, share: float) -> np.ndarray:
    """Move votes to Other, where volunteers err most, until it is expected of this share of all votes."""
    now = float((met * confusion[:, :, OTHER]).sum() / met.sum())
    if not now <= share < 1:
        raise ValueError(f"Other is {now:.4f} of the votes already; other_votes must lie between that and 1, got {share}")
    doubt = 1 - confusion[:, np.arange(K), np.arange(K)]
    low, high = 0.0, 1e3
    for _ in range(100):
        rate = (low + high) / 2
        # With this chance a vote for any other class becomes Other instead.
        moved = (1 - np.exp(-rate * doubt))[:, :, None]
        cautious = confusion * (1 - moved) + moved * np.eye(K)[OTHER]
        few = (met * cautious[:, :, OTHER]).sum() < share * met.sum()
        low, high = (rate, high) if few else (low, rate)
    return cautious


def _assigned(n_items: int, activity: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Item and volunteer of every vote, sorted; nobody votes twice on an item, and every item has a vote."""
    n_votes = activity.sum()
    # Some items were shown for longer than others.
    wish = rng.gamma(4, size=n_items)
    item = np.concatenate([np.arange(n_items), rng.choice(n_items, size=n_votes - n_items, p=wish / wish.sum())])
    rng.shuffle(item)
    annotator = np.repeat(np.arange(len(activity)), activity)
    while True:
        key = item * len(activity) + annotator
        order = np.argsort(key, kind="stable")
        again = order[1:][np.diff(key[order]) == 0]
        if not len(again):
            return item[order], annotator[order]
        # Exchange items with votes drawn at random, one after the other: of two exchanges with one vote the last one counts.
        other = rng.choice(n_votes, size=len(again), replace=False)
        other, again = other[~np.isin(other, again)], again[~np.isin(other, again)]
        item[again], item[other] = item[other], item[again]


def _votes(
    item: np.ndarray,
    annotator: np.ndarray,
    truth: np.ndarray,
    seen: np.ndarray,
    confusion: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Labels, [E]: of an item between two classes a volunteer may see the other one, and then label that."""
    label = np.empty(len(item), dtype=int)
    for start in range(0, len(item), VOTES):
        part = slice(start, start + VOTES)
        which = item[part]
        mistaken = rng.random(len(which)) < seen[which, 1]
        looks = np.where(mistaken, seen[which, 0].astype(int), truth[which])
        label[part] = _drawn(confusion[annotator[part], looks], rng)
    return label


def _drawn(chance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A column for every row of chances, [n]."""
    return (rng.random((len(chance), 1)) > chance.cumsum(1)[:, :-1]).sum(1)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--overlap", type=float, default=Shape.overlap)
    given = options.parse_args()
    started = perf_counter()
    data = made(given.seed, given.scale, shape=Shape(overlap=given.overlap))
    print(f"{data.votes!r}, X {data.X.shape} {data.X.dtype}, test {data.X_test.shape}, {perf_counter() - started:.1f} s")
    votes = data.votes
    right = votes.label == data.truth[votes.item]
    activity = votes.votes_per_annotator
    pairs = votes.item.astype(np.int64) * votes.n_annotators + votes.annotator
    print(f"votes for Other: {(votes.label == OTHER).mean():.4f}; by someone who has voted on the item already: "
          f"{1 - len(np.unique(pairs)) / len(pairs):.4f}")  # fmt: skip
    print(f"votes right: {right.mean():.3f}; votes per item: {np.percentile(votes.votes_per_item, [0, 5, 50, 95, 100])}")
    print(f"votes per volunteer: {np.percentile(activity, [0, 10, 50, 90, 99, 100])}")
    accuracy = np.bincount(votes.annotator, right, minlength=votes.n_annotators) / activity
    for low, high in ((1, 10), (10, 100), (100, 1000), (1000, 10**9)):
        group = (activity >= low) & (activity < high)
        print(f"  {low}+: {group.sum()} volunteers, right {np.average(accuracy[group], weights=activity[group]):.3f}")
    counts = np.zeros((votes.n_items, K), dtype=np.float32)
    np.add.at(counts, (votes.item, votes.label), 1)
    majority = counts.argmax(1)
    print(f"majority right: {(majority == data.truth).mean():.3f}")
    for code, name in enumerate(CLASSES):
        own = data.truth == code
        said = np.bincount(votes.label[own[votes.item]], minlength=K) / own[votes.item].sum()
        most = ", ".join(f"{CLASSES[c]} {said[c]:.2f}" for c in np.argsort(-said)[:4])
        shares = f"{100 * own.mean():5.2f}%, in the test {100 * (data.truth_test == code).mean():5.2f}%"
        print(f"  {name:18s} {shares}  majority {(majority[own] == code).mean():.3f}  votes: {most}")


if __name__ == "__main__":
    main()
