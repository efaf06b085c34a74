"""Credentials of the requests to a bucket: those of the first configured provider that has any.

Both clients (boto3 for requests, pyarrow for data) take their credentials here, so that they act as the same
user. botocore renews keys of roles and instances before they expire.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any

from hudisql.errors import StorageError
from hudisql.storage.s3_settings import (
    ANONYMOUS,
    AWS_CHAIN,
    ENVIRONMENT,
    SIMPLE,
    TEMPORARY,
    AssumedRole,
    S3Settings,
)


@dataclass(frozen=True)
class S3Keys:
    """The keys that sign a request; if all are None, it is not signed."""

    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    @property
    def anonymous(self) -> bool:
        """True if requests go unsigned."""
        return self.access_key is None


class S3Credentials:
    """The keys of one bucket as of now."""

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings
        self._renewed: Any = None
        self._lock = threading.Lock()

    def current(self) -> S3Keys:
        """Keys valid now. Raises StorageError if no provider has any, or STS refuses the role."""
        with self._lock:
            if self._settings.role is None:
                return self._first_of(self._settings.providers)
            if self._renewed is None:
                self._renewed = self._assume(self._settings.role)
            return _frozen(self._renewed)

    def _first_of(self, providers: tuple[str, ...]) -> S3Keys:
        for provider in providers:
            keys = self._keys_of(provider)
            if keys is not None:
                return keys
        raise StorageError(
            "no credentials for S3",
            hint="set fs.s3a.access.key and fs.s3a.secret.key, or fs.s3a.aws.credentials.provider "
            f"(asked: {', '.join(providers)})",
        )

    def _keys_of(self, provider: str) -> S3Keys | None:
        settings = self._settings
        if provider == ANONYMOUS:
            return S3Keys()
        if provider in (SIMPLE, TEMPORARY):
            token = settings.session_token if provider == TEMPORARY else None
            if not settings.access_key or not settings.secret_key or (provider == TEMPORARY and not token):
                return None
            return S3Keys(settings.access_key, settings.secret_key, token)
        if provider == ENVIRONMENT:
            access, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
            return S3Keys(access, secret, os.environ.get("AWS_SESSION_TOKEN")) if access and secret else None
        assert provider == AWS_CHAIN
        if self._renewed is None:
            import boto3

            self._renewed = boto3.Session().get_credentials()
        return None if self._renewed is None else _frozen(self._renewed)

    def _assume(self, role: AssumedRole) -> Any:
        from botocore.credentials import RefreshableCredentials

        def ask() -> dict[str, str]:
            return _ask_for_role(role, S3Credentials(self._settings)._first_of(role.base_providers))

        return RefreshableCredentials.create_from_metadata(
            metadata=ask(), refresh_using=ask, method="sts-assume-role"
        )


def _frozen(credentials: Any) -> S3Keys:
    frozen = credentials.get_frozen_credentials()
    return S3Keys(frozen.access_key, frozen.secret_key, frozen.token)


def _ask_for_role(role: AssumedRole, keys: S3Keys) -> dict[str, str]:
    """Temporary credentials of a role, as botocore's RefreshableCredentials takes them."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    endpoint = role.sts_endpoint
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    optional = {"ExternalId": role.external_id, "Policy": role.policy}
    try:
        client = boto3.client(
            "sts",
            region_name=role.sts_region or "us-east-1",
            endpoint_url=endpoint,
            aws_access_key_id=keys.access_key,
            aws_secret_access_key=keys.secret_key,
            aws_session_token=keys.session_token,
        )
        answer = client.assume_role(
            RoleArn=role.arn,
            RoleSessionName=role.session_name,
            DurationSeconds=role.duration_seconds,
            **{name: text for name, text in optional.items() if text},
        )["Credentials"]
    except (ClientError, BotoCoreError) as error:
        raise StorageError(f"cannot assume the role {role.arn}: {error}") from error
    return {
        "access_key": answer["AccessKeyId"],
        "secret_key": answer["SecretAccessKey"],
        "token": answer["SessionToken"],
        "expiry_time": answer["Expiration"].isoformat(),
    }
