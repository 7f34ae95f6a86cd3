"""Small simulated sets with the names, files and columns of the real ones: what quick runs read.

Nothing of the real sets is in them but the number of classes. Annotators are right in 60 to 90 of 100 votes; words, features
and images carry the class, so that classifiers have something to learn.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

N_ITEMS, N_TEST, N_ANNOTATORS, PER_ITEM = 60, 40, 12, 10
CLASSES = {
    "adult": 4, "bluebird": 2, "cf": 5, "cf_amt": 5, "cifar10n": 10, "convarg_pairs": 3, "dog": 4, "labelme": 8, "ner_mturk": 9,
    "possent": 2, "product": 2, "rte": 2, "sentence_polarity": 2, "sp_amt": 2, "temp": 2, "web": 5, "wsd": 3, "md_agreement": 2,
    "mnist": 10, "cifar10h": 10,
}  # fmt: skip
EMOTIONS = ("", "_anger", "_disgust", "_fear", "_joy", "_sadness", "_surprise")


def write(folder: Path) -> None:
    """Every set into a folder of its own."""
    for place, (name, n_classes) in enumerate(CLASSES.items()):
        rng = np.random.default_rng(place)
        here = folder / name
        here.mkdir(parents=True)
        truth, tested = (np.arange(n) % n_classes for n in (N_ITEMS, N_TEST))
        _frame(here / "truth.csv", label=truth)
        if name not in ("mnist", "cifar10h"):
            _votes(rng, truth, n_classes).write_csv(here / "annotations.csv")
        for part, labels in (("", truth), ("test_", tested)):
            _beside(here, name, part, labels, rng)
    _numbers(folder)
    first = np.array([(n, a, 1 + (n + (a == 1 and n % 7 == 0)) % 4) for n in range(1, 21) for a in range(1, 6)])
    (folder / "dawid_skene_1979").mkdir()
    pl.DataFrame(first, schema=["item", "annotator", "label"], orient="row").write_csv(
        folder / "dawid_skene_1979" / "annotations.csv"
    )


def _votes(rng: np.random.Generator, truth: np.ndarray, n_classes: int) -> pl.DataFrame:
    skill = np.linspace(0.6, 0.9, N_ANNOTATORS)
    who = np.stack([rng.permutation(N_ANNOTATORS)[:PER_ITEM] for _ in truth])
    wrong = (truth[:, None] + rng.integers(1, n_classes, who.shape)) % n_classes
    label = np.where(rng.random(who.shape) < skill[who], truth[:, None], wrong)
    item = np.repeat(np.arange(len(truth)), PER_ITEM)
    return pl.DataFrame({"item": item, "annotator": who.ravel(), "label": label.ravel()})


def _frame(path: Path, **columns: object) -> None:
    numbered = {"item": np.arange(len(next(iter(columns.values()))))}  # type: ignore[arg-type]
    pl.DataFrame(numbered | columns).write_csv(path)


def _beside(here: Path, name: str, part: str, truth: np.ndarray, rng: np.random.Generator) -> None:
    """Texts, tokens, features, images and counts, where the real set has them."""
    words = [f"word{k} and{rng.integers(4)} other{rng.integers(9)} thing{rng.integers(3)}" for k in truth]
    if part:
        _frame(here / "test_truth.csv", label=truth)
    if name in ("labelme", "cifar10n"):
        X = np.eye(16)[truth] + 0.3 * rng.normal(size=(len(truth), 16))
        np.savez(here / f"{part}features.npz", X=X.astype(np.float32), item=np.arange(len(truth)))
    if name in ("cifar10n", "mnist"):
        shape = (32, 32, 3) if name == "cifar10n" else (28, 28)
        images = rng.integers(0, 60, (len(truth), *shape), dtype=np.uint8)
        images[np.arange(len(truth)), 2 * truth] += 150
        np.savez(here / f"{part}images.npz", images=images, item=np.arange(len(truth)))
    if name == "sentence_polarity":
        _frame(here / f"{part}items.csv", text=words)
    elif name == "ner_mturk":
        tokens = {"sentence": np.arange(len(truth)) // 6, "position": np.arange(len(truth)) % 6, "token": words}
        _frame(here / f"{part}tokens.csv", **tokens, **({"label": truth} if part else {}))
    elif part:
        return
    elif name == "rte":
        _frame(here / "items.csv", task=["IR"] * len(truth), text=words, hypothesis=[word.split()[0] for word in words])
    elif name == "md_agreement":
        _frame(here / "items.csv", split=["train"] * len(truth), text=words)
    elif name == "cifar10h":
        counts = 40 * np.eye(10, dtype=int)[truth] + rng.integers(0, 3, (len(truth), 10))
        _frame(here / "counts.csv", **{f"n{k}": counts[:, k] for k in range(10)})
    elif name == "convarg_pairs":
        objects = np.arange(12)
        pl.DataFrame({"object": objects, "topic": objects % 2, "text": words[:12]}).write_csv(here / "items.csv")
        pairs = [(a, b) for a in range(12) for b in range(a + 2, 12, 2)][: len(truth)]
        left, right = np.array((pairs * 2)[: len(truth)]).T
        _frame(here / "pairs.csv", left=left, right=right, topic=left % 2)
        pl.DataFrame({"topic": [0, 1], "name": ["one_yes", "two_no"]}).write_csv(here / "topics.csv")


def _numbers(folder: Path) -> None:
    """Ratings: affect with its emotions, wordsim, and movie reviews with words."""
    rng = np.random.default_rng(99)
    for name, suffixes, scale in (("affect", EMOTIONS, 100.0), ("wordsim", ("",), 10.0), ("movie_reviews", ("",), 1.0)):
        here = folder / name
        here.mkdir()
        for suffix in suffixes:
            truth = rng.uniform(0, scale, N_ITEMS).round(2)
            item, annotator = (one.ravel() for one in np.indices((N_ITEMS, PER_ITEM)))
            label = (truth[item] + 0.1 * scale * rng.normal(size=len(item))).clip(0, scale).round(2)
            pl.DataFrame({"item": item, "annotator": annotator, "label": label}).write_csv(here / f"annotations{suffix}.csv")
            _frame(here / f"truth{suffix}.csv", label=truth)
        _frame(here / "items.csv", headline=[f"headline {n}" for n in range(N_ITEMS)])
    for part, size in (("", N_ITEMS), ("test_", N_TEST)):
        indices = rng.integers(0, 50, 5 * size).astype(np.int32)
        words = {"indptr": 5 * np.arange(size + 1, dtype=np.int32), "indices": indices, "data": np.ones(5 * size, np.int16)}
        np.savez(folder / "movie_reviews" / f"{part}features.npz", **words, shape=np.array([size, 50]), item=np.arange(size))
    _frame(folder / "movie_reviews" / "test_truth.csv", label=rng.uniform(0, 1, N_TEST).round(2))
