"""Every method by name, with what it can: the one list that the command line, `auto`, the contract tests and the docs read.

Rooms that hold methods register them in a `catalogue` module of their own, as lines that import nothing. So this room names no
higher one, and a class is loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from crowdwise.errors import MissingExtraError, SettingError, did_you_mean

if TYPE_CHECKING:
    from crowdwise.estimator.aggregator import Aggregator
    from crowdwise.estimator.estimator import AnyEstimator

__all__ = [
    "METHODS",
    "Method",
    "aggregators",
    "classifiers",
    "find",
    "label_methods",
    "make",
    "make_aggregator",
    "make_classifier",
    "register",
    "select",
    "with_setting",
]


@dataclass(frozen=True)
class Method:
    """One line of the registry.

    Attributes
    ----------
    name, summary, family, reference : str
        What people call it, what it does, whose relative it is, and where it is from.
    path : str
        ``module:Class``, imported when it is asked for.
    answers : str
        Kind of answers it takes: "labels", "partial labels", "label sets", "tags", "ratings", "comparisons" or "similarities".
    features : str
        Features of items it needs: none (""), a "table" of numbers, or "any" that a network can read, images too.
    settings : mapping
        What the name stands for where one class serves several names.
    extra : str
        Optional dependency, as in ``pip install 'crowdwise[torch]'``.
    binary_only, ordered, groups, edges : bool
        Takes two classes only; takes classes that have an order; needs a group for every item; needs edges between items, along
        which `crowdwise.scale.Local` cuts files into shards.
    gold, history : bool
        Takes known answers; takes what is known of annotators from earlier work.
    shards : bool
        Needs nothing of the votes but counts that add up over items, so that an engine can run it (`crowdwise.scale`).
    online : bool
        Takes votes as they come, at the cost of the new ones.
    level : int
        How much it learns of an annotator: 0 nothing, 1 a number or two, 2 a number per class, 3 a confusion matrix.
    per_class : bool
        The numbers of an annotator grow with the classes, not with their square.
    shared_errors : bool
        Counts the votes of annotators who share errors for less than those of independent ones.
    """

    name: str
    path: str
    summary: str
    family: str
    reference: str
    answers: str = "labels"
    features: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    extra: str = ""
    binary_only: bool = False
    ordered: bool = False
    groups: bool = False
    edges: bool = False
    gold: bool = False
    history: bool = False
    shards: bool = False
    online: bool = False
    level: int = 3
    per_class: bool = False
    shared_errors: bool = False

    @property
    def cls(self) -> type[Any]:
        """The estimator class."""
        module, _, name = self.path.partition(":")
        try:
            found: type[Any] = getattr(import_module(module), name)
        except ModuleNotFoundError as problem:
            if problem.name is None or problem.name.startswith("crowdwise"):
                raise
            raise MissingExtraError(
                f"{self.name} needs {problem.name}: pip install 'crowdwise[{self.extra or 'torch'}]'"
            ) from problem
        return found

    @property
    def needs(self) -> str:
        """What `fit` takes, in words."""
        kind = {"labels": "votes", "partial labels": "votes for and against classes", "label sets": "sets of labels",
                "tags": "tags of tokens", "ratings": "numbers", "comparisons": "comparisons",
                "similarities": "same or different answers on pairs"}[self.answers]  # fmt: skip
        kind += " of two classes" if self.binary_only and not self.features else ""
        kind += " of ordered classes" if self.ordered else ""
        kind += ", as they come" if self.online else ""
        more = {"": [], "table": ["a table of features"], "any": ["features or images"]}[self.features]
        more = more + ["a group per item"] * self.groups + ["edges between items"] * self.edges
        return " and ".join([kind, *more]) + (f" (extra: {self.extra})" if self.extra else "")

    def describe(self) -> dict[str, Any]:
        """What it is, and its settings with their defaults under this name; None for settings where an extra is missing."""
        facts = {column: getattr(self, column) for column in ("name", "family", "summary", "needs", "reference")}
        settings = None
        with suppress(MissingExtraError):
            settings = [
                {"name": f.name, "default": self.settings.get(f.name, f.default), "about": f.metadata["about"]}
                for f in fields(self.cls)
            ]
        return facts | {"on_shards": self.shards, "settings": settings}

    def suits(self, n_classes: int) -> bool:
        """Whether the method is made for votes of this many classes."""
        return n_classes <= 2 or not self.binary_only


#: Every registered method by name.
METHODS: dict[str, Method] = {}


def register(methods: Iterable[Method]) -> None:
    """Add methods to the registry; a name that another class has already is refused."""
    for method in methods:
        known = METHODS.setdefault(method.name, method)
        if known.path != method.path:
            raise SettingError(f"there is already a method {method.name!r} ({known.path}); choose another name")


def select(**wanted: Any) -> dict[str, Method]:
    """Methods whose fields have these values, such as ``answers="labels", shards=True``."""
    return {
        name: method
        for name, method in METHODS.items()
        if all(getattr(method, field) == value for field, value in wanted.items())
    }


def label_methods() -> dict[str, Method]:
    """Methods that infer one class per item from votes alone."""
    return select(answers="labels", features="", groups=False, edges=False)


def aggregators() -> dict[str, Method]:
    """Methods that infer one class per item without features: from votes alone, or with edges among their settings."""
    return select(answers="labels", features="", groups=False)


def classifiers() -> dict[str, Method]:
    """Methods that train a classifier on features and votes."""
    return {name: method for name, method in select(answers="labels", groups=False).items() if method.features}


def with_setting(setting: str) -> list[str]:
    """Methods for votes that have this setting, as far as they can be imported."""
    found = []
    for name, method in select(answers="labels").items():
        with suppress(MissingExtraError):
            found += [name] if any(entry.name == setting for entry in fields(method.cls)) else []
    return found


def find(name: str, among: Mapping[str, Method] | None = None, noun: str = "method") -> Method:
    """The line of a method; an unknown name is refused with the nearest known one."""
    among = METHODS if among is None else among
    if name not in among:
        raise SettingError(f"no {noun} {name!r}{did_you_mean(name, list(among))} (there are {', '.join(among)})")
    return among[name]


def _load_installed(name: str) -> None:
    """Let installed packages register an unknown name: entry points of "crowdwise.methods" are modules that register."""
    if name not in METHODS:
        from importlib.metadata import entry_points

        for entry in entry_points(group="crowdwise.methods"):
            entry.load()


def make(name: str, **settings: Any) -> AnyEstimator:
    """Build any registered method by name with these settings.

    Examples
    --------
    >>> make("dawid-skene", tol=1e-8)
    DawidSkene(tol=1e-08)
    """
    _load_installed(name)
    method = find(name)
    made: AnyEstimator = method.cls().set_params(**method.settings).set_params(**settings)
    return made


def make_aggregator(name: str, **settings: Any) -> Aggregator:
    """Build a label-only method by name with these settings."""
    _load_installed(name)
    find(name, aggregators())
    return cast("Aggregator", make(name, **settings))


def make_classifier(name: str, **settings: Any) -> Any:
    """Build a classifier by name with these settings; a label-only method is refused with the verb that takes it."""
    # One word on the command line: `train --method auto` chooses among classifiers.
    name = "auto-classifier" if name == "auto" else name
    if name in label_methods():
        raise SettingError(f"{name} takes votes alone: use it with `aggregate`, or as aggregator=... of two-stage")
    find(name, {**classifiers(), **select(answers="labels", features="any")}, "classifier")
    return make(name, **settings)
