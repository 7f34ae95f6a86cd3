from __future__ import annotations

import inspect
import pydoc
from dataclasses import dataclass

from crowdwise.estimator.estimator import document, setting


class Base:
    """A base without settings."""

    def __init_subclass__(cls) -> None:
        document(cls)


@dataclass(eq=False, repr=False, kw_only=True)
class Method(Base):
    """Guess.

    More about guessing.

    Notes
    -----
    Nobody should.
    """

    tol: float = setting(1e-6, "Stop here.", above=0)


@dataclass(eq=False, repr=False, kw_only=True)
class Better(Method):
    """Guess again."""

    tries: int = setting(3, "How often to guess.", low=1, whole=True)


@dataclass(eq=False, repr=False, kw_only=True)
class Silent(Method):
    tries: int = setting(3, "How often to guess.", low=1, whole=True)


def test_the_section_stands_before_the_notes_and_says_kind_default_and_meaning() -> None:
    assert inspect.getdoc(Method) == (
        "Guess.\n\nMore about guessing.\n\nParameters\n----------\ntol : float, default 1e-06\n    Stop here.\n\n"
        "Notes\n-----\nNobody should."
    )


def test_a_subclass_lists_what_it_inherits_too() -> None:
    assert Better.__doc__ == (
        "Guess again.\n\nParameters\n----------\ntol : float, default 1e-06\n    Stop here.\n"
        "tries : int, default 3\n    How often to guess."
    )
    assert Better().__doc__ == Better.__doc__


def test_help_shows_it() -> None:
    assert "tries : int, default 3" in pydoc.plain(pydoc.render_doc(Better))


def test_a_class_without_settings_or_docstring_stays_as_it_is() -> None:
    assert Base.__doc__ == "A base without settings."
    assert not (Silent.__doc__ or "").startswith("Guess")
