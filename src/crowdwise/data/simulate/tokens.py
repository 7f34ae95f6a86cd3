"""Made-up tagged sequences, to try methods on where the truth is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.token_votes import TokenVotes

__all__ = ["simulate_tags"]


def simulate_tags(
    n_sequences: int = 100,
    n_annotators: int = 10,
    *,
    types: tuple[str, ...] = ("PER", "LOC"),
    votes_per_sequence: int = 4,
    accuracy: tuple[float, float] = (0.5, 0.9),
    stickiness: float = 0.7,
    random_state: int = 0,
) -> tuple[TokenVotes, NDArray[np.object_]]:
    """Make sequences, their true tags, and the tags of annotators who err in runs.

    An annotator gives a token its true tag with a probability of their own. After a wrong tag, the next token of the
    sequence is wrong with probability `stickiness` at least, because people miss whole spans. Wrong
    tags are O two times of three.

    Parameters
    ----------
    accuracy : (low, high)
        Range of the annotators' probabilities, spread evenly.

    Returns
    -------
    (TokenVotes, true tags by token, [N])

    Examples
    --------
    >>> tags, truth = simulate_tags(20, 5, random_state=1)
    >>> tags.n_sequences, len(truth) == tags.n_tokens
    (20, True)
    """
    rng = np.random.default_rng(random_state)
    classes = ["O", *(f"{part}-{kind}" for kind in types for part in "BI")]
    ability = np.linspace(*accuracy, n_annotators)
    rows: list[tuple[int, int, str, str]] = []
    truth: list[str] = []
    for sequence in range(1, n_sequences + 1):
        tags = _sentence(rng, types)
        truth += tags
        for who in rng.choice(n_annotators, min(votes_per_sequence, n_annotators), replace=False):
            wrong = False
            for position, tag in enumerate(tags, start=1):
                slip = 1 - ability[who] if tag != "O" else (1 - ability[who]) / 5
                wrong = rng.random() < (max(slip, stickiness) if wrong and tag != "O" else slip)
                other = "O" if tag != "O" and rng.random() < 2 / 3 else str(rng.choice(classes))
                rows.append((sequence, position, f"annotator-{who + 1}", other if wrong else tag))
    sequences, positions, annotators, labels = zip(*rows, strict=True)
    made = TokenVotes.from_arrays(sequences, positions, annotators, labels, classes=classes)
    return made, np.array(truth, object)


def _sentence(rng: np.random.Generator, types: tuple[str, ...]) -> list[str]:
    """5 to 20 tokens, a span about every fifth, of 1 to 4 tokens."""
    length = int(rng.integers(5, 21))
    tags: list[str] = []
    while len(tags) < length:
        if rng.random() < 0.2:
            kind = str(rng.choice(types))
            tags += [f"B-{kind}", *[f"I-{kind}"] * int(rng.integers(0, 4))]
        else:
            tags.append("O")
    return tags[:length]
