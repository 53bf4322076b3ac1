"""When is a reply the same as a cold one?"""

from __future__ import annotations

from cachesim.tools.conformance.fingerprint import Difference, Same, agree, difference, identical
from cachesim.tools.conformance.protocol import Reply


def equal(warm: Reply, cold: Reply, same: Same, cancelled: bool = False) -> bool:
    """Returns True if both answers are the same. Of a request that was cancelled only the tokens so far count.

    Where both have a fingerprint, ``same`` decides. Fingerprints that are near but not identical may have led to other
    tokens, of two that were almost equally likely; identical ones may not.
    """
    if bool(warm.refused) != bool(cold.refused):
        return False
    if cancelled:
        return warm.tokens is None or cold.tokens is None or warm.tokens == cold.tokens[: len(warm.tokens)]
    if warm.fingerprint is None or cold.fingerprint is None:
        return (warm.fingerprint is None) == (cold.fingerprint is None) and _same_tokens(warm, cold)
    if not _same_tokens(warm, cold) and identical(warm.fingerprint, cold.fingerprint):
        return False
    return agree(same, warm.fingerprint, cold.fingerprint)


def _same_tokens(warm: Reply, cold: Reply) -> bool:
    return warm.tokens is None or cold.tokens is None or warm.tokens == cold.tokens


def apart(warm: Reply, cold: Reply) -> Difference | None:
    """How far the fingerprints are apart, None if they are identical or nothing can be said."""
    if warm.fingerprint is None or cold.fingerprint is None or identical(warm.fingerprint, cold.fingerprint):
        return None
    return difference(cold.fingerprint, warm.fingerprint)
