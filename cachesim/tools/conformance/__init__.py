"""Conformance suite for prefix caches: ``conform`` compares the answers of whole request histories with cold runs.

    cold run  the same request against an empty cache; the implementation is its own reference
    history   requests as a client sends them, in the notation of cachesim: ``S40.A60>a4/S.B5``
    adapter   an object with ``complete(prompt, n_predict)``, or a process (both: jsonl_adapter.py)
    reply     a mapping: ``help(cachesim.tools.conformance.Reply)`` lists the keys and the shapes of their values

    class MyCache:
        def complete(self, prompt, n_predict):
            ...        # optional parameters: cache=True, cancel_after=None, sampling=None, key="", key_start=0
            return {"tokens": [8, 9], "fingerprint": logits, "cached": 3, "evaluated": 2,
                    "stored": [{"tokens": [5, 6, 7], "length": 3}], "used": {"entries": 1}}
        def limits(self):                           # optional
            return {"entries": 4}

Arguments of ``conform``, all but the first by name:

    factory       a callable without arguments, or the words of a command line
    cold          source of cold replies: "fresh" = a new instance for each; "request" = requests with cache = False; or
                  another factory
    corpus        "any" = also run the histories of known faults (section "known"), also scaled to the sizes in ``near``
    histories     lines in the notation, run first: a finding as a regression test
    max_examples  number of drawn histories; max_requests: most requests of a drawn history (1 to 12)
    max_prompt    longest prompt in tokens
    near          sizes of the implementation (chunk, block, window, limit) around which drawn lengths cluster
    tokens        token ids that may be sent, at least 64
    same          compares two fingerprints; the default requires identical numbers. ``near(1e-4)`` allows each number
                  that difference; if fingerprints are near but not identical, different tokens are not a failure
    sampling      parameters sent with every request, {"temperature": 0.8, "seed": 1}; from a list, request i gets item
                  i modulo its length, which shows answers reused from a request with other parameters
    keys          what a prompt is computed under beside its tokens, by name: adapters, images, salts; "" = nothing.
                  ("image 1", 8) = only tokens from token 8 on depend on it. Request i gets item i modulo their number;
                  what was computed under another key must not be reused
    only          names of the sections to run, such as ["same", "books"]; default: all
    strict        treat a missed floor of reuse as a failure
    accepted      property -> reason, for properties known to fail; it is an error if such a property is ok
    reset         reset an instance instead of making another
    timeout       limit for a reply [seconds]; after three missed replies nothing more is sent (a Python object is
                  interrupted in the main thread only, and only if SIGALRM is not in use)
    seconds       time limit [seconds] after which no further history is run; earlier histories are still judged, and a
                  section that lacks histories is undecided
    check         False = only return the report

``Toy`` and ``Memory`` are a model for caches of states and rows; ``PagedMemory`` stands in for the device memory of a
block manager, which itself has only block numbers.
"""

from cachesim.tools.conformance.ci_reports import junit
from cachesim.tools.conformance.compare_replies import identical, near
from cachesim.tools.conformance.protocol import Reply
from cachesim.tools.conformance.reference_model import Memory, PagedMemory, Toy
from cachesim.tools.conformance.report import Finding, Nonconforming, Report, Result
from cachesim.tools.conformance.suite import conform

__all__ = [
    "Finding", "Memory", "Nonconforming", "PagedMemory", "Reply", "Report", "Result", "Toy", "conform", "identical",
    "junit", "near",
]  # fmt: skip
