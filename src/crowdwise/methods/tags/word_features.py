"""What words say of their tags: the word, its end, its shape and its neighbours, as a sparse table of yes-no features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import SettingError
from crowdwise.kernels.chains import Steps
from crowdwise.kernels.types import Flags
from crowdwise.methods.tags.feature_chain import FeatureChain

if TYPE_CHECKING:
    import scipy.sparse

__all__ = ["ABOUT_DECAY", "ABOUT_FEATURES", "FEATURES", "feature_chain", "word_features"]

FEATURES = ("none", "words")
ABOUT_FEATURES = "What else is known of a token: none, or words (the word, its end, its shape and its neighbours)."
ABOUT_DECAY = "Precision of the Gaussian prior of the features' weights; 1 is what tools for such fields start from."


def feature_chain(tags: TokenVotes, steps: Steps, allowed: Flags, decay: float) -> FeatureChain:
    """Tags that depend on their words, before any vote."""
    return FeatureChain.start(allowed, word_features(tags), steps, decay)


def word_features(tags: TokenVotes) -> scipy.sparse.csr_matrix:
    """Features of every token, [N, F]; a column per feature that occurs on two tokens or more, and one of all tokens.

    What occurs once fits its token whatever its tag, and says nothing of others.
    """
    import scipy.sparse

    if tags.tokens is None:
        raise SettingError('features="words" needs the words: name their column (--token), or give from_arrays(token=...)')
    words = ["" if word is None else str(word) for word in tags.tokens.tolist()]
    first = np.zeros(tags.n_tokens + 1, bool)
    first[tags.sequence_ptr] = True
    names: list[str] = []
    rows: list[int] = []
    for n, word in enumerate(words):
        before = "" if first[n] else words[n - 1]
        after = "" if first[n + 1] else words[n + 1]
        found = list(_of_word(word, before, after))
        names += found
        rows += [n] * len(found)
    _, column, times = np.unique(np.array(names, dtype=str), return_inverse=True, return_counts=True)
    kept = times > 1
    place = np.cumsum(kept) - 1
    use = kept[column]
    shape = (tags.n_tokens, int(kept.sum()))
    entries = (np.ones(int(use.sum())), (np.array(rows, np.int64)[use], place[column[use]]))
    return scipy.sparse.csr_matrix(entries, shape=shape)


def _of_word(word: str, before: str, after: str) -> Iterator[str]:
    """Features of a word between two others, by name; an empty neighbour is the end of its sequence."""
    lower = word.lower()
    yield "any"
    yield f"word={lower}"
    yield from (f"end={lower[-n:]}" for n in (1, 2, 3) if len(lower) > n)
    yield f"shape={_shape(word)}"
    for where, other in (("before", before), ("after", after)):
        yield f"{where}={other.lower()}"
        yield f"{where} shape={_shape(other)}"


def _shape(word: str) -> str:
    """Upper and lower case, digits and other signs of a word, each run once: Aa, A, 0, a-a."""
    kinds = ["A" if sign.isupper() else "a" if sign.islower() else "0" if sign.isdigit() else "-" for sign in word]
    return "".join(kind for n, kind in enumerate(kinds) if n == 0 or kinds[n - 1] != kind)
