"""Register this service with a project: webhook, model connection and the settings of its queue; and take all that back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crowdwise.errors import InputError
from crowdwise.serve.label_studio.api import LabelStudio, Refused
from crowdwise.serve.label_studio.webhooks import ACTIONS

__all__ = ["CONSENSUS", "QUEUE", "Question", "Refused", "backend", "project_settings", "question_of", "unlink", "webhook"]

# Versions of predictions: what to ask now, which the project's queue follows, and labels with their confidence.
QUEUE, CONSENSUS = "crowdwise", "crowdwise-consensus"
_SAMPLING = "Uncertainty sampling"
_BLOCKED = (
    "Label Studio refuses addresses of private networks. Give --here an address that is none, or, where all its users are "
    "trusted, start it with SSRF_PROTECTION_ENABLED=false ML_BLOCK_LOCAL_IP=false. Without a webhook votes are fetched, every "
    "check_seconds"
)


@dataclass(frozen=True)
class Question:
    """A control of the labelling configuration with a fixed list of labels."""

    name: str
    to: str
    labels: tuple[str, ...]

    def result(self, label: str) -> list[dict[str, Any]]:
        """The result of an annotation or prediction that says this label."""
        return [{"from_name": self.name, "to_name": self.to, "type": "choices", "value": {"choices": [label]}}]


def question_of(project: dict[str, Any], wanted: str | None) -> Question:
    """The question of a project that this service can follow; the one with this name, where it is given."""
    found = project.get("parsed_label_config")
    controls = found if isinstance(found, dict) else {}
    choices = {
        name: one
        for name, one in controls.items()
        if isinstance(one, dict) and one.get("type") == "Choices" and one.get("to_name")
    }
    there = ", ".join(f"{name} ({one.get('type')})" for name, one in controls.items() if isinstance(one, dict)) or "none"
    if wanted is not None and wanted not in choices:
        raise InputError(f"the project has no <Choices> called {wanted!r}; its controls: {there[:300]}")
    if wanted is None and len(choices) != 1:
        if not choices:
            words = f"the project has no <Choices> (its controls: {there[:300]}), whose answers would be votes"
            raise InputError(f"{words}; exports with other controls are read by the other commands: crowdwise --help")
        raise InputError(f"the project has several <Choices> (its controls: {there[:300]}); name one with --question NAME")
    name = wanted or next(iter(choices))
    one = choices[name]
    return Question(name, str(one["to_name"][0]), tuple(str(label) for label in one.get("labels") or ()))


def webhook(api: LabelStudio, project: int, here: str, known: Callable[[str], bool], new: Callable[[], str]) -> str:
    """Let Label Studio report to us; returns the token it sends along, which is kept where it is valid.

    One with such a token is ours, whatever address it has: where the service moved, it moves too.
    """
    fields: dict[str, Any] = {"url": f"{here}/webhook", "send_payload": True, "send_for_all_actions": False, "is_active": True}
    ours = []
    for one in api.get("/api/webhooks/", project=project):
        token = str((one.get("headers") or {}).get("Authorization", "")).removeprefix("Bearer ")
        valid = bool(token) and known(token)
        if valid or one["url"] == fields["url"]:
            ours.append((not valid, one["id"], one, token if valid else ""))
    # The best of them stays.
    ours.sort(key=lambda found: found[:2])
    for _, number, _, _ in ours[1:]:
        api.call("DELETE", f"/api/webhooks/{number}/")
    token = (ours[0][3] if ours else "") or new()
    fields |= {"headers": {"Authorization": f"Bearer {token}"}, "actions": sorted(ACTIONS)}
    if ours and {key: sorted(ours[0][2][key]) if key == "actions" else ours[0][2][key] for key in fields} == fields:
        return token
    try:
        if ours:
            api.call("PATCH", f"/api/webhooks/{ours[0][1]}/", fields)
        else:
            api.call("POST", "/api/webhooks/", fields | {"project": project})
    except Refused as problem:
        raise _told(problem) from problem
    return token


def backend(api: LabelStudio, project: int, here: str, token: str) -> None:
    """Let Label Studio ask us for predictions; it calls this service while it is made."""
    ours = [one for one in api.get("/api/ml/", project=project) if one["title"] == QUEUE or one["url"] == here]
    if [(one["title"], one["url"], one["basic_auth_user"]) for one in ours] == [(QUEUE, here, _user(token))]:
        return
    for one in ours:
        api.call("DELETE", f"/api/ml/{one['id']}")
    fields = {"project": project, "url": here, "title": QUEUE, "description": "Labels with calibrated confidence, by crowdwise"}
    secret = {"auth_method": "BASIC_AUTH", "basic_auth_user": _user(token), "basic_auth_pass": token}
    try:
        api.call("POST", "/api/ml/", fields | secret)
    except Refused as problem:
        raise _told(problem) from problem


def project_settings(api: LabelStudio, found: dict[str, Any]) -> bool:
    """Let the queue of a project, as it was found, follow our scores; returns whether it does now.

    With more than one annotation per task, Label Studio asks about tasks that were begun before it looks at scores: overlaps
    are set task by task instead. Predictions are hidden from annotators, whose answers would no longer be their own.
    """
    path = f"/api/projects/{found['id']}/"
    wanted = {"sampling": _SAMPLING, "maximum_annotations": 1, "show_overlap_first": False, "show_collab_predictions": False}
    wanted["evaluate_predictions_automatically"] = False
    changed = {key: value for key, value in wanted.items() if found.get(key) != value}
    follows = found.get("model_version") == QUEUE
    if changed:
        # Hiding predictions resets the version, unless both are set at once.
        api.call("PATCH", path, changed | ({"model_version": QUEUE} if follows else {}))
    if not follows:
        try:
            api.call("PATCH", path, {"model_version": QUEUE})
        except Refused as problem:
            # It must be that of a model connection or of a prediction, and there is neither yet.
            if problem.status != 400:
                raise
            return False
    return True


def unlink(api: LabelStudio, project: int, here: str) -> int:
    """Remove webhook and model connection; returns how many there were. Predictions and overlaps stay."""
    ours = [f"/api/ml/{one['id']}" for one in api.get("/api/ml/", project=project) if one["url"] == here]
    hooks = api.get("/api/webhooks/", project=project)
    ours += [f"/api/webhooks/{one['id']}/" for one in hooks if one["url"] == f"{here}/webhook"]
    for path in ours:
        api.call("DELETE", path)
    return len(ours)


def _user(token: str) -> str:
    """Says which token a connection has, without the token."""
    import hashlib

    return f"crowdwise-{hashlib.sha256(token.encode()).hexdigest()[:12]}"


def _told(problem: Refused) -> Refused:
    blocked = any(words in str(problem).lower() for words in ("reserved network", "ssrf", "not allowed", "private"))
    return Refused(problem.status, f"{problem}. {_BLOCKED}") if blocked else problem
