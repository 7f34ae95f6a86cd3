"""Real sets with features, as (X, votes, truth, X_test, truth_test): what `learn.py` trains on.

Text becomes tf-idf, reduced by a truncated SVD that is fitted on the training part only. Sets without a test
part of their own are split by item, four fifths to one fifth, anew for every seed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

import crowdwise
from benchmarks.page import SHARED
from crowdwise.data.annotations import Annotations
from crowdwise.data.gold import encode_gold


@dataclass(frozen=True)
class FeatureSet:
    """Training rows with votes and (for judging only) truth, and test rows with truth; codes, -1 where unknown."""

    X: np.ndarray
    votes: Annotations
    truth: np.ndarray
    X_test: np.ndarray
    truth_test: np.ndarray


def labelme(seed: int) -> FeatureSet:
    return _own_test("labelme", _npz("labelme", "features", "X"), _npz("labelme", "test_features", "X"))


def cifar10n(seed: int) -> FeatureSet:
    return _own_test("cifar10n", _npz("cifar10n", "features", "X"), _npz("cifar10n", "test_features", "X"))


def cifar10n_images(seed: int) -> FeatureSet:
    return _own_test("cifar10n", _npz("cifar10n", "images", "images"), _npz("cifar10n", "test_images", "images"))


def sentence_polarity(seed: int) -> FeatureSet:
    train = pl.read_csv(SHARED / "sentence_polarity" / "items.csv")["text"].to_list()
    test = pl.read_csv(SHARED / "sentence_polarity" / "test_items.csv")["text"].to_list()
    return _own_test("sentence_polarity", *_text(train, test))


def rte(seed: int, fold: int = 0) -> FeatureSet:
    """Sentence pairs: tf-idf of the words that the hypothesis adds to the text, and of those they share."""
    items = pl.read_csv(SHARED / "rte" / "items.csv")
    texts, hypotheses = (_words(items[c].to_list()) for c in ("text", "hypothesis"))
    pairs = zip(texts, hypotheses, strict=True)
    marked = [" ".join([f"new_{w}" for w in sorted(h - t)] + [f"both_{w}" for w in sorted(h & t)]) for t, h in pairs]
    share = np.array([[len(h & t) / max(len(h), 1), len(h), len(t)] for t, h in zip(texts, hypotheses, strict=True)])
    return _split("rte", seed, lambda train, test: _with_columns(marked, share, train, test), fold)


def convarg_pairs(seed: int) -> FeatureSet:
    """Pairs of arguments: the difference of their tf-idf vectors."""
    folder = SHARED / "convarg_pairs"
    texts = pl.read_csv(folder / "items.csv").sort("object")["text"].to_list()
    pairs = pl.read_csv(folder / "pairs.csv").sort("item")
    first, second = (pairs[c].to_numpy() for c in pairs.columns[1:3])
    reduced, _ = _text(texts, texts)
    length = np.log1p([len(text) for text in texts])[:, None]
    rows = np.hstack([reduced, length])
    change = (rows[first] - rows[second]).astype(np.float32)
    return _split("convarg_pairs", seed, lambda train, test: (change[train], change[test]))


def ner_mturk(seed: int) -> FeatureSet:
    """Tokens: hashed words of a window of three, shapes and endings."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction import FeatureHasher

    frame = pl.read_csv(SHARED / "ner_mturk" / "tokens.csv", schema_overrides={"token": pl.String}).sort("item")
    words = [str(token) for token in frame["token"]]
    described = [[f"end={word[-3:].lower()}"] for word in words]
    for offset in (-1, 0, 1):
        for features, word in zip(described, np.roll(np.array(words, object), -offset), strict=True):
            features += [f"{offset}={word.lower()}", f"{offset} shape={_shape(word)}"]
    hashed = FeatureHasher(2**16, input_type="string", alternate_sign=False).transform(described)

    def rows(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        svd = TruncatedSVD(min(200, len(train) - 1), random_state=0).fit(hashed[train])
        return svd.transform(hashed[train]).astype(np.float32), svd.transform(hashed[test]).astype(np.float32)

    return _split("ner_mturk", seed, rows)


SETS = {f.__name__: f for f in (labelme, cifar10n, cifar10n_images, sentence_polarity, rte, convarg_pairs, ner_mturk)}


def _npz(name: str, file: str, key: str) -> np.ndarray:
    with np.load(SHARED / name / f"{file}.npz") as arrays:
        return arrays[key]


def _votes(name: str) -> tuple[Annotations, np.ndarray]:
    folder = SHARED / name
    votes = crowdwise.read(next(folder.glob("annotations.csv*"))).deduplicate()
    return votes, encode_gold(votes, crowdwise.io.read_gold(folder / "truth.csv"))


def _own_test(name: str, X: np.ndarray, X_test: np.ndarray) -> FeatureSet:
    votes, truth = _votes(name)
    # The features cover the first items only where images are few (CIFAR-10N).
    votes, truth = votes[: len(X)], truth[: len(X)]
    gold = pl.read_csv(SHARED / name / "test_truth.csv").sort("item")["label"].to_numpy()
    return FeatureSet(X, replace(votes, gold=None), truth, X_test, gold)


def _split(name: str, seed: int, rows, fold: int = 0) -> FeatureSet:
    """One of five parts tests, drawn by the seed."""
    votes, truth = _votes(name)
    order = np.random.default_rng(seed).permutation(votes.n_items)
    cut = len(order) // 5
    order = np.roll(order, -fold * cut)
    test, train = np.sort(order[:cut]), np.sort(order[cut:])
    X, X_test = rows(train, test)
    return FeatureSet(X, votes[train], truth[train], X_test, truth[test])


def _text(train: list[str], test: list[str], width: int = 300) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(min_df=2, ngram_range=(1, 2), sublinear_tf=True).fit(train)
    # Few words have no more directions than that.
    svd = TruncatedSVD(min(width, len(words.vocabulary_) - 1), random_state=0).fit(words.transform(train))
    return tuple(svd.transform(words.transform(part)).astype(np.float32) for part in (train, test))


def _with_columns(texts: list[str], columns: np.ndarray, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = _text([texts[n] for n in train], [texts[n] for n in test], width=50)
    return tuple(np.hstack([part, columns[index]]).astype(np.float32) for part, index in zip(parts, (train, test), strict=True))


def _words(texts: list[str]) -> list[set[str]]:
    return [set(text.lower().replace("&apos;", "'").split()) for text in texts]


def _shape(token: str) -> str:
    return "".join("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in token)[:6]
