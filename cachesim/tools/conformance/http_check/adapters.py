"""Adapters (LoRA) of a server, the request fields that select them, and the histories that mix them.

A history names adapters as ``{lora=0:1}``: scales by number; those not named are off. llama-server reads such lists in
each request. Other servers serve an adapter as a further model, which names its base as ``parent`` (vLLM, SGLang).
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.tools.conformance.http_check.replies import count, mapping
from cachesim.tools.conformance.protocol import NO_KEY, RequestKey

MOST, LARGEST = 1_024, 1e6   # adapters that are read, and their scales
_SCALES = re.compile(r"\d{1,4}:-?\d{1,6}(?:\.\d{1,6})?(?:,\d{1,4}:-?\d{1,6}(?:\.\d{1,6})?)*")


class Adapter(NamedTuple):
    """An adapter of a server. ``scale``: in force for requests that select none; ``invoked``: tokens of the prompt
    activate it (aLoRA)."""

    model: str = ""                      # the model that a request names, "" = requests list ids
    scale: float = 0.0
    invoked: bool = False


def native_adapters(listed: Any) -> tuple[Adapter, ...]:
    """Return the adapters that llama-server's /lora-adapters lists."""
    found = {}
    for one in map(mapping, listed[:MOST] if isinstance(listed, list) else ()):
        number, scale = count(one.get("id")), one.get("scale")
        if number is not None and isinstance(scale, int | float) and -LARGEST < scale < LARGEST:
            found[number] = Adapter(scale=float(scale), invoked=bool(one.get("alora_invocation_tokens")))
    return tuple(found[number] for number in sorted(found)) if sorted(found) == [*range(len(found))] else ()


def served_adapters(models: Any, base: str) -> tuple[Adapter, ...]:
    """Return the adapters among the models of /v1/models: those whose ``parent`` is the model ``base``."""
    listed = mapping(models).get("data")
    entries = map(mapping, listed[:MOST] if isinstance(listed, list) else ())
    names = [one.get("id") for one in entries if base and one.get("parent") == base]
    return tuple(Adapter(name) for name in names if isinstance(name, str) and name != base)


def read_scales(text: str) -> dict[int, float]:
    """Return scales by number of a text such as 0:1,2:0.5. Raise BadInput."""
    if not _SCALES.fullmatch(text):
        raise BadInput(f"lora: expected scales of adapters such as 0:1,2:0.5, found {quoted(text)}")
    return {int(number): float(scale) for number, _, scale in (part.partition(":") for part in text.split(","))}


def adapter_key(adapters: Sequence[Adapter], text: str) -> RequestKey:
    """Return the key of a request with these scales, "" = without a list: the adapters that act on its prompt."""
    listed = read_scales(text) if text else {number: one.scale for number, one in enumerate(adapters)}
    acting = ",".join(f"{number}:{scale:g}" for number, scale in sorted(listed.items()) if scale)
    return RequestKey(acting, kind="adapter") if acting else NO_KEY


def adapter_fields(adapters: Sequence[Adapter], text: str) -> Mapping[str, Any]:
    """Return the request fields that select adapters. Raise BadInput if the server does not have them."""
    scales = read_scales(text) if text else {}
    if unknown := [number for number in scales if number >= len(adapters)]:
        raise BadInput(f"lora={text}: the server lists {len(adapters)} adapters, number {unknown[0]} is not among them")
    if not scales or not adapters[0].model:
        return {"lora": [{"id": number, "scale": scale} for number, scale in scales.items()]} if scales else {}
    chosen = [(number, scale) for number, scale in scales.items() if scale]
    if len(chosen) > 1 or any(scale != 1 for _, scale in chosen):
        raise BadInput(f"lora={text}: a model of this server is one adapter with the scale 1")
    return {"model": adapters[chosen[0][0]].model} if chosen else {}


def default_fields(adapters: Sequence[Adapter]) -> Mapping[str, Any]:
    """Return the request fields that select explicitly what is in force for requests that select nothing. A slot of
    llama-server forgets what other adapters computed only at a request with a list."""
    listed = [{"id": number, "scale": one.scale} for number, one in enumerate(adapters) if not one.model]
    return {"lora": listed} if listed else {}


# Histories. A and B are prompts, ``one`` and ``two`` lists of adapters.

OFF = "0:0"
"""The list without any adapter."""
PATTERNS = (
    "A{n}>4{{lora={one}}}/A>4{{lora={two}}}/A>4{{lora={one}}}",
    "A{n}>4{{lora={one}}}/B{n}{{lora={two}}}/A>4{{lora={two}}}",
    "A{n}>4/A>4{{lora={one}}}/A>4",
    "A{n}>4{{lora={one}}}/A.B8>4/A.B>4{{lora={off}}}",
    "A{n}>4{{lora={off}}}/A.B8>4/A.B>4{{lora={one}}}",
    "A{n}>4{{lora={one}}}/B{n}{{lora={off}}}/A.C8>4{{lora={off}}}",
    "A{n}>a4{{lora={one}}}/A.a.B8>b4{{lora={two}}}/A.a.B.b.C8>c4{{lora={one}}}/A.a.B.b.C.c.D8>4{{lora={two}}}",
    "A{n}>a4{{lora={one}}}/B{n}>b4{{lora={two}}}/A.a.C8>4{{lora={one}}}/B.b.D8>4{{lora={two}}}/A[:{h}].E8>4{{lora={two}}}",
    "A{n}>4{{lora={one}}}/A>4{{lora={two} together}}/A.B8>4{{lora={two}}}",
)


def adapter_lines(lists: Sequence[str], n: int) -> tuple[str, ...]:
    """Return histories that mix lists of adapters; with a single list, it and ``OFF``. ``n``: length of a prompt."""
    one, two = [*lists, OFF][:2]
    return tuple(line.format(n=n, h=n // 2, one=one, two=two, off=OFF) for line in PATTERNS)


def adapter_bursts(lists: Sequence[str], n: int, at_once: int) -> tuple[str, ...]:
    """Return histories whose identical prompts arrive together, ``at_once`` of them: under different lists, then all
    under one, after the same prompt under the other."""
    one, two = [*lists, OFF][:2]
    turns = [(one, two)[number % 2] for number in range(1, at_once)]
    cold, warm = ("".join(f"/{prompt}>4{{lora={text} together}}" for text in turns) for prompt in ("A", "A.B"))
    alike = f"/A>4{{lora={two}}}" + f"/A>4{{lora={two} together}}" * (at_once - 1)
    return (f"A{n}>4{{lora={one}}}{cold}", f"A{n}>4{{lora={one}}}/A.B8>4{{lora={one}}}{warm}",
            f"A{n}>4{{lora={one}}}{alike}")  # fmt: skip
