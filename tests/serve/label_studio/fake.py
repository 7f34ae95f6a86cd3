"""A Label Studio in a thread: as much of the API as the bridge calls, in the shapes that 1.23.2 answers with.

`queue` asks as its free edition does: of the tasks that are not closed and that the user has not answered, those with a
prediction of the project's version, the lowest score first.
"""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "0123456789abcdef0123456789abcdef01234567"
LABELS = ("yes", "no")
Json = dict[str, Any]


class Fake:
    """Projects, tasks, annotations, predictions, webhooks and users; `calls` are the requests, newest last."""

    def __init__(self, n: int = 0, *, people: int = 3) -> None:
        self.lock, self.url = threading.RLock(), ""
        self.clock = datetime(2026, 5, 1, tzinfo=timezone.utc)
        control = {"type": "Choices", "to_name": ["text"], "labels": list(LABELS), "inputs": []}
        self.project: Json = {
            "id": 1,
            "created_at": "2026-04-30T00:00:00Z",
            "title": "A project",
            "model_version": "",
            "sampling": "Sequential sampling",
        }
        self.project |= {"maximum_annotations": 1, "show_overlap_first": False, "show_collab_predictions": True}
        self.project |= {"evaluate_predictions_automatically": False, "skip_queue": "REQUEUE_FOR_OTHERS"}
        self.project["parsed_label_config"] = {"answer": control}
        self.tasks: dict[int, Json] = {}
        self.annotations: dict[int, Json] = {}
        self.predictions: dict[int, Json] = {}
        self.webhooks: dict[int, Json] = {}
        self.models: dict[int, Json] = {}
        self.users = {k: {"id": k, "email": f"p{k}@example.org"} for k in range(1, people + 1)}
        self.calls: list[tuple[str, str, Any]] = []
        self.numbers = 0
        # What is refused: by a part of the path, with a status and words.
        self.refuses: dict[str, tuple[int, str]] = {}
        self.sends = True
        # Tasks that lists and exports leave out, as where pages shift while they are read.
        self.hides: set[int] = set()
        self.sent: list[Json] = []
        for _ in range(n):
            self.new_task()

    # -- what people do ------------------------------------------------------------------------

    def now(self) -> str:
        self.clock += timedelta(milliseconds=7)
        return self.clock.isoformat().replace("+00:00", "Z")

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def new_task(self) -> int:
        number = len(self.tasks) + 101
        self.tasks[number] = {"id": number, "overlap": 1, "is_labeled": False, "updated_at": self.now(), "data": {"text": "t"}}
        return number

    def shown(self, number: int) -> Json:
        those = [one for one in self.annotations.values() if one["task"] == number]
        skipped = sum(one["was_cancelled"] for one in those)
        return self.tasks[number] | {"total_annotations": len(those) - skipped, "cancelled_annotations": skipped}

    def annotate(self, task: int, person: int, label: str | None, **more: Any) -> int:
        """Somebody answers; None skips."""
        with self.lock:
            number = self.number()
            value = {"from_name": "answer", "to_name": "text", "type": "choices", "value": {"choices": [label]}}
            one: Json = {"id": number, "task": task, "completed_by": person, "updated_at": self.now(), "ground_truth": False}
            one |= {"was_cancelled": label is None, "result": [] if label is None else [value]}
            self.annotations[number] = one | more
            self._close(task)
        self.tell("ANNOTATION_CREATED", annotation=self.annotations[number], task=self.shown(task))
        return number

    def change(self, number: int, **fields: Any) -> None:
        with self.lock:
            one = self.annotations[number]
            if "label" in fields:
                one["result"][0]["value"]["choices"] = [fields.pop("label")]
            one |= fields | {"updated_at": self.now()}
            self.tasks[one["task"]]["updated_at"] = self.now()
            self._close(one["task"])
        self.tell("ANNOTATION_UPDATED", annotation=one, task=self.shown(one["task"]))

    def delete(self, *numbers: int) -> None:
        with self.lock:
            for number in numbers:
                self._close(self.annotations.pop(number)["task"])
        self.tell("ANNOTATIONS_DELETED", annotations=[{"id": number} for number in numbers])

    def delete_task(self, task: int) -> None:
        with self.lock:
            del self.tasks[task]
            self.annotations = {k: one for k, one in self.annotations.items() if one["task"] != task}
            self.predictions = {k: one for k, one in self.predictions.items() if one["task"] != task}
        self.tell("TASKS_DELETED", tasks=[{"id": task}])

    def _close(self, task: int) -> None:
        those = {one["completed_by"] for one in self.annotations.values() if one["task"] == task and not one["was_cancelled"]}
        self.tasks[task]["is_labeled"] = len(those) >= self.tasks[task]["overlap"]

    def queue(self, person: int) -> int | None:
        with self.lock:
            solved = {one["task"] for one in self.annotations.values() if one["completed_by"] == person}
            free = [number for number, task in self.tasks.items() if number not in solved and not task["is_labeled"]]
            version = self.project["model_version"]
            scores = [(one["score"], one["task"]) for one in self.predictions.values() if one["model_version"] == version]
            asked = sorted(pair for pair in scores if pair[1] in free)
            return asked[0][1] if asked else next(iter(free), None)

    def tell(self, action: str, **about: Any) -> None:
        """Send webhooks, once, as Label Studio does: nobody hears of those that fail."""
        body = json.loads(json.dumps({"action": action, **about, "project": {"id": 1, "title": "A project"}}))
        self.sent.append(body)
        for hook in [one for one in self.webhooks.values() if self.sends and one["is_active"] and action in one["actions"]]:
            headers = {"Content-Type": "application/json", **hook["headers"]}
            request = urllib.request.Request(hook["url"], json.dumps(body).encode(), headers, method="POST")
            with suppress(OSError):
                urllib.request.urlopen(request, timeout=5).close()

    # -- the API -------------------------------------------------------------------------------

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        self.calls.append((method, path, body))
        for part, (status, words) in self.refuses.items():
            if part in f"{method} {path}":
                return status, {"detail": words}
        for pattern, call in _ROUTES:
            found = re.fullmatch(pattern, f"{method} {path.rstrip('/')}")
            if found:
                with self.lock:
                    return call(self, [int(one) for one in found.groups()], query, body)
        return 404, {"detail": "Not found."}

    def _project(self, ids: list[int], query: Any, body: Any) -> tuple[int, Any]:
        if ids != [1]:
            return 404, {"detail": "No Project matches the given query."}
        shown = [self.shown(number) for number in self.tasks]
        counts = {"task_number": len(shown), "finished_task_number": sum(one["is_labeled"] for one in shown)}
        counts["total_annotations_number"] = sum(one["total_annotations"] for one in shown)
        counts["skipped_annotations_number"] = sum(one["cancelled_annotations"] for one in shown)
        return 200, self.project | counts

    def _set_project(self, ids: list[int], query: Any, body: Json) -> tuple[int, Any]:
        versions = {one["model_version"] for one in self.predictions.values()} | {one["title"] for one in self.models.values()}
        version = body.get("model_version", "")
        if version and version != self.project["model_version"] and version not in versions:
            return 400, {"validation_errors": {"model_version": ["Model version doesn't exist"]}}
        if body.get("show_collab_predictions") is False:
            self.project["model_version"] = ""
        self.project |= body
        return 200, self.project

    def _list(self, ids: list[int], query: Any, body: Any) -> tuple[int, Any]:
        size, page = int(query["page_size"][0]), int(query["page"][0])
        shown = [self.shown(number) for number in self.tasks if number not in self.hides][size * (page - 1) : size * page]
        return (200, {"tasks": shown, "total": len(self.tasks)}) if shown or page == 1 else (404, {"detail": "Invalid page."})

    def _whole(self, number: int, *, user: bool) -> Json:
        those = [one for one in self.annotations.values() if one["task"] == number]
        if user:
            those = [one | {"completed_by": self.users[one["completed_by"]]} for one in those]
        return self.shown(number) | {"annotations": those}

    def _task(self, ids: list[int], query: Any, body: Any) -> tuple[int, Any]:
        return (200, self._whole(ids[0], user=True)) if ids[0] in self.tasks else (404, {"detail": "Not found."})

    def _set_task(self, ids: list[int], query: Any, body: Json) -> tuple[int, Any]:
        if ids[0] not in self.tasks:
            return 404, {"detail": "Not found."}
        # The overlap alone neither closes nor opens a task.
        self.tasks[ids[0]] |= body | {"updated_at": self.now()}
        return 200, self._whole(ids[0], user=False)

    def _export(self, ids: list[int], query: Any, body: Any) -> tuple[int, Any]:
        wanted = [int(one) for one in query["ids[]"]]
        return 200, [self._whole(number, user=False) for number in wanted if number in self.tasks.keys() - self.hides]

    def _predict(self, ids: list[int], query: Any, body: Json) -> tuple[int, Any]:
        number = self.number()
        self.predictions[number] = {"id": number, "project": 1, **body}
        return 201, self.predictions[number]

    def _predict_many(self, ids: list[int], query: Any, body: list[Json]) -> tuple[int, Any]:
        for one in body:
            self._predict([], query, one)
        return 201, {"created": len(body)}

    def _predictions(self, ids: list[int], query: Any, body: Any) -> tuple[int, Any]:
        task = int(query["task"][0]) if "task" in query else None
        return 200, [one for one in self.predictions.values() if task in (None, one["task"])]

    def _set_prediction(self, ids: list[int], query: Any, body: Any) -> tuple[int, Any]:
        if ids[0] not in self.predictions:
            return 404, {"detail": "Not found."}
        if body is None:
            del self.predictions[ids[0]]
            return 204, None
        self.predictions[ids[0]] |= body
        return 200, self.predictions[ids[0]]

    def _hooks(self, ids: list[int], query: Any, body: Any) -> tuple[int, Any]:
        return 200, list(self.webhooks.values())

    def _hook(self, ids: list[int], query: Any, body: Any) -> tuple[int, Any]:
        number = ids[0] if ids else self.number()
        if body is None:
            del self.webhooks[number]
            return 204, None
        self.webhooks[number] = self.webhooks.get(number, {}) | {"id": number} | body
        return 200 if ids else 201, self.webhooks[number]

    def _all_models(self, ids: list[int], query: Any, body: Any) -> tuple[int, Any]:
        shown = ("id", "url", "title", "basic_auth_user")
        return 200, [{key: one[key] for key in shown} | {"readable_state": "Connected"} for one in self.models.values()]

    def _model(self, ids: list[int], query: Any, body: Any) -> tuple[int, Any]:
        if ids:
            del self.models[ids[0]]
            return 204, None
        from base64 import b64encode

        secret = b64encode(f"{body['basic_auth_user']}:{body['basic_auth_pass']}".encode()).decode()
        for path, raw in (("/health", None), ("/setup", b'{"access_token": "x"}')):
            request = urllib.request.Request(body["url"] + path, raw, {"Authorization": f"Basic {secret}"})
            urllib.request.urlopen(request, timeout=5).close()
        number = self.number()
        self.models[number] = {"id": number} | body
        return 201, self.models[number]

    def _users(self, ids: list[int], query: Any, body: Any) -> tuple[int, Any]:
        return 200, list(self.users.values())


_ROUTES = [
    (r"GET /api/projects/(\d+)", Fake._project),
    (r"PATCH /api/projects/(\d+)", Fake._set_project),
    (r"GET /api/projects/(\d+)/export", Fake._export),
    (r"POST /api/projects/(\d+)/import/predictions", Fake._predict_many),
    (r"GET /api/tasks", Fake._list),
    (r"GET /api/tasks/(\d+)", Fake._task),
    (r"PATCH /api/tasks/(\d+)", Fake._set_task),
    (r"GET /api/predictions", Fake._predictions),
    (r"POST /api/predictions", Fake._predict),
    (r"(?:PATCH|DELETE) /api/predictions/(\d+)", Fake._set_prediction),
    (r"GET /api/webhooks", Fake._hooks),
    (r"POST /api/webhooks", Fake._hook),
    (r"(?:PATCH|DELETE) /api/webhooks/(\d+)", Fake._hook),
    (r"GET /api/ml", Fake._all_models),
    (r"POST /api/ml", Fake._model),
    (r"DELETE /api/ml/(\d+)", Fake._model),
    (r"GET /api/users", Fake._users),
]


@contextmanager
def faking(fake: Fake) -> Iterator[Fake]:
    """Serve it at a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts, body = urlsplit(self.path), json.loads(raw) if raw else None
            known = (f"Token {TOKEN}", "Bearer short-lived")
            if parts.path == "/api/token/refresh/":
                good = body == {"refresh": "a.personal.token"}
                status, found = (200, {"access": "short-lived"}) if good else (401, {"detail": "Token is invalid"})
            elif self.headers.get("Authorization") not in known:
                status, found = 401, {"detail": "Invalid token."}
            else:
                status, found = fake.answer(self.command, parts.path, parse_qs(parts.query), body)
            text = b"" if found is None else json.dumps(found).encode()
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", "https://elsewhere.example.org/")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = do_DELETE = _serve

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
