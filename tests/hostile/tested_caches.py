"""Hostile caches for `cachesim.strategies`, and hostile scenarios for the pytest plug-in."""

from __future__ import annotations

import json
import traceback
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from cachesim.base.console import complain
from tests.hostile.mutant import Mutant

VALUES = (
    "cached", "0", "1", "len(tokens)", "len(tokens) + 1", "-1", "None", "True", "0.5", "float('nan')", "10**30",
    "'x'", "[]", "object()", "tokens", "(1, 2, 3)", "StoredPrompt('h', -1)", "StoredPrompt(None)",
    "StoredPrompt([], 10**9)", "{}", "1 / 0", "[][0]", "exit(3)", "next(iter(()))",
    "type('E', (BaseException,), {})", "'\\x1b[2J'", "'y' * 99999",
)  # fmt: skip
BODIES = {
    "insert": "StoredPrompt(tokens, cached)", "look_up": "cached", "evict": "None", "fork": "handle", "trim": "True",
    "restore": "tokens", "read": "handle", "blocks": "handle", "reference_counts": "{}", "free_blocks": "[]",
    "entries": "[]",
}  # fmt: skip
NAMES = {
    "insert": "self, tokens", "look_up": "self, tokens", "evict": "self, handle", "fork": "self, handle",
    "trim": "self, handle, length", "restore": "self, tokens", "read": "self, handle", "blocks": "self, handle",
    "reference_counts": "self", "free_blocks": "self", "entries": "self",
}  # fmt: skip
INVARIANTS = {
    "CachedEqualsCold": "read",
    "KeyCoversContent": "entries",
    "NeverNegativeReuse": "insert",
    "ReferenceCounts": "reference_counts",
    "BlocksInOnePlace": "free_blocks",
}
SOUND = 0.4  # share of caches that keep nothing, which is correct
CACHES = """from cachesim.strategies import *

class Hostile(CacheDriver):
{operations}
"""


def cache(rng, number):
    """Return a cache with hostile operations, and the names of the invariants."""
    has = ["insert", *rng.sample(list(BODIES)[1:], rng.randrange(4))]
    is_sound = rng.random() < SOUND
    lines = []
    for name in has:
        value = BODIES[name] if is_sound or rng.random() < 0.5 else rng.choice(VALUES)
        lines += [f"    def {name}({NAMES[name]}):", "        cached = 0", f"        return {value}"]
    invariants = [name for name, needed in INVARIANTS.items() if needed in has]
    data = json.dumps({"code": CACHES.format(operations="\n".join(lines)), "invariants": invariants, "seed": number})
    return Mutant("cache", number, (), {"cache.json": data.encode()}, given_to="cache")


def machine_run(mutant):
    """Run the state machine of a cache. Return 0 if it holds, 1 if a fault is found or the cache raises, 2 if the
    machine is refused."""
    from hypothesis import HealthCheck, Phase, seed, settings
    from hypothesis.errors import InvalidArgument, InvalidDefinition
    from hypothesis.stateful import run_state_machine_as_test

    from cachesim import strategies

    given = json.loads(mutant.data)
    space = {"__name__": "hostile_cache"}
    exec(compile(given["code"], "hostile_cache.py", "exec"), space)  # the code is ours
    bases = tuple(getattr(strategies, name) for name in given["invariants"])
    few = settings(max_examples=3, stateful_step_count=5, deadline=None, database=None, phases=[Phase.generate],
                   print_blob=False, report_multiple_bugs=False, suppress_health_check=list(HealthCheck))  # fmt: skip
    printed = StringIO()
    try:
        machine = type("Machine", (*bases, strategies.CacheMachine), {"new_cache": lambda self: space["Hostile"]()})
        with redirect_stdout(printed):
            run_state_machine_as_test(seed(given["seed"])(machine), settings=few)
    except (strategies.BadArgument, InvalidArgument, InvalidDefinition) as error:
        complain(str(error)[:200])
        return 2
    except BaseException as error:
        _judge(error)
        print(type(error).__name__, str(error)[:500])
        return 1
    print("holds")
    return 0


def _judge(error):
    """Raise an error again that neither the cache raised, nor cachesim reports with the operations that repeat it."""
    from cachesim.strategies import CacheFault

    frames = traceback.extract_tb(error.__traceback__)
    is_cache = any(frame.filename == "hostile_cache.py" for frame in frames)
    is_repeated = any(".repeat(" in note for note in getattr(error, "__notes__", ()))
    if not is_cache and not is_repeated and not isinstance(error, (CacheFault, AssertionError)):
        raise error


SETTINGS = ("", "", "", "", "", "cachesim_profiles = llama_cpp@b10587", "cachesim_mode = provenance",
            "cachesim_mode = x",
            "cachesim_profiles = nothing@0", "cachesim_scenarios = true")  # fmt: skip


def collected(mutant):
    """Run pytest with the plug-in on the files of the mutant. Return 0, 1, 2 or 5, as a command would."""
    import pytest

    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = int(pytest.main(["-q", "-x", "--cachesim", "-p", "no:cacheprovider", "-p", "no:hypothesispytest",
                                "-p", "no:xdist", "--rootdir", ".", "-c", "pytest.ini",
                                *(name for name in mutant.files if name.endswith(".toml"))]))  # fmt: skip
    text = printed.getvalue()
    print(text[-500:].encode("ascii", "replace").decode().replace("\x1b", ""))
    for at in (text.find("INTERNALERROR"), text.find("Traceback (most recent call last)")):
        if at >= 0:
            raise AssertionError(text[at : at + 3000])
    for path in Path().glob("__pycache__/*"):
        path.unlink()
    if code in (0, 1, 5):
        return code
    complain("pytest cannot collect the scenarios")
    return 2


def plugin(rng, number, scenario):
    """Return a scenario for the plug-in. ``scenario`` makes a mutated scenario file."""
    made = scenario(rng, number)
    ini = f"[pytest]\n{rng.choice(SETTINGS)}\n".encode()
    return Mutant("plugin", number, (), {**made.files, "pytest.ini": ini}, given_to="plugin")
