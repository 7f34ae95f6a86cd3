"""Names of methods: what is unknown here may be registered by an installed package."""

from __future__ import annotations

import importlib.metadata

import pytest

from crowdwise.errors import SettingError
from crowdwise.estimator.registry import METHODS, Method, find, label_methods, make, make_aggregator, register, select


class Entry:
    """An entry point that registers a method, as a module of an installed package does when it is loaded."""

    def load(self) -> None:
        register([Method("from-elsewhere", METHODS["majority"].path, "", "vote", "")])


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "from-elsewhere", METHODS["majority"])
    monkeypatch.delitem(METHODS, "from-elsewhere")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [Entry()] if group == "crowdwise.methods" else [])


@pytest.mark.parametrize("build", [make, make_aggregator])
def test_methods_of_installed_packages_are_found_by_name(installed: None, build: type) -> None:
    assert build("from-elsewhere").name == "majority"


def test_an_unknown_name_is_refused_with_the_nearest(installed: None) -> None:
    with pytest.raises(SettingError, match="no method 'dawid-skeen'; did you mean 'dawid-skene'"):
        make_aggregator("dawid-skeen")


def test_a_name_belongs_to_one_class() -> None:
    with pytest.raises(SettingError, match="already a method 'majority'"):
        register([Method("majority", "elsewhere:Other", "", "", "")])
    register([METHODS["majority"]])  # the same line again does nothing


def test_capabilities_select() -> None:
    assert set(select(shards=True)) <= set(label_methods())
    assert find("raykar").features == "table"
    assert not METHODS["eigen"].suits(3)


@pytest.mark.parametrize(
    ("name", "wrong", "right"), [("dawid-skene", "smothing", "smoothing"), ("crowd-bt", "erors", "errors")]
)
def test_a_mistyped_setting_is_refused_with_the_nearest(name: str, wrong: str, right: str) -> None:
    words = f"has no setting '{wrong}'; did you mean '{right}'"
    with pytest.raises(TypeError, match=words):
        METHODS[name].cls(**{wrong: 1})
    with pytest.raises(SettingError, match=words):
        make(name, **{wrong: 1})


def test_a_method_describes_itself() -> None:
    found = METHODS["crowd-layer-vw"].describe()
    assert (found["name"], found["on_shards"]) == ("crowd-layer-vw", False)
    pytest.importorskip("torch")
    assert {entry["name"]: entry["default"] for entry in found["settings"]}["kind"] == "vector"
