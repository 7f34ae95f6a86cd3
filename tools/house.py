"""Print the state of the house: sizes, imports, cycles, private accesses, what a command touches, `fit` signatures.

    python tools/house.py                      # this checkout
    python tools/house.py --src other/src      # another one, for a before and after

A room is a package or module directly below `crowdwise`. Lines are all lines of a file, with those of its `.pyi`.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = "crowdwise"
LONG_FUNCTION, LONG_MODULE, MANY_ROOMS = 60, 300, 10
FUNCTION_LINE = "{lines:4}  {where} {name}"
# How a room knows another, the strongest first; only the first two make edges of the graph whose cycles are counted.
KINDS = ("loading", "lazy", "types", "string")
# Documented parts of named tuples, private in spelling alone.
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_field_defaults", "_make"}
OWN = {"self", "cls", "super()", "type(self)", "self.__class__"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Module:
    """A parsed file; `name` is dotted, and a package stands for its `__init__`."""

    name: str
    file: str
    lines: int
    tree: ast.Module

    @property
    def room(self) -> str:
        """The part of the name below the package."""
        return self.name.split(".")[1] if "." in self.name else "__init__"


@dataclass(frozen=True)
class Import:
    """A module of the package that is imported or named, how, where, and the name taken from it."""

    target: str
    kind: str
    line: int
    name: str


def read_modules(src: Path) -> dict[str, Module]:
    """Parse every file of the package below `src`."""
    modules = {}
    for path in sorted((src / PACKAGE).rglob("*.py")):
        name = dotted(path.relative_to(src))
        text, stub = path.read_text(encoding="utf-8"), path.with_suffix(".pyi")
        lines = len(text.splitlines()) + (len(stub.read_text(encoding="utf-8").splitlines()) if stub.exists() else 0)
        modules[name] = Module(name, path.relative_to(src).as_posix(), lines, ast.parse(text))
    return modules


def dotted(path: Path) -> str:
    """Return the name of the module in a file, of a package for its `__init__.py`."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imports(module: Module, known: Collection[str]) -> list[Import]:
    """List the imports of modules of the package, and its modules named in strings; relative imports are banned."""
    found: list[Import] = []

    def add(target: str, kind: str, line: int, name: str = "") -> None:
        target = f"{target}.{name}" if f"{target}.{name}" in known else target
        if target in known and target != module.name:
            found.append(Import(target, kind, line, name))

    def walk(node: ast.AST, kind: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.Import, ast.ImportFrom)):
                for alias in child.names:
                    add(child.module if isinstance(child, ast.ImportFrom) else alias.name, kind, child.lineno, alias.name)
            elif isinstance(child, ast.Constant) and isinstance(child.value, str):
                if "." in child.value:  # a word alone is seldom meant as a module
                    add(f"{PACKAGE}.{child.value.removeprefix(f'{PACKAGE}.').partition(':')[0]}", "string", child.lineno)
            elif isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                walk(ast.Module(child.body, []), "types")
                walk(ast.Module(child.orelse, []), kind)
            else:
                walk(child, "lazy" if isinstance(child, FUNCTIONS) and kind == "loading" else kind)

    walk(module.tree, "loading")
    return found


def knowledge(modules: Mapping[str, Module], found: Mapping[str, list[Import]]) -> dict[str, dict[str, list[str]]]:
    """Say for each room which others it knows, each under its strongest kind."""
    known: dict[str, dict[str, set[str]]] = {module.room: {kind: set() for kind in KINDS} for module in modules.values()}
    for module in modules.values():
        for item in found[module.name]:
            known[module.room][item.kind] |= {modules[item.target].room} - {module.room}
    for of_room in known.values():
        stronger: set[str] = set()
        for kind in KINDS:
            of_room[kind] -= stronger
            stronger |= of_room[kind]
    return {room: {kind: sorted(of_room[kind]) for kind in KINDS} for room, of_room in known.items()}


def cycles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one node, the largest first."""
    reached: dict[str, set[str]] = {}
    for start in edges:
        seen, waiting = set(), [start]
        while waiting:
            new = set(edges.get(waiting.pop(), ())) - seen
            seen |= new
            waiting += new
        reached[start] = seen
    parts = {frozenset(m for m in seen if n in reached.get(m, ())) for n, seen in reached.items() if n in seen}
    return sorted((sorted(part) for part in parts if len(part) > 1), key=lambda part: (-len(part), part))


def functions(module: Module) -> Iterator[dict[str, Any]]:
    """Measure every function from `def` to its end without the docstring; an inner one counts in its outer one too."""
    for node in ast.walk(module.tree):
        if isinstance(node, FUNCTIONS):
            lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node, clean=False) is not None:
                lines -= node.body[0].end_lineno - node.body[0].lineno + 1
            yield {"lines": lines, "where": f"{module.file}:{node.lineno}", "name": node.name, "room": module.room}


def is_private(name: object) -> bool:
    """Whether a name starts with one underscore and is no convention of Python."""
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLE | {"_"}


def bound(body: Iterable[ast.stmt]) -> set[str]:
    """Return the names that statements bind: functions, classes and assigned names."""
    names = {node.name for node in body if isinstance(node, (*FUNCTIONS, ast.ClassDef))}
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        names |= {leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}
    return names


def attributes(module: Module) -> tuple[set[str], list[tuple[str, int]]]:
    """Return the attributes a module defines (in classes, on `self` or `cls`), and its private accesses to other objects."""
    defined, accessed = set(), []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            defined |= bound(node.body)
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if ast.unparse(node.value) not in OWN:
                accessed.append((node.attr, node.lineno))
            elif isinstance(node.ctx, ast.Store):
                defined.add(node.attr)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("attr") and len(node.args) > 1:
            name = getattr(node.args[1], "value", None)  # getattr(other, "_name") and the like
            if is_private(name) and ast.unparse(node.args[0]) not in OWN:
                accessed.append((name, node.lineno))
    return defined, accessed


def private(modules: Mapping[str, Module], found: Mapping[str, list[Import]]) -> dict[str, dict[str, list[str]]]:
    """List private names imported from other modules, and private attributes used that the module itself does not define.

    Who owns an attribute is judged by its name alone: a module of the same room that defines it, otherwise other rooms,
    otherwise other libraries.
    """
    lists: dict[str, dict[str, list[str]]] = {
        "imports": {"across rooms": [], "within a room": []},
        "attributes": {"across rooms": [], "within a room": [], "of other libraries": []},
    }
    for module in modules.values():
        for item in found[module.name]:
            if item.kind != "string" and any(map(is_private, [item.name, *item.target.split(".")])):
                place = "within a room" if modules[item.target].room == module.room else "across rooms"
                lists["imports"][place].append(f"{module.file}:{item.line} {item.target} {item.name}")
    read = {name: attributes(module) for name, module in modules.items()}
    owners: dict[str, set[str]] = defaultdict(set)
    for name, (defined, _) in read.items():
        for attribute in defined | bound(modules[name].tree.body):
            owners[attribute].add(name)
    for name, (defined, accessed) in read.items():
        for attribute, line in sorted(accessed, key=lambda access: access[1]):
            rooms = {modules[owner].room for owner in owners[attribute] - {name}}
            if attribute not in defined:
                place = "within a room" if modules[name].room in rooms else "across rooms" if rooms else "of other libraries"
                lists["attributes"][place].append(f"{modules[name].file}:{line} {attribute}")
    return lists


def read_house(src: Path) -> dict[str, Any]:
    """Collect all figures that need no run."""
    modules = read_modules(src)
    if not modules:
        raise SystemExit(f"no package {PACKAGE} in {src}: give --src the folder that holds it")
    found = {name: imports(module, modules) for name, module in modules.items()}
    known = knowledge(modules, found)
    edges = {name: {item.target for item in items if item.kind in KINDS[:2]} for name, items in found.items()}
    every = sorted((f for module in modules.values() for f in functions(module)), key=lambda f: (-f["lines"], f["where"]))
    above = [f for f in every if f["lines"] > LONG_FUNCTION]
    sizes = Counter(module.room for module in modules.values())
    lines = Counter({room: sum(m.lines for m in modules.values() if m.room == room) for room in sizes})
    return {
        "doors": len(set(sizes) - {"__init__", "__main__"}),
        "modules": len(modules),
        "lines": lines.total(),
        "rooms": {room: {"modules": sizes[room], "lines": n, **known[room]} for room, n in lines.most_common()},
        "room_cycles": cycles({room: of_room["loading"] + of_room["lazy"] for room, of_room in known.items()}),
        "module_cycles": cycles(edges),
        "longest_functions": every[:10],
        "long_functions": len(above),
        "long_modules": {m.file: m.lines for m in sorted(modules.values(), key=lambda m: -m.lines) if m.lines > LONG_MODULE},
        "private": private(modules, found),
        "cli": {"lines": lines["cli"], "long_functions": [f for f in above if f["room"] == "cli"]},
    }


def sections_of_source(house: Mapping[str, Any]) -> dict[str, list[str]]:
    """Lay out what `read_house` found: headings and the lines below them."""
    rooms, cli, sections = house["rooms"], house["cli"], {}
    title = f"ROOMS: {house['doors']} doors (not __init__, __main__), {house['modules']} modules, {house['lines']} lines"
    sections[title] = [f"{name:14}{room['modules']:5} modules {room['lines']:6} lines" for name, room in rooms.items()]
    known = {name: len(room["loading"]) + len(room["lazy"]) for name, room in rooms.items()}
    many = [name for name, n in known.items() if n > MANY_ROOMS]
    title = f"ROOMS KNOWN BY EACH ROOM: {len(many)} know more than {MANY_ROOMS} others ({' '.join(many) or 'none'})"
    sections[title] = ["counted: imports on loading, lazy ones in functions; not counted: for types alone, named in strings"]
    for name, n in sorted(known.items(), key=lambda entry: -entry[1]):
        kinds = "; ".join(f"{kind}: {' '.join(rooms[name][kind])}" for kind in KINDS if rooms[name][kind])
        sections[title].append(f"{name:14}{n:3}  {kinds}".rstrip())
    for what in ("room", "module"):
        parts = house[f"{what}_cycles"]
        title = f"CYCLES AMONG {what.upper()}S: {len(parts)} (lazy imports count, imports for types alone do not)"
        sections[title] = [f"{len(part)}: {' '.join(part)}" for part in parts]
    title = f"FUNCTIONS ABOVE {LONG_FUNCTION} LINES (without docstring): {house['long_functions']}; the ten longest:"
    sections[title] = [FUNCTION_LINE.format(**function) for function in house["longest_functions"]]
    title = f"MODULES ABOVE {LONG_MODULE} LINES: {len(house['long_modules'])}"
    sections[title] = [f"{lines:4}  {file}" for file, lines in house["long_modules"].items()]
    for what, places in house["private"].items():
        title = f"PRIVATE {what.upper()}: " + ", ".join(f"{len(uses)} {place}" for place, uses in places.items())
        sections[title] = [f"{place}: {use}" for place, uses in places.items() for use in uses]
    title = f"COMMAND LINE: {cli['lines']} lines, {len(cli['long_functions'])} functions above {LONG_FUNCTION} lines"
    sections[title] = [FUNCTION_LINE.format(**function) for function in cli["long_functions"]]
    return sections


def sections_of_runs(runs: Mapping[str, Any]) -> dict[str, list[str]]:
    """Lay out what `house_runs.py` found; a run that failed is shown with its error."""
    sections = {}
    for name, run in runs.items():
        if "error" in run:
            sections[f"{name.upper()} FAILED"] = run["error"].splitlines()
        elif "touched" in run:
            rooms = defaultdict(list)
            for file in run["touched"]:
                room, _, below = dotted(Path(file)).removeprefix(f"{PACKAGE}.").partition(".")
                rooms[room].append(below or "(itself)")
            title = f"MODULES TOUCHED BY ONE {name.upper()}: {len(run['touched'])}"
            title += f"; {len(run['only_importing'])} more ran only while importing, {run['imported']} imported"
            sections[title] = [f"{room:14}{len(names):3}  {' '.join(names)}" for room, names in rooms.items()]
        else:
            title = f"FIT SIGNATURES: {len(run['signatures'])} of {run['methods']} methods in {run['registry']}"
            sections[title] = [f"{len(names):4}  {shape}: {' '.join(names)}" for shape, names in run["signatures"].items()]
            sections[title] += [f"not counted: {method} ({problem})" for method, problem in run["unavailable"].items()]
            more = [listed for listed in run["dir"] if listed not in run["all"]]
            title = f"PUBLIC NAMES: {len(run['all'])} in __all__, {len(run['dir'])} without underscore in dir()"
            sections[title] = [f"in dir() alone: {' '.join(more) or 'none'}"]
    return sections


def main() -> None:
    """Read the arguments, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--src", type=Path, default=Path(__file__).resolve().parents[1] / "src", help="folder of the package")
    parser.add_argument("--json", action="store_true", help="print JSON, with every list in full")
    parser.add_argument("--static", action="store_true", help="run nothing: leave out touched modules, methods, public names")
    chosen = parser.parse_args()
    house, runs = read_house(chosen.src), {}
    if not chosen.static:
        command = [sys.executable, Path(__file__).with_name("house_runs.py"), chosen.src]
        runs = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    if chosen.json:
        print(json.dumps(house | {"runs": runs}, indent=2))
        return
    print(f"The house in {chosen.src}")
    for title, lines in (sections_of_source(house) | sections_of_runs(runs)).items():
        print(f"\n{title}", *lines, sep="\n  ")


if __name__ == "__main__":
    main()
