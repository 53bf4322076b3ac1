"""Request body of any API, as the parts that a prompt consists of; evidence at the first difference of two texts;
changed parameters."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple

from cachesim.base.tokens import common_prefix
from cachesim.engines.chat_bodies import Continued
from cachesim.tools.request_bodies.reported_counts import NO_COUNTS, ReportedCounts

BEFORE, AFTER = 16, 40      # characters of evidence before and after the first difference


def encoded(text: str) -> bytes:
    """Return the UTF-8 bytes of a text. A lone surrogate takes three bytes."""
    return text.encode("utf-8", "surrogatepass")


def common_bytes(a: str, b: str, characters: int) -> int:
    """Return the number of common leading bytes of two texts whose first ``characters`` characters are equal. The next
    characters may share their first bytes."""
    next_a, next_b = encoded(a[characters : characters + 1]), encoded(b[characters : characters + 1])
    return len(encoded(a[:characters])) + common_prefix(next_a, next_b)


def common_suffix(a: str, b: str, most: int) -> int:
    """Return the length of the longest common suffix of two texts, at most ``most`` characters."""
    most = min(most, len(a), len(b))
    if not most:
        return 0
    return common_prefix(a[len(a) - most :][::-1], b[len(b) - most :][::-1])


class DifferenceTexts(NamedTuple):
    """Texts at a difference: the equal text before it, then the text that follows in each request."""

    same: str
    before: str
    after: str


def evidence(a: str, b: str, at: int, behind: int = AFTER) -> DifferenceTexts:
    """Return the surroundings of character ``at`` of two texts that are equal before it."""
    return DifferenceTexts(a[max(0, at - BEFORE) : at], a[at : at + behind], b[at : at + behind])


RENDERED = frozenset({"chat_template_kwargs", "reasoning_effort", "enable_thinking", "thinking", "reasoning",
                      "tool_choice", "response_format", "json_schema", "output_config", "text", "add_generation_prompt",
                      "continue_final_message", "chat_template", "documents", "parallel_tool_calls", "builtin_tools",
                      "thinking_budget", "thinking_budget_tokens", "reasoning_budget", "reasoning_format", "verbosity",
                      "think", "function_call", "modalities", "mm_processor_kwargs", "add_special_tokens", "suffix",
                      "input_prefix", "input_suffix", "input_extra", "truncate_prompt_tokens"})  # fmt: skip
"""Parameters that a chat template may write into the prompt."""
CACHE = frozenset({"cache_prompt", "id_slot", "slot_id", "n_cache_reuse", "lora", "cache_salt", "prompt_logprobs",
                   "lora_path", "extra_key", "logprob_start_len"})  # fmt: skip
"""Parameters that select the cache."""
IGNORED = frozenset({"metadata", "user", "store", "stream", "stream_options", "prompt_cache_key", "session_id"})
SAMPLING = frozenset({
    "temperature", "top_p", "top_k", "min_p", "typical_p", "top_n_sigma", "n_predict", "max_tokens",
    "max_completion_tokens", "max_output_tokens", "seed", "stop", "stop_sequences", "stop_token_ids", "n",
    "best_of", "logprobs", "top_logprobs", "n_probs", "logit_bias", "presence_penalty", "frequency_penalty",
    "repeat_penalty", "repetition_penalty", "repeat_last_n", "penalty_last_n", "dry_multiplier", "dry_base",
    "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers", "xtc_probability", "xtc_threshold",
    "mirostat", "mirostat_tau", "mirostat_eta", "dynatemp_range", "dynatemp_exponent", "samplers", "min_keep",
    "ignore_eos", "min_tokens", "length_penalty", "use_beam_search", "early_stopping", "skip_special_tokens",
    "spaces_between_special_tokens", "include_stop_str_in_output", "grammar", "guided_json", "guided_regex",
    "guided_choice", "guided_grammar", "timings_per_token", "return_progress", "return_tokens",
    "post_sampling_probs", "response_fields", "t_max_predict_ms", "service_tier", "priority", "request_id",
    "keep_alive",
})  # fmt: skip
"""Parameters of sampling and of the response, which no prompt contains."""
SHOWN = 40                   # characters of a value, at most
NESTED = frozenset({"chat_template_kwargs", "thinking", "reasoning", "output_config"})
"""Parameters whose entries are compared one by one."""


def changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the fields that differ: ``name``, both values (truncated), and whether the field ``matters`` to the cache:
    "no", "perhaps" (a template may write it into the prompt), "unknown" or "yes"."""
    names = [name for name in {**a, **b} if name not in IGNORED and a.get(name) != b.get(name)]
    found: list[dict[str, str]] = []
    for name in names:
        old, new = a.get(name), b.get(name)
        inner = [one for one in (old, new) if isinstance(one, dict)]
        if name in NESTED and inner and all(one is None or isinstance(one, dict) for one in (old, new)):
            found += _changed_entries(name, old or {}, new or {})
        else:
            found.append(field_change(name, _short(name, old), _short(name, new), _effect_of(name)))
    return found


def _changed_entries(name: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the entries of a parameter that differ."""
    return [field_change(f"{name}.{key}", _short(name, a.get(key)), _short(name, b.get(key)), _effect_of(name))
            for key in {**a, **b} if a.get(key) != b.get(key)] or [
        field_change(name, _short(name, a), _short(name, b), _effect_of(name))]  # fmt: skip


def field_change(name: str, before: str, after: str, matters: str) -> dict[str, str]:
    """Return the change of a field as data, with a shortened name and shortened values."""
    old, new = (text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..." for text in (before, after))
    return {"name": name[:SHOWN], "value_before": old, "value_after": new, "matters": matters}


OLLAMA_OPTION = "options."
"""Beginning of the names of Ollama's options."""
RELOADING = frozenset({"num_ctx", "num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread", "draft_num_predict"})
"""Options with which Ollama starts a model: it loads the model again if one differs."""


def _effect_of(name: str) -> str:
    """Return how a parameter matters to the cache. No option of Ollama changes the prompt."""
    if name.startswith(OLLAMA_OPTION):
        return "yes" if name.removeprefix(OLLAMA_OPTION) in RELOADING else "no"
    if name in CACHE:
        return "yes"
    return "perhaps" if name in RENDERED else "no" if name in SAMPLING else "unknown"


def _short(name: str, value: Any) -> str:
    """Return a value as JSON; only the type of a list or an object, unless a template may write it into the prompt."""
    if value is None:
        return ""
    simple = isinstance(value, str | int | float | bool)
    return json.dumps(value, ensure_ascii=False) if simple or name in RENDERED else type(value).__name__


TEXT, REASONING, CALL, IMAGE, MARK, TOOL, TOKENS = "text", "reasoning", "call", "image", "mark", "tool", "tokens"
"""Kinds of parts: message text, reasoning, tool call, image, marks added by a template, tool definition, tokens chosen
by the client."""
FIRST_TOKEN = 0x10000        # token t of a client is represented by character FIRST_TOKEN + t
THINK = ("<think>\n", "\n</think>\n\n")


def token_character(value: Any) -> str:
    """Return the character that represents a token chosen by the client, "" for a value that is not a token."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return chr(FIRST_TOKEN + value) if whole and 0 <= value <= 0x10FFFF - FIRST_TOKEN else ""


MOST = 1_000_000             # largest number that a list of adapters may contain


def _bounded(value: Any) -> float | None:
    """Return a number from -MOST to MOST, None for other values."""
    return float(value) if isinstance(value, int | float) and -MOST <= value <= MOST else None


class BodyText(NamedTuple):
    """Text of a prompt part, with the path of its value in the body."""

    kind: str
    path: str
    text: str


class BodyMessage(NamedTuple):
    """Message of a conversation: role, path in the body, and parts."""

    role: str
    path: str
    parts: tuple[BodyText, ...]
    fields: str = ""             # its other fields as JSON, see ``message_fields``

    def text_without(self, *kinds: str) -> str:
        """Return the text of all parts except those of these ``kinds``."""
        return "".join(part.text for part in self.parts if part.kind not in kinds)

    @property
    def is_system(self) -> bool:
        """True if the message is an instruction to the model (role system or developer)."""
        return self.role in ("system", "developer")


@dataclass(frozen=True, slots=True)
class Body:
    """Request to a server, as its HTTP body was parsed: the first of the stages in ``body_stages``."""

    form: str                                                           # API
    number: int = 0                                                     # index among all bodies
    place: str = ""                                                     # file and line or entry
    url: str = ""                                                       # URL path, "" = unknown
    model: str = ""                                                     # model name, "" = not given
    messages: list[BodyMessage] = field(default_factory=list)
    tools: list[tuple[str, Any]] = field(default_factory=list)          # (path, definition)
    parameters: Mapping[str, Any] = field(default_factory=dict)         # fields that are not parts of the prompt
    chat: list[dict[str, Any]] | None = None        # messages for a chat template, None = raw prompt
    answer: BodyMessage | None = None               # response of the server, if the dump contains it
    sent: Mapping[str, Any] = field(default_factory=dict)               # the HTTP body; {} = it was read for a server
    has_bare_functions: bool = False                # in the HTTP body, `tools` have the fields of `function` themselves
    refused: str = ""                               # why the server answers it with an error, "" = no known reason
    opens_answer: bool = True                       # the prompt has the text that begins an answer
    continued: Continued | None = None              # how the last message begins the answer, None = it does not
    reported: ReportedCounts = NO_COUNTS            # token counts of that response

    @property
    def adapters(self) -> dict[int, float]:
        """Scales of the adapters that the request names, by id; {} if it has no list. An empty list counts as none."""
        named = self.parameters.get("lora")
        listed = [entry for entry in named if isinstance(entry, dict)] if isinstance(named, list) else []
        numbered = [(_bounded(entry.get("id")), _bounded(entry.get("scale"))) for entry in listed]
        return {int(number): scale or 0.0 for number, scale in numbered
                if number is not None and number >= 0 and number.is_integer()}  # fmt: skip

    @property
    def is_raw(self) -> bool:
        """True if the prompt is text or tokens of the client, without a chat template."""
        return self.chat is None

    @property
    def has_media(self) -> bool:
        """True if the prompt contains images, sounds or files, whose tokens its text does not show."""
        return any(part.kind == IMAGE for message in self.messages for part in message.parts)

    @property
    def of_tokens(self) -> bool:
        """True if the prompt is a token list."""
        return any(part.kind == TOKENS for message in self.messages for part in message.parts)
