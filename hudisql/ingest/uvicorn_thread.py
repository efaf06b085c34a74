"""An HTTP server of a worker: uvicorn in a thread of its own, which runs one ASGI application."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Final

import uvicorn

from hudisql.errors import InvalidArgumentError

_LOG: Final = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]


async def send_answer(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send a whole answer; `headers` have no content length."""
    headers = [(b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class UvicornThread:
    """`certificate` and `key` are PEM files of TLS. Port 0 is a free port."""

    def __init__(
        self,
        application: Application,
        host: str,
        port: int,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self._address = f"{host}:{port}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                application,
                host=host,
                port=port,
                http="httptools",
                ws="none",
                lifespan="off",
                interface="asgi3",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                ssl_certfile=certificate,
                ssl_keyfile=key,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=30,
            )
        )
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    @property
    def port(self) -> int:
        """The port that a started server listens on."""
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    def start(self) -> None:
        """Return when the server listens. Raises InvalidArgumentError if it cannot."""
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise InvalidArgumentError(
                    f"the HTTP server cannot listen on {self._address}",
                    hint="choose an address of this machine and a port that is free",
                )
            time.sleep(0.005)

    def stop(self) -> None:
        """Complete the requests that run, and stop."""
        self._server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        # uvicorn exits the process, here the thread, if it cannot listen; `start` reports it.
        try:
            self._server.run()
        except SystemExit:
            _LOG.error("the HTTP server cannot listen on %s", self._address)


def host_and_port(text: str, *, lowest_port: int = 1) -> tuple[str, int]:
    """The parts of HOST:PORT. Raises InvalidArgumentError."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or not lowest_port <= int(port) < 1 << 16:
        raise InvalidArgumentError(f"'{text}' is not HOST:PORT", hint="such as 127.0.0.1:8443")
    return host.strip("[]") or "127.0.0.1", int(port)
