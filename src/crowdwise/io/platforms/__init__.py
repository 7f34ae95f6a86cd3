"""Readers of platform exports, a module each; `crowdwise.io.reader` says how their files are recognised."""
