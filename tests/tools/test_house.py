"""The figures of `make house`, on small made-up packages where each can be counted by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tools import house, house_runs

TOOL = Path(house.__file__)


def build(folder: Path, **files: str) -> Path:
    """Write a package `crowdwise`, with files named like `alpha__one` for alpha/one.py; return its src folder."""
    (folder / "crowdwise").mkdir(parents=True)
    (folder / "crowdwise" / "__init__.py").write_text("")
    for name, text in files.items():
        path = folder / "crowdwise" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.parent.joinpath("__init__.py").touch()
        path.write_text(dedent(text))
    return folder


def function(name: str, lines: int, docstring: str = "") -> str:
    """Return a function of so many lines besides its docstring."""
    return f"def {name}():\n{docstring}" + "    x = 1\n" * (lines - 1)


def test_lines_and_modules_per_room_and_doors(tmp_path: Path) -> None:
    src = build(tmp_path, alpha__one="x = 1\ny = 2\n", alpha__two="# a comment\n\nz = 3\n", base="b = 1\n")
    (src / "crowdwise" / "__init__.py").write_text('"""Top."""\n')
    (src / "crowdwise" / "__init__.pyi").write_text("a: int\nb: int\n")
    (src / "crowdwise" / "__main__.py").write_text("pass\n")
    found = house.read_house(src)
    assert {name: (room["modules"], room["lines"]) for name, room in found["rooms"].items()} == {
        "alpha": (3, 5),  # with its empty __init__
        "__init__": (1, 3),  # one line and two of the stub
        "base": (1, 1),
        "__main__": (1, 1),
    }
    assert (found["doors"], found["modules"], found["lines"]) == (2, 6, 10)


def test_rooms_known_each_under_its_strongest_kind(tmp_path: Path) -> None:
    src = build(
        tmp_path,
        alpha__one="""
            from typing import TYPE_CHECKING
            import numpy
            from crowdwise import base
            from crowdwise.alpha import two
            if TYPE_CHECKING:
                from crowdwise.base import thing
                from crowdwise.beta import three
                from crowdwise.delta import five
            else:
                import crowdwise.gamma
            def late():
                from crowdwise.beta.three import other
                if TYPE_CHECKING:
                    import crowdwise.delta
                return "crowdwise.epsilon:Name", "zeta.six", "eta", "beta.three", f"crowdwise.{late}"
            """,
        alpha__two="",
        base="",
        beta__three="from crowdwise import __version__",
        gamma="",
        delta__five="",
        epsilon="",
        zeta__six="",
        eta="",
    )
    rooms = house.read_house(src)["rooms"]
    kinds = {name: {kind: room[kind] for kind in house.KINDS if room[kind]} for name, room in rooms.items()}
    assert kinds == {
        "alpha": {"loading": ["base", "gamma"], "lazy": ["beta"], "types": ["delta"], "string": ["epsilon", "zeta"]},
        "beta": {"loading": ["__init__"]},
    } | {name: {} for name in ("__init__", "base", "gamma", "delta", "epsilon", "zeta", "eta")}


def test_cycles_with_lazy_imports_but_not_those_for_types(tmp_path: Path) -> None:
    src = build(
        tmp_path,
        alpha__one="import crowdwise.beta.one",
        beta__one="def late():\n    import crowdwise.alpha.two",
        alpha__two="from crowdwise.alpha import one",
        gamma="import crowdwise.alpha.one\nimport crowdwise.delta",
        delta="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import crowdwise.gamma",
        epsilon__one="import crowdwise.zeta.one",
        epsilon__two="",
        zeta__one="import crowdwise.epsilon.two",
    )
    found = house.read_house(src)
    assert found["room_cycles"] == [["alpha", "beta"], ["epsilon", "zeta"]]
    assert found["module_cycles"] == [["crowdwise.alpha.one", "crowdwise.alpha.two", "crowdwise.beta.one"]]


def test_cycles_keeps_components_apart() -> None:
    edges = {"a": "b", "b": "c", "c": "ad", "d": "e", "e": "d", "f": "f", "g": "a"}
    assert house.cycles(edges) == [["a", "b", "c"], ["d", "e"]]


def test_functions_are_measured_without_docstring_and_decorators(tmp_path: Path) -> None:
    src = build(
        tmp_path,
        alpha='''
            class Thing:
                @property
                def long(self):
                    """One line,
                    and another.
                    """
                    def inner():
                        return 1

                    return inner
            ''',
        cli__app=function("run", 61) + function("almost", 60, '    """Say."""\n'),
        beta=function("other", 62),
    )
    found = house.read_house(src)
    measured = [(entry["name"], entry["lines"], entry["where"]) for entry in found["longest_functions"]]
    assert measured == [
        ("other", 62, "crowdwise/beta.py:1"),
        ("run", 61, "crowdwise/cli/app.py:1"),
        ("almost", 60, "crowdwise/cli/app.py:62"),
        ("long", 5, "crowdwise/alpha.py:4"),
        ("inner", 2, "crowdwise/alpha.py:8"),
    ]
    assert found["long_functions"] == 2
    assert found["cli"]["lines"] == 61 + 61
    assert [entry["name"] for entry in found["cli"]["long_functions"]] == ["run"]


def test_ten_longest_functions_and_modules_above_the_limit(tmp_path: Path) -> None:
    many = "".join(function(f"f{lines}", lines) for lines in range(2, 14))
    found = house.read_house(build(tmp_path, alpha=many, beta="x = 1\n" * 300, gamma="x = 1\n" * 301))
    assert [entry["lines"] for entry in found["longest_functions"]] == [13, 12, 11, 10, 9, 8, 7, 6, 5, 4]
    assert found["long_modules"] == {"crowdwise/gamma.py": 301}


def test_private_names_imported(tmp_path: Path) -> None:
    src = build(
        tmp_path,
        alpha__one="""
            from crowdwise.alpha.two import _near, public
            from crowdwise.beta.three import __version__, _far, public
            from elsewhere import _foreign
            def late():
                from crowdwise.beta._hidden import public
            """,
        alpha__two="",
        beta__three="",
        beta___hidden="",
    )
    assert house.read_house(src)["private"]["imports"] == {
        "across rooms": [
            "crowdwise/alpha/one.py:3 crowdwise.beta.three _far",
            "crowdwise/alpha/one.py:6 crowdwise.beta._hidden public",
        ],
        "within a room": ["crowdwise/alpha/one.py:2 crowdwise.alpha.two _near"],
    }


def test_private_attributes_by_who_defines_them(tmp_path: Path) -> None:
    src = build(
        tmp_path,
        alpha__one="""
            class Mine:
                _level: int = 0
                def _method(self):
                    self._own = self._far
                    return super()._far, type(self)._far
            def use(other, module):
                other._level, other._method(), other._own  # defined above
                other.public, other.__dict__, other._replace(x=1)  # not private
                other._near
                other._far = 1
                getattr(other, "_far"), getattr(other, "public"), getattr(other, use)
                module._helper()
                other._both
                other._nobody
            """,
        alpha__two="class Near:\n    def _near(self): ...\n    _both = 1\n",
        beta="class Far:\n    def __init__(self):\n        self._far, self._both = 1, 2\ndef _helper(): ...\n",
    )
    assert house.read_house(src)["private"]["attributes"] == {
        "across rooms": [
            "crowdwise/alpha/one.py:11 _far",
            "crowdwise/alpha/one.py:12 _far",
            "crowdwise/alpha/one.py:13 _helper",
        ],
        "within a room": ["crowdwise/alpha/one.py:10 _near", "crowdwise/alpha/one.py:14 _both"],
        "of other libraries": ["crowdwise/alpha/one.py:15 _nobody"],
    }


def test_a_function_of_the_module_does_not_excuse_an_attribute_of_that_name(tmp_path: Path) -> None:
    src = build(
        tmp_path, alpha="def _fit(): ...\ndef use(other):\n    other._fit()\n", beta="class A:\n    def _fit(self): ...\n"
    )
    assert house.read_house(src)["private"]["attributes"]["across rooms"] == ["crowdwise/alpha.py:3 _fit"]


COMMAND_LINE = """
    import sys, threading
    from crowdwise import importing, unused
    from crowdwise.work import in_thread

    def main():
        from crowdwise.late import value
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
        words = sys.argv[1:]
        assert open(words[1]).readline() == "item,annotator,label\\n"
        if words[0] == "train":
            assert words[words.index("-m") + 1] == "raykar"
            print("Error: no features", file=sys.stderr)
            raise SystemExit(2)
        raise SystemExit(0)
    """


def test_modules_touched_are_those_whose_functions_run_in_any_thread(tmp_path: Path) -> None:
    src = build(
        tmp_path,
        cli=COMMAND_LINE,
        work="def in_thread():\n    from crowdwise import further\n    further.Class().method()\n",
        further="class Class:\n    def method(self): ...\n",
        importing="def decorate(): ...\ndecorate()\n",
        unused="class Body:\n    x = 1\ndef never(): ...\n",
        late="from crowdwise.importing import decorate\nvalue = [decorate() for _ in range(2)]\n",
        unseen="",
    )
    found = house_runs.collect(src)
    assert found["aggregate"] == {
        "touched": ["crowdwise/cli.py", "crowdwise/further.py", "crowdwise/work.py"],
        # Called from the body of a module; before Python 3.12 a list comprehension is a function too.
        "only_importing": ["crowdwise/importing.py"] + (["crowdwise/late.py"] if sys.version_info < (3, 12) else []),
        "imported": 7,  # the package, cli, work, further, importing, unused, late
    }
    assert found["train"] == {"error": "exit code 2: Error: no features"}
    assert "LookupError: no mapping to methods" in found["package"]["error"]
    lines = house.sections_of_runs(found)
    assert lines["TRAIN FAILED"] == ["exit code 2: Error: no features"]


METHODS = """
    class Method:
        def __init__(self, made): self.made = made
        @property
        def cls(self): return self.made()

    class One:
        def fit(self, votes, gold=None, *, progress: bool = False): return self
    class Same:
        def fit(self, votes: list, gold=1, *, progress=True) -> int: return 3
    class Keyword:
        def fit(self, votes, *, gold=None, progress=False): return self
    class Loose(One):
        def fit(self, X, *rest, **more): return self

    def missing(): raise ModuleNotFoundError("no torch")

    FEW = {"one": Method(lambda: One)}
    EVERY = FEW | {"same": Method(lambda: Same), "keyword": Method(lambda: Keyword), "loose": Method(lambda: Loose),
                   "heir": Method(lambda: type("Heir", (One,), {})), "gone": Method(missing)}
    SETTINGS = {str(n): n for n in range(20)}
    """


@pytest.mark.parametrize("place", ["learn", "estimator"])
def test_fit_signatures_and_public_names(tmp_path: Path, place: str) -> None:
    src = build(tmp_path, **{f"{place}__registry": METHODS})
    (src / "crowdwise" / "__init__.py").write_text(
        "__all__ = ['b', 'a', '__version__']\na = b = c = 1\n__version__ = '0'\n_d = 2\n"
    )
    found = house_runs.fresh(src, "describe")
    assert found == {
        "all": ["__version__", "a", "b"],
        "dir": ["a", "b", "c"],
        "registry": f"crowdwise.{place}.registry.EVERY",
        "methods": 6,
        "signatures": {
            "fit(votes, gold, *, progress)": ["one", "same", "heir"],
            "fit(votes, *, gold, progress)": ["keyword"],
            "fit(X, *rest, **more)": ["loose"],
        },
        "unavailable": {"gone": "ModuleNotFoundError: no torch"},
    }


def run_tool(*words: str | Path) -> str:
    done = subprocess.run([sys.executable, TOOL, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_prints_text_or_json(tmp_path: Path) -> None:
    src = build(tmp_path, alpha="import crowdwise.beta\n", beta="import crowdwise.alpha\n", cli__app=function("run", 70))
    text = run_tool("--src", src, "--static")
    for line in (
        "ROOMS: 3 doors (not __init__, __main__), 5 modules, 72 lines",
        "  cli               2 modules     70 lines",
        "ROOMS KNOWN BY EACH ROOM: 0 know more than 10 others (none)",
        "  alpha           1  loading: beta",
        "CYCLES AMONG ROOMS: 1 (lazy imports count, imports for types alone do not)",
        "  2: alpha beta",
        "    70  crowdwise/cli/app.py:1 run",
        "COMMAND LINE: 70 lines, 1 functions above 60 lines",
        "PRIVATE ATTRIBUTES: 0 across rooms, 0 within a room, 0 of other libraries",
    ):
        assert line in text.splitlines()
    assert "TOUCHED" not in text
    found: dict[str, Any] = json.loads(run_tool("--src", src, "--static", "--json"))
    assert found == house.read_house(src) | {"runs": {}}


def test_a_folder_without_the_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no package crowdwise in"):
        house.read_house(tmp_path)
