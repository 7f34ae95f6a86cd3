"""What benchmarks there are, what they need, and the state of their figures."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.checking import said
from benchmarks.declaration import FAMILIES, ROOMS, Script, scripts
from benchmarks.page import block
from benchmarks.provenance import changed_since, day_of, last_of, measured_in
from benchmarks.records import Records

SAID = {name: f"{len(sets)} sets ({name})" for name, sets in FAMILIES.items()}


def listing(rooms: list[str]) -> Iterator[str]:
    """A line each, room by room."""
    for room in rooms or ROOMS:
        if room not in ROOMS:
            raise SystemExit(f"no room is called {room!r}; there are {', '.join(ROOMS)}")
        yield f"{room}: {ROOMS[room][0]}"
        for script in scripts().values():
            if script.room == room:
                yield f"  {script.name:22} {script.declared.question}"
                yield f"  {'':22} needs: {needs(script)}; {state(script)}"


def needs(script: Script) -> str:
    """Packages and data, those that are missing marked."""
    missing = {one.split()[1] for one in script.missing()}
    names = [*script.declared.packages, *script.declared.data]
    lacking = {name for name in names if name in missing or (set(script.sets) & missing and name in script.declared.data)}
    said = {name: SAID.get(name, name) for name in names}
    return ", ".join(f"{said[name]} (missing)" if name in lacking else said[name] for name in names) or "nothing"


def state(script: Script) -> str:
    """When its figures were measured, by which code, and whether they are stale."""
    records = Records(script.declared.records or script.name).lines()
    if records:
        marks = [(line.get("day") or day_of(line["code"]), line["code"]) for line in records]
        kind = f"{len(records)} records, "
    else:
        marks = [mark for section in script.declared.sections for mark in measured_in(block(section))]
        kind = "rerun to record; " if marks and script.declared.renders else ""
    days = sorted({day for day, _ in marks if day})
    if not days and records:
        return f"{kind}stale (made by commits that this history does not have)"
    if not days:
        return "not measured" if script.declared.sections else "prints its tables, no page has them"
    when = days[0] + (f" to {days[-1]}" if days[-1] != days[0] else "")
    commits = list(dict.fromkeys(commit or last_of(day) for day, commit in marks))
    told = ", ".join(commits[:3]) + (f" and {len(commits) - 3} more" if len(commits) > 3 else "")
    return f"{kind}measured {when} at {told}: {confirmed(script, staleness(script, commits))}"


def confirmed(script: Script, stale: str) -> str:
    """With what became of runs that were measured again; *confirmed* where they were the same and nothing changed since."""
    last = next((line for line in reversed(Records("checks").lines()) if line["key"] == script.name), None)
    if last is None or stale == "current":
        return stale
    later, result = changed_since(last["code"], script.measures), last["result"]
    word = stale.replace("stale", "confirmed", 1) if result["same"] == result["numbers"] and later == 0 else stale
    return f"{word}; {said(result)} on {last['day']} at {last['code']}" + (f", {later} files ago" if later else "")


def staleness(script: Script, commits: list[str]) -> str:
    """`current`, or how many measured files have changed since the earliest of the commits."""
    changed = [changed_since(commit, script.measures) for commit in commits]
    known = [number for number in changed if number is not None]
    if len(known) < len(changed):
        return "stale (made by a commit that this history does not have)"
    return f"stale ({max(known)} measured files changed since)" if max(known) else "current"
