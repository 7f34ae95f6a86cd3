"""Settings by name: scikit-learn's protocol for every estimator here, without importing scikit-learn."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from crowdwise.errors import NotFittedError, SettingError, did_you_mean

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Configured", "FitAccount"]


class Configured:
    """Base of dataclasses whose fields are settings (see `crowdwise.estimator.settings.setting`)."""

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
        changed = [f"{f.name}={getattr(self, f.name)!r}" for f in settings if getattr(self, f.name) is not f.default]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Only scikit-learn calls this, so importing it here costs nobody else."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def _kept(self, name: str) -> Any:
        """A fitted attribute, or the error that says that there is none yet."""
        if name not in vars(self):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(...) first")
        return vars(self)[name]


class FitAccount(Configured):
    """Base of methods whose frozen `result_` says how the fit went."""

    @property
    def trace_(self) -> Any:
        """The objective after every iteration."""
        return self._kept("result_").trace

    @property
    def n_iter_(self) -> int:
        """Iterations run."""
        return int(self._kept("result_").n_iter)

    @property
    def converged_(self) -> bool:
        """Whether the stopping rule was met."""
        return bool(self._kept("result_").converged)
