"""What a live campaign is: one TOML file, read with messages that name the file, the key and what to do."""

from __future__ import annotations

import re
import sys
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import quote

from crowdwise.errors import InputError, SettingError

__all__ = ["ROLES", "TEMPLATE", "AnnotatorEntry", "Settings", "read_settings", "write_template"]

# A lead may do everything; a tool delivers votes of everybody and reads labels and metrics; an annotator answers.
ROLES = ("lead", "tool", "annotator")
STOPS = ("certified", "expected", "never")


def _entry(default: Any = MISSING, low: float | None = None, high: float | None = None, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"low": low, "high": high, "choices": choices})


@dataclass(frozen=True, kw_only=True)
class _Campaign:
    name: str = "campaign"
    classes: tuple[str, ...]
    items: str | None = None
    store: str | None = None
    new_items: bool = False
    drop: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Questions:
    policy: str = "warm-information"
    per_item: int = _entry(1, 1, 1000)
    least: int = _entry(1, 0, 1000)
    most: int | None = _entry(None, 1, 1000)
    explore: float = _entry(0.05, 0, 1)
    lease_minutes: float = _entry(30.0, 0.01, 10_000)
    seed: int = _entry(0, 0, 2**62)


@dataclass(frozen=True, kw_only=True)
class _Target:
    accuracy: float = _entry(0.95, 0.01, 0.999999)
    probability: float = _entry(0.95, 0.01, 0.999999)
    stop: str = _entry("certified", choices=STOPS)
    budget: float | None = _entry(None, 0)


@dataclass(frozen=True, kw_only=True)
class _Inference:
    method: str = "consensus"
    refit_votes: int = _entry(200, 1, 10**9)
    refit_seconds: float = _entry(60.0, 1, 10**6)


@dataclass(frozen=True, kw_only=True)
class _Server:
    host: str = "127.0.0.1"
    port: int = _entry(8765, 0, 65535)
    hosts: tuple[str, ...] = ()
    max_body: int = _entry(1_000_000, 1_000, 10**9)
    max_upload: int = _entry(50_000_000, 1_000, 10**10)
    rate: float = _entry(50.0, 0.1, 10**6)
    timeout: float = _entry(15.0, 0.1, 3600)


@dataclass(frozen=True, kw_only=True)
class _LabelStudio:
    url: str
    project: int = _entry(MISSING, 1, 2**62)
    question: str
    token_file: str | None = None
    here: str | None = None
    names: str = _entry("email", choices=("email", "id"))
    sure: float | None = _entry(None, 0.01, 1)
    front: int = _entry(20, 1, 1000)
    check_seconds: float = _entry(30.0, 1, 10**6)
    per_second: float = _entry(10.0, 0.1, 1000)
    max_webhook: int = _entry(20_000_000, 10_000, 10**9)

    def page_of(self, item: str) -> str:
        """Where somebody answers about a task."""
        return f"{self.url.rstrip('/')}/projects/{self.project}/data?task={quote(item, safe='')}"


@dataclass(frozen=True, kw_only=True)
class AnnotatorEntry:
    """Somebody who may answer: how often at most, and at what price."""

    name: str
    capacity: int | None = _entry(None, 0, 10**9)
    cost: float = _entry(1.0, 1e-9, 10**9)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sections of the file; `TEMPLATE` says what every key means. Paths in it are relative to the file's folder."""

    campaign: _Campaign
    questions: _Questions = field(default_factory=_Questions)
    target: _Target = field(default_factory=_Target)
    inference: _Inference = field(default_factory=_Inference)
    server: _Server = field(default_factory=_Server)
    annotators: tuple[AnnotatorEntry, ...] = ()
    label_studio: _LabelStudio | None = None
    folder: Path = Path()
    stem: str = "campaign"

    @property
    def url(self) -> str:
        """Where votes are kept, as SQLAlchemy takes it."""
        store = self.campaign.store or f"{self.stem}.db"
        return store if "://" in store else f"sqlite:///{(self.folder / store).absolute()}"

    def place(self, path: str) -> Path:
        """A path of the file."""
        return self.folder / path


_SECTIONS = {
    "campaign": _Campaign,
    "questions": _Questions,
    "target": _Target,
    "inference": _Inference,
    "server": _Server,
}


def read_settings(path: Path, raw: bytes | None = None) -> Settings:
    """Read a campaign's file, or what is to stand in it; what is wrong is an error that names file, key and remedy."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        raw = path.read_bytes() if raw is None else raw
    except FileNotFoundError as problem:
        raise InputError(f"{path} does not exist; crowdwise serve --new {path} writes one to fill in") from problem
    try:
        document = tomllib.loads(raw.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise InputError(f"{path} is not TOML: {problem}; text stands between quotes, lists between [ ]") from problem
    known = [*_SECTIONS, "annotators", "label_studio"]
    for name in document:
        if name not in known:
            raise SettingError(f"{path}: no section [{name}]{_like(name, known)}; there are {', '.join(known)}")
    if not isinstance(document.get("campaign"), dict):
        raise SettingError(f'{path}: the section [campaign] is missing; it needs classes = ["cat", "dog"]')
    parts: dict[str, Any] = {
        name: _section(path, f"[{name}]", document.get(name, {}), kind) for name, kind in _SECTIONS.items()
    }
    entries = document.get("annotators", [])
    if not isinstance(entries, list):
        raise SettingError(f"{path}: annotators are listed one by one, each below a line [[annotators]]")
    people = tuple(_section(path, f"[[annotators]] number {n}", entry, AnnotatorEntry) for n, entry in enumerate(entries, 1))
    if "label_studio" in document:
        parts["label_studio"] = _section(path, "[label_studio]", document["label_studio"], _LabelStudio)
    settings = Settings(**parts, annotators=people, folder=path.parent, stem=path.stem)
    _check(path, settings)
    return settings


def write_template(path: Path) -> None:
    """Write a commented campaign file; one that is there is left alone."""
    from crowdwise.io.writer import open_replacing

    if path.exists():
        raise SettingError(f"{path} exists already; name another file, or edit this one")
    with open_replacing(path) as file:
        file.write(TEMPLATE.encode())


def _section(path: Path, where: str, given: Any, kind: Any) -> Any:
    if not isinstance(given, dict):
        raise SettingError(f"{path}: {where} is a section with keys, not a value")
    known = {one.name: one for one in fields(kind)}
    for name in given:
        if name not in known:
            raise SettingError(f"{path} {where}: no key {name!r}{_like(name, known)}; there are {', '.join(known)}")
    for name, one in known.items():
        if name not in given and one.default is MISSING and one.default_factory is MISSING:
            raise SettingError(f"{path} {where}: the key {name!r} is missing; add it")
    return kind(**{name: _value(f"{path} {where}", known[name], value) for name, value in given.items()})


def _value(where: str, one: Any, value: Any) -> Any:
    kind = str(one.type).partition(" |")[0]
    wanted = {"str": "text between quotes", "int": "a whole number", "float": "a number", "bool": "true or false"}
    wanted["tuple[str, ...]"] = 'a list such as ["cat", "dog"]'
    fits = {
        "str": isinstance(value, str),
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool) and value == value,
        "tuple[str, ...]": isinstance(value, list) and all(isinstance(entry, str) for entry in value),
    }
    if not fits[kind]:
        raise SettingError(f"{where}: {one.name} must be {wanted[kind]}; got {value!r:.60}")
    low, high, choices = (one.metadata.get(key) for key in ("low", "high", "choices"))
    if (low is not None and value < low) or (high is not None and value > high):
        end = "" if high is None else f" and at most {high:g}"
        raise SettingError(f"{where}: {one.name} must be at least {low:g}{end}; got {value!r:.60}")
    if choices and value not in choices:
        raise SettingError(f"{where}: {one.name} must be one of {', '.join(choices)}; got {value!r:.60}")
    return tuple(value) if isinstance(value, list) else value


def _check(path: Path, settings: Settings) -> None:
    from crowdwise.campaign.policies import policy_of
    from crowdwise.campaign.scoring import PAPER_POLICIES
    from crowdwise.estimator.registry import make_aggregator

    classes, questions = settings.campaign.classes, settings.questions
    if len(classes) < 2 or len(set(classes)) < len(classes):
        raise SettingError(f"{path} [campaign]: classes must be two or more different names; got {list(classes)!r:.80}")
    for name in [*classes, *(one.name for one in settings.annotators)]:
        if not NAME.fullmatch(name):
            raise SettingError(f"{path}: {name!r:.80} is no name: 1 to 200 characters, none of them control characters")
    names = [one.name for one in settings.annotators]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SettingError(f"{path} [[annotators]]: {twice!r} is there twice; keep one")
    if questions.most is not None and questions.most < questions.least:
        raise SettingError(f"{path} [questions]: most ({questions.most}) is below least ({questions.least})")
    try:
        policy_of(questions.policy)
    except SettingError as problem:
        raise SettingError(f"{path} [questions]: {problem}") from problem
    named = PAPER_POLICIES.get(questions.policy, questions.policy)
    if re.search("predictive|bald|targeted|expertise", named):
        raise SettingError(f"{path} [questions]: the policy {questions.policy} reads features, which a live campaign has not")
    try:
        make_aggregator(settings.inference.method)
    except SettingError as problem:
        raise SettingError(f"{path} [inference]: {problem}") from problem


# Ids of items and annotators, classes, keys: what every database, page and file can hold.
NAME = re.compile("[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]{1,200}")


def _like(name: str, known: Any) -> str:
    close = get_close_matches(name, list(known), 1)
    return f" (did you mean {close[0]}?)" if close else ""


TEMPLATE = """\
# A live campaign of crowdwise. Start it with:  crowdwise serve campaign.toml
# Lines with a # are comments. Keys that are commented out show their default, or an example where it says so.

[campaign]
name = "campaign"
# All labels that may be given. An answer with any other label is refused.
classes = ["cat", "dog"]
# The items: a table with the column "item"; its other columns (text, links, full addresses of pictures) are shown with the
# questions.
# For example:
# items = "items.csv"
# Whether votes on items that are not listed are taken in.
new_items = true
# Where votes are kept: by default in a file beside this one and of its name, as campaign.db; or, for example,
# store = "postgresql+psycopg://user@host/name"
# A folder: tables of votes that are put there are read, and moved to its folder "taken". For example:
# drop = "inbox"

[questions]
# Which question comes next: warm-information, information, error-reduction, or ITEM+ANNOTATOR such as entropy+accuracy.
# policy = "warm-information"
# How many annotators may have an item open at a time.
# per_item = 1
# Items with fewer votes than "least" come first; with "most" votes (for example 7; by default any number) an item is closed.
# least = 1
# most = 7
# Share of the questions asked at random, which keeps estimates honest.
# explore = 0.05
# Time after which an unanswered question may go to somebody else.
# lease_minutes = 30.0
# seed = 0

[target]
# Share of right labels to get, and the probability with which to get it.
# accuracy = 0.95
# probability = 0.95
# What ends the campaign: "certified" by checked labels, "expected" by experience with other crowds, or "never".
# stop = "certified"
# What all answers may cost together; by default anything. For example:
# budget = 5000.0

[inference]
# The method of the full fit, which runs beside the service ...
# method = "consensus"
# ... after so many new votes, or when some came and so many seconds have passed.
# refit_votes = 200
# refit_seconds = 60.0

[server]
# Only this machine can connect. "0.0.0.0" lets others in by the names and addresses in "hosts": those of a proxy with HTTPS
# in front, or on a local network that of this machine.
# host = "127.0.0.1"
# port = 8765
# hosts = ["labels.example.org"]
# Largest request and largest uploaded file in bytes, requests per second of one token, seconds for one request.
# max_body = 1000000
# max_upload = 50000000
# rate = 50.0
# timeout = 15.0

# Who may answer. Each gets a token:  crowdwise serve campaign.toml --token anna
# [[annotators]]
# name = "anna"
# capacity = 500
# cost = 1.0
"""
