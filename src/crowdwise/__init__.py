"""crowdwise: labels you can trust from the noisy votes of many annotators.

>>> import crowdwise
>>> votes = crowdwise.Annotations.from_arrays(
...     item=[1, 1, 1, 2, 2, 2], annotator=["x", "y", "z"] * 2, label=["cat", "cat", "dog", "dog", "dog", "dog"])
>>> crowdwise.make("dawid-skene").fit(votes).labels_.tolist()
['cat', 'dog']
"""

import lazy_loader

__version__ = "0.2.0.dev0"

# Every public name stands in `__init__.pyi` and is loaded on first use, so that `import crowdwise` and `--help` stay fast.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]


def __getattr__(name: str) -> object:
    """Load a public name; one that there is not is refused with the nearest, and with where names went."""
    if name in __all__ or name.startswith("_"):
        return _load(name)
    from crowdwise.errors import did_you_mean

    hint = did_you_mean(name, __all__)
    raise AttributeError(f"crowdwise has no {name!r}{hint} (names that changed stand in the release notes of 0.2.0)")


# Lines of the registry, which import nothing of the methods they name.
import crowdwise.methods.catalogue  # noqa: E402
import crowdwise.trust.catalogue  # noqa: E402, F401
