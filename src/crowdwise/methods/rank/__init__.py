"""Scores and preferences from pairwise comparisons: one file per method, over shared solvers."""
