"""Answers of Amazon's crowd HTML forms, which SageMaker and Mechanical Turk share."""

from __future__ import annotations

from typing import Any

from crowdwise.io.source import parse_json

__all__ = ["form_answers"]


def form_answers(content: Any, place: str) -> dict[str, Any]:
    """Return the label by form element; a radio group is a dict of option: true or false."""
    content = parse_json(content, place) if isinstance(content, str) and content[:1] in ("{", "[") else content
    if isinstance(content, list) and len(content) == 1:
        content = content[0]
    if not isinstance(content, dict):
        return {"answer": content}
    answers: dict[str, Any] = {}
    for question, value in content.items():
        if isinstance(value, dict) and value and all(isinstance(on, bool) for on in value.values()):
            value = [option for option, on in value.items() if on]
        elif isinstance(value, dict):
            value = value.get("label", value.get("labels", value))
        answers[question] = value
    return answers
