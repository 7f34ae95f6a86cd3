"""`Estimator`: what every method is, whatever answers it takes. Settings in, one frozen outcome out.

Follows scikit-learn's protocol (constructor stores settings, `get_params`, `set_params`, `clone`, fitted names end in `_`)
without importing scikit-learn, which would cost more than most fits.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.errors import NotFittedError, SettingError, did_you_mean
from crowdwise.estimator.documentation import document
from crowdwise.estimator.registry import METHODS, Method
from crowdwise.estimator.settings import check_settings
from crowdwise.estimator.storage import save
from crowdwise.kernels.types import Array, Floats

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    import polars as pl
    from typing_extensions import Self


__all__ = ["Estimator"]


# Methods named in a refusal.
_MOST_NAMED = 5


class Estimator:
    """Base of dataclasses whose fields are settings (see `setting`) and whose `fit` keeps an `Outcome` in `result_`.

    A subclass is ``@dataclass(eq=False, repr=False, kw_only=True)``, so that settings are keywords and estimators hashable.
    """

    #: Name in the registry; a property where one class serves several names.
    name: ClassVar[str]

    # -- settings ------------------------------------------------------------------------------

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        document(cls)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Self:
        """Change settings by name."""
        known = [f.name for f in fields(self)]  # type: ignore[arg-type]
        for name, value in params.items():
            if name not in known:
                hint = did_you_mean(name, known)
                raise SettingError(f"{type(self).__name__} has no setting {name!r}{hint} (it has {', '.join(known)})")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        settings = fields(self)  # type: ignore[arg-type]
        changed = [f"{f.name}={getattr(self, f.name)!r}" for f in settings if not _same(getattr(self, f.name), f.default)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Only scikit-learn calls this, so importing it here costs nobody else."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def _check_fit(self, **given: Any) -> None:
        """Refuse wrong settings, and gold, history or an engine where the registry says that the method takes none.

        A method that is not registered is not restricted.
        """
        check_settings(self)
        method = METHODS.get(self.name)
        for what, value in given.items():
            if method is not None and value is not None and not _takes(method, what):
                raise SettingError(f"{self.name} takes no {what}; leave it out ({_those_that_take(what, method)})")

    # -- what a fit left -----------------------------------------------------------------------

    def _outcome(self) -> Any:
        """What the fit left, or the error that says that there is no fit yet."""
        return self._kept("result_")

    def _fitted(self) -> Any:
        """The outcome, where answers about items are in memory."""
        return self._outcome()

    def _kept(self, name: str) -> Any:
        """A fitted attribute, or the error that says that there is none yet."""
        if name not in vars(self):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(...) first")
        return vars(self)[name]

    @property
    def items_(self) -> Array:
        """Ids of the items, [N]."""
        found: Array = self._fitted().votes.items
        return found

    @property
    def annotators_(self) -> Array:
        """Ids of the annotators, [A]."""
        found: Array = self._outcome().votes.annotators
        return found

    def items_frame(self) -> pl.DataFrame:
        """One row per item, in the order of `items_`."""
        found: pl.DataFrame = self._fitted().items_frame()
        return found

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator, in the order of `annotators_`."""
        found: pl.DataFrame = self._outcome().annotators_frame()
        return found

    @property
    def trace_(self) -> Floats:
        """The bound or objective after every iteration or epoch; empty for methods without one."""
        trace = self._outcome().trace
        return np.sum(list(trace.values()), axis=0) if trace else np.empty(0)

    @property
    def n_iter_(self) -> int:
        """Iterations or epochs run."""
        return int(self._outcome().n_iter)

    @property
    def converged_(self) -> bool:
        """Whether the stopping rule was met."""
        return bool(self._outcome().converged)

    # -- saving and showing --------------------------------------------------------------------

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the fit into `folder` as arrays and JSON, whole or not at all; `crowdwise.load` reads it back."""
        save(self._fitted(), folder, self._members())

    def _members(self) -> dict[str, bytes]:
        """What has to be saved beside the outcome, by name: a trained network, the state of an online method."""
        return {}

    def _restore(self, outcome: Any, members: Mapping[str, bytes], network: Any = None) -> None:
        """Take over what `_members` saved; settings and `result_` are there already."""
        if network is not None:
            raise SettingError(f"{self.name} makes its network itself, or has none; leave network= out")

    def _repr_html_(self) -> str:
        from crowdwise.data.markup import plain

        try:
            found: str = self._fitted()._repr_html_()
        except NotFittedError:
            return f"<code>{plain(repr(self), 2000)}</code>"
        return found

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # Notebooks ask for this first, and scikit-learn's shows a diagram of the settings alone.
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


if TYPE_CHECKING:

    class AnyEstimator(Estimator):
        """An estimator whose class only a name tells: type checkers know what all share, and take the rest as it comes."""

        def fit(self, *args: Any, **options: Any) -> AnyEstimator:
            """Fit; the two signatures are those of the contract."""

        def __getattr__(self, name: str) -> Any: ...


def _same(value: Any, default: Any) -> bool:
    """Whether a setting has its default; arrays and modules never do."""
    return value is default or (isinstance(value, str | int | float) and value == default)


def _those_that_take(what: str, method: Method) -> str:
    """Methods of the same answers that take what this one does not, in words."""
    alike = [other for other in METHODS.values() if (other.answers, other.features) == (method.answers, method.features)]
    able = [other.name for other in alike if _takes(other, what)]
    if not able:
        return f"no method of {method.needs} takes it"
    return f"methods that take it: {', '.join(able[:_MOST_NAMED])}{', ...' if len(able) > _MOST_NAMED else ''}"


def _takes(method: Method, what: str) -> bool:
    """Whether the registry says that the method takes gold, history or an engine."""
    if what == "engine":
        # Engines train classifiers too, and say themselves which.
        return method.shards or bool(method.features and method.answers == "labels")
    return bool(getattr(method, what))
