"""How a difference of scores becomes a win, a loss or a tie: log-probabilities with their derivatives.

All three are concave in the scores and in the tie parameter together, so Newton's steps lead to the one optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from crowdwise.kernels.types import Floats

__all__ = ["TIES", "Terms", "outcome_probabilities", "start_of", "terms"]


TIES = ("half", "davidson", "rao-kupper")


@dataclass(frozen=True, eq=False)
class Terms:
    """Log-likelihood of pairs, [M], and its derivatives in the difference of scores and the tie parameter.

    Curvatures are negative second derivatives; `cross` is the mixed one. Without a tie parameter those of it are zero.
    """

    log_lik: Floats
    slope: Floats
    curvature: Floats
    tie_slope: Floats
    tie_curvature: Floats
    cross: Floats


def terms(ties: str, tie: float, difference: Floats, won: Floats, lost: Floats, tied: Floats) -> Terms:
    """Evaluate pairs whose first item leads by `difference`, [M], and has won, lost and tied so often, [M] each.

    ``half``: a tie is half a win for each. ``davidson``: P(tie) is proportional to exp(tie) times the geometric mean of the
    two strengths. ``rao-kupper``: a lead below `tie` > 0 is not seen.
    """
    if ties == "half":
        # One exponential serves all: with a million pairs these lines are the fit.
        won, games, zero = won + tied / 2, won + lost + tied, np.zeros_like(difference)
        small = np.exp(-np.abs(difference))
        chance = np.where(difference >= 0, 1.0, small) / (1 + small)
        log_lik = won * difference - games * (np.maximum(difference, 0.0) + np.log1p(small))
        return Terms(log_lik, won - games * chance, games * small / (1 + small) ** 2, zero, zero, zero)
    games = won + lost + tied
    if ties == "davidson":
        log_win, log_loss, log_tie, log_total = _davidson(tie, difference)
        win, loss, draw = np.exp(log_win - log_total), np.exp(log_loss - log_total), np.exp(log_tie - log_total)
        lead = (win - loss) / 2
        return Terms(
            won * log_win + lost * log_loss + tied * log_tie - games * log_total,
            (won - lost) / 2 - games * lead,
            games * ((win + loss) / 4 - lead**2),
            tied - games * draw,
            games * draw * (1 - draw),
            -games * draw * lead,
        )
    # A tie is a win by less than the threshold for both, times a factor of the threshold alone.
    won, lost = won + tied, lost + tied
    ahead, behind = expit(difference - tie), expit(-difference - tie)
    above, below = won * ahead * (1 - ahead), lost * behind * (1 - behind)
    grow = np.expm1(2 * tie)
    return Terms(
        won * log_expit(difference - tie) + lost * log_expit(-difference - tie) + tied * np.log(grow),
        won * (1 - ahead) - lost * (1 - behind),
        above + below,
        -won * (1 - ahead) - lost * (1 - behind) + tied * 2 * (grow + 1) / grow,
        above + below + tied * 4 * (grow + 1) / grow**2,
        below - above,
    )


def outcome_probabilities(ties: str, tie: float | None, difference: Floats) -> tuple[Floats, Floats, Floats]:
    """Probabilities that the first item wins, loses and ties, given its lead."""
    if tie is None or ties == "half":
        return expit(difference), expit(-difference), np.zeros_like(difference)
    if ties == "davidson":
        log_win, log_loss, log_tie, log_total = _davidson(tie, difference)
        return np.exp(log_win - log_total), np.exp(log_loss - log_total), np.exp(log_tie - log_total)
    win, loss = expit(difference - tie), expit(-difference - tie)
    return win, loss, 1 - win - loss


def _davidson(tie: float, difference: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    parts = np.stack([difference / 2, -difference / 2, np.full_like(difference, tie)])
    return parts[0], parts[1], parts[2], logsumexp(parts, axis=0)


def start_of(ties: str, share: float) -> float:
    """The tie parameter at which equals tie this often, 0 < share < 1."""
    if ties == "davidson":
        return float(np.log(2 * share / (1 - share)))
    # Between equals a tie has probability (e - 1) / (e + 1) with e the exponential of the threshold.
    return float(np.log1p(share) - np.log1p(-share))
