"""Simulated campaigns: true classes, annotators with known confusion matrices, and their votes."""

from crowdwise.data.simulate.campaign import Simulation, simulate
from crowdwise.data.simulate.families import FAMILIES
from crowdwise.data.simulate.typed import mix_of, range_of

__all__ = ["FAMILIES", "Simulation", "mix_of", "range_of", "simulate"]
