"""auto-classifier beside its candidates, from the runs that benchmarks/learn.py has kept.

python benchmarks/learn.py                    # hours; or SET --only auto-classifier
python benchmarks/auto_classifier.py          # the summary, written to docs/benchmarks.md
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from page import provenance, put, table

RUNS = Path(__file__).parent / ".runs"
SETS = ("labelme", "sentence_polarity", "rte", "cifar10n", "convarg_pairs", "ner_mturk")
# Names in learn.py; two-stage has a network there, where the choice has a logistic regression.
CANDIDATES = ("two-stage majority", "two-stage", "raykar", "raykar, gaussian", "ccem", "geocrowdnet-f")
CHOICE, PLAIN = "auto-classifier", "two-stage majority"


def means(measure: str) -> dict[str, dict[str, float]]:
    """Mean over the seeds that the choice has, by set and method."""
    found: dict[str, dict[str, float]] = {}
    for name in SETS:
        runs = json.loads((RUNS / f"{name}.json").read_text())
        n_seeds = len(runs[CHOICE])
        found[name] = {m: 100 * float(np.mean([r[measure] for r in runs[m][:n_seeds]])) for m in (CHOICE, *CANDIDATES)}
    return found


def main() -> None:
    parts = [
        provenance("python benchmarks/auto_classifier.py"),
        "\nRuns of `benchmarks/learn.py`, the same seeds for all; percent. *Best alone* is the candidate with the best mean "
        "over the seeds of the set, which nobody can know without true labels.\n",
    ]
    for measure, words in (("labels", "recovered labels"), ("test", "test accuracy")):
        found = means(measure)
        rows = []
        for name, one in found.items():
            best = max(CANDIDATES, key=lambda method: one[method])
            rows.append([name, f"{one[CHOICE]:.1f}", f"{one[PLAIN]:.1f}", f"{best} {one[best]:.1f}",
                         f"{one[CHOICE] - one[best]:+.1f}", f"{one[CHOICE] - one[PLAIN]:+.1f}"])  # fmt: skip
        average = {method: float(np.mean([one[method] for one in found.values()])) for method in (CHOICE, *CANDIDATES)}
        single = max(CANDIDATES, key=lambda method: average[method])
        worst = min(found, key=lambda name: found[name][CHOICE] - found[name][PLAIN])
        gap = found[worst][CHOICE] - found[worst][PLAIN]
        parts.append(
            f"**{words.capitalize()}.** {average[CHOICE] - average[single]:+.2f} points beside the best single candidate on "
            f"average ({single}, {average[single]:.1f}), and at worst {gap:+.1f} beside two stages with majority vote "
            f"({worst}).\n"
        )
        parts.append(table([words, CHOICE, PLAIN, "best alone", "choice - best", "choice - majority"], rows) + "\n")
    put("auto classifier", "\n".join(parts))


if __name__ == "__main__":
    main()
