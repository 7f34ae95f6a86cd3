"""Answers to "are these two the same?": clusters of items, and annotators' hit and false-alarm rates."""
