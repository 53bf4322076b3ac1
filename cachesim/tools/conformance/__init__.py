"""Is a prefix cache of yours sound? ``conform`` compares the answers of whole request histories with cold runs.

    cold run  the same request against an empty cache; the implementation is its own reference
    history   requests as a client makes them, in the notation of cachesim: ``S40.A60>a4/S.B5``
    adapter   an object with ``complete(prompt, n_predict)`` (python_adapter.py), or a process (jsonl_adapter.py)
    reply     a mapping: ``help(cachesim.tools.conformance.Reply)`` has the keys and the shapes of their values

    class MyCache:
        def complete(self, prompt, n_predict):      # and cache=True, cancel_after=None, sampling=None, if you can
            ...
            return {"tokens": [8, 9], "fingerprint": logits, "cached": 3, "evaluated": 2,
                    "stored": [{"tokens": [5, 6, 7], "length": 3}], "used": {"entries": 1}}
        def limits(self):                           # if it has any
            return {"entries": 4}

Arguments of ``conform``, all but the first by name:

    factory       a callable without arguments, or the words of a command line
    cold          where cold replies come from: "fresh" = an instance of its own for each; "request" = requests with
                  cache = False; or another factory
    corpus        "any" = the histories of known faults as well (section "known"), also scaled to the sizes in ``near``
    histories     lines in the notation, played first: a finding as a regression test
    max_examples  histories that are drawn; max_requests of them at most in one (1 to 12)
    max_prompt    longest prompt in tokens
    near          sizes of the implementation (chunk, block, window, limit) around which lengths crowd
    tokens        those that may be sent, at least 64
    same          compares two fingerprints; the default wants the same numbers. ``near(1e-4)`` allows every number that
                  difference; where fingerprints are near but not identical, other tokens are no failure
    sampling      parameters that every request gets, {"temperature": 0.8, "seed": 1}; of a list, request i gets the
                  i-th (modulo), so that an answer must not come from a request with other parameters
    only          sections that are played, such as ["same", "books"]; the default is all
    strict        a floor of reuse that is missed is a failure
    accepted      property -> reason, for one that is known to fail; if it is ok, that is an error
    reset         an instance is reset instead of made anew
    timeout       seconds that a reply may take; after three that did not come nothing more is sent (a Python object is
                  interrupted in the main thread only, and only if SIGALRM is not in use)
    seconds       seconds after which no further history is played; what was played is judged
    check         False = only return the report

``Toy`` and ``Memory`` are a model for caches of states and rows; ``PagedMemory`` stands in for the device memory of a
block manager, which itself has only block numbers.
"""

from cachesim.tools.conformance.fingerprint import identical, near
from cachesim.tools.conformance.protocol import Reply
from cachesim.tools.conformance.reference_model import Memory, PagedMemory, Toy
from cachesim.tools.conformance.report import Finding, Nonconforming, Report, Result, junit
from cachesim.tools.conformance.suite import conform

__all__ = [
    "Finding", "Memory", "Nonconforming", "PagedMemory", "Reply", "Report", "Result", "Toy", "conform", "identical",
    "junit", "near",
]  # fmt: skip
