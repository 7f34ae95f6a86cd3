"""How far annotators agree: pairwise agreement, Fleiss' kappa and Krippendorff's alpha.

Everything is a function of the counts of `crowdwise.data.meetings`, in its symbols. Items voted on by fewer than two
annotators carry no information and are left out.

References
----------
Fleiss (1971), Measuring nominal scale agreement among many raters. Gwet (2014), Handbook of
Inter-Rater Reliability, for items with different numbers of votes. Krippendorff (2011),
Computing Krippendorff's alpha-reliability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from crowdwise.data.meetings import VoteCounts, count_votes, pairwise_agreement
from crowdwise.errors import InputError, SettingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdwise.data.annotations import Annotations

__all__ = ["fleiss_kappa", "krippendorff_alpha", "pairwise_agreement", "summary"]

Level = Literal["nominal", "ordinal", "interval"]


def fleiss_kappa(votes: Annotations) -> float:
    """Return Fleiss' kappa, generalised to items with different numbers of votes.

    ``(P - P_e) / (1 - P_e)`` where P is the mean over items of the share of agreeing pairs and
    P_e = sum_k p_k^2, with p_k the mean over the same items of the share of votes for class k.
    Every item weighs the same in both (Gwet's generalisation, restricted to items with at least
    two annotators); with equally many votes per item it is Fleiss' definition of 1971. NaN when
    no item has two annotators, or when every vote is for one class and chance explains all.

    Examples
    --------
    >>> from crowdwise.data.annotations import Annotations
    >>> fleiss_kappa(Annotations.from_matrix([["cat", "cat"], ["dog", "dog"]]))
    1.0
    >>> fleiss_kappa(Annotations.from_matrix([["cat", "dog"], ["dog", "cat"]]))
    -1.0
    """
    counts = count_votes(votes)
    usable = counts.pairs > 0
    if not usable.any():
        return float("nan")
    observed = float(np.mean(counts.agree[usable] / counts.pairs[usable]))
    share = np.where(usable[counts.item], counts.votes / votes.votes_per_item[counts.item], 0.0)
    class_share = np.bincount(counts.label, share, minlength=votes.n_classes) / usable.sum()
    expected = float(np.sum(class_share**2))
    return (observed - expected) / (1 - expected) if expected < 1 - 1e-12 else float("nan")


def krippendorff_alpha(votes: Annotations, level: Level = "nominal") -> float:
    """Return Krippendorff's alpha, ``1 - observed / expected disagreement``.

    The coincidence matrix spreads the m_n votes of an item evenly over its ordered pairs of
    votes by different annotators; without repeated votes this is Krippendorff's ``1 / (m_n - 1)``
    per pair. NaN when no item has two annotators or when only one class occurs among them.

    Parameters
    ----------
    votes : Annotations
    level : {"nominal", "ordinal", "interval"}
        Distance between classes: 0 or 1; by the votes that lie between them in the order of
        ``votes.classes``; or the squared difference of classes that are numbers. The last two
        need O(K^2) memory.

    Examples
    --------
    >>> from crowdwise.data.annotations import Annotations
    >>> votes = Annotations.from_matrix([[1, 1], [2, 2], [3, 2], [1, 1]])
    >>> round(krippendorff_alpha(votes), 3), round(krippendorff_alpha(votes, level="ordinal"), 3)
    (0.632, 0.9)
    """
    if level not in ("nominal", "ordinal", "interval"):
        raise SettingError(f"level must be 'nominal', 'ordinal' or 'interval', got {level!r}")
    counts = count_votes(votes)
    pairs_n = counts.pairs
    weight_n = np.divide(votes.votes_per_item, pairs_n, out=np.zeros(votes.n_items), where=pairs_n > 0)
    total_l = _coincidence_totals(votes, counts, weight_n)
    total = float(total_l.sum())
    if level == "nominal":
        observed = total - float(weight_n @ counts.agree)
        expected = total**2 - float(np.sum(total_l**2))
    else:
        distance_kl = _ordinal_distance(total_l) if level == "ordinal" else _interval_distance(votes.classes)
        observed = float(_coincidence(votes, counts, weight_n).multiply(distance_kl).sum())
        expected = float(total_l @ distance_kl @ total_l)
    # Votes for a single class leave rounding errors of the order of total^2.
    return 1 - (total - 1) * observed / expected if expected > 1e-12 * total**2 else float("nan")


def summary(votes: Annotations) -> dict[str, Any]:
    """Return counts and agreement as plain Python values, fit for JSON.

    Returns
    -------
    dict
        Sizes (`n_items`, `n_annotators`, `n_classes`, `n_votes`, `n_missing`); how votes spread
        (`items_without_votes`, `annotators_without_votes`, `votes_per_item` and
        `votes_per_annotator`, each a dict or None without items or annotators; `repeated_votes`:
        votes beyond an annotator's first on an item; `class_shares`); agreement
        (`pairwise_agreement`, `fleiss_kappa`, `krippendorff_alpha`), None where undefined. Votes that are distributions
        count as votes for their most probable class.

    Examples
    --------
    >>> from crowdwise.data.annotations import Annotations
    >>> result = summary(Annotations.from_matrix([["cat", "cat", "dog"], ["dog", "dog", None]]))
    >>> result["votes_per_item"], result["class_shares"], result["pairwise_agreement"]
    ({'min': 2, 'mean': 2.5, 'max': 3}, {'cat': 0.4, 'dog': 0.6}, 0.5)
    """
    votes = votes.hardened()
    per_item, per_annotator = votes.votes_per_item, votes.votes_per_annotator
    repeated = votes.pair[1:] == votes.pair[:-1]
    shares = votes.label_shares
    agreement = {
        "pairwise_agreement": pairwise_agreement(votes),
        "fleiss_kappa": fleiss_kappa(votes),
        "krippendorff_alpha": krippendorff_alpha(votes),
    }
    return {
        "n_items": votes.n_items,
        "n_annotators": votes.n_annotators,
        "n_classes": votes.n_classes,
        "n_votes": votes.n_votes,
        "n_missing": votes.n_missing,
        "items_without_votes": int((per_item == 0).sum()),
        "annotators_without_votes": int((per_annotator == 0).sum()),
        "votes_per_item": {"min": int(per_item.min()), "mean": float(per_item.mean()), "max": int(per_item.max())}
        if votes.n_items
        else None,
        "votes_per_annotator": {
            "min": int(per_annotator.min()),
            "median": float(np.median(per_annotator)),
            "max": int(per_annotator.max()),
        }
        if votes.n_annotators
        else None,
        "repeated_votes": int(repeated.sum()),
        "class_shares": {str(name): float(share) for name, share in zip(votes.classes, shares, strict=True)},
    } | {name: None if np.isnan(value) else value for name, value in agreement.items()}


def _coincidence_totals(votes: Annotations, counts: VoteCounts, weight_n: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the column sums of `_coincidence`, [K], without the matrix."""
    every = counts.votes * (weight_n * votes.votes_per_item)[counts.item]
    own = counts.own_votes * (weight_n[counts.pair_item] * np.bincount(counts.own_pair, counts.own_votes))[counts.own_pair]
    totals = np.bincount(counts.label, every, minlength=votes.n_classes)
    return np.asarray(totals - np.bincount(counts.own_label, own, minlength=votes.n_classes), np.float64)


def _coincidence(votes: Annotations, counts: VoteCounts, weight_n: NDArray[np.float64]) -> Any:
    """Return Krippendorff's coincidence matrix, sparse [K, K].

    sum_n w_n (c_n c_n' - sum_a t_na t_na') with w_n = m_n / pairs_n, zero without pairs. Both
    products contain every vote's pair with itself once, so those cancel.
    """
    from scipy.sparse import csr_array

    n_items, n_pairs, n_classes = votes.n_items, len(counts.pair_item), votes.n_classes
    # Square roots, so that one scaled matrix gives the weighted product.
    root = np.sqrt(weight_n)
    all_nk = csr_array((counts.votes * root[counts.item], (counts.item, counts.label)), shape=(n_items, n_classes))
    own_root = root[counts.pair_item][counts.own_pair]
    own_pk = csr_array((counts.own_votes * own_root, (counts.own_pair, counts.own_label)), shape=(n_pairs, n_classes))
    return (all_nk.T @ all_nk - own_pk.T @ own_pk).tocsr()


def _ordinal_distance(total_l: NDArray[np.float64]) -> NDArray[np.float64]:
    # (n_c / 2 + votes strictly between + n_k / 2)^2 is a squared difference of mid-ranks.
    middle = np.cumsum(total_l) - total_l / 2
    return np.asarray((middle[:, None] - middle) ** 2)


def _interval_distance(classes: NDArray[Any]) -> NDArray[np.float64]:
    try:
        value = np.array([float(name) for name in classes])
    except ValueError:
        raise InputError(
            f"level='interval' needs classes that are numbers, got {[str(c) for c in classes[:5]]}; use level='ordinal'"
        ) from None
    return np.asarray((value[:, None] - value) ** 2)
