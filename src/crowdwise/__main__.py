"""``python -m crowdwise`` is the command ``crowdwise``."""

from __future__ import annotations

from crowdwise.cli import main

if __name__ == "__main__":
    main()
