"""A real S3 server (moto's) and a real HDFS (Hadoop's mini cluster), on the loopback only."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudisql.java_runtime import ensure_java_home
from scripts.setup_oracles import hadoop_jars
from tests.processes import wait_or_kill

BUCKET = "hudisql-test"


@dataclass(frozen=True)
class S3Request:
    """A request that a server got: `path` is `/bucket/key`, `query` its text after the question mark."""

    method: str
    path: str
    query: str

    @property
    def kind(self) -> str:
        """The method, with what tells requests of one method apart."""
        if "list-type" in self.query:
            return "LIST"
        upload = "upload" in self.query
        return f"{self.method} of an upload" if upload else self.method


class OneAtATime:
    """moto checks a put's condition and stores the object in two steps, which S3 does in one.

    Each request is added to `requests`, whichever process sent it.
    """

    def __init__(self, application: Callable[..., Any], requests: list[S3Request]) -> None:
        self._application = application
        self._requests = requests
        self._lock = threading.Lock()

    def __call__(self, environment: Mapping[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        request = S3Request(
            environment["REQUEST_METHOD"], environment["PATH_INFO"], environment.get("QUERY_STRING", "")
        )
        with self._lock:
            self._requests.append(request)
            return list(self._application(environment, start_response))


@contextmanager
def s3_server(requests: list[S3Request] | None = None) -> Iterator[dict[str, str]]:
    """The Hadoop settings of a running S3 server that holds one empty bucket.

    `requests`, if given, gets every request that the server is sent; the caller may clear it.
    """
    import boto3
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_arguments: Any) -> None:
            pass

    application = OneAtATime(
        DomainDispatcherApplication(create_backend_app), [] if requests is None else requests
    )
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="any",
            aws_secret_access_key="any",
        ).create_bucket(Bucket=BUCKET)
        yield {
            "fs.s3a.endpoint": endpoint,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": "AKIATESTTESTTEST",
            "fs.s3a.secret.key": "hush-hush",
        }
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def hdfs_cluster(directory: Path) -> Iterator[str]:
    """The URI of a running HDFS. Fails if its jars are not set up."""
    jars = hadoop_jars()
    assert jars is not None, "Hadoop's mini cluster is not set up: run `make oracles`"
    java = Path(ensure_java_home()) / "bin" / "java"
    launcher = Path(__file__).with_name("MiniCluster.java")
    log = directory / "cluster.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [str(java), "-Xmx384m", "-cp", f"{jars}/*", str(launcher), str(directory / "data")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdin is not None
        with process.stdin, process.stdout:
            try:
                first = process.stdout.readline()
                assert first.startswith("ready "), f"HDFS did not start: {log.read_text()[-3000:]}"
                yield first.split()[1].rstrip("/")
            finally:
                process.stdin.close()
                wait_or_kill(process, 60)
