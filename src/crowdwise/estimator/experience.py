"""How sure labels may be: what experience with real crowds makes of a model's posterior.

    q_n proportional to p_n^(1 / T_n),   T_n = (votes on n)^gamma

p is the posterior of the model. People who vote on the same item share mistakes, so that votes say less than models of
independent annotators believe, and the more votes, the less each. gamma, the *exponent* of a method, minimises the mean
log-loss over real sets with known labels. It is a statement about crowds in general: of this crowd only checked labels can
tell (`crowdwise audit`). On truly independent votes it is too cautious; `confidence="model"` leaves the posterior as it is.

Votes that are counted (`majority` and its relatives) know hard zeros, which no temperature can move; there one more vote is
counted first, divided by the class shares.
"""

from __future__ import annotations

__all__ = ["CONFIDENCES", "EXPONENTS", "EXPONENT_SD", "EXPONENT_SD_ABOVE", "OTHER_EXPONENT"]

CONFIDENCES = ("experience", "model")

# The exponent of `consensus` comes from 35 real sets, of which 17 can be had here; these alone would say .46. The others were
# estimated on the 17 by `benchmarks/experience.py`, the mean log-loss over sets minimised, and .10 was added: crowds elsewhere
# are more dependent than these. Left out one at a time, sets move most exponents by .03 or less.
EXPONENTS: dict[str, float] = {
    "consensus": 0.55,
    "hierarchical-dawid-skene": 0.81,
    "majority": 0.00,
    "wawa": 0.00,
    "zbs": 0.00,
    "dawid-skene": 0.77,
    "one-coin": 0.79,
    "confusion-vector": 0.75,
    "glad": 0.91,
    "mace": 0.76,
    "bayes-gc": 0.83,
    "group-dawid-skene": 0.79,
    "group-vote": 0.00,
    "belief-propagation": 0.78,
    "mean-field": 0.80,
    "kos": 0.69,
    "ebcc": 0.79,
    "spectral-ds": 0.77,
    "tensor-admm": 0.79,
    "multi-spa": 0.77,
    "cnmf": 0.77,
    "sym-nmf": 0.80,
    "eigen": 0.74,
    "pgd": 0.79,
    "m-msr": 0.82,
    "minimax-entropy": 0.63,
    "m3v": 0.75,
    "cbcc": 0.94,
    "worker-cluster": 0.73,
    "ordinal-binary": 0.70,
    "cumulative-link": 0.55,
    "online-em": 0.63,
    "streaming-ds": 0.62,
}
# For methods that are not in the table: the median of those in it that are models.
OTHER_EXPONENT = 0.77
# Spread of the best exponent over sets, all in all, and of the half above the shipped one: crowds that are less dependent than
# most differ more from it than those that are more so. The 90th percentile of the 17 sets lies .135 above the common exponent,
# which is where a normal distribution with the second spread has it.
EXPONENT_SD, EXPONENT_SD_ABOVE = 0.2, 0.105
