"""Votes from files and to files: tidy tables, matrices and the exports of labelling platforms."""

from __future__ import annotations

from crowdwise.io.atomic import replacing
from crowdwise.io.converter import convert
from crowdwise.io.destinations import DESTINATIONS
from crowdwise.io.features import read_features
from crowdwise.io.reader import FORMATS, detect, read, read_gold
from crowdwise.io.writer import write_table

__all__ = ["DESTINATIONS", "FORMATS", "convert", "detect", "read", "read_features", "read_gold", "replacing", "write_table"]
