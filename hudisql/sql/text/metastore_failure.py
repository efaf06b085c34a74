"""Why Spark's own client of the Hive Metastore does not connect, from the causes that Hive wraps."""

from __future__ import annotations

import re
from typing import Final

from hudisql.errors import QueryError

_NO_CLIENT: Final = re.compile(r"Unable to instantiate \S*MetaStoreClient")
_REASON: Final = re.compile(r"Most recent failure: (?:[\w.]+Exception: )?(?P<reason>[^\n]+)")
_NO_LOGIN: Final = (
    "the process that starts Spark needs core-site.xml with hadoop.security.authentication=kerberos in "
    "HADOOP_CONF_DIR, and a ticket that is not expired (kinit), or spark.kerberos.keytab with "
    "spark.kerberos.principal; spark.hadoop.hive.metastore.kerberos.principal must be the server's own"
)
_NO_ANSWER: Final = (
    "check that the metastore runs and is reachable; if it asks for Kerberos, set metastore_sasl, or "
    "spark.hadoop.hive.metastore.sasl.enabled of a session of your own"
)


def failed_metastore_client(message: str, details: str) -> QueryError | None:
    """The error for a message of Spark's about its metastore client, None for other messages.

    `details` are the messages and stack traces of the exception and its causes.
    """
    if _NO_CLIENT.search(message) is None:
        return None
    found = _REASON.search(details)
    reason = found["reason"].strip() if found else "Hive says no reason"
    is_login = "GSS" in reason
    done = "log in to the metastore by Kerberos" if is_login else "connect to the metastore"
    return QueryError(f"Spark cannot {done}: {reason}", hint=_NO_LOGIN if is_login else _NO_ANSWER)
