"""Signatures of mlx_lm.server and of other software on MLX. The server logs sizes of its cache and reused tokens, but
no decision about an entry: every rule is visible only in the number of reused tokens."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_signatures import LogEvidence, Signature, Span


def printed_loss(found: LogEvidence) -> Span | None:
    """Return the tokens of the common prefix that the request evaluated again, None if its lines prove none."""
    lost = found.numbers.get("lost")
    return lost if lost is not None and lost[0] > 0 else None


SIGNATURES = (
    Signature("cannot-trim", ("kept_untrimmed",), (), (
        "the kept prompt cannot be cut to the common prefix of {lcp} tokens and was dropped: it has a recurrent state "
        "or a rotating window", "the kept prompt cannot be cut and was dropped",
    ), proof=printed_loss),
    Signature("rejected-match", ("omlx_rejected",), (), (
        "oMLX rejected the stored prefix: its last matched block holds no state of layer {layer}",
    ), proof=printed_loss),
    Signature("no-stored-state", ("omlx_no_state",), (), (
        "oMLX rejected the stored prefix: no matched block has a usable state of the recurrent layers",
    ), proof=printed_loss),
    Signature("cut-match", ("omlx_cut",), (), (
        "oMLX cut the stored prefix to {kept} tokens: matched blocks at its end hold no state ({dropped} dropped)",
    ), proof=printed_loss),
    Signature("server-warning", (
        "thread_ended", "studio_clear", "studio_miss", "studio_unsaved", "ollama_restore_failed", "omlx_bad_state",
    ), (), (), is_quoted=True),
)
"""Signatures: losses that lines of a request prove, and warnings."""

UNLOGGED: Mapping[str, str] = {"ML-": "not logged: in the number of reused tokens, and in the number of entries"}
"""Beginnings of rule ids without a line, and where the decision becomes visible."""
