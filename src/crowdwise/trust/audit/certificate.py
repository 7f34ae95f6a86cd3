"""Which labels to accept so that at most a stated share of them is wrong, with a stated probability.

Sets A_1 in A_2 in ... hold the surest bands. "More than the share of A_j are wrong" is rejected when the wealth of the bets
against it (`crowdwise.trust.audit.bets`) reaches 1 / alpha_j. The sets are tested in an order that votes and model fix before
anything is checked: from the surest half of the items in ever larger sets up to the first that fails. The first true
hypothesis of a fixed order is rejected with probability alpha at most, so whatever is accepted holds what it promises with
probability 1 - alpha, at any look (fixed-sequence testing, the sequential form of Learn then Test).

Should already that set fail, nothing would be accepted. A fifth of alpha is therefore put on a set of half the size; if that
passes, its share moves on to the next (the fallback procedure of Wiens), and the larger sets are tested with all of alpha.

References
----------
Angelopoulos, Bates, Candes, Jordan and Lei (2021), Learn then test. Wiens (2003), A fixed sequence Bonferroni procedure for
testing multiple endpoints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.trust.audit.bets import Bets, start_bets
from crowdwise.trust.audit.strata import Strata, first_set

__all__ = ["Certificate", "allowed_wrong", "certified_bands", "levels_of_sets", "passed_sets", "start_sets"]

FALLBACK = 0.2


@dataclass(frozen=True, eq=False)
class Certificate:
    """What the checked labels show.

    Attributes
    ----------
    n_bands : int
        The labels of so many bands are accepted; 0 for none.
    level : [J]
        Probability of error spent on each set, alpha_j.
    log_wealth : [J]
        Of the bets against each set, now.
    passed : [J]
        Whether the wealth was ever large enough for the level with which the order reached the set.
    bets : Bets
        The state after the last draw.
    """

    n_bands: int
    level: Floats
    log_wealth: Floats
    passed: Flags
    bets: Bets


def allowed_wrong(sizes: Integers, error: float) -> Integers:
    """Most wrong labels that keep the share of errors of sets of these sizes within `error`."""
    # A share such as 0.05 of 20 is 1, though the product of floats may fall just below.
    return np.floor(np.asarray(sizes) * error + 1e-9).astype(np.int64)


def start_sets(strata: Strata, weight: Floats, error: float) -> Bets:
    """Bets against "more than the share `error` is wrong" for the first band, the first two, and so on."""
    sizes = strata.member @ strata.size
    return start_bets(strata.member, weight, strata.size, strata.error, allowed_wrong(sizes, error) + 1)


def levels_of_sets(strata: Strata, alpha: float) -> Floats:
    """Where the order of tests begins: the level that each set has of its own, [J]; independent of what is checked."""
    sizes, first = strata.member @ strata.size, first_set(strata)
    half = int(np.argmax(sizes >= sizes[first] / 2))
    level = np.zeros(len(sizes))
    level[first] = (1 - FALLBACK) * alpha
    level[half] += FALLBACK * alpha
    return level


def passed_sets(path: Floats, level: Floats) -> Flags:
    """Sets that pass, [J], given the log-wealth after each draw, [T + 1, J].

    What a set that passes was tested with is added to what the next one has of its own.
    """
    # A set with more errors than allowed among the checked labels is out, whatever its wealth once was.
    best = np.where(path[-1] == -np.inf, -np.inf, path.max(axis=0)).tolist()
    passed, carried = np.zeros(len(level), bool), 0.0
    for j, own in enumerate(level.tolist()):
        carried += own
        passed[j] = carried > 0 and best[j] >= -math.log(carried)
        carried = carried if passed[j] else 0.0
    return passed


def certified_bands(
    strata: Strata, weight: Floats, stratum: Integers, wrong: Flags, *, error: float, alpha: float
) -> Certificate:
    """Test the sets by labels that were checked in the order in which they were drawn.

    Parameters
    ----------
    weight : [H]
        With which the items were drawn.
    stratum, wrong : [T]
        Of the drawn items in order: stratum, and whether the label turned out wrong.
    """
    bets, path = start_sets(strata, weight, error).after(stratum, wrong)
    level = levels_of_sets(strata, alpha)
    passed = passed_sets(path, level)
    n_bands = int(np.flatnonzero(passed)[-1]) + 1 if passed.any() else 0
    return Certificate(n_bands, level, path[-1], passed, bets)
