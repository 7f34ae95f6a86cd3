"""Sequences of tokens tagged by several annotators: tags and spans with confidence."""
