"""What `crowdwise serve` takes: deliveries in any order, kills under load, five hundred votes a second, memory under traffic.

    python -m benchmarks run serve_load                 # what has no record yet, written to its page
    python -m benchmarks run serve_load --parts load    # one part

A server of its own on 127.0.0.1, with the settings that a campaign has by default but for the rate of one token, and its votes
in SQLite on the disk of this machine. Requests are sent when their time has come, whether or not earlier ones are answered, and
take from that time to the end of the answer; the program that sends them shares the cores with the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import Records
from benchmarks.scale.serve_traffic import ANNOTATORS, ITEMS, Server, in_turn, lags, traffic

BENCHMARK = Benchmark(
    "Does a live campaign keep every vote, and how fast does it answer?",
    sections=("serve load",),
    packages=("fastapi", "uvicorn", "sqlalchemy"),
    measures=("serve",),
    renders=("",),
    no_quick="starts and kills servers, which takes seconds each",
)

SECTION, PARTS = "serve load", ("deliveries", "webhooks", "kills", "hostile", "load", "memory")
DELIVERIES, KILLS, HOSTILE = 10_000, 100, 1_000
EARLIER = 300_000
# Votes and questions a second; for the memory those of a team of a thousand, of whom each answers 72 times in the hour.
PER_SECOND, QUESTIONS, SECONDS = 500, 100, 120
MEMORY_PER_SECOND, MEMORY_QUESTIONS = 20, 10


def histories(n: int, seed: int) -> list[dict[str, Any]]:
    """Deliveries about votes, each given, perhaps changed and perhaps deleted, with times of the source."""
    rng, made, number = random.Random(seed), [], 0
    while len(made) < n:
        number += 1
        about = {"item": f"i{rng.randrange(n // 10)}", "annotator": f"a{rng.randrange(50)}", "ref": str(number)}
        for step in range(rng.randint(1, 4)):
            gone = step > 0 and rng.random() < 0.2
            more = {"action": "delete"} if gone else {"label": rng.choice(["cat", "dog"])}
            made.append({**about, **more, "key": f"{number}-{step}", "at": 1e9 + rng.randrange(1000)})
    return made[:n]


def newest(made: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each vote the delivery with the latest time and, of equals, the last key."""
    state: dict[str, dict[str, Any]] = {}
    for one in made:
        if one["ref"] not in state or (one["at"], one["key"]) > (state[one["ref"]]["at"], state[one["ref"]]["key"]):
            state[one["ref"]] = one
    return state


def kept(folder: Path) -> dict[str, tuple[Any, ...]]:
    """What the database holds of every vote."""
    import sqlite3

    with sqlite3.connect(folder / "campaign.db") as connection:
        rows = connection.execute("SELECT ref, action, label FROM votes").fetchall()
    return {ref.removeprefix("ref:"): (action, label) for ref, action, label in rows}


def wanted(made: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    return {ref: (one.get("action", "label"), one.get("label")) for ref, one in newest(made).items()}


def reports(n: int, seed: int) -> list[dict[str, Any]]:
    """What Label Studio sends of annotations that are given, changed, skipped and deleted."""
    rng, made = random.Random(seed), []
    for number in range(1, n + 1):
        about = {"id": number, "task": rng.randrange(1, 400), "completed_by": rng.randrange(1, 40), "ground_truth": False}
        for step in range(rng.randint(1, 3)):
            if step and rng.random() < 0.2:
                made.append({"action": "ANNOTATIONS_DELETED", "annotations": [{"id": number}], "project": {"id": 1}})
                break
            label = rng.choice(["cat", "dog", None])
            result = [{"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": [label]}}]
            at = f"2026-05-01T{rng.randrange(24):02}:{rng.randrange(60):02}:{step:02}.{number:06}Z"
            one = about | {"updated_at": at, "was_cancelled": label is None, "result": [] if label is None else result}
            made.append(
                {"action": "ANNOTATION_UPDATED" if step else "ANNOTATION_CREATED", "annotation": one, "project": {"id": 1}}
            )
    return made[:n]


def left_of(made: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """What is left of every annotation: nothing of those that were deleted, of the others what was the case last."""
    newest: dict[int, tuple[str, Any]] = {}
    gone = {one["id"] for body in made for one in body.get("annotations", ())}
    for one in (body["annotation"] for body in made if "annotation" in body):
        label = one["result"][0]["value"]["choices"][0] if one["result"] else None
        newest[one["id"]] = max(newest.get(one["id"], ("", "")), (one["updated_at"], label or ""))
    left = {number: ("label", label) if label else ("skip", None) for number, (_, label) in newest.items()}
    return {f"label-studio:{number}": state for number, state in (left | dict.fromkeys(gone, ("delete", None))).items()}


def webhooks() -> dict[str, Any]:
    """Webhooks of Label Studio, each one to three times, in random order, from four senders at once."""
    made, rng = reports(DELIVERIES, 5), random.Random(6)
    sent = [body for body in made for _ in range(rng.randint(1, 3))]
    rng.shuffle(sent)
    section = '[label_studio]\nurl = "http://127.0.0.1:9"\nproject = 1\nquestion = "kind"\nnames = "id"\n'
    os.environ.setdefault("LABEL_STUDIO_API_KEY", "of-nobody-here")
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(name), section)
        start = time.perf_counter()

        def send(part: list[dict[str, Any]]) -> None:
            for body in part:
                server.client.call("POST", "/webhook", body)

        senders = [threading.Thread(target=send, args=(sent[k::4],)) for k in range(4)]
        for one in senders:
            one.start()
        for one in senders:
            one.join()
        seconds = time.perf_counter() - start
        server.stop()
        found, keys = kept(Path(name)), _keys(Path(name))
    state = left_of(made)
    wrong = sum(found.get(ref) != one for ref, one in state.items()) + len(found.keys() - state.keys())
    return {
        "webhooks": len(made),
        "sent": len(sent),
        "votes": len(found),
        "wrong": wrong,
        "written": len(keys),
        "seconds": seconds,
    }


def deliveries() -> dict[str, Any]:
    """Each delivery one to three times, in random order, from four senders at once."""
    made, rng = histories(DELIVERIES, 0), random.Random(1)
    sent = [one for one in made for _ in range(rng.randint(1, 3))]
    rng.shuffle(sent)
    with tempfile.TemporaryDirectory() as name:
        server, outcomes = Server(Path(name)), []
        start = time.perf_counter()

        def send(part: list[dict[str, Any]]) -> None:
            for one in part:
                outcomes.append(server.client.call("POST", "/votes", one)["outcome"])

        senders = [threading.Thread(target=send, args=(sent[k::4],)) for k in range(4)]
        for one in senders:
            one.start()
        for one in senders:
            one.join()
        seconds = time.perf_counter() - start
        server.stop()
        found = kept(Path(name))
    wrong = sum(found.get(ref) != state for ref, state in wanted(made).items()) + len(found.keys() - wanted(made).keys())
    counts = {kind: outcomes.count(kind) for kind in ("taken", "older", "repeated")}
    return {"deliveries": len(made), "sent": len(sent), "votes": len(found), "wrong": wrong, "seconds": seconds, **counts}


def kills() -> dict[str, Any]:
    """Kill the server under load again and again; what was not acknowledged is sent again."""
    made, rng = histories(20 * KILLS, 2), random.Random(3)
    waiting, lock, acknowledged = list(reversed(made)), threading.Lock(), []
    over = threading.Event()
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(name))

        def send() -> None:
            while not over.is_set():
                with lock:
                    one = waiting.pop() if waiting else None
                if one is None:
                    # All are sent: so that the load goes on, some are sent again.
                    one = rng.choice(made)
                while not over.is_set():
                    try:
                        server.client.call("POST", "/votes", one)
                        acknowledged.append(one["key"])
                        break
                    except Exception:  # the server is away
                        time.sleep(0.02)

        senders = [threading.Thread(target=send) for _ in range(4)]
        for one in senders:
            one.start()
        lost = done = 0
        for _ in range(KILLS):
            before = len(acknowledged)
            while len(acknowledged) < before + 10:
                time.sleep(0.01)
            time.sleep(rng.random() * 0.3)
            server.kill()
            done += 1
            here = set(_keys(Path(name)))
            lost += sum(key not in here for key in acknowledged)
            server.restart()
        while waiting:
            time.sleep(0.05)
        time.sleep(1)
        over.set()
        for one in senders:
            one.join()
        server.stop()
        found, keys = kept(Path(name)), _keys(Path(name))
    wrong = sum(found.get(ref) != state for ref, state in wanted(made).items())
    return {"kills": done, "acknowledged": len(acknowledged), "lost": lost, "twice": len(keys) - len(set(keys)), "wrong": wrong}


def _keys(folder: Path) -> list[str]:
    import sqlite3

    with sqlite3.connect(folder / "campaign.db") as connection:
        return [row[0] for row in connection.execute("SELECT key FROM deliveries")]


def hostile() -> dict[str, Any]:
    """Requests that nobody should send: without a token, too large, damaged, to places that are none."""
    rng, statuses = random.Random(4), []
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(name))
        good = json.dumps({"item": "i", "annotator": "a", "label": "cat"}).encode()
        for _ in range(HOSTILE):
            method, path = rng.choice(["POST", "PUT", "DELETE", "GET", "BREW"]), rng.choice(PLACES)
            token = rng.choice(["", "x" * 43, server.token if method == "POST" else ""])
            if token == server.token and (method, path) == ("POST", "/votes"):
                # With a valid token only what is malformed.
                body = rng.choice(
                    [good[: rng.randrange(len(good) - 1)], b"[" * 9_000, b"x" * 1_200_000, b'{"item": "\\ud800"}']
                )
            else:
                body = rng.choice([b"", good, bytes(rng.randrange(256) for _ in range(200))])
            head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n"
            head += f"content-length: {len(body)}\r\n"
            raw = bytearray(head.encode() + b"\r\n" + body)
            if token != server.token:
                for _ in range(rng.choice([0, 0, 0, 1, 3])):
                    raw[rng.randrange(len(raw))] = rng.randrange(256)
            statuses.append(_status(server, bytes(raw)))
        server.stop()
        written = len(_keys(Path(name))) + len(kept(Path(name)))
    return {
        "requests": len(statuses),
        "4xx": sum(400 <= s < 500 for s in statuses),
        "5xx": sum(s >= 500 for s in statuses),
        "closed": statuses.count(0),
        "written": written,
    }


def _status(server: Server, raw: bytes) -> int:
    """The status of the answer; 0 where there is none in half a second, as of requests that promise more than they bring."""
    import contextlib
    import socket

    found = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=0.5) as line:
        line.sendall(raw)
        found = line.recv(65536)
    return int(found.split()[1]) if found else 0


PLACES = ["/votes", "/upload?name=../x.csv", "/items", "/annotators", "/audit", "/checks", "/../../etc/passwd"]
PLACES += ["/%2e%2e/campaign.db", "/signin", "//votes", "/" + "a" * 3_000, "/release", "/next?annotator=%00"]


def filled(folder: Path) -> Server:
    """A campaign with votes on most of its items, and their first fit."""
    server, rng = Server(folder), random.Random(0)
    for start in range(0, ITEMS, 10_000):
        server.client.add_items([f"i{n}" for n in range(start, start + 10_000)])
    right = [rng.choice(["cat", "dog"]) for _ in range(ITEMS)]
    pairs = {(rng.randrange(ITEMS), rng.randrange(ANNOTATORS)) for _ in range(EARLIER)}
    other = {"cat": "dog", "dog": "cat"}
    rows = [f"i{n},a{a},{right[n] if rng.random() < 0.8 else other[right[n]]}" for n, a in sorted(pairs)]
    server.client.upload("\n".join(["item,annotator,label", *rows]).encode())
    server.settle(len(rows))
    return server


def load() -> dict[str, Any]:
    """Questions and answers for two minutes."""
    with tempfile.TemporaryDirectory() as name:
        server, own = filled(Path(name)), time.process_time
        asyncio.run(traffic(server, 100, 100, 10))
        before, used, sender, start = server.client.progress()["votes"], server.processor_seconds(), own(), time.perf_counter()
        taken, waits = asyncio.run(_followed(server))
        seconds, used, sender = time.perf_counter() - start, server.processor_seconds() - used, own() - sender
        time.sleep(3)
        after, megabytes = server.client.progress()["votes"], server.megabytes()
        server.stop()
    facts = {f"{kind} p{p:g}": _percentile(taken[kind], p) for kind in taken for p in (50, 99, 99.9)}
    facts |= {f"{kind} highest": max(taken[kind]) for kind in taken} | {"labels behind": max(waits)}
    sent = {f"{kind} sent": len(found) for kind, found in taken.items()}
    used_up = {"processor": used, "sender": sender, "megabytes": megabytes}
    return {**facts, **sent, "new votes": after - before, "seconds": seconds, **used_up}


async def _followed(server: Server) -> tuple[dict[str, list[float]], list[float]]:
    waits, over = list[float](), asyncio.Event()
    watching = asyncio.create_task(lags(server, waits, over))
    taken = await traffic(server, PER_SECOND, QUESTIONS, SECONDS)
    over.set()
    await watching
    return taken, waits


def memory() -> list[tuple[int, float, float, int]]:
    """Minutes of an hour, megabytes, seconds that it took, and votes, while its requests come one after the other."""
    with tempfile.TemporaryDirectory() as name:
        server, found, begin = filled(Path(name)), [], time.perf_counter()
        for minute in range(0, 61, 5):
            if minute:
                asyncio.run(in_turn(server, 300 * MEMORY_PER_SECOND, 300 * MEMORY_QUESTIONS))
                server.client.labels()
            votes = server.client.progress()["votes"]
            found.append((minute, server.megabytes(), time.perf_counter() - begin, votes))
            print(found[-1], flush=True)
        server.stop()
    return found


def _percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]


def render(records: Records, found: dict[str, Any]) -> str:
    """The block of the page."""
    rows: list[list[str]] = []
    d, k, w = found["deliveries"], found["kills"], found["webhooks"]
    rows.append(
        ["deliveries duplicated, reordered and late", f"{d['deliveries']:,} sent as {d['sent']:,}; {d['wrong']} votes wrong"]
    )
    words = f"{w['webhooks']:,} sent as {w['sent']:,}; {w['votes']:,} votes, {w['wrong']} of them wrong"
    rows.append(["webhooks of Label Studio duplicated, reordered and late", words])
    lost = f"{k['lost']} of {k['acknowledged']:,} acknowledged votes lost, {k['twice']} doubled, {k['wrong']} wrong"
    rows.append([f"{k['kills']} kills under load", lost])
    h = found["hostile"]
    refused = f"{h['4xx']:,} refused with 4xx, {h['closed']} without an end or an answer"
    words = f"{h['5xx']} answered with 5xx, {h['written']} rows written; {refused}"
    rows.append([f"{h['requests']:,} hostile requests", words])
    of, m = found["load"], found["memory"]
    for kind, name in (("votes", "POST /votes"), ("next", "GET /next")):
        times = ", ".join(f"{words} {1000 * of[f'{kind} {key}']:.0f} ms" for key, words in LATENCIES.items())
        rows.append([f"{name}, {of[f'{kind} sent'] / of['seconds']:.0f} a second for {of['seconds']:.0f} s", times])
    rows.append(
        [
            "processor time of the server then",
            f"{100 * of['processor'] / of['seconds']:.0f}% of one core, {of['megabytes']:.0f} MB; "
            f"{100 * of['sender'] / of['seconds']:.0f}% of a core sent the requests",
        ]
    )
    rows.append(["labels behind the votes then", f"at most {of['labels behind']:.1f} s, looked at every second"])
    at = {minute: megabytes for minute, megabytes, _, _ in m}
    words = (
        ", ".join(f"{at[minute]:.0f} MB after {minute}" for minute in (5, 20, 40)) + f" and {at[60]:.0f} MB after 60 minutes"
    )
    sent = (
        f"an hour of {MEMORY_PER_SECOND} votes and {MEMORY_QUESTIONS} questions a second, sent in {m[-1][2] / 60:.0f} minutes"
    )
    rows.append([sent, f"{words}; {m[0][3]:,} votes became {m[-1][3]:,}"])
    about = f"{ITEMS:,} items, {ANNOTATORS:,} annotators and {EARLIER:,} earlier votes drawn for the last four lines."
    command = "python -m benchmarks run serve_load"
    return f"{provenance(command, records)}\n\n{about}\n\n{table(['what', 'found'], rows)}"


LATENCIES = {"p50": "half within", "p99": "99% within", "p99.9": "99.9% within", "highest": "all within"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--dry-run", action="store_true", help="measure and print, record nothing")
    given = parser.parse_args()
    measure = {
        "deliveries": deliveries,
        "webhooks": webhooks,
        "kills": kills,
        "hostile": hostile,
        "load": load,
        "memory": memory,
    }
    records, found = Records("serve_load"), {}
    for part in given.parts.split(","):
        found[part] = measure[part]() if given.dry_run else records.once(part, measure[part])
        print(part, json.dumps(found[part]), flush=True)
    if not given.dry_run and set(found) == set(PARTS):
        put(SECTION, render(records, found))


if __name__ == "__main__":
    main()
