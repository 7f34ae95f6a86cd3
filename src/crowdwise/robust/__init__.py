"""Annotators who cheat, copy, depend on each other or change: detectors over (Result, Annotations)."""
