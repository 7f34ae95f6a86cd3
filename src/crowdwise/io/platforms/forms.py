"""Answers of Amazon's crowd HTML forms, which SageMaker and Mechanical Turk share."""

from __future__ import annotations

from typing import Any

from crowdwise.io.source import parse_json

__all__ = ["box_labels", "form_answers"]


def box_labels(option: str) -> tuple[str, str]:
    """What a single box says where it is ticked, and where it is not: a question with one option is one of yes or no."""
    return ("true", "false") if option == "on" else (option, f"not {option}")


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
            ticked = [option for option, on in value.items() if on]
            value = ticked if len(value) > 1 else box_labels(next(iter(value)))[not ticked]
        elif isinstance(value, dict):
            value = value.get("label", value.get("labels", value))
        answers[question] = value
    return answers
