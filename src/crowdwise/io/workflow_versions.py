"""Questions of a Zooniverse export: a task key such as T1 may ask other things in other versions of a workflow."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

from crowdwise.errors import DataWarning, InputError
from crowdwise.io.exports import Request
from crowdwise.io.source import Source

__all__ = ["COLUMNS", "Questions"]

#: Columns that say which version a classification was made in, where the export has them.
COLUMNS = ("workflow_id", "workflow_version")

_UNNAMED = "a task without a text"


class Questions:
    """Keeps what every task key asks, in which version; one key that asks several things is refused at the end.

    A question may be asked for by its key or by its text.
    """

    def __init__(self, source: Source, request: Request) -> None:
        self.name, self.request = source.name, request
        self.wanted = request.question or request.label
        self.versions = tuple(part.strip() for part in (request.workflow_version or "").split(",") if part.strip())
        self.asked: dict[str, Counter[tuple[str, str, str]]] = {}
        self.every: Counter[str] = Counter()

    def is_read(self, version: str | None) -> bool:
        """Whether classifications made in this version are wanted; 27 stands for all of 27.*."""
        self.every[version or ""] += 1
        return not self.versions or any(version in (v, f"{v}.0") or str(version).startswith(f"{v}.") for v in self.versions)

    def named(self, tasks: list[Any], workflow: str | None, version: str | None) -> list[Any]:
        """The tasks of a classification; one that is wanted by its text is called by it."""
        found = []
        for task in tasks:
            if isinstance(task, dict) and "task" in task:
                inner = task.get("value")
                if isinstance(inner, list) and inner and all(isinstance(part, dict) and "task" in part for part in inner):
                    found.append({**task, "value": self.named(inner, workflow, version)})
                    continue
                text = str(task.get("task_label") or "").strip()
                if self.wanted is not None and text and _plain(text) == _plain(self.wanted):
                    task = {**task, "task": self.wanted}
                self.asked.setdefault(str(task["task"]), Counter())[workflow or "", text, version or ""] += 1
            found.append(task)
        return found

    def check(self) -> None:
        """Refuse a key that asks several things, and a version that is not there; warn of versions that nothing tells apart."""
        if self.versions and not self.asked:
            known = ", ".join(sorted(self.every))
            raise InputError(f"{self.name}: no workflow version {self.request.workflow_version!r}; there are {known:.200}")
        keys = [self.wanted] if self.wanted in self.asked else list(self.asked) if len(self.asked) == 1 else []
        for key in keys:
            texts = self._texts(key)
            if len(texts) > 1:
                self._refuse(key, texts)
            text, versions = next(iter(texts.items()))
            major = sorted({int(v.split(".")[0]) for v in versions if v.split(".")[0].isdigit()})
            if text.startswith(_UNNAMED) and len(major) > 1 and not self.versions:
                warnings.warn(
                    f"{self.name}: task {key!r} has no text, and {len(major)} versions of its workflow ({major[0]} to "
                    f"{major[-1]}) are read together; if the question or its answers changed, pick one with --workflow-version",
                    DataWarning,
                    stacklevel=4,
                )

    def _texts(self, key: str) -> dict[str, Counter[str]]:
        """What a key asks, and how often in which version; answers without a text belong to the texts of their workflow."""
        named = {workflow for workflow, text, _ in self.asked[key] if text}
        texts: dict[str, Counter[str]] = {}
        for (workflow, text, version), n in self.asked[key].items():
            if text or workflow not in named:
                texts.setdefault(text or f"{_UNNAMED} of workflow {workflow or '?'}", Counter())[version] += n
        return texts

    def _refuse(self, key: str, texts: dict[str, Counter[str]]) -> None:
        shown = "; ".join(
            f"{text!r} ({sum(versions.values()):,} answers, versions {_span(versions)})" for text, versions in texts.items()
        )
        asks = sorted(texts, key=lambda text: -sum(texts[text].values()))
        named = next((text for text in asks if not text.startswith(_UNNAMED)), asks[0])
        raise InputError(
            f"{self.name}: task {key!r} asks different things: {shown}. They are never read together; name one by its text: "
            f"{self._command(named)} (question=...), or pick versions: --workflow-version {_span(texts[named], first=True)}"
        )

    def _command(self, text: str) -> str:
        from dataclasses import replace

        return replace(self.request, question=text, label=None).command(self.name)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _span(versions: Counter[str], first: bool = False) -> str:
    if first:
        return versions.most_common(1)[0][0].split(".")[0]
    known = sorted(versions, key=lambda v: [int(part) if part.isdigit() else 0 for part in v.split(".")])
    return known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"
