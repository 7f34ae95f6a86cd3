"""Readers of platform exports, a module each; `crowdwise.io.formats` says how their files are recognised."""
