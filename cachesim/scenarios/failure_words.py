"""Words that name a failure in a user's description. They decide its symptom before all other words.

A report names what failed and, around it, what the server was doing: "crashes when prefix caching is enabled" is a
crash. The symptoms are tried in order; the first one with a failure word in the text is meant.
"""

from __future__ import annotations

import re
from functools import cache

FAILURES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("memory", (
        r"\boom\b", r"out[ -]of[ -](host |system )?memory",
    )),
    ("slow", (
        r"\bunresponsive (while|during)\b", r"\b(takes?|took) too long\b",
    )),
    ("crash", (
        r"\bcrash(es|ed|ing)?\b", r"\bseg(mentation )?fault(s|ed)?\b", r"\bsig(segv|abrt|kill|quit|term|bus)\b",
        r"\b(ggml_)?assert(ion)?(_?fail\w*|error)?\b", r"ggml_abort", r"\babort(s|ed|ing)?\b", r"\bcore dump(ed)?\b",
        r"\b(hard-)?hang(s|ing)?\b", r"\bhung\b", r"\bfr(eezes?|oze|ozen|eezing)\b", r"\bdead-?lock(s|ed)?\b",
        r"\bunresponsive\b", r"\b(dies?|died|dead|killed)\b", r"\bterminat(es|ed|ing)\b", r"\bpanic(s|ked)?\b",
        r"\bserver (is |goes |went )?down\b",
        r"\b(stops?|stopped|no longer|never) (respond|answer|process|work|serv)",
        r"\b(index|value|key|type|attribute|runtime|assertion|zerodivision)error\b", r"\bshape (mismatch|error)",
        r"\bdimensions? mismatch", r"\bwedge(s|d)? (state|until|after|mid)", r"\bserver wedge", r"\bwedge state\b",
        r"\bconnection refused\b", r"\bstuck\b", r"\bnot respond\w*", r"\bnever (returns|finishes)\b",
        r"\b(exits|quits)( unexpectedly)?\b", r"\bexit code\b", r"\b(doesn't|does not|stops?) respond\w*",
        r"\bexception in thread\b", r"\bneeds? (a )?(restart|sigkill)\b", r"\bfailed to remove sequence\b",
        r"\bcheck failed\b", r"\bstall(s|ed)? (forever|mid)",
    )),
    ("memory", (
        r"--cache-ram\b.*\b(limit|enforced|ignored|ineffective|grow)", r"\b(memory|ram|size) limit\b",
        r"\bcache\b.*\bexceeds? (its|the) (size |byte |ram )?limit\b", r"\b(useless|too many) entries\b",
        r"\b(memory|ram|rss|cache|pool)\b.*\b(grow(s|ing)?|leak(s|ed|ing)?|unbounded|keeps increasing)\b",
        r"\bleak(s|ed|ing)? (of )?(host |cpu |gpu )?(memory|ram)\b", r"\b(never|not) (clear|releas|free)\w*",
        r"\bretain(s|ing)\b",
    )),
    ("wrong-answer", (
        r"\b(garbage|gibberish|nonsense|incoherent|garbled|corrupt(s|ed|ion)?|contaminat\w+|"
        r"hallucinat\w+|degenerate)\b",
        r"\b(wrong|bad|incorrect|broken|unexpected) (out|answer|result|respons|token|content|text|"
        r"completion|generation)",
        r"\b(different|inconsistent|divergent|diverging|non-?deterministic) (\w+ )?(out|answer|result|"
        r"respons|complet|text)",
        r"\b(out\w+|answers?|results?|responses?|completions?|tokens?|request) (\w+ )?(differs?|"
        r"diverges?|var(y|ies))\b",
        r"\b(chang|affect|degrad|alter)\w* (\w+ ){0,4}(outputs?|answers?|results?|accuracy|quality)\b",
        r"\b(unrelated|another|other|previous|wrong|foreign) (user|content|conversation|context|"
        r"chat)\b.*\b(answer|leak|bleed|appear|content)|\b(content|answer)s? (from|of) (an? )?(un|another|other)",
        r"\bunrelated (content|conversation)", r"\brepeat(s|ed|ing)? (output|token|character|itself|the same|/)",
        r"\b(outputs?|generat\w+) repeated\b", r"\bover and over\b", r"\bsame (token|word|character)s?\b",
        r"\bnot deterministic|non-?deterministic", r"\bforgets?\b", r"\baccuracy\b", r"\b(loops|looping|in a loop)\b",
        r"\bleaks? (into|from|between|another)", r"\bbleeds?\b",
        r"\bmix(es|ed|ing)?( up| together| answers?| responses?)\b", r"\b(scrambled|swapped|nonsensical|off-topic)\b",
        r"\b(out\w+|answers?|results?|responses?|completions?|text) (is|are|becomes?|"
        r"looks?) (\w+ )?(wrong|bad|broken|random|weird|empty|stale|incorrect|different)\b",
        r"\b(ai|model|llm) (\w+ ){0,3}breaks?\b",
        r"\b(random|weird|empty) (out|answer|respons|text|token|character|word)",
        r"\b(answers?|ignores?) (the |my |its )*(previous|old|last|new) (question|prompt|message|request)",
        r"\bdifferent (greedy )?(answers?|outputs?|results?)\b",
    )),
    ("error", (
        r"\b(http )?(400|404|413|429|500|502|503)\b( error| status)?", r"\berrors?\b", r"\bexception\b",
        r"\bfail(s|ed)? (to|with)\b", r"\band .* fail\b", r"\bfail(s|ing)?\b",
        r"\b(refus|reject)(es|ed|s)\b(?! draft)", r"(?<!take )(?<!takes )(?<!took )\btoo (big|large|long)\b",
        r"\bexceed(s|ed|ing)?\b.*\b(context|size|limit)", r"\bcontext\b.*\bexceeded\b", r"\bexhaust(s|ed|ing)?\b",
        r"\bconnection reset\b", r"\bbad request\b", r"\b(cannot|can't|unable to) (process|handle|decode|answer)\b",
    )),
    ("re-processed", (
        r"\blos(es?|ing|t)\b.*\b(reuse|prefix|checkpoints)\b", r"\bcheckpoints? (are|is) (never|not)\b",
    )),
    ("lost-conversation", (
        r"\b(returns?|comes? back|goes back|going back) to (\w+ ){1,3}?(chat|conversation|session|agent)\b",
        r"\b(switch|alternat|tak(e|es|ing) turns)\w*\b.*\b(chat|conversation|agent|client|session|slot|"
        r"prompt|between)",
        r"\b(cache|conversation|session|state|entry|slot)\b.*\b(is |are |gets? |was )?(lost|evicted|"
        r"overwritten|thrown away)\b",
        r"\b(loses|evicts|overwrites)\b.*\b(cache|conversation|session|chat|slot)",
    )),
    ("re-processed", (
        r"\b(no|zero|0 ?%) (\w+ )?(cache )?(hits?|reuse)\b", r"\bhit rate\b",
        r"\bslow\w* (second|follow-?up|next|first token|prompt processing|prefill)",
    )),
    ("slow", (
        r"\bttft\b.*\b(high|regress\w*|poor|slow\w*|increas\w*|spikes?)\b",
        r"\b(slow\w*|poor|increases?|high|regress\w*)\b.*\b(ttft|time to first token|latency|performance|"
        r"throughput)\b",
        r"\b(latency|performance|throughput|speed)\b.*\b(high|low|poor|drops?|regress\w*|degrad\w*|worse)\b",
        r"\bslow(s|ed|ing)? (down|to)\b", r"\b(very|extremely|too|really) slow\b", r"\bslower (than|with|when)\b",
        r"\bare slower\b", r"\bperformant\b", r"\bsequential(ly)?\b", r"\bthroughput\b",
        r"\bone (at a time|after (the|an)other)\b", r"\b(low|poor|zero) acceptance\b",
        r"\bacceptance (rate )?(drops?|collapses?)",
    )),
    ("re-processed", (
        r"\bre-?(process|evaluat|comput|prefill)\w*",
        r"\bcach\w*\b.*\b(ineffective|inert|no-op|bypass\w*|invalidat\w+|miss(es)?)\b",
        r"\bcache\b.*\b(not|never|no longer) (\w+ )?(re)?used\b",
        r"\b(ineffective|inert|no-op|bypass\w*|invalidat\w+|clear(s|ed))\b.*\bcach\w*",
        r"\bfrom the (beginning|start)\b", r"\bcache is cleared\b",
        r"\bcach\w*\b.*\b(never|not) (be )?(found|stored|kept|hit)\b",
        r"\b(not|n't|never) (honou?r|respect|store|use|reuse|hit)\w*\b.*\bcach\w*", r"\bfull (re-?)?prefill\b",
    )),
    ("slow", (
        r"\bslow\w*\b(?!.*\b(prompt|turn|message|request)\b)", r"\blatency\b", r"\bstutter\w*",
    )),
)
"""Symptoms with patterns of their words, in the order in which they decide."""
NOT_THE_FAILURE = (
    r"\bmemory error\)", r"\bfails? to (boot|start)\b",
    r"\bfail(s|ed|ing)? to (re-?)?(use|hit|match|restore|load|reuse)\b", r"drafts? rejected|rejected drafts?",
    r"\bwithout (an? )?(error|crash)", r"\bno errors?\b", r"\b(temperature|n_ctx|seed)\s*=\s*\d+",
)
"""Patterns of text that names a cause, or the absence of a failure, with a word of a failure."""


def failure_named(text: str) -> str:
    """Return the symptom whose failure words a text contains, "" if it names no failure."""
    plain = " ".join(_not_the_failure().sub(" ", text[:4_000].lower()).split())
    return next((name for name, pattern in _patterns() if pattern.search(plain)), "")


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the symptoms with a pattern each."""
    return tuple((name, re.compile("|".join(words))) for name, words in FAILURES)


@cache
def _not_the_failure() -> re.Pattern[str]:
    return re.compile("|".join(NOT_THE_FAILURE))
