"""Sizes of the tutorial's sets, and how often annotators of CIFAR-10N err, beside what its slides say (Ibrahim et al. 2025).

python -m benchmarks run tutorial_sets
"""

from __future__ import annotations

from benchmarks.crowd_sets import labelled
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records

# Items, annotators and classes on the slides, which differ among themselves.
PRINTED = {
    "bluebird": "108, 39, 2",
    "sentence_polarity": "5,000, 203, 2",
    "dog": "807, 109, 4 or 5",
    "web": "2,655 or 2,665, 177 or 155, 5",
    "cifar10n": "60,000, 3, 10",
}
BENCHMARK = Benchmark(
    "Are the sets here those of the tutorial?",
    sections=("tutorial sets",),
    data=("bluebird", "sentence_polarity", "dog", "web", "cifar10n"),
    measures=("data", "io"),
    renders=("",),
)

RUNS = Records("tutorial_sets")
ERRORS_ON = "cifar10n"
ERRORS_PRINTED = "17.23, 18.12, 17.64"


@RUNS.each
def size_of(name: str) -> list[int]:
    """Items, annotators, classes."""
    votes, _ = labelled(name)
    return [votes.n_items, votes.n_annotators, votes.n_classes]


@RUNS.each
def errors_of(name: str) -> list[float]:
    """Share of wrong votes of every annotator."""
    votes, truth = labelled(name)
    wrong = votes.label != truth[votes.item]
    return [float(wrong[votes.annotator == a].mean()) for a in range(votes.n_annotators)]


def main() -> None:
    rows = [[name, ", ".join(f"{n:,}" for n in size_of(name)), printed] for name, printed in PRINTED.items()]
    errors = ", ".join(f"{100 * share:.2f}" for share in errors_of(ERRORS_ON))
    text = table(["set", "items, annotators, classes", "slides"], rows)
    text += f"\n\nWrong votes of the annotators of {ERRORS_ON}, in percent: {errors} (slides: {ERRORS_PRINTED})."
    put("tutorial sets", provenance("python -m benchmarks run tutorial_sets", RUNS) + "\n" + text)
