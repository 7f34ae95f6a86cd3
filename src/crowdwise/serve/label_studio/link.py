"""Register this service with a project: webhook, model connection and the settings of its queue; and take all that back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crowdwise.errors import InputError
from crowdwise.serve.label_studio.api import LabelStudio, Refused
from crowdwise.serve.label_studio.webhooks import ACTIONS

if TYPE_CHECKING:
    from crowdwise.serve.label_studio.identity import Identity

__all__ = ["CONSENSUS", "MISSING", "MODEL", "QUEUE", "WEBHOOK", "Connection", "Question", "Refused", "backend"]
__all__ += ["connections", "others", "project_settings", "question_of", "stands", "taken", "unlink", "webhook", "webhooks"]

# Versions of predictions: what to ask now, which the project's queue follows, and labels with their confidence.
QUEUE, CONSENSUS = "crowdwise", "crowdwise-consensus"
_SAMPLING = "Uncertainty sampling"
# What is said of a webhook or model connection that is new, or was removed.
MISSING = "was not there"
WEBHOOK, MODEL = "webhook", "model connection"
# Where a webhook and a model connection have the mark of their campaign.
_HEADER, _USER = "Crowdwise-Campaign", rf"{QUEUE}-([0-9a-f]+)-[0-9a-f]+"
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


@dataclass(frozen=True)
class Connection:
    """A webhook or model connection of a campaign.

    Attributes
    ----------
    kind, path, url : str
        What it is, its place in the API, and the service it points to.
    mark : str
        Of the campaign it belongs to; "" where somebody made it by hand.
    found : dict
        As Label Studio describes it.
    """

    kind: str
    path: str
    url: str
    mark: str
    found: dict[str, Any]


def connections(api: LabelStudio, project: int, here: str) -> list[Connection]:
    """Webhooks and model connections of campaigns: those with a mark, and those that point here. Others are of no concern."""
    models = []
    for one in api.get("/api/ml/", project=project):
        user = re.fullmatch(_USER, str(one.get("basic_auth_user") or ""))
        models.append(Connection(MODEL, f"/api/ml/{one['id']}", one["url"], user[1] if user else "", one))
    return webhooks(api, project, here) + [one for one in models if one.mark or one.url == here]


def webhooks(api: LabelStudio, project: int, here: str) -> list[Connection]:
    """The webhooks alone: asked for model connections, Label Studio calls each of them before it answers."""
    found = []
    for one in api.get("/api/webhooks/", project=project):
        mark = str((one.get("headers") or {}).get(_HEADER, ""))
        found.append(Connection(WEBHOOK, f"/api/webhooks/{one['id']}/", one["url"].removesuffix("/webhook"), mark, one))
    return [one for one in found if one.mark or one.url == here]


def others(there: Sequence[Connection], mark: str) -> list[Connection]:
    """Those of other campaigns."""
    return [one for one in there if one.mark not in ("", mark)]


def taken(theirs: Sequence[Connection], settings: Any, file: str) -> str:
    """Say whose the project is, and what to do."""
    urls = ", ".join(f"{one.kind} {one.url}" for one in theirs)
    command = f"crowdwise label-studio connect {file} --url {settings.url} --project {settings.project} --take-over"
    return (
        f"project {settings.project} is connected with another campaign ({urls}), and can have one only. Stop that one and "
        f"disconnect it (crowdwise label-studio disconnect ITS_FILE), or give the project to this one: {command}"
    )


def stands(there: Sequence[Connection], us: Identity) -> bool:
    """Whether of webhooks there is ours alone, as it should be."""
    token = _token_of(there[0], us) if len(there) == 1 else ""
    return bool(token) and _same(there[0].found, _webhook(us, token))


def webhook(api: LabelStudio, project: int, us: Identity, there: Sequence[Connection]) -> tuple[str, str]:
    """Let Label Studio report to us; returns the token it sends along, and what was wrong with the webhook that was there.

    One of ours stays ours, whatever address it has: where the service moved, it moves too. Its token stays while it is valid.
    """
    # The best of them stays.
    ours = sorted(_ours(there, WEBHOOK, us.mark), key=lambda one: (not _token_of(one, us), one.found["id"]))
    for one in ours[1:]:
        api.call("DELETE", one.path)
    token = (_token_of(ours[0], us) if ours else "") or us.token()
    fields = _webhook(us, token)
    try:
        if not ours:
            api.call("POST", "/api/webhooks/", fields | {"project": project})
            return token, MISSING
        found = ours[0].found
        if _same(found, fields):
            return token, ""
        api.call("PATCH", ours[0].path, fields)
    except Refused as problem:
        raise _told(problem) from problem
    if not found["is_active"]:
        return token, "was switched off"
    return token, f"pointed to {found['url']}" if found["url"] != fields["url"] else "was changed"


def _webhook(us: Identity, token: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}", _HEADER: us.mark}
    fields = {"url": f"{us.here}/webhook", "headers": headers, "actions": sorted(ACTIONS), "is_active": True}
    return fields | {"send_payload": True, "send_for_all_actions": False}


def _same(found: dict[str, Any], fields: dict[str, Any]) -> bool:
    return {key: sorted(found[key]) if key == "actions" else found[key] for key in fields} == fields


def _token_of(one: Connection, us: Identity) -> str:
    """The token that a webhook sends along; "" where it is not the one it should be."""
    token = str((one.found.get("headers") or {}).get("Authorization", "")).removeprefix("Bearer ")
    return token if us.knows(token) else ""


def backend(api: LabelStudio, project: int, us: Identity, token: str, there: Sequence[Connection]) -> str:
    """Let Label Studio ask us for predictions, for which it calls this service; returns what was wrong."""
    ours, user = _ours(there, MODEL, us.mark), _user(us.mark, token)
    if [(one.found["title"], one.url, one.found["basic_auth_user"]) for one in ours] == [(QUEUE, us.here, user)]:
        return ""
    for one in ours:
        api.call("DELETE", one.path)
    fields = {
        "project": project,
        "url": us.here,
        "title": QUEUE,
        "description": "Labels with calibrated confidence, by crowdwise",
    }
    secret = {"auth_method": "BASIC_AUTH", "basic_auth_user": user, "basic_auth_pass": token}
    try:
        api.call("POST", "/api/ml/", fields | secret)
    except Refused as problem:
        raise _told(problem) from problem
    if not ours:
        return MISSING
    return f"pointed to {ours[0].url}" if ours[0].url != us.here else "was changed"


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


def unlink(api: LabelStudio, there: Sequence[Connection]) -> int:
    """Remove webhooks and model connections; returns how many there were. Predictions and overlaps stay."""
    for one in there:
        api.call("DELETE", one.path)
    return len(there)


def _ours(there: Sequence[Connection], kind: str, mark: str) -> list[Connection]:
    return [one for one in there if one.kind == kind and one.mark in ("", mark)]


def _user(mark: str, token: str) -> str:
    """Says whose a connection is and which token it has, without the token."""
    import hashlib

    return f"{QUEUE}-{mark}-{hashlib.sha256(token.encode()).hexdigest()[:12]}"


def _told(problem: Refused) -> Refused:
    blocked = any(words in str(problem).lower() for words in ("reserved network", "ssrf", "not allowed", "private"))
    return Refused(problem.status, f"{problem}. {_BLOCKED}") if blocked else problem
