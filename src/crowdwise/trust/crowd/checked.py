"""The check for shared errors in one line: what the command line does after every fit."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

from crowdwise.engines.independence import find
from crowdwise.engines.readings import SharedErrors
from crowdwise.errors import DataWarning, listed
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import aggregators
from crowdwise.trust.crowd.cautious import believed, refitted
from crowdwise.trust.crowd.dependence import settled
from crowdwise.trust.fitted_method import method_of

__all__ = ["check"]


def check(fit: Any, *, trusted: Collection[Any] = ()) -> Result:
    """Look for annotators who share errors; where there are some, warn, and return the result with lower confidence.

    Labels stay. Without such groups it is the result itself. `fit` alone never looks: the search takes time that repeated
    fits should not, and what to do about groups is for the caller to decide (`crowdwise.trust.crowd.dependence`).

    Parameters
    ----------
    fit : Result or fitted estimator
        Of votes for classes. Of a classifier, only the warning: its confidence stays.
    trusted : annotators, optional
        Known to share no errors; they, and known labels, choose between readings of the votes.

    Warns
    -----
    DataWarning
        Who seems to share errors.

    Examples
    --------
    >>> import crowdwise
    >>> model = crowdwise.DawidSkene().fit(crowdwise.datasets.demo().votes)
    >>> crowdwise.crowd.check(model) is model.result_
    True
    """
    result: Result = getattr(fit, "result_", fit)
    # A classifier would have to be trained again, on features that a result does not hold.
    again = method_of(result) in aggregators()
    found = find(result.votes)
    found = settled(result, found, trusted) if again else found
    if not found:
        return result
    # What is known may prefer a reading without groups and leave another beside it.
    first, *others = sorted(found.readings, key=lambda reading: not reading.groups)
    groups = "; ".join(_who(group, result) for group in first.groups[:3])
    other = "" if not others else "others do" if others[0].groups else "nobody does"
    also = other and f", and the votes can also be read so that {other}"
    words = (
        f"annotators seem to share errors: {groups}{also}. Labels are as fitted, "
        f"{'with lower' if again else 'and so is the'} confidence; crowdwise.crowd.dependence.find has the groups, and "
        "fusion.fused counts them as one"
    )
    warnings.warn(words, DataWarning, stacklevel=2)
    if not again:
        return result
    return believed(result, (refitted(result, result.votes, reading).posterior_ for reading in found.readings))


def _who(group: SharedErrors, result: Result) -> str:
    return f"{listed([str(name) for name in group.names(result.votes)], 5)} ({group.share:.0%} of the votes)"
