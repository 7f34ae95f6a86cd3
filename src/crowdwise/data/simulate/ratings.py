"""Simulated values: a crowd with biases, noise, gains and tails, and the truth behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdwise.data.ratings import Ratings
from crowdwise.errors import SettingError
from crowdwise.kernels.types import Floats

__all__ = ["SimulatedValues", "simulate_values"]


@dataclass(frozen=True, eq=False)
class SimulatedValues:
    """Values, and what they were drawn from.

    Attributes
    ----------
    values : Ratings
    truth : [N, D]
    bias : [A, D]
    noise, gain : [A]
    """

    values: Ratings
    truth: Floats
    bias: Floats
    noise: Floats
    gain: Floats


def simulate_values(
    n_items: int = 200,
    n_annotators: int = 30,
    per_item: int = 5,
    *,
    n_dimensions: int = 1,
    bias: float = 0.3,
    noise: float = 0.7,
    noise_spread: float = 0.5,
    tail: float | None = None,
    adversaries: float = 0.0,
    spammers: float = 0.0,
    random_state: int = 0,
) -> SimulatedValues:
    """Draw values of items with standard normal truth.

    Parameters
    ----------
    bias : float
        Standard deviation of annotators' biases.
    noise, noise_spread : float
        Median of annotators' noise, and the standard deviation of its logarithm.
    tail : float, optional
        Degrees of freedom of Student's t noise; Gaussian without.
    adversaries, spammers : float
        Share of annotators who turn the scale round, and who answer anything.
    """
    if per_item > n_annotators:
        raise SettingError(f"per_item must be at most n_annotators, {n_annotators}; got {per_item}")
    rng = np.random.default_rng(random_state)
    truth = rng.normal(size=(n_items, n_dimensions))
    biases = bias * rng.normal(size=(n_annotators, n_dimensions))
    sd = noise * np.exp(noise_spread * rng.normal(size=n_annotators))
    gain = np.ones(n_annotators)
    turned = round(adversaries * n_annotators)
    gain[:turned] = -1.0
    gain[turned : turned + round(spammers * n_annotators)] = 0.0
    item = np.repeat(np.arange(n_items), per_item)
    # The first places of a random order, drawn for some items at a time.
    chosen = [
        np.argsort(rng.random((min(4096, n_items - start), n_annotators)), axis=1)[:, :per_item]
        for start in range(0, n_items, 4096)
    ]
    annotator = np.concatenate(chosen).ravel() if chosen else np.zeros(0, int)
    shape = (len(item), n_dimensions)
    error = rng.normal(size=shape) if tail is None else rng.standard_t(tail, size=shape)
    value = gain[annotator, None] * truth[item] + biases[annotator] + sd[annotator, None] * error
    values = Ratings.from_arrays(item, annotator, value, items=range(n_items))
    seen = values.annotators
    return SimulatedValues(values, truth, biases[seen], sd[seen], gain[seen])
