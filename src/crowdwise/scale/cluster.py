"""Join a Ray cluster that runs, or start one on this machine that only its owner can reach.

A cluster of ours listens on the loopback interface alone and answers nobody without a token, which is drawn at random, stands
in the environment of its processes and nowhere else. Its files lie in a folder that is closed to other users, and go with it.
A cluster that was there before is joined as it is: who may reach it is the business of whoever started it.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.errors import CrowdwiseError, MissingExtraError, SettingError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Connection", "connect", "import_ray"]

_LOOPBACK = ("127.0.0.1", "::1")
_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    # Otherwise Ray replaces a loopback address by one that other machines reach.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Its default is announced with a warning.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# Where the user's own token would come from; it is not for us to spread.
_TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")

# Seconds until the address of a cluster must answer.
_REACHABLE = 5.0

_lock = threading.RLock()
# Connections that share what the first of them has opened, and how that is closed.
_users = 0
_closing = ExitStack()


class Connection:
    """A place among the users of a cluster; the last one to leave ends it, or disconnects where it is not ours."""

    def __init__(self, held: bool) -> None:
        # Also when nobody closes it: whoever forgets an engine leaves no processes behind.
        self._finalizer = weakref.finalize(self, _leave if held else _stay)

    def close(self) -> None:
        """Leave; more than once does no harm."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(address: str | None = None, *, cpus: int | None = None) -> Connection:
    """Connect this process to Ray; what it is connected to already is used, and left alone.

    Parameters
    ----------
    address : str, optional
        "auto" for the cluster this machine belongs to, or host:port. Default: start one here, which ends with the connection.
    cpus : int, optional
        Processes that may run at the same time on a cluster started here; by default as many as there are cores.
    """
    global _users
    ray = import_ray()
    with _lock:
        if ray.is_initialized() and _users == 0:
            return Connection(held=False)
        if _users == 0:
            _join(ray, address) if address is not None else _start(ray, cpus)
        _users += 1
        return Connection(held=True)


def import_ray() -> Any:
    """Return Ray, or say how to get it."""
    try:
        import ray
    except ImportError as problem:
        raise MissingExtraError("this engine needs Ray: pip install 'crowdwise[scale]'") from problem
    return ray


def _leave() -> None:
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            _closing.close()


def _stay() -> None:
    """Not ours to close."""


def _join(ray: Any, address: str) -> None:
    _check_reachable(address)
    with ExitStack() as undo:
        undo.enter_context(_own_signals())
        undo.enter_context(_silence())
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except ray.exceptions.AuthenticationError as problem:
            raise SettingError(
                f"the Ray cluster at {address} asks for its token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN "
                "(or RAY_AUTH_TOKEN_PATH) as on its nodes"
            ) from problem
        except (ConnectionError, ValueError, RuntimeError) as problem:
            raise SettingError(
                f"no Ray cluster at {address}: start one (ray start --head), or leave the address out to use this machine"
            ) from problem
        undo.callback(ray.shutdown)
        _closing.push(undo.pop_all())


def _check_reachable(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try for minutes, and say so line by line."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACHABLE).close()
    except OSError as problem:
        raise SettingError(
            f"no Ray cluster at {address} ({problem.strerror or problem}): start one (ray start --head), "
            "or leave the address out to use this machine"
        ) from problem


def _start(ray: Any, cpus: int | None) -> None:
    from ray._private import ray_constants

    with ExitStack() as undo:
        folder = _private_folder()
        if folder is not None:
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
        undo.enter_context(_own_signals())
        undo.enter_context(_silence())
        # After the environment is restored, for the next cluster of this process: the token is read once.
        undo.callback(_read_security_again)
        clustered = ray_constants.ENABLE_RAY_CLUSTER
        try:
            with _environment(_ENVIRONMENT | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}):
                # Ray read its settings when it was imported, maybe long ago.
                ray_constants.ENABLE_RAY_CLUSTER = False
                _read_security_again()
                ray.init(
                    address="local",
                    num_cpus=cpus,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    _node_ip_address=_LOOPBACK[0],
                    _temp_dir=None if folder is None else str(folder / "ray"),
                )
                undo.callback(ray.shutdown)
        finally:
            ray_constants.ENABLE_RAY_CLUSTER = clustered
        _check_closed(ray)
        _closing.push(undo.pop_all())


def _check_closed(ray: Any) -> None:
    """Settings of Ray that are not public may come to nothing in another version: then nothing runs."""
    raylet: Any = import_module("ray._raylet")
    reached = [node["NodeManagerAddress"] for node in ray.nodes()]
    if not set(reached) <= set(_LOOPBACK) or raylet.get_authentication_mode() != raylet.AuthenticationMode.TOKEN:
        raise CrowdwiseError(
            f"Ray {ray.__version__} does not keep to this machine (it listens on {', '.join(reached)}); "
            "install the version named in constraints.txt, or start a cluster yourself and give its address"
        )


def _read_security_again() -> None:
    """Let Ray read the mode and the token from the environment, in this order: see its `reset_auth_token_state`."""
    raylet: Any = import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


def _private_folder() -> Path | None:
    """A folder of our own for the cluster's files: Ray opens those it makes to everybody."""
    if os.name != "posix":
        return None
    # Names of sockets are short, and the temporary folders of some systems are not.
    return Path(tempfile.mkdtemp(prefix="cw-", dir="/tmp" if os.access("/tmp", os.W_OK) else None))


@contextmanager
def _environment(wanted: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in (*wanted, *_TOKENS)}
    for name in _TOKENS:
        os.environ.pop(name, None)
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _silence() -> Iterator[None]:
    """Ray prints pages about every lost node to stdout, where results may go; engines say themselves what was lost."""
    from ray._private import worker

    before = worker.print_to_stdstream
    worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        worker.print_to_stdstream = before


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself; give it back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        # Another thread may be the one that closes, or the handler one that Python knows nothing of.
        with suppress(ValueError, TypeError):
            signal.signal(signal.SIGTERM, before)
