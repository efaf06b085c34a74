from __future__ import annotations

import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ResponseStreamingError
from botocore.response import StreamingBody

from hudisql.errors import NoSuchPathError, PathExistsError, StorageError
from hudisql.storage import Storage, is_inside
from hudisql.storage.s3_listing import list_keys
from hudisql.storage.s3_settings import s3_settings as settings_of
from tests.storage.servers import BUCKET, S3Request, s3_server


def test_the_three_schemes_are_kept_and_compared_as_one() -> None:
    storage = Storage()
    assert storage.qualify("S3N://bucket//a/./b/") == "s3n://bucket/a/b"
    assert storage.qualify("s3://bucket/") == "s3://bucket"
    assert storage.resolve("s3://bucket/a") == storage.resolve("s3n://bucket/a") == "s3a://bucket/a"
    assert is_inside("s3a://bucket/a/b", "s3://bucket/a")
    assert not is_inside("s3a://bucket/ab", "s3://bucket/a")
    with pytest.raises(StorageError, match="no bucket"):
        storage.qualify("s3a:///a")


def test_the_three_schemes_reach_the_same_object(s3_settings: dict[str, str]) -> None:
    storage = Storage(s3_settings)
    storage.write(f"s3://{BUCKET}/alias/x", b"1")
    assert storage.read(f"s3n://{BUCKET}/alias/x") == b"1"
    assert [file.path for file in storage.list_files(f"s3a://{BUCKET}/alias")] == [f"s3a://{BUCKET}/alias/x"]


@pytest.mark.parametrize("longer_by", [-1, 1])
def test_an_object_of_another_length_than_listed_is_not_read(
    s3_settings: dict[str, str], longer_by: int
) -> None:
    storage, path = Storage(s3_settings), f"s3a://{BUCKET}/replaced"
    storage.write(path, b"0123456789")
    with (
        storage.open_input(path, 10 - longer_by) as stream,
        pytest.raises(StorageError, match=r"replaced has 10 bytes and had (9|11) when it was listed"),
    ):
        stream.read()
    with storage.open_input(path, 1000) as stream:
        stream.seek(500)
        with pytest.raises(StorageError, match="replaced is shorter than the 1000 bytes that it had"):
            stream.read()


def test_an_object_that_is_replaced_between_two_reads_is_an_error(s3_settings: dict[str, str]) -> None:
    storage, path = Storage(s3_settings), f"s3a://{BUCKET}/replaced"
    storage.write(path, b"0123456789")
    with storage.open_input(path, 10) as stream:
        assert stream.read(5) == b"01234"
        storage.write(path, b"9876543210")
        with pytest.raises(StorageError, match="replaced was replaced while it was read"):
            stream.read(5)


def test_the_end_of_an_object_is_asked_for_once() -> None:
    path, content = f"s3a://{BUCKET}/{uuid.uuid4().hex}", bytes(range(256)) * 1024
    requests: list[S3Request] = []
    with s3_server(requests) as settings:
        storage = Storage(settings)
        storage.write(path, content)
        requests.clear()
        with storage.open_input(path, len(content)) as stream:
            for start, stop in ((-1000, None), (-900, -800), (-1, None), (-1001, -10), (0, 5)):
                stream.seek(len(content) + start if start else 0)
                expected = content[start:stop]
                assert stream.read(len(expected)) == expected
    assert [sent.method for sent in requests] == ["GET"] * 3


def test_an_answer_that_is_cut_off_is_asked_for_again(
    s3_settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, path = Storage(s3_settings), f"s3a://{BUCKET}/cut-off"
    storage.write(path, b"0123456789")
    read, failures = StreamingBody.read, [ResponseStreamingError(error="cut off")]

    def cut_off(body: StreamingBody) -> bytes:
        if failures:
            raise failures.pop()
        return bytes(read(body))

    monkeypatch.setattr(StreamingBody, "read", cut_off)
    with storage.open_input(path, 10) as stream:
        assert stream.read() == b"0123456789"
    assert not failures


@pytest.mark.parametrize(
    ("chunks", "kinds"),
    [(3, ["PUT"]), (20, ["POST of an upload", *["PUT of an upload"] * 2, "POST of an upload"])],
)
def test_a_small_object_is_one_put_and_a_large_one_an_upload_in_parts(chunks: int, kinds: list[str]) -> None:
    chunk, path = bytes(range(256)) * 4096, f"s3a://{BUCKET}/{uuid.uuid4().hex}"
    requests: list[S3Request] = []
    with s3_server(requests) as settings:
        storage = Storage(settings)
        with storage.open_output(path) as stream:
            for _ in range(chunks):
                stream.write(chunk)
            assert not storage.exists(path)
        sent = [each.kind for each in requests if each.method in ("POST", "PUT") and each.path.count("/") > 1]
        assert storage.read(path) == chunk * chunks
    assert sorted(sent) == sorted(kinds)


def test_settings_of_a_bucket_win_and_are_read_as_s3a_does() -> None:
    configuration = {
        "fs.s3a.endpoint": "minio.local:9000",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": "all",
        "fs.s3a.bucket.own.access.key": "own",
        "fs.s3a.bucket.own.endpoint": "https://s3.eu-west-1.amazonaws.com",
        "fs.s3a.bucket.own.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    plain, own = settings_of(configuration, "plain"), settings_of(configuration, "own")
    assert (plain.endpoint_url, plain.access_key, plain.region) == (
        "http://minio.local:9000",
        "all",
        "us-east-1",
    )
    assert (own.endpoint_url, own.access_key, own.region) == (None, "own", "eu-west-1")
    assert own.providers == ("simple",)
    with pytest.raises(StorageError, match=r"com\.example\.Mine"):
        settings_of({"fs.s3a.aws.credentials.provider": "com.example.Mine"}, "b")


@pytest.mark.parametrize(
    ("configuration", "environment", "signed_by"),
    [
        (
            {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
            {},
            None,
        ),
        ({"access.key": "KEY", "secret.key": "S"}, {"AWS_ACCESS_KEY_ID": "ENV"}, "KEY"),
        ({"access.key": "KEY", "secret.key": "S", "session.token": "T"}, {}, "KEY"),
        ({}, {"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "S"}, "ENV"),
    ],
)
def test_the_first_provider_with_keys_signs(
    configuration: dict[str, str],
    environment: dict[str, str],
    signed_by: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hudisql.storage.s3_credentials import S3Credentials

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = settings_of({f"fs.s3a.{name}": value for name, value in configuration.items()}, "b")
    keys = S3Credentials(settings).current()
    assert keys.access_key == signed_by
    assert keys.anonymous == (signed_by is None)
    assert keys.session_token == configuration.get("session.token")


def test_an_assumed_role_signs_with_its_temporary_keys(s3_settings: dict[str, str]) -> None:
    storage = Storage(
        s3_settings
        | {
            "fs.s3a.assumed.role.arn": "arn:aws:iam::123456789012:role/loader",
            "fs.s3a.assumed.role.sts.endpoint": s3_settings["fs.s3a.endpoint"],
            "fs.s3a.assumed.role.session.duration": "30m",
        }
    )
    path = f"s3a://{BUCKET}/role/x"
    storage.create(path, b"1")
    with storage.open_input(path) as stream:
        assert stream.read() == b"1"


def test_keys_are_shown_nowhere(s3_settings: dict[str, str]) -> None:
    storage = Storage(s3_settings | {"fs.s3a.session.token": "hush-token"})
    settings = settings_of(storage.hadoop_configuration, "b")
    assert not any(secret in f"{storage!r}{settings!r}" for secret in settings.secrets)
    # An error repeats the path: a secret in it stands for one that a store would repeat.
    with pytest.raises(StorageError) as caught:
        storage.list_directory("s3a://no-such-bucket/hush-token")
    assert "hush" not in str(caught.value)


def test_a_store_that_refuses_the_connection_is_one_clear_error() -> None:
    storage = Storage(
        {
            "fs.s3a.endpoint": "http://127.0.0.1:1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": "k",
            "fs.s3a.secret.key": "s",
            "fs.s3a.attempts.maximum": "1",
        }
    )
    with pytest.raises(StorageError, match="cannot read s3a://b/x"):
        storage.read("s3a://b/x")


def test_a_listing_of_many_pages_in_ranges_is_the_listing_in_order(
    s3_settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "20")
    storage = Storage(s3_settings)
    client = boto3.client(
        "s3",
        endpoint_url=s3_settings["fs.s3a.endpoint"],
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )
    keys = sorted(
        [f"many/p={number % 40}/{number}.parquet" for number in range(200)]
        + ["many/p=7", "many/zz", "many/p=9/"]
    )
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=BUCKET, Key=key, Body=b""), keys))
    assert [listed["Key"] for listed in list_keys(client, BUCKET, "many/")] == keys
    files = storage.list_files(f"s3a://{BUCKET}/many")
    assert {file.path for file in files} == {f"s3a://{BUCKET}/{key}" for key in keys if not key.endswith("/")}
    storage.delete_directory(f"s3a://{BUCKET}/many")
    assert list_keys(client, BUCKET, "many/") == []


def test_a_whole_bucket_is_never_deleted(s3_settings: dict[str, str]) -> None:
    with pytest.raises(StorageError, match="whole bucket"):
        Storage(s3_settings).delete_directory(f"s3a://{BUCKET}")


@pytest.mark.parametrize(
    ("module", "path", "extra"),
    [("boto3", "s3a://b/x", "hudisql[s3]"), ("hdfs_native", "hdfs://nn/x", "hudisql[hdfs]")],
)
def test_a_missing_extra_is_named(
    module: str, path: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    storage = Storage({"fs.s3a.access.key": module, "fs.s3a.secret.key": "s"})
    for ask in (storage.info, storage.open_output, storage.list_files):
        with pytest.raises(StorageError) as caught:
            ask(path)
        assert extra in str(caught.value)


class _PutClient:
    """Answers puts with these codes in turn, and that no object is there."""

    def __init__(self, *codes: str) -> None:
        self.codes = list(codes)

    def put_object(self, **_arguments: Any) -> None:
        if self.codes:
            raise ClientError({"Error": {"Code": self.codes.pop(0)}}, "PutObject")

    def head_object(self, **_arguments: Any) -> None:
        raise ClientError({"Error": {"Code": "404"}}, "HeadObject")


def _with_client(monkeypatch: pytest.MonkeyPatch, client: _PutClient) -> Storage:
    monkeypatch.setattr("hudisql.storage.s3._Bucket.client", client)
    return Storage()


def test_a_creation_that_met_an_object_which_is_gone_by_now_found_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PathExistsError):
        _with_client(monkeypatch, _PutClient("412")).create("s3a://b/lock", b"1")


def test_a_creation_beside_deletions_is_put_again_after_growing_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("hudisql.retry.time.sleep", pauses.append)
    monkeypatch.setattr("hudisql.storage.s3.random.uniform", lambda *_bounds: 1.0)
    client = _PutClient(*["409"] * 6)
    _with_client(monkeypatch, client).create("s3a://b/lock", b"1")
    assert client.codes == []
    assert pauses == sorted(set(pauses))
    assert len(pauses) == 6


def test_many_directories_are_listed_together_whatever_their_scheme_is(s3_settings: dict[str, str]) -> None:
    storage, root = Storage(s3_settings), f"{BUCKET}/{uuid.uuid4().hex}"
    directories = [f"{scheme}://{root}/d{number:02}" for number in range(20) for scheme in ("s3", "s3a")]
    for number in range(1, 20):
        storage.write(f"s3a://{root}/d{number:02}/a b%20ü", b"x")
        storage.write(f"s3a://{root}/d{number:02}/below/c", b"x")
    listed = storage.list_directories(directories, missing_ok=True)
    assert listed[:2] == [[], []]
    assert listed[2:] == [storage.list_directory(path) for path in directories[2:]]
    with pytest.raises(NoSuchPathError, match="d00"):
        storage.list_directories(directories)
