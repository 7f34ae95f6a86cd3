"""How fast votes lose weight with real crowds: the exponents of `crowdwise.estimator.judgement`, and where they come from."""

from __future__ import annotations

__all__ = ["ANONYMOUS", "CONFIDENCES", "EXPONENTS", "EXPONENT_SD", "EXPONENT_SD_ABOVE", "FEATURES_EXPONENT"]
__all__ += ["FEATURES_TEMPERATURE_SD", "OTHER_EXPONENT", "TEMPERATURE_SD", "TEMPERATURE_SD_ABOVE"]

CONFIDENCES = ("experience", "model")

# The exponent of `consensus` comes from 35 real sets, of which 17 can be had here; these alone would say .46. The others were
# estimated on the 17 by benchmark `experience`, the mean log-loss over sets minimised, and .10 was added: crowds elsewhere
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
    # Its labels are those of its aggregation, by default Dawid-Skene.
    "two-stage": 0.77,
}
# Where nobody knows who voted, votes of people who are often wrong count as much as others, and what people share on an item
# is all that a model could learn. By benchmark `anonymous`, on 14 of the 17 sets without their names. Nothing is added:
# CIFAR-10H, whose votes really are counts and which is not among the 14, asks for .60 to .67 from three votes per item on.
ANONYMOUS: dict[str, float] = {"consensus": 0.68}
# For classifiers that learn from features and votes: by benchmark `classifier_experience`, six of them on six sets with three
# seeds, the mean log-loss over sets minimised; .56 to .72 without one of the sets. Nothing is added: .76 was worse here, and
# there are no sets elsewhere to say more.
FEATURES_EXPONENT = 0.66
# Spread over crowds of the log of the temperature, by the same benchmark: how sure a classifier is wrongly has little to do
# with how many votes there are. .30 to .50 without one of the sets.
FEATURES_TEMPERATURE_SD = 0.46
# For methods that are not in the table: the median of those in it that are models.
OTHER_EXPONENT = 0.77
# Spread of the best exponent over sets, all in all, and of the half above the shipped one: crowds that are less dependent than
# most differ more from it than those that are more so. The 90th percentile of the 17 sets lies .135 above the common exponent,
# which is where a normal distribution with the second spread has it.
EXPONENT_SD, EXPONENT_SD_ABOVE = 0.2, 0.105
# Spread over crowds of the log of the temperature beside that of the exponent, all in all and of the half above: an exponent
# alone would make no crowd differ where items have one or two votes. By benchmark `stop_truth`, from what 68 campaigns
# with dawid-skene on the 17 sets asked for between the first look at which most items have two votes and four votes per item.
# Left out one at a time, sets move the first to .26 to .34 and the second to .17 to .29.
TEMPERATURE_SD, TEMPERATURE_SD_ABOVE = 0.32, 0.26
