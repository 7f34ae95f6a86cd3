"""Members of groups in a fit to fused votes: how many votes they gave, and how good each of them is by its labels.

Fused votes (`crowdwise.trust.crowd.fusion`) know groups alone. Their fit has labels that no group outvotes; by these every
member can be judged as anybody else: expected counts of confusions under the posterior of the fused fit,

    counts_akl = sum over the votes e of member a with label l of q[item of e, k]          and one pseudo-vote per row
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Integers
from crowdwise.parts.annotators.model import DirichletConfusion, counts_of

__all__ = ["counted", "judged"]


def judged(fused: Result, votes: Annotations, code: Integers) -> Result:
    """The fit to fused votes as a result about single annotators.

    Labels and posterior are those of `fused`. Annotators who stand alone keep their matrices, members get those of their own
    votes under its posterior.

    Parameters
    ----------
    fused : Result
        Fitted to ``fusion.fused(votes, code)``.
    code : [A]
        Group of every annotator of `votes`, -1 for those who stand alone; groups of `crowdwise.trust.crowd.fusion.met`.
    """
    alone = code < 0
    # Beside the counts, one pseudo-vote per row, divided evenly, as in every plug-in estimate.
    beta_alk = counts_of(votes, fused.model_posterior) + 1 / votes.n_classes
    n_alone = int(alone.sum())
    size = fused.concentration[:n_alone].sum(axis=2, keepdims=True)
    beta_alk[alone] = (fused.confusion[:n_alone] * size).transpose(0, 2, 1)
    prior = np.full((1, votes.n_classes, votes.n_classes), 1 / votes.n_classes)
    votes = replace(votes, gold=fused.votes.gold)
    return replace(fused, votes=votes, annotators=DirichletConfusion(prior, beta_alk), history=None)


def counted(people: pl.DataFrame, votes: Annotations, code: Integers, names: Sequence[str], labels: Integers) -> pl.DataFrame:
    """A table of the annotators of fused votes in which groups have as many votes as their members gave.

    `agreement` is then the share of these votes that equal the label.

    Parameters
    ----------
    code : [A]
        Group of every annotator of `votes`, as in `judged`.
    names : [J]
        What the groups are called as annotators.
    labels : [N]
        Class code of the label of every item.
    """
    code_e = code[votes.annotator]
    theirs = code_e >= 0
    hit = votes.label[theirs] == labels[votes.item[theirs]]
    n_votes, agree = (segment_sum(code_e[theirs], of, len(names)) for of in (None, hit.astype(float)))
    members = pl.DataFrame({"annotator": list(names), "n": n_votes.astype(np.int64), "share": agree / n_votes})
    joined = people.join(members, on="annotator", how="left", maintain_order="left")
    return joined.with_columns(n_votes=pl.coalesce("n", "n_votes"), agreement=pl.coalesce("share", "agreement")).drop(
        "n", "share"
    )
