"""``crowdwise label-studio``: a project of Label Studio and a live campaign; `crowdwise.cli.app` makes a command of it."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from crowdwise.errors import InputError, SettingError
from crowdwise.serve.command import declared, option

EXAMPLES = (
    "Example: crowdwise label-studio connect --url http://localhost:8080 --project 1; crowdwise serve campaign.toml "
    "(LABEL_STUDIO_API_KEY holds your token)\n\n"
    "How both sides stand: crowdwise label-studio status"
)
_ACTIONS = ("connect", "status", "disconnect")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is connected with what."""

    action: str = declared(
        typer.Argument(metavar="ACTION", help="What to do: connect, status or disconnect."), "ACTION", "status"
    )
    campaign: Path = declared(
        typer.Argument(metavar="CAMPAIGN", help="The campaign's file (.toml); connect writes it where there is none."),
        "CAMPAIGN",
        Path("campaign.toml"),
    )
    url: str | None = option("--url", "URL", "Where Label Studio runs, such as http://localhost:8080.")
    project: int | None = option("--project", "N", "The number of the project, as its address shows it.")
    question: str | None = option(
        "--question", "NAME", "The question (its Choices) whose answers are votes.", shown="the only one"
    )
    token_file: Path | None = option(
        "--token-file", "FILE", "A file with your token of Label Studio; by default LABEL_STUDIO_API_KEY has it."
    )
    most: int | None = option(
        "--most", "N", "Answers that no task exceeds (connect).", shown="as the file or the project has it"
    )
    take_over: bool = option("--take-over", "", "Take the project over from another campaign (connect).", False)
    here: str | None = option(
        "--here", "URL", "Where Label Studio finds this service.", shown="http://127.0.0.1:8765, as [server] says"
    )


def run(options: Options) -> None:
    """Let a live campaign run on a project of Label Studio: its queue, overlap, agreement and annotator quality.

    Connect checks the token, writes the campaign's file with the classes of the project, and lets Label Studio report to the
    service that `crowdwise serve` then starts. The service takes in what was answered before, sets the overlap of every task,
    lets the most useful task come first, closes those it is sure of, and writes labels with calibrated confidence back as
    predictions. Votes are matched again after either side was away.
    """
    if options.action not in _ACTIONS:
        raise SettingError(f"ACTION must be one of {', '.join(_ACTIONS)}; got {options.action!r:.60}")
    try:
        {"connect": _connect, "status": _status, "disconnect": _disconnect}[options.action](options)
    except ModuleNotFoundError as problem:
        raise InputError(f"crowdwise label-studio needs {problem.name}: pip install 'crowdwise[serve]'") from problem


def _connect(options: Options) -> None:
    from crowdwise.serve.access import Access
    from crowdwise.serve.label_studio import link
    from crowdwise.serve.label_studio.api import LabelStudio, token_of
    from crowdwise.serve.label_studio.bridge import address_of
    from crowdwise.serve.label_studio.identity import Identity
    from crowdwise.serve.store import Store

    project = options.project
    if options.url is None or project is None:
        raise SettingError("connect needs --url and --project, such as --url http://localhost:8080 --project 1")
    # As it stands in the browser.
    options = replace(options, url=re.sub(r"/projects(/.*)?$", "", options.url))
    before, mark = _campaign_before(options)
    api = LabelStudio(str(options.url), token_of(options.token_file))
    found = api.get(f"/api/projects/{options.project}/")
    question = link.question_of(found, options.question)
    theirs = link.others(link.connections(api, project, ""), mark)
    if theirs and not options.take_over:
        raise InputError(link.taken(theirs, options, str(options.campaign)))
    most = _most(options, before, found)
    settings = _write(options, question, str(found.get("title") or "campaign"), most)
    _say(f"{options.campaign}: project {options.project} ({found.get('title')}), question {question.name}")
    if settings.questions.most is None:
        _say("no limit on answers: a task that nobody is sure of is asked about until everybody has answered (--most 5)")
    elif most is not None and options.most is None:
        _say(f"most = {most}: no task gets more answers, as the project had it until now")
    if re.search(r"""choice\s*=\s*["']multiple""", str(found.get("label_config"))):
        _say("warning: the project lets people choose several labels; annotations with several count as skipped")
    link.project_settings(api, found)
    store = Store(settings.url)
    try:
        us = Identity(store, Access(store), address_of(settings))
        wrong = link.webhook(api, project, us, link.connections(api, project, us.here))[1]
        if wrong not in ("", link.MISSING):
            _say(f"the webhook {wrong}; that is repaired")
    except link.Refused as problem:
        _say(f"warning: {problem}")
    finally:
        store.close()
    # Last: while the other campaign is served, it would come back to a project that is free.
    if theirs:
        link.unlink(api, theirs)
        _say(f"taken over from {', '.join(sorted({one.url for one in theirs}))}; stop the service there")
    counts = [found.get(key) or 0 for key in ("task_number", "total_annotations_number")]
    coming = f"{counts[0]} tasks and {counts[1]} annotations come in"
    _say(f"connected; start it: crowdwise serve {options.campaign} ({coming})")


def _campaign_before(options: Options) -> tuple[Any, str]:
    """The campaign that is there, and its mark; refuse one of another project, and one that is served, before it is written."""
    from crowdwise.serve.label_studio.identity import mark_in
    from crowdwise.serve.settings import read_settings
    from crowdwise.serve.store import Store

    if not options.campaign.exists():
        return None, ""
    settings = read_settings(options.campaign)
    linked = settings.label_studio
    if linked is not None and linked.project != options.project:
        raise InputError(
            f"{options.campaign} belongs to project {linked.project}, whose votes it keeps; name another file for project "
            f"{options.project}: crowdwise label-studio connect other.toml --url {options.url} --project {options.project}"
        )
    store = Store(settings.url)
    try:
        return settings, mark_in(store.engine)
    finally:
        store.close()


def _most(options: Options, before: Any, project: dict[str, Any]) -> int | None:
    """The limit to write: what was asked for, or else, where the file has none, the overlap that all tasks have had."""
    if options.most is not None or (before is not None and before.questions.most is not None):
        return options.most
    overlap = project.get("maximum_annotations")
    if not isinstance(overlap, int) or overlap < 2:
        return None
    return min(max(overlap, 0 if before is None else before.questions.least), 1000)


def _write(options: Options, question: Any, title: str, most: int | None) -> Any:
    """Write the section and the limit, and where there is no file yet the whole campaign; never a file that cannot be read."""
    from crowdwise.io.writer import open_replacing
    from crowdwise.serve.settings import NAME, TEMPLATE, read_settings

    if options.campaign.exists():
        text = options.campaign.read_text(encoding="utf-8")
    else:
        if len(question.labels) < 2:
            raise InputError(
                f"the project does not list the labels of {question.name!r}; write them into a campaign file first: "
                f"crowdwise serve --new {options.campaign}"
            )
        name = title.strip()[:80]
        name = name if NAME.fullmatch(name) else "campaign"
        text = TEMPLATE.replace('name = "campaign"', f"name = {json.dumps(name)}", 1)
        classes = ", ".join(json.dumps(label) for label in question.labels)
        text = text.replace('classes = ["cat", "dog"]', f"classes = [{classes}]", 1)
    if most is not None:
        text = _with_most(text, most)
    # Up to the next section.
    text = re.sub(r"(?ms)^\[label_studio\]\s*$.*?(?=^\[|\Z)", "", text)
    fields = {"url": options.url, "project": options.project, "question": question.name, "here": options.here}
    fields["token_file"] = None if options.token_file is None else str(options.token_file.absolute())
    lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items() if value is not None]
    raw = f"{text.rstrip()}\n\n[label_studio]\n{chr(10).join(lines)}\n".encode()
    settings = read_settings(options.campaign, raw)
    lacking = [label for label in question.labels if label not in settings.campaign.classes]
    if lacking:
        raise InputError(f"{options.campaign} [campaign]: classes lacks {lacking[0]!r:.80}, which the project has; add it")
    with open_replacing(options.campaign) as file:
        file.write(raw)
    return settings


def _with_most(text: str, most: int) -> str:
    """The text with this limit below [questions]: in the place of an earlier one, or of the comment that shows it."""
    line, section = f"most = {most}", re.search(r"(?ms)^\[questions\][^\n]*\n(.*?)(?=^\[|\Z)", f"{text.rstrip()}\n")
    if section is None:
        return f"{text.rstrip()}\n\n[questions]\n{line}\n"
    keys = section[1]
    for earlier in (r"(?m)^[ \t]*most[ \t]*=.*$", r"(?m)^# most = .*$"):
        if re.search(earlier, keys):
            keys = re.sub(earlier, line, keys, count=1)
            break
    else:
        keys = f"{line}\n{keys}"
    return text[: section.start(1)] + keys + text[section.end(1) :]


def _known(options: Options) -> tuple[Any, Any]:
    from crowdwise.serve.label_studio.api import LabelStudio, token_of
    from crowdwise.serve.settings import read_settings

    settings = read_settings(options.campaign)
    found = settings.label_studio
    if found is None:
        raise InputError(f"{options.campaign} has no section [label_studio]; crowdwise label-studio connect writes it")
    path = options.token_file or (None if found.token_file is None else settings.place(found.token_file))
    return settings, LabelStudio(found.url, token_of(path))


def _status(options: Options) -> None:
    import sqlalchemy as sa

    from crowdwise.serve.label_studio import link
    from crowdwise.serve.label_studio.bridge import address_of
    from crowdwise.serve.label_studio.identity import mark_in
    from crowdwise.serve.label_studio.webhooks import REF
    from crowdwise.serve.schema import open_engine, votes
    from crowdwise.serve.store import Store
    from crowdwise.serve.votes import FINAL

    settings, api = _known(options)
    number, here = settings.label_studio.project, address_of(settings)
    found = api.get(f"/api/projects/{number}/")
    connected = link.connections(api, number, here)
    engine = open_engine(settings.url)
    mark = mark_in(engine)
    counted = sa.select(sa.func.count()).where(votes.c.ref.startswith(REF), votes.c.at != FINAL)
    try:
        with engine.connect() as connection:
            kept = connection.execute(counted).scalar() or 0
    except sa.exc.DBAPIError:
        kept = 0
    finally:
        engine.dispose()
    there = found["total_annotations_number"] + found["skipped_annotations_number"]
    _say(f"{found['title']}: {found['task_number']} tasks, {found['finished_task_number']} of them closed")
    same = "" if there == kept else "; crowdwise serve, while it runs, matches them"
    _say(f"annotations, skipped ones among them: {there} there, {kept} here{same}")
    theirs = link.others(connected, mark)
    ours = {one.kind: one for one in connected if one not in theirs}
    hook, model = ours.get(link.WEBHOOK), ours.get(link.MODEL)
    try:
        Store(settings.url).close()
        _say(f"the service does not run; start it: crowdwise serve {options.campaign}")
    except InputError:
        _say("the service runs")
    stands = "no" if hook is None else "switched off" if not hook.found["is_active"] else "yes"
    stands += "" if hook is None or hook.url == here else f", but to {hook.url}"
    _say(f"webhook: {stands}; model connection: {'no' if model is None else model.found['readable_state']}; address {here}")
    if theirs:
        _say(f"warning: {link.taken(theirs, settings.label_studio, str(options.campaign))}")


def _disconnect(options: Options) -> None:
    from crowdwise.serve.label_studio import link
    from crowdwise.serve.label_studio.bridge import address_of
    from crowdwise.serve.label_studio.identity import mark_in
    from crowdwise.serve.store import Store

    settings, api = _known(options)
    # A service that runs would connect again at once.
    store = Store(settings.url)
    try:
        there, mark = link.connections(api, settings.label_studio.project, address_of(settings)), mark_in(store.engine)
    finally:
        store.close()
    theirs = link.others(there, mark)
    removed = link.unlink(api, [one for one in there if one not in theirs])
    _say(f"connections removed: {removed}; predictions, overlaps and votes stay")
    _say(f"crowdwise serve connects again: remove [label_studio] from {options.campaign} first")


def _say(words: str) -> None:
    sys.stderr.write(words + "\n")
    sys.stderr.flush()
