"""Third moments of three groups of annotators, decomposed by whitening and joint diagonalisation.

x_g is the mean one-hot vote of group g on an item, over items on which all three groups voted:

    P_gh = E[x_g x_h'] = C_g' D C_h        T = E[x_1 (x) x_2 (x) x_3] = sum_k d_k C_1k (x) C_2k (x) C_3k

With B_1 = P_32 P_12^-1 and B_2 = P_31 P_21^-1 every group looks like the third: M2 = P_32 P_12^-1 P_13 =
C_3' D C_3. Whitened by W (W' M2 W = I), every slice of T is diagonal in one orthonormal basis u_k, and
sqrt(d_k) C_3k = (W')^+ u_k: a distribution times sqrt(d_k), so both follow.

An annotator outside group h has E[o_a x_h'] = R_a' D C_h, so R_a' = E[o_a x_h'] (D C_h)^-1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.moments import Estimate
from crowdwise.kernels.cooccurrence import distributions
from crowdwise.kernels.types import Floats, Integers

__all__ = ["joint_diagonaliser", "spectral_estimate", "third_moment"]


# Singular values below this share of the largest count as zero.
_CUT = 1e-6


def spectral_estimate(votes: Annotations, rng: np.random.Generator, draws: int = 5) -> Estimate | None:
    """Confusion tables by third moments; None if every split into groups is degenerate."""
    n_annotators = votes.n_annotators
    # Deal annotators to the groups in order of their votes, so that groups have about equally many.
    rank = np.empty(n_annotators, np.int64)
    rank[np.argsort(-votes.weight_per_annotator, kind="stable")] = np.arange(n_annotators)
    for draw in range(draws):
        found = _with_groups(votes, (rank if draw == 0 else rng.permutation(n_annotators)) % 3)
        if found is not None:
            return found
    return None


def _with_groups(votes: Annotations, group: Integers) -> Estimate | None:
    n_classes, n_annotators = votes.n_classes, votes.n_annotators
    table, x = _group_means(votes, group)
    together = np.flatnonzero(np.logical_and.reduce([np.diff(part.indptr) > 0 for part in x]))
    # Fewer items than the tensor has entries in a slice: its eigenvectors would be noise.
    if len(together) < n_classes**2:
        return None
    first, second, third = (part[together] for part in x)
    parts = (first, second, third)
    pair = {(g, h): _mean_product(parts[g], parts[h]) for g in range(3) for h in range(3) if g != h}
    found = third_moment_rows(pair, third_moment(first, second, third))
    if found is None:
        return None
    rows_3, shares = found
    # C_1' = P_13 (D C_3)^-1 serves the annotators of group three.
    inverse_3 = np.linalg.pinv(shares[:, None] * rows_3, rcond=_CUT)
    rows_1 = distributions((pair[0, 2] @ inverse_3).T, 1)
    inverse_1 = np.linalg.pinv(shares[:, None] * rows_1, rcond=_CUT)
    estimate = np.empty((n_annotators, n_classes, n_classes))
    met = np.empty(n_annotators)
    for inverse, partners, members in ((inverse_3, x[2], group != 2), (inverse_1, x[0], group == 2)):
        joint = (table.T @ partners).toarray().reshape(n_annotators, n_classes, n_classes)[members]
        met[members] = joint.sum(axis=(1, 2))
        estimate[members] = joint / np.maximum(joint.sum(axis=(1, 2), keepdims=True), 1e-300) @ inverse
    seen = met >= 2 * n_classes
    return Estimate(distributions(estimate, 1), shares, seen) if seen.any() else None


def third_moment_rows(pair: dict[tuple[int, int], Floats], tensor: Floats) -> tuple[Floats, Floats] | None:
    """Rows C_3, [K, L], and shares d from the exact or estimated moments; None where they are singular."""
    inverse_12, inverse_21 = (np.linalg.pinv(pair[key], rcond=_CUT) for key in ((0, 1), (1, 0)))
    to_third_1, to_third_2 = pair[2, 1] @ inverse_12, pair[2, 0] @ inverse_21
    second = to_third_1 @ pair[0, 2]
    values, vectors = np.linalg.eigh((second + second.T) / 2)
    if values[0] <= _CUT * values[-1]:
        return None
    white = vectors / np.sqrt(values)
    # slices[l] = W' B_1 T[:, :, l] B_2' W
    slices = np.einsum("ia,abl,jb->lij", white.T @ to_third_1, tensor, white.T @ to_third_2)
    basis = joint_diagonaliser((slices + slices.transpose(0, 2, 1)) / 2)
    rows = ((vectors * np.sqrt(values)) @ basis).T
    total = rows.sum(axis=1)
    if (np.abs(total) < 1e-9).any():
        return None
    return distributions(rows / total[:, None], 1), distributions(total**2, 0)


def joint_diagonaliser(slices: Floats, sweeps: int = 30) -> Floats:
    """Orthonormal basis (columns) in which symmetric `slices` [L, K, K] are as diagonal as one basis allows.

    Jacobi rotations (Cardoso and Souloumiac), started from the eigenvectors of the combination of
    slices whose eigenvalues are farthest apart; exact where an exact basis exists.
    """
    n_slices, size, _ = slices.shape
    rng = np.random.default_rng(0)
    trials = [np.linalg.eigh(np.tensordot(rng.standard_normal(n_slices), slices, 1)) for _ in range(8)]
    basis = max(trials, key=lambda trial: np.diff(trial[0]).min(initial=np.inf) / max(np.ptp(trial[0]), 1e-300))[1]
    current = basis.T @ slices @ basis
    for _ in range(sweeps):
        largest = 0.0
        for p in range(size - 1):
            for q in range(p + 1, size):
                # The rotation angle that minimises the summed squares of the (p, q) entries of all slices.
                gap, off = current[:, p, p] - current[:, q, q], 2 * current[:, p, q]
                on, cross = float(gap @ gap - off @ off), float(2 * gap @ off)
                angle = 0.25 * np.arctan2(cross, on) if (on or cross) else 0.0
                largest = max(largest, abs(angle))
                if abs(angle) < 1e-14:
                    continue
                c, s = np.cos(angle), np.sin(angle)
                turn = np.array([[c, -s], [s, c]])
                current[:, :, [p, q]] = current[:, :, [p, q]] @ turn
                current[:, [p, q], :] = turn.T @ current[:, [p, q], :]
                basis[:, [p, q]] = basis[:, [p, q]] @ turn
        if largest < 1e-12:
            break
    return basis


def third_moment(first: Any, second: Any, third: Any) -> Floats:
    """E[x_1 (x) x_2 (x) x_3] over items, [K, K, K], from three sparse [N, K]: work in votes, not in N K^3."""
    slices = [first.multiply(third[:, [l]]).T @ second for l in range(third.shape[1])]
    return np.asarray(np.stack([part.toarray() for part in slices], axis=2) / first.shape[0])


def _mean_product(first: Any, second: Any) -> Floats:
    return np.asarray((first.T @ second).toarray() / first.shape[0])


def _group_means(votes: Annotations, group: Integers) -> tuple[Any, list[Any]]:
    """One-hot votes [N, A K] and, for three groups, the mean one-hot vote on every item, sparse [N, K]."""
    from scipy.sparse import csr_matrix, diags

    n_items, n_classes = votes.n_items, votes.n_classes
    weight = votes.weights
    table = csr_matrix((weight, votes.row.astype(np.int64), votes.item_ptr), shape=(n_items, votes.n_annotators * n_classes))
    means = []
    for g in range(3):
        mine = np.flatnonzero((group[votes.annotator] == g) & (weight > 0))
        counts = csr_matrix((weight[mine], (votes.item[mine], votes.label[mine])), shape=(n_items, n_classes))
        total = np.asarray(counts.sum(axis=1)).ravel()
        means.append((diags(1 / np.where(total > 0, total, 1.0)) @ counts).tocsr())
    return table, means
