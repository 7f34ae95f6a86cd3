"""Simulated campaigns: true classes, annotators with known confusion matrices, and their votes."""

from crowdwise.simulate.campaign import Simulation, simulate
from crowdwise.simulate.families import FAMILIES

__all__ = ["FAMILIES", "Simulation", "simulate"]
