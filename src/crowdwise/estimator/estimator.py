"""`Estimator`: what every method is, whatever answers it takes. Settings in, one frozen outcome out.

Settings are declared once with `setting`: checked when `fit` starts, shown by `help()`, the command line and the docs. A method
whose mathematics is expensive says up front what a fit will cost (`announce`).

Follows scikit-learn's protocol (constructor stores settings, `get_params`, `set_params`, `clone`, fitted names end in `_`)
without importing scikit-learn, which would cost more than most fits.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import secrets
import warnings
from dataclasses import Field, field, fields, is_dataclass
from numbers import Integral, Real
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.errors import ArgumentError, CostWarning, InputError, NotFittedError, SettingError, did_you_mean
from crowdwise.estimator.registry import METHODS, Method
from crowdwise.estimator.storage import save
from crowdwise.kernels.types import Array, Floats

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    import polars as pl
    from typing_extensions import Self

__all__ = ["Estimator", "announce", "check_settings", "check_tables", "describe_settings", "document", "no_setting"]
__all__ += ["random_state_setting", "seed_of", "setting"]


# -- settings ----------------------------------------------------------------------------------

# Iterations, epochs, parts.
_MOST = 1_000_000


def setting(
    default: Any,
    about: str,
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    whole: bool = False,
    choices: tuple[str, ...] | None = None,
    optional: bool = False,
    free: bool = False,
) -> Any:
    """Declare a setting: its default, one sentence about it, and what is allowed.

    Parameters
    ----------
    low, above : float, optional
        Numbers must be >= low, or > above.
    high : float, optional
        Numbers must be <= high; whole ones are at most a million by default, since nobody would live to see the end of more.
    whole : bool
        Whole numbers only.
    choices : tuple of str, optional
        The allowed words.
    optional : bool
        None is allowed too; the method then chooses.
    free : bool
        Values that are no plain number or word (arrays, mappings, None) are checked by the method.
    """
    high = _MOST if whole and high is None else high
    rule = {"about": about, "low": low, "above": above, "high": high, "whole": whole, "choices": choices}
    rule |= {"optional": optional, "free": free}
    return field(default=default, metadata=rule)


def random_state_setting(about: str) -> Any:
    """Declare `random_state`, by one rule everywhere: a whole number, by default 0, or None for another run every time."""
    return setting(0, about, free=True)


def seed_of(random_state: Any) -> int:
    """The seed itself, or a fresh one; anything else than None and whole numbers from 0 is refused."""
    if random_state is None:
        return secrets.randbits(31)
    if isinstance(random_state, bool) or not isinstance(random_state, Integral) or random_state < 0:
        raise SettingError(f"random_state must be None or a whole number >= 0; got {random_state!r}")
    return int(random_state)


def describe_settings(cls: type) -> list[dict[str, Any]]:
    """Name, default and description of every setting of a method."""
    return [{"name": f.name, "default": f.default, "about": f.metadata["about"]} for f in fields(cls)]


def no_setting(owner: str, name: str, known: list[str]) -> str:
    """Say that there is no such setting, which is like it, and which there are."""
    return f"{owner} has no setting {name!r}{did_you_mean(name, known)} (it has {', '.join(known)})"


def check_settings(estimator: Any) -> None:
    """Raise a `SettingError` that names the setting, its value and the allowed range."""
    for f in fields(estimator):
        _check(type(estimator).__name__, f, getattr(estimator, f.name))
        if f.name == "random_state":
            seed_of(estimator.random_state)  # refuses what is no seed, also where this fit draws nothing


def _check(owner: str, f: Field[Any], value: Any) -> None:
    rule = f.metadata
    here = f"{owner}: {f.name}"
    if isinstance(value, str) and rule["choices"]:
        if value not in rule["choices"]:
            hint = did_you_mean(value, list(rule["choices"]))
            raise SettingError(f"{here} must be one of {', '.join(rule['choices'])}; got {value!r}{hint}")
        return
    if rule["free"] or (rule["optional"] and value is None):
        return
    if rule["choices"]:
        raise SettingError(f"{here} must be one of {', '.join(rule['choices'])}; got {value!r}")
    if isinstance(f.default, bool):
        if not isinstance(value, bool):
            raise SettingError(f"{here} must be true or false; got {value!r}")
        return
    kind = Integral if rule["whole"] else Real
    if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(value):
        wanted = ("None or " if rule["optional"] else "") + ("a whole number" if rule["whole"] else "a finite number")
        raise SettingError(f"{here} must be {wanted}; got {value!r}")
    if rule["low"] is not None and value < rule["low"]:
        raise SettingError(f"{here} must be at least {rule['low']}; got {value!r}")
    if rule["above"] is not None and value <= rule["above"]:
        raise SettingError(f"{here} must be above {rule['above']}; got {value!r}")
    if rule["high"] is not None and value > rule["high"]:
        raise SettingError(f"{here} must be at most {rule['high']:,}; got {value!r}")


_SECTION = re.compile(r"^(?:Parameters|Attributes|See Also|Symbols|Notes|References|Examples)\n-+$", re.MULTILINE)


def document(cls: type[Any]) -> None:
    """Give a class of settings a docstring with a section "Parameters"; call it as the class is made.

    Its fields are known later, once `dataclass` has been at work, so the section is written whenever the docstring is read.
    """
    text = cls.__dict__.get("__doc__")
    if isinstance(text, str):
        cls.__doc__ = _Docstring(text)  # type: ignore[assignment]


class _Docstring:
    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, instance: object, owner: type[Any]) -> str:
        return _with_parameters(owner, inspect.cleandoc(self._text))


def _with_parameters(cls: type[Any], text: str) -> str:
    described = [f for f in fields(cls) if "about" in f.metadata] if is_dataclass(cls) else []
    if not described:
        return text
    lines = ["Parameters", "----------"]
    for f in described:
        kind = f.type if isinstance(f.type, str) else getattr(f.type, "__name__", str(f.type))
        lines += [f"{f.name} : {kind}, default {f.default!r}", indent(fill(f.metadata["about"], 84), "    ")]
    later = _SECTION.search(text)
    end = len(text) if later is None else later.start()
    return "\n\n".join(part for part in (text[:end].rstrip(), "\n".join(lines), text[end:]) if part)


# -- the base of all methods -------------------------------------------------------------------

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

    if not TYPE_CHECKING:  # which know the settings by the fields

        def __new__(cls, *values: Any, **settings: Any) -> Self:
            """Refuse a setting that there is not with the nearest that there is; Python's own message names none."""
            known = [f.name for f in fields(cls)] if is_dataclass(cls) else list(settings)
            for name in settings:
                if name not in known:
                    raise ArgumentError(no_setting(cls.__name__, name, known))
            return super().__new__(cls)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Self:
        """Change settings by name."""
        known = [f.name for f in fields(self)]  # type: ignore[arg-type]
        for name, value in params.items():
            if name not in known:
                raise SettingError(no_setting(type(self).__name__, name, known))
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

    def _check_fit(self, other: Mapping[str, Any] | None = None, /, **given: Any) -> None:
        """Refuse wrong settings, arguments that `fit` has not, and gold, history or an engine where the registry says so.

        A method that is not registered is not restricted.
        """
        check_settings(self)
        if other:
            from crowdwise.estimator.arguments import refusal

            raise ArgumentError(refusal(self, next(iter(other))))
        method = METHODS.get(self.name)
        for what, value in given.items():
            if method is not None and value is not None and not _takes(method, what):
                raise SettingError(f"{self.name} takes no {what}; leave it out ({_those_that_take(what, method)})")
        engine, does = given.get("engine"), "train" if method is not None and method.features else "fit"
        if engine is not None and not hasattr(engine, does):
            some = "crowdwise.scale.Torchrun() or RayTrain()" if does == "train" else "crowdwise.scale.Local() or Ray()"
            raise SettingError(f"engine must be one such as {some}; got {engine!r:.60}")

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
        # Engines train classifiers too, and run on files that were cut along edges; they say themselves which.
        return method.shards or method.edges or bool(method.features and method.answers == "labels")
    return bool(getattr(method, what))


# -- what a fit will cost ----------------------------------------------------------------------

# Vectorised float operations per second that plain numpy reaches on one ordinary core.
_PER_SECOND = 5e8
_SLOW_SECONDS = 60.0


def announce(method: str, *, operations: float, memory: float, advice: str) -> None:
    """Warn before a fit that will take minutes; refuse one that cannot fit into memory.

    Parameters
    ----------
    operations, memory : float
        Foreseen floating-point operations of the whole fit, and bytes held at its peak.
    advice : str
        What to do instead, such as "use dawid-skene, or select fewer annotators".
    """
    available = _memory()
    if memory > available:
        raise InputError(
            f"{method} would need about {memory / 1e9:.0f} GB of memory; this machine has {available / 1e9:.0f} GB; {advice}"
        )
    seconds = operations / _PER_SECOND
    if seconds > _SLOW_SECONDS:
        warnings.warn(
            # Most fits end long before their largest number of iterations, and compiled loops are faster.
            f"{method} may take up to {seconds / 60:.0f} minutes on these votes; {advice}",
            CostWarning,
            stacklevel=4,
        )


def check_tables(n_annotators: int, n_classes: int, n_votes: int) -> None:
    """Refuse votes whose confusion matrices cannot fit into memory: free text taken for labels, as a rule."""
    # A fit holds the matrices, their counts and their logs at once; reports need them for every method.
    memory = 4.0 * 8 * n_annotators * n_classes**2
    if memory > _memory():
        raise InputError(
            f"{n_classes:,} different labels on {n_votes:,} votes: confusion matrices of {n_annotators:,} annotators "
            f"would need about {memory / 1e9:.0f} GB of memory; is this the label column? (name it: label=... or --label)"
        )


def _memory() -> float:
    """Bytes of memory of this machine; infinity where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")
