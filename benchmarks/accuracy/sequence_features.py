"""Words as features of the tags, on real names: hmm-crowd and bsc with and without, beside Dawid-Skene of every token.

python -m benchmarks run sequence_features
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl

import crowdwise
import crowdwise.errors
from benchmarks.accuracy.sequences import NAMES
from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, provenance, put, table
from benchmarks.records import Records
from crowdwise.methods.tags.scheme import Tags
from crowdwise.methods.tags.scoring import first_tokens

BENCHMARK = Benchmark(
    "Do words as features help to find names?",
    sections=("sequence features",),
    data=("ner_mturk",),
    renders=("",),
    small={"DRAWS": 20},
)

RUNS = Records("sequence_features")

METHODS: list[tuple[str, str, dict[str, Any]]] = [
    ("token-dawid-skene", "token-dawid-skene", {}),
    ("hmm-crowd", "hmm-crowd", {}),
    ("hmm-crowd, words", "hmm-crowd", {"features": "words"}),
    ("bsc", "bsc", {}),
    ("bsc, words", "bsc", {"features": "words"}),
]
DRAWS = 1000


@cache
def real() -> tuple[crowdwise.TokenVotes, np.ndarray]:
    folder = SHARED / "ner_mturk"
    tokens = pl.read_csv(folder / "tokens.csv")
    rows = pl.read_csv(next(folder.glob("annotations.csv*"))).join(tokens, on="item")
    columns = (rows[name] for name in ("sentence", "position", "annotator"))
    label = pl.Series(NAMES)[rows["label"].to_numpy()]
    tags = crowdwise.TokenVotes.from_arrays(*columns, label, token=rows["token"], classes=NAMES)
    truth = pl.read_csv(folder / "truth.csv").join(tokens, on="item").sort("sentence", "position")["label"].to_numpy()
    return tags, truth


def counted(tags: crowdwise.TokenVotes, truth: np.ndarray, path: np.ndarray) -> np.ndarray:
    """Per sequence: tokens, right tags, true spans, spans found and spans right, [S, 5]."""
    first, scheme = first_tokens(tags.sequence_ptr), Tags.of(tags.votes.classes, bio=True)
    size = tags.n_sequences
    spans = [scheme.spans(each, first) for each in (truth, path)]
    sets = [set(zip(s.start.tolist(), s.end.tolist(), s.kind.tolist(), strict=True)) for s in spans]
    both = np.array([start for start, _, _ in sets[0] & sets[1]], np.int64)
    columns = [np.bincount(tags.sequence, minlength=size), np.bincount(tags.sequence, path == truth, minlength=size)]
    columns += [np.bincount(tags.sequence[start], minlength=size) for start in (spans[0].start, spans[1].start, both)]
    return np.stack(columns, axis=1)


def scores(sums: np.ndarray) -> np.ndarray:
    """Share of right tags, precision, recall and strict F1 in percent, of sums over sequences, [..., 4]."""
    tokens, right, true, found, both = np.moveaxis(sums, -1, 0)
    return 100 * np.stack([right / tokens, both / found, both / true, 2 * both / (true + found)], axis=-1)


@RUNS.each
def measured(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Counts per sequence, and rounds."""
    tags, truth = real()
    result = crowdwise.make(method, **settings).fit(tags).result_
    return {"counts": counted(tags, truth, result.path), "rounds": result.n_iter}


def main() -> None:
    rng, draws = np.random.default_rng(0), None
    rows, drawn = [], {}
    for title, method, settings in METHODS:
        run = measured(method, settings)
        table_of = np.array(run["counts"])
        if draws is None:
            draws = rng.multinomial(len(table_of), np.full(len(table_of), 1 / len(table_of)), size=DRAWS)
        got, drawn[title] = scores(table_of.sum(axis=0)), scores(draws @ table_of)
        half = (np.quantile(drawn[title], 0.975, axis=0) - np.quantile(drawn[title], 0.025, axis=0)) / 2
        rows.append(
            [title, *(f"{value:.1f} ±{spread:.1f}" for value, spread in zip(got, half, strict=True)), str(run["rounds"])]
        )
    gains = []
    for title in ("hmm-crowd", "bsc"):
        for k, what in ((0, "tags right"), (3, "F1")):
            gain = drawn[f"{title}, words"][:, k] - drawn[title][:, k]
            low, high = np.quantile(gain, [0.025, 0.975])
            gains.append(f"{title}, {what}: {gain.mean():+.1f} ({low:+.1f} to {high:+.1f})")
    text = [
        provenance("python -m benchmarks run sequence_features", RUNS),
        f"\nIn percent, strict spans; ± is half of a 95% interval over {DRAWS:,} bootstrap draws of sequences:\n",
        table(["method", "tags right", "precision", "recall", "F1", "iterations"], rows),
        "\nWhat words bring, over the same draws (95% intervals): " + "; ".join(gains) + ".",
    ]
    put("sequence features", "\n".join(text))
