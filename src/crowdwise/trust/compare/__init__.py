"""Several methods on the same votes: measured against true labels where they are known, and by held-out votes in any case.

`compare` gives a frame with a row per method; `comparison` also the intervals of every measure, the paired differences to
the best method, and how far the methods agree.
"""

from __future__ import annotations

from crowdwise.trust.compare.choose import DEFAULT_CLASSIFIERS, DEFAULT_METHODS
from crowdwise.trust.compare.run import compare, comparison
from crowdwise.trust.compare.table import Comparison

__all__ = ["DEFAULT_CLASSIFIERS", "DEFAULT_METHODS", "Comparison", "compare", "comparison"]
