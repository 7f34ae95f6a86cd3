"""MkDocs hook: completes the handwritten page of every method by what the registry, its class and the benchmarks say of it.

A page is written by hand: the model, when to use it and when not, settings worth knowing, its reference. Added are, at the top,
how it is called; and at the end an example, all parameters, what was measured on real sets, and the reference. What a page has
below ``<!-- example -->`` continues the example.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from code_lists import class_anchor, is_shared, methods, table_cell
from measured import results_of
from method_examples import call_of, example_of

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

__all__ = ["complete", "on_page_markdown"]

EXAMPLE_MARKER = "<!-- example -->"
REFERENCE = re.compile(r"^\*\*References?\.\*\* (.*?)(?=\n\n|\Z)\n*", re.MULTILINE | re.DOTALL)
COMMANDS = {
    "labels": "aggregate votes.csv",
    "partial labels": "aggregate votes.csv --type partial",
    "label sets": "aggregate tags.csv --type multilabel",
    "tags": "spans votes.conll",
    "ratings": "regress values.csv",
    "comparisons": "rank comparisons.csv",
    "similarities": "cluster pairs.csv",
}


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Complete pages of methods, and leave others as they are."""
    folder, _, name = page.file.src_uri.removesuffix(".md").partition("/")
    return complete(markdown, name) if folder == "methods" and name in methods() else markdown


def complete(markdown: str, name: str) -> str:
    """The page of a method as readers see it."""
    method = methods()[name]
    written, _, continued = markdown.partition(EXAMPLE_MARKER)
    title, _, body = written.strip().partition("\n")
    found = REFERENCE.search(body)
    body = REFERENCE.sub("", body, count=1).strip()
    example = example_of(method)
    parts = [title, facts(method), body]
    if example:
        parts += ["## Example", f"```python\n{example}```", continued.strip()]
    parts += ["## Parameters", parameters(method), "## On real data", results_of(name)]
    parts += ["## Reference", found[1] if found else method.reference]
    return "\n\n".join(part for part in parts if part) + "\n"


def facts(method: Any) -> str:
    """How a method is called, what it takes, and where the page goes on."""
    link = f"[`crowdwise.{call_of(method)}`](../api.md#{class_anchor(method.cls)})"
    rows = [
        ("In Python", f'{link}, or `crowdwise.make("{method.name}")`'),
        ("On the command line", f"`{command_of(method)}`" if command_of(method) else ""),
        ("Takes", table_cell("; ".join([method.needs, *_capabilities(method)]))),
        ("Family", method.family),
        ("Go to", " · ".join(f"[{heading}]({place})" for heading, place in _sections(method))),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows if value)])


def command_of(method: Any) -> str:
    """A command that runs the method; empty where there is none."""
    if method.groups:  # classifiers are given groups in Python alone
        return "" if method.features else "crowdwise fairness votes.csv --group GROUP"
    command = "train votes.csv" if method.answers == "labels" and method.features else COMMANDS[method.answers]
    command += " --type ordinal --classes LOW,MIDDLE,HIGH" if method.ordered else ""
    command += " --features X.npz" if method.features else ""
    command += " --edges edges.csv" if method.edges else ""
    return f"crowdwise {command} --method {method.name}"


def parameters(method: Any) -> str:
    """All settings with their defaults under this name: its own first, then those that it shares with many others."""
    entries = method.describe()["settings"]
    if entries is None:
        return f"Shown where the extra is installed: `pip install '.[{method.extra}]'`."
    own = [entry for entry in entries if not is_shared(method.cls, entry)]
    shared = [entry for entry in entries if is_shared(method.cls, entry)]
    parts = [_table(own)] if own else ["It has no settings of its own."]
    if shared:
        lines = "\n".join(f"    {line}" for line in _table(shared).splitlines())
        parts.append(f'??? note "Settings that it shares with its relatives"\n\n{lines}')
    added = own_members(method.cls)
    if added:
        rows = "\n".join(f"| `{name}` | {table_cell(about)} |" for name, about in added)
        parts.append(
            f"Beside what [every method](../api.md#methods) has, the fitted model has:\n\n| Name | |\n|---|---|\n{rows}"
        )
    return "\n\n".join(parts)


def own_members(cls: type) -> list[tuple[str, str]]:
    """Public attributes and functions that a class has beyond those of many methods, with the first line of what they say."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        if base in _common_bases() or not base.__module__.startswith("crowdwise."):
            continue
        for name, value in vars(base).items():
            if not _is_for_users(name, value) or any(
                hasattr(common, name) for common in cls.__mro__ if common in _common_bases()
            ):
                continue
            about = inspect.getdoc(value)
            if about:
                found.setdefault(name + _signature(value), about.partition("\n")[0])
    return sorted(found.items())


def _is_for_users(name: str, value: Any) -> bool:
    """Fitted attributes, tables, and what is asked of rows or items; the other functions are there for engines."""
    if isinstance(value, property):
        return name.endswith("_") and not name.startswith("_")
    if not inspect.isfunction(value) or name.startswith("_") or name == "fit":
        return False
    return name.endswith("_frame") or bool({"X", "items"} & set(inspect.signature(value).parameters))


def _signature(value: Any) -> str:
    if isinstance(value, property):
        return ""
    return f"({', '.join(name for name in inspect.signature(value).parameters if name != 'self')})"


@cache
def _common_bases() -> frozenset[type]:
    """Classes from which those of at least eight methods derive: what they have is no news on the page of one."""
    heirs: dict[type, set[type]] = {}
    for method in methods().values():
        for base in method.cls.__mro__:
            heirs.setdefault(base, set()).add(method.cls)
    return frozenset(base for base, derived in heirs.items() if len(derived) >= 8)


def _table(entries: list[dict[str, Any]]) -> str:
    rows = [f"| `{entry['name']}` | `{entry['default']!r}` | {table_cell(entry['about'])} |" for entry in entries]
    return "\n".join(["| Setting | Default | |", "|---|---|---|", *rows])


def _capabilities(method: Any) -> Iterator[str]:
    """What a method takes besides, in words."""
    known = {"labels": "known labels", "ratings": "known values"}.get(method.answers, "known answers")
    if method.gold:
        yield f"{known} (gold)"
    if method.history:
        yield "what is known of annotators (history)"
    if method.shards:
        yield "files larger than memory (shards)"


def _sections(method: Any) -> Iterator[tuple[str, str]]:
    if not method.edges:
        yield "Example", "#example"
    yield "Parameters", "#parameters"
    yield "On real data", "#on-real-data"
    yield "Reference", "#reference"
    yield "Symbols", "../methods.md#symbols"
