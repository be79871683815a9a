"""Tokens for MSK's IAM, out of the credentials that AWS gives this machine (extra `msk`).

Owns the callback that every client of librdkafka gets. librdkafka calls it when a client is made
and some time before each token ends; a failure is told here, for the client itself only repeats
that it is not connected, and it asks again after some seconds.
"""

import logging
from collections.abc import Callable

from halfhitch import extras
from halfhitch.errors import ConfigurationError
from halfhitch.observability.lines import LineBudget

logger = logging.getLogger(__name__)

#: From what `sasl.oauthbearer.config` says to the token, and when it ends (seconds since 1970).
TokenCallback = Callable[[str], tuple[str, float]]


def token_callback(region: str) -> TokenCallback:
    """For clients of a cluster in that AWS region. Raises ConfigurationError without the extra."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    except ImportError as error:
        missing = extras.missing("kafka.msk_iam_region", error)
        raise missing or ConfigurationError(
            f"kafka.msk_iam_region is set, but its package cannot be imported: {error}."
        ) from error
    lines = LineBudget()

    def token(_: str) -> tuple[str, float]:
        try:
            signed, expires_at_ms = MSKAuthTokenProvider.generate_auth_token(region)
        except Exception as error:
            more = lines.take()
            if more is not None:
                logger.error(
                    "no token for MSK could be signed, so Kafka is not reached: %s. Look at the "
                    "AWS credentials of this machine (role, profile, AWS_... variables)%s",
                    error,
                    more,
                    extra={"action": "msk_token_failed"},
                )
            raise
        return signed, expires_at_ms / 1000

    return token
