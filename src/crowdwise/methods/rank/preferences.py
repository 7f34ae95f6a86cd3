"""Consensus preferences of pairs, with what a robust loss needs to train on them."""

from __future__ import annotations

import numpy as np
import polars as pl
from scipy.special import expit

from crowdwise.data.encode import series_of
from crowdwise.errors import SettingError
from crowdwise.methods.rank.games import Floats, Games, sums
from crowdwise.methods.rank.result import Ranking

__all__ = ["EVIDENCE", "pair_spread", "preferences"]

EVIDENCE = ("posterior", "scores", "votes")
# Nodes of the integral over what is peculiar to a pair; its largest standard deviation that is looked at.
_NODES, _LARGEST = 31, 6.0


def preferences(ranking: Ranking, evidence: str = "posterior") -> pl.DataFrame:
    """One row per pair that was compared: the consensus winner, and the probability r that a reliable annotator prefers it.

    Parameters
    ----------
    ranking : Ranking
        A fitted ranking.
    evidence : str
        ``scores``: r = s(s_a - s_b), s the logistic function: one order of all items. ``votes``: only the votes on this pair
        count, each by the log-odds of its annotator, and the pair has one right answer. ``posterior``: the lead in a pair is
        s_a - s_b plus a normal deviation of its own, whose spread over pairs is estimated (`pair_spread`); r is the
        posterior mean. It is close to ``scores`` where one order explains the votes, and to ``votes`` where it does not.

    Returns
    -------
    polars.DataFrame
        item_a, item_b; winner (null where nothing decides) and loser; confidence, r of the winner; flip_rate, 1 - r, for a
        robust loss; weight_winner and weight_loser, r and 1 - r, for the posterior-weighted loss; n_votes, and how many of
        them were for a, for b and for neither; margin, s_a - s_b.
    """
    if evidence not in EVIDENCE:
        raise SettingError(f"evidence must be one of {', '.join(EVIDENCE)}; got {evidence!r}")
    votes = ranking.votes
    games = Games.of(votes)
    margin = games.difference(ranking.score)
    if evidence == "scores":
        chance_a = expit(margin)
    elif evidence == "votes":
        chance_a = _by_votes(ranking, games)
    else:
        chance_a = _posterior(ranking, games, pair_spread(ranking))[1]
    counts = votes.outcome * np.where(votes.first < votes.second, 1, -1)
    n_a, n_b, n_tied = (np.bincount(games.pair[counts == kind], minlength=games.n_pairs) for kind in (1, -1, 0))
    ids = series_of(votes.items)
    frame = pl.DataFrame({"item_a": ids[games.low], "item_b": ids[games.high], "chance": chance_a})
    confidence = np.maximum(chance_a, 1 - chance_a)
    return frame.select(
        "item_a",
        "item_b",
        winner=pl.when(pl.col("chance") > 0.5).then("item_a").when(pl.col("chance") < 0.5).then("item_b"),
        loser=pl.when(pl.col("chance") > 0.5).then("item_b").when(pl.col("chance") < 0.5).then("item_a"),
        confidence=pl.Series(confidence),
        flip_rate=pl.Series(1 - confidence),
        weight_winner=pl.Series(confidence),
        weight_loser=pl.Series(1 - confidence),
        n_votes=pl.Series(n_a + n_b + n_tied),
        votes_a=pl.Series(n_a),
        votes_b=pl.Series(n_b),
        ties=pl.Series(n_tied),
        margin=pl.Series(margin),
    )


def pair_spread(ranking: Ranking) -> float:
    """Likeliest standard deviation of the leads of pairs around differences of scores; 0 where one order explains the votes."""
    from scipy.optimize import minimize_scalar

    games = Games.of(ranking.votes)

    def loss(spread: float) -> float:
        return -float(_posterior(ranking, games, spread)[0].sum())

    found = minimize_scalar(loss, bounds=(0.0, _LARGEST), method="bounded", options={"xatol": 0.01})
    return float(found.x) if found.fun < loss(0.0) else 0.0


def _posterior(ranking: Ranking, games: Games, spread: float) -> tuple[Floats, Floats]:
    """Log-likelihood of the votes on each pair, [M], and the posterior mean of s(lead of the low item), [M]."""
    # Evenly spaced over four standard deviations: better than Gauss where a pair has many votes and the posterior is narrow.
    nodes = np.linspace(-4, 4, _NODES) if spread > 0 else np.zeros(1)
    weights = np.exp(-(nodes**2) / 2)
    votes, margin = ranking.votes, games.difference(ranking.score)
    sign = np.where(votes.first < votes.second, 1.0, -1.0)
    intercept, gain = _lines(ranking)
    log_joint = np.empty((len(nodes), games.n_pairs))
    for row, node, weight in zip(log_joint, nodes, weights / weights.sum(), strict=True):
        chance = intercept + gain * expit(sign * (margin + spread * node)[games.pair])
        chance = np.clip(chance, 1e-300, 1 - 1e-16)
        yes = (1 + votes.outcome) / 2
        log_lik = yes * np.log(chance) + (1 - yes) * np.log1p(-chance)
        row[:] = np.log(weight) + sums(games.pair, votes.weights * log_lik, games.n_pairs)
    top = log_joint.max(axis=0)
    joint = np.exp(log_joint - top)
    total = joint.sum(axis=0)
    leads = margin + spread * nodes[:, None]
    return top + np.log(total), (joint * expit(leads)).sum(axis=0) / total


def _lines(ranking: Ranking) -> tuple[Floats, Floats]:
    """Intercept and gain of P(first) of every vote, [E] each."""
    votes = ranking.votes
    if ranking.line is None:
        return np.zeros(votes.n_votes), np.ones(votes.n_votes)
    return ranking.line[0][votes.annotator], ranking.line[1][votes.annotator]


def _by_votes(ranking: Ranking, games: Games) -> Floats:
    if ranking.line is None:
        raise SettingError(f"{ranking.method} takes all annotators for alike, so votes have no log-odds; use crowd-bt")
    votes = ranking.votes
    intercept, gain = _lines(ranking)
    # How much likelier the answer is where the first item is surely the better one than where it surely is not.
    for_first, for_second = np.log((intercept + gain) / intercept), np.log((1 - intercept - gain) / (1 - intercept))
    odds = np.choose(votes.outcome + 1, [for_second, np.zeros(votes.n_votes), for_first])
    toward_low = np.where(votes.first < votes.second, 1.0, -1.0) * votes.weights * odds
    found: Floats = expit(sums(games.pair, toward_low, games.n_pairs))
    return found
