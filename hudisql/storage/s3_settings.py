"""Hadoop's `fs.s3a.*` settings of one bucket: endpoint, addressing, credentials.

Follows the S3A connector's documentation ("Configuring the S3A Client", "per-bucket configuration", "Assumed
roles"); `fs.s3a.bucket.NAME.x` overrides `fs.s3a.x`. Keys are never printed: the values of this module leave
them out of their repr, and `redacted` removes them from a store's messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hudisql.errors import StorageError

_PREFIX: Final = "fs.s3a."
_DEFAULT_ATTEMPTS: Final = 8
_AWS_DEFAULT_ENDPOINTS: Final = ("s3.amazonaws.com", "s3.us-east-1.amazonaws.com")
_REGION_OF_ENDPOINT = re.compile(r"s3[.-]([a-z0-9-]+)\.amazonaws\.com")

ANONYMOUS: Final = "anonymous"
SIMPLE: Final = "simple"
TEMPORARY: Final = "temporary"
ENVIRONMENT: Final = "environment"
AWS_CHAIN: Final = "chain"
ASSUMED_ROLE: Final = "assumed role"

# Class names as Hadoop 2.7 to 3.5, EMR and both AWS SDKs spell them.
_PROVIDERS: Final = {
    "AnonymousAWSCredentialsProvider": ANONYMOUS,
    "AnonymousCredentialsProvider": ANONYMOUS,
    "SimpleAWSCredentialsProvider": SIMPLE,
    "BasicAWSCredentialsProvider": SIMPLE,
    "TemporaryAWSCredentialsProvider": TEMPORARY,
    "EnvironmentVariableCredentialsProvider": ENVIRONMENT,
    "AssumedRoleCredentialProvider": ASSUMED_ROLE,
    "IAMInstanceCredentialsProvider": AWS_CHAIN,
    "InstanceProfileCredentialsProvider": AWS_CHAIN,
    "SharedInstanceProfileCredentialsProvider": AWS_CHAIN,
    "ContainerCredentialsProvider": AWS_CHAIN,
    "EC2ContainerCredentialsProviderWrapper": AWS_CHAIN,
    "WebIdentityTokenCredentialsProvider": AWS_CHAIN,
    "WebIdentityTokenFileCredentialsProvider": AWS_CHAIN,
    "ProfileCredentialsProvider": AWS_CHAIN,
    "ProfileAWSCredentialsProvider": AWS_CHAIN,
    "DefaultCredentialsProvider": AWS_CHAIN,
    "DefaultAWSCredentialsProviderChain": AWS_CHAIN,
}
_DEFAULT_PROVIDERS: Final = (TEMPORARY, SIMPLE, ENVIRONMENT, AWS_CHAIN)


@dataclass(frozen=True)
class AssumedRole:
    """The role whose temporary credentials STS issues, and the credentials of that request."""

    arn: str
    session_name: str
    duration_seconds: int
    sts_endpoint: str | None
    sts_region: str | None
    external_id: str | None = field(repr=False)
    policy: str | None = field(repr=False)
    base_providers: tuple[str, ...]


@dataclass(frozen=True)
class S3Settings:
    """The connection settings of one bucket. `endpoint` is host[:port], None for AWS itself."""

    endpoint: str | None
    region: str | None
    secure: bool
    path_style: bool
    providers: tuple[str, ...]
    access_key: str | None = field(repr=False)
    secret_key: str | None = field(repr=False)
    session_token: str | None = field(repr=False)
    role: AssumedRole | None
    attempts: int = _DEFAULT_ATTEMPTS

    @property
    def endpoint_url(self) -> str | None:
        """The endpoint with its scheme, None for AWS itself."""
        return f"{'https' if self.secure else 'http'}://{self.endpoint}" if self.endpoint else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that must never be shown."""
        return tuple(text for text in (self.access_key, self.secret_key, self.session_token) if text)


def s3_settings(configuration: Mapping[str, str], bucket: str) -> S3Settings:
    """The settings of one bucket. Raises StorageError for an unknown credentials provider."""
    own = f"{_PREFIX}bucket.{bucket}."

    def value(name: str) -> str | None:
        text = configuration.get(own + name, configuration.get(_PREFIX + name, ""))
        return text.strip() or None

    given = value("endpoint") or ""
    scheme, _, host = given.rpartition("://")
    host = host.rstrip("/")
    named_region = _REGION_OF_ENDPOINT.fullmatch(host)
    is_aws = host in _AWS_DEFAULT_ENDPOINTS or named_region is not None
    region = value("endpoint.region") or (named_region.group(1) if named_region else None)
    if region is None and host and not is_aws:
        region = "us-east-1"
    providers, role = _credentials_order(value)
    return S3Settings(
        endpoint=None if is_aws or not host else host,
        region=region,
        secure=scheme == "https" if scheme else (value("connection.ssl.enabled") or "true").lower() == "true",
        path_style=(value("path.style.access") or "false").lower() == "true",
        providers=providers,
        access_key=value("access.key"),
        secret_key=value("secret.key"),
        session_token=value("session.token"),
        role=role,
        attempts=_attempts(value("attempts.maximum")),
    )


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """`text` with every secret masked."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _credentials_order(value: Callable[[str], str | None]) -> tuple[tuple[str, ...], AssumedRole | None]:
    named = _providers(value("aws.credentials.provider"))
    arn = value("assumed.role.arn")
    # Hadoop's core-default.xml always names the default list, which does not override the role.
    undecided = not named or tuple(dict.fromkeys(named)) == _DEFAULT_PROVIDERS
    if ASSUMED_ROLE not in named and not (arn and undecided):
        return named or _DEFAULT_PROVIDERS, None
    if arn is None:
        raise StorageError(
            "the credentials provider is an assumed role, but no role is named",
            hint="set fs.s3a.assumed.role.arn",
        )
    base = _providers(value("assumed.role.credentials.provider"))
    role = AssumedRole(
        arn=arn,
        session_name=value("assumed.role.session.name") or "hudisql",
        duration_seconds=_seconds(value("assumed.role.session.duration") or "1h"),
        sts_endpoint=value("assumed.role.sts.endpoint"),
        sts_region=value("assumed.role.sts.endpoint.region"),
        external_id=value("assumed.role.external.id"),
        policy=value("assumed.role.policy"),
        base_providers=base or _DEFAULT_PROVIDERS,
    )
    return (ASSUMED_ROLE,), role


def _providers(text: str | None) -> tuple[str, ...]:
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    providers = []
    for name in names:
        provider = _PROVIDERS.get(re.split(r"[.$]", name)[-1])
        if provider is None:
            raise StorageError(
                f"fs.s3a.aws.credentials.provider names {name}, which hudisql does not know",
                hint=f"known are {', '.join(_PROVIDERS)}",
            )
        providers.append(provider)
    return tuple(providers)


def _attempts(text: str | None) -> int:
    if text is not None and not text.isdecimal():
        raise StorageError(f"fs.s3a.attempts.maximum is not a number: {text}")
    return max(1, int(text)) if text else _DEFAULT_ATTEMPTS


def _seconds(text: str) -> int:
    """Hadoop's durations: `30m`, `1h`, `900s`, plain seconds."""
    match = re.fullmatch(r"(\d+)\s*([smhd]?)", text.strip().lower())
    if match is None:
        raise StorageError(f"fs.s3a.assumed.role.session.duration is not a duration: {text}")
    return int(match.group(1)) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match.group(2)]
