"""Uncertainty of labels, and what one answer is expected to gain: plain array functions.

Symbols
-------
q_nk : [N, K]           what is known of the labels
confusion_akl : [A, K, L]
    P(observed l | true k): the posterior mean. It gives the predictive distribution of one answer exactly, for
    p(y = l | z = k) = E R_a[k, l]. Where it depends on the item, [N, A, K, L].
concentration_akl : [A, K, L]
    Dirichlet parameters of the rows of an annotator's matrix R_a.
right_na : [N, A]       probability of a right answer, errors uniform
"""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.numerics import in_ranges, log_floored
from crowdwise.kernels.types import Array, Floats

__all__ = [
    "ambiguity",
    "entropy",
    "error",
    "error_reduction",
    "error_reduction_of_accuracy",
    "expected_information",
    "information",
    "information_of_accuracy",
    "rightness",
    "vote_entropy",
]


_FLOOR = 1e-300
# Numbers of an array that fits into the cache, beside a few others of its size.
_CACHED = 2**16
# As many votes as make an annotator known.
_KNOWN = 1e12


def entropy(q_nk: Floats) -> Floats:
    """-sum q log q, [N], in nats."""
    return np.asarray(-(q_nk * log_floored(q_nk)).sum(axis=-1))


def ambiguity(q_nk: Floats) -> Floats:
    """One less the lead of the first class over the second, [N]."""
    if q_nk.shape[-1] < 2:
        return np.zeros(q_nk.shape[:-1])
    top = np.partition(q_nk, -2, axis=-1)[..., -2:]
    return np.asarray(1 - (top[..., 1] - top[..., 0]))


def error(q_nk: Floats) -> Floats:
    """Probability that the best class is wrong, [N]."""
    return np.asarray(1 - q_nk.max(axis=-1))


def information(q_nk: Floats, confusion_akl: Floats) -> Floats:
    """Mutual information of an item's label and one answer by a known matrix, H(y) - H(y | z), [N, A], in nats."""
    gain = -_mixed(q_nk, entropy(confusion_akl))
    # Label by label: an [N, A, L] array would be strided, and its logarithms take all the time there is.
    for observed in range(confusion_akl.shape[-1]):
        gain += _surprise(_mixed(q_nk, confusion_akl[..., observed]))
    return np.asarray(np.maximum(gain, 0))


def expected_information(q_nk: Floats, concentration_akl: Floats) -> Floats:
    """I(z; y | R), the information of one answer averaged over what the annotator's matrix may be, [N, A], in nats.

    It is what the answer tells of the label once the annotator is known, as later answers make them. At the mean matrix it
    would be less, the more so the less is known: that R may be good counts for more than that it may be bad, and whoever is
    not known yet is worth asking.

    E H(y | R) - sum_k q_k E H(R[k]). The second term is that of a Dirichlet, psi(s + 1) - sum_l m_l psi(s m_l + 1) with mean m
    and total s. The answer's own distribution, sum_k q_k R[k], is taken for a Dirichlet of its mean and its summed variance,
    which it is where the label is known.
    """
    total = concentration_akl.sum(axis=2)
    mean = concentration_akl / total[:, :, None]
    spread = np.ascontiguousarray(((1 - (mean**2).sum(axis=2)) / (total + 1)).T)
    known = np.ascontiguousarray((_after(total) - (mean * _after(concentration_akl)).sum(axis=2)).T)
    means = [np.ascontiguousarray(mean[:, :, observed].T) for observed in range(mean.shape[2])]
    gain = np.empty((len(q_nk), len(total)))
    # Some items at a time, and in place: what fits into the cache takes a third of the time.
    size = max(1, _CACHED // max(len(total), 1))

    def fill(first: int, last: int) -> None:
        for block in range(first, last):
            here = slice(block * size, (block + 1) * size)
            q, part = q_nk[here], gain[here]
            said = [q @ row for row in means]
            mass = np.subtract(1, sum(p * p for p in said))
            mass /= np.maximum(q**2 @ spread, _FLOOR)
            mass -= 1
            np.clip(mass, _FLOOR, _KNOWN, out=mass)
            np.subtract(_after(mass), q @ known, out=part)
            for probability in said:
                term = _after(mass * probability)
                term *= probability
                part -= term
            np.clip(part, 0, entropy(q)[:, None], out=part)

    # Threads take whole blocks, so that their number changes no bit.
    in_ranges(np.arange(-(-len(q_nk) // size) + 1) * size * len(total), fill)
    return gain


def error_reduction(q_nk: Floats, confusion_akl: Floats) -> Floats:
    """Expected drop of the error by one answer, sum_l max_k q_k R[k, l] - max_k q_k, [N, A]."""
    total = np.zeros((len(q_nk), confusion_akl.shape[-3]))
    for observed in range(confusion_akl.shape[-1]):
        best = np.zeros_like(total)
        for true in range(q_nk.shape[1]):
            np.maximum(best, q_nk[:, true, None] * confusion_akl[..., true, observed], out=best)
        total += best
    return np.asarray(np.maximum(total - q_nk.max(axis=1, keepdims=True), 0))


def rightness(q_nk: Floats, confusion_akl: Floats) -> Floats:
    """Probability of a right answer about each item, sum_k q_k R[k, k], [N, A]."""
    return _mixed(q_nk, np.einsum("...kk->...k", confusion_akl))


def information_of_accuracy(q_nk: Floats, right_na: Floats) -> Floats:
    """Mutual information of label and answer where errors are uniform, [N, A]: no [N, A, K, L] array is made."""
    n_classes = q_nk.shape[1]
    if n_classes < 2:
        return np.zeros_like(right_na)
    wrong = (1 - right_na) / (n_classes - 1)
    gain = -_surprise(right_na) - (n_classes - 1) * _surprise(wrong)
    for observed in range(n_classes):
        gain += _surprise(wrong + q_nk[:, observed, None] * (right_na - wrong))
    return np.asarray(np.maximum(gain, 0))


def error_reduction_of_accuracy(q_nk: Floats, right_na: Floats) -> Floats:
    """`error_reduction` where errors are uniform, [N, A]."""
    n_classes = q_nk.shape[1]
    if n_classes < 2:
        return np.zeros_like(right_na)
    wrong = (1 - right_na) / (n_classes - 1)
    first, second = np.partition(q_nk, -2, axis=1)[:, :-3:-1].T
    total, leads = np.zeros_like(right_na), q_nk.argmax(axis=1)
    for observed in range(n_classes):
        # The likeliest class other than the one that was named.
        other = np.where(leads == observed, second, first)
        total += np.maximum(q_nk[:, observed, None] * right_na, other[:, None] * wrong)
    return np.asarray(np.maximum(total - first[:, None], 0))


def vote_entropy(label: Array, item: Array, n_items: int, n_classes: int) -> Floats:
    """Entropy of the votes' own shares, [N]; 0 without votes."""
    counts = np.bincount(item.astype(np.int64) * n_classes + label, minlength=n_items * n_classes).reshape(n_items, n_classes)
    return entropy(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def _mixed(q_nk: Floats, values: Floats) -> Floats:
    """Mean over the classes of an item of values [A, K], or [N, A, K], of every annotator: [N, A]."""
    return np.asarray(q_nk @ values.T if values.ndim == 2 else np.einsum("nk,nak->na", q_nk, values))


def _surprise(probability: Floats) -> Floats:
    """-p log p; 0 log 0 = 0, the floor only keeps the logarithm finite."""
    found = np.log(np.maximum(probability, _FLOOR))
    found *= -probability
    return np.asarray(found)


def _after(x: Floats) -> Floats:
    """psi(x + 1) to 2e-4 at 0, and closer above: two steps of its recurrence and the asymptotic series, one logarithm."""
    far = x + 2.5
    found = np.log(far)
    far *= far
    far *= 24
    found += np.divide(1, far, out=far)
    step = 2 * x
    step += 3
    step /= np.add(x, 1, out=far) * (x + 2)
    found -= step
    return np.asarray(found)
