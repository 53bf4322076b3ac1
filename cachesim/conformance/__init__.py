"""Does somebody else's prefix cache keep what a cache owes? ``conform`` is the whole of it.

    cold      the same request against an empty cache; the implementation is its own reference
    warm      the request as it comes in its history
    history   requests as a client makes them, in words: ``S40.A60>a4/S.B5``
    subject   the implementation behind its adapter, an object (subject.py) or a process (process.py)

Arguments of ``conform``, all but the first by name:

    factory       a callable without arguments, or the words of a command line
    cold          where cold replies come from: "fresh" = an instance of its own for each; "request" = requests with
                  cache = False; or another factory
    corpus        "any" = histories of the known bugs as well
    histories     lines in the notation, played first: a finding as a regression test
    max_examples  histories that are drawn; max_requests of them at most in one (1 to 12)
    max_prompt    longest prompt in tokens
    near          sizes of the implementation (chunk, block, window, limit) around which lengths crowd
    tokens        those that may be sent, at least 64
    same          compares two fingerprints; the default is ==
    accepted      property -> reason, for one that is known to be broken; if it holds, that is an error
    reset         an instance is reset instead of made anew
    timeout       seconds that a process may take for a reply; after three that did not come it is asked no more
    check         False = only return the report
"""

from cachesim.conformance.protocol import Reply
from cachesim.conformance.reference_model import Memory, Toy
from cachesim.conformance.report import Finding, Nonconforming, Report, Result
from cachesim.conformance.suite import conform

__all__ = ["Finding", "Memory", "Nonconforming", "Reply", "Report", "Result", "Toy", "conform"]
