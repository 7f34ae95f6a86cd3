"""Simulated campaigns: true classes, annotators with known confusion matrices, and their votes."""

from crowdwise.data.simulate.campaign import Simulation, simulate
from crowdwise.data.simulate.families import FAMILIES

__all__ = ["FAMILIES", "Simulation", "simulate"]
