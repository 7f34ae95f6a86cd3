"""The command line: arguments in, exit code out. Nothing heavy is imported before a command runs."""

from __future__ import annotations

from crowdwise.cli.app import app, main

__all__ = ["app", "main"]
