"""Mutated lines of requests and their options: recombined pieces of the notation, and foreign characters."""

from __future__ import annotations

from cachesim.engines.registry import profiles
from cachesim.scenarios.option_checks import manual_of
from tests.hostile.nasty import INTEGERS, WORDS

LINES = (
    "S10.A20/B15/S10.C8", "A5>r2/A5.r2.B4/A5", "S6.|U7[2:5].A9!@0/S6", "A12>3/B9>r4{cancel_after=1}/A12",
    "s:S10+u:A8/s:S10+u:B9", "A10/B6{together+2}/A10", "A10/{save@0 f}/B9/{restore@0 f}/A10.C3",
    "A10/{erase@0}/A10", "A10/{restart parallel=2}/A10@1", "A8>r3{n_cmpl=2 answers=B3}/A8",
    "A9>4{drafts=3:1,2:0}/A9.B3", "A9>4{n_keep=2 n_discard=1}/A9", "A20/B20/C20/A20/B20", "A5{task=embedding}/A5",
    "A30>9/A30.B4{n_cache_reuse=2}", "A7[:3].B4/A7", "THINK1.A4/A4", "A20/A20.B5/A20/B5.A20/A20.B5.C1",
)  # fmt: skip
MODELS = ("GGGA", "AAAA", "W8 A", "GA", "W16 W16 A", "qwen35-GGGA", "A", "W8", "S", "CA", "H")
BRACES = (
    "cancel_after", "n_cmpl", "drafts", "together", "n_keep", "n_discard", "n_cache_reuse", "draft_else", "seed",
    "task", "answers", "save@0", "restore@1", "restart", "unknown",
)  # fmt: skip
SOFT = 0.6                 # share of lines whose words and options are valid
SIGNS = "/.>!@{}|[]:+= ,-0123456789ABSrué\x1b\n"


def bent_line(rng):
    """Return a valid line after up to three changes."""
    text = rng.choice(LINES)
    if rng.random() < SOFT:
        return _sound(text, rng)
    for _ in range(rng.choices((0, 1, 2, 3), (1, 6, 2, 1))[0]):
        text = rng.choice((_requests, _requests, _requests, _number, _number, _sign, _braces))(text, rng)
    return text


def _sound(text, rng):
    """Return a line whose requests are dropped, repeated and swapped. A word keeps its length: the first request of the
    line stays first."""
    first, *parts = text.split("/")
    for _ in range(rng.randrange(1, 4)):
        i, k = rng.randrange(len(parts)), rng.randrange(len(parts))
        how = rng.randrange(3)
        if how == 0 and len(parts) > 1:
            del parts[i]
        elif how == 1:
            parts.insert(k, parts[i])
        else:
            parts[i], parts[k] = parts[k], parts[i]
    return "/".join([first, *parts])


def _requests(text, rng):
    """Drop, repeat or swap requests, insert a request of another line, or repeat a request many times."""
    parts = text.split("/")
    i, k = rng.randrange(len(parts)), rng.randrange(len(parts))
    how = rng.randrange(10)
    if how < 2 and len(parts) > 1:
        del parts[i]
    elif how < 4:
        parts.insert(k, parts[i])
    elif how < 6:
        parts[i], parts[k] = parts[k], parts[i]
    elif how < 9:
        parts.insert(i, rng.choice(rng.choice(LINES).split("/")))
    else:
        parts[i:i] = [parts[i]] * rng.choice((20, 20, 20_000))
    return "/".join(parts)


def _number(text, rng):
    """Replace a digit by another number."""
    digits = [i for i, sign in enumerate(text) if sign.isascii() and sign.isdigit()]
    if not digits:
        return text
    at = rng.choice(digits)
    return text[:at] + str(rng.choice((rng.choice(INTEGERS), rng.randrange(10), rng.randrange(40)))) + text[at + 1 :]


def _sign(text, rng):
    at = rng.randrange(len(text) + 1)
    put = rng.choice((rng.choice(SIGNS), rng.choice(SIGNS), "", rng.choice(WORDS)))
    return text[:at] + put + text[at + rng.randrange(2) :]


def _braces(text, rng):
    """Add a flag in braces to a request."""
    parts = text.split("/")
    value = rng.choice((*INTEGERS, *range(9), "True", "x", "3:1", "1:9,2", "A", "f", "../f", ""))
    parts[rng.randrange(len(parts))] += f"{{{rng.choice(BRACES)}{rng.choice('==== +@')}{value}}}"
    return "/".join(parts)


def line_options(rng):
    """Return options of ``try``, most of them valid."""
    if rng.random() < SOFT:
        return _sound_options(rng)
    engine = rng.choices(("llama_cpp", "ik_llama", "mlx_lm"), (5, 2, 2))[0]
    known = [name for name in profiles() if name.startswith(f"{engine}@")]
    found = ["-p", rng.choice(known)] if engine != "llama_cpp" or rng.random() < 0.5 else []
    if rng.random() < 0.1:
        found += ["-p", rng.choice((*WORDS, *profiles()))]
    if rng.random() < 0.5:
        found += ["--model", _model(engine, rng)]
    for _ in range(rng.choices((0, 1, 2, 3), (4, 4, 2, 1))[0]):
        name, default = rng.choice([*manual_of(engine).defaults.items()])
        name = rng.choice(WORDS) if rng.random() < 0.05 else name
        found += ["--set", f"{name}={_value(default, rng)}"]
    return [*found, "--json"] if rng.random() < 0.3 else found


def _sound_options(rng):
    """Return a model and options that a user may give."""
    found = ["--model", rng.choice(MODELS)] if rng.random() < 0.5 else []
    for name, values in rng.sample(SOUND, rng.randrange(3)):
        found += ["--set", f"{name}={rng.choice(values)}"]
    return [*found, "--json"] if rng.random() < 0.3 else found


SOUND = (
    ("parallel", (1, 2, 4)), ("ctx_checkpoints", (0, 1, 3, 32)), ("checkpoint_min_step", (0, 8, 64)),
    ("cache_ram", (0, 1, 8192)), ("kv_unified", ("true", "false")), ("ubatch_size", (4, 32, 512)),
    ("ctx_size", (256, 512, 4096)), ("cache_reuse", (0, 2, 16)), ("swa_full", ("true", "false")),
)  # fmt: skip
"""Options of llama.cpp with valid values."""


def _model(engine, rng):
    if rng.random() < 0.7:
        return rng.choice((*MODELS, *manual_of(engine).models))
    if rng.random() < 0.7:
        return "".join(rng.choice("GAWSCH 8") for _ in range(rng.randrange(1, 8)))
    return rng.choice((*WORDS, "W2147483647 A", "W1048577", "W0", "A" * 64, "A1000000", "H5", "G" * 20_000))


def _value(default, rng):
    if rng.random() < 0.1:
        return rng.choice(WORDS)
    if isinstance(default, bool):
        return rng.choice(("true", "false"))
    if isinstance(default, int):
        return rng.choice((default, default * 2, default // 2, 16, 32, 128, 512, 2**20, rng.choice(INTEGERS)))
    return rng.choice((default, default, "0.5", "1", "0", "1.1", "ngram-simple", "draft-simple", "mtp", "nan"))
