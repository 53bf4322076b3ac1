"""Defaults as stored lines: release, rule or option, arguments, and the answer of the released configuration."""

from __future__ import annotations

from ast import literal_eval
from dataclasses import fields

from cachesim.base.errors import NotInBuild
from cachesim.engines.vllm.flags import Options
from cachesim.engines.vllm.profiles import PROFILES
from cachesim.engines.vllm.start_options import resolved
from cachesim.model import parse

DRAFTS = {"num_speculative_tokens": 2}


def stated(name, args, value):
    """Return a line without its release."""
    return f"{name} {args!r} = {value!r}"


def answer(line):
    """Return a stored line with our answer."""
    release, _, rest = line.partition(" ")
    name, _, rest = rest.partition(" ")
    args = literal_eval(rest.partition(" = ")[0])
    rules = PROFILES[f"vllm@{release}"]
    return f"{release} {stated(name, args, OURS[name](rules, *args))}"


def async_scheduling(rules, method, given):
    """True if steps overlap, None = the server does not start."""
    asked = {} if given is None else {"async_scheduling": given}
    drafts = {"speculative_method": method, **DRAFTS} if method else {}
    try:
        return resolved(rules, parse("A"), {**asked, **drafts})["async_scheduling"]
    except NotInBuild:
        return None


def batch_size(rules, memory, tokens):
    """Return the most tokens of a step and the most requests."""
    asked = {"max_num_batched_tokens": tokens} if tokens else {}
    found = resolved(rules, parse("A"), {"device_memory": memory, **asked})
    return found["max_num_batched_tokens"], found["max_num_seqs"]


def prefix_caching(rules, attention):
    """True if prefixes are cached, in all models of this kind."""
    [found] = {resolved(rules, parse(model), {})["enable_prefix_caching"]
               for model in (("A", "W8 A") if attention else ("S", "GC"))}  # fmt: skip
    return found


def hybrid_caching(rules):
    """True if prefixes of models with attention and states are cached."""
    [found] = {resolved(rules, parse(model), {})["enable_prefix_caching"] for model in ("GA", "SA")}
    return found


def mamba_cache_mode(rules, given, caching, has_kernel):
    """Return where states are kept."""
    model = parse("SA" if has_kernel else "GA")
    return resolved(rules, model, {"mamba_cache_mode": given, "enable_prefix_caching": caching})["mamba_cache_mode"]


def default(rules, name):
    """Return the default of an option."""
    [found] = [one.default for one in fields(Options) if one.name == name]
    return rules.defaults.get(name, found)


OURS = {"async_scheduling": async_scheduling, "batch_size": batch_size, "prefix_caching": prefix_caching,
        "hybrid_caching": hybrid_caching, "mamba_cache_mode": mamba_cache_mode, "default": default}  # fmt: skip
