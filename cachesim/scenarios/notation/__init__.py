"""Notation for scenarios in a line: syntax tree, parser, writer, and shrinking.

    S40.A60>r4/B80{together+1}/{save@0 f}/S.C50!@1

``/`` separates requests, dots separate words; a word has its length at its first use. After a prompt, in this order:
``>r4`` the forced answer, or ``>3`` to sample 3 tokens; ``!`` sends cache_prompt = false; ``@1`` requests slot 1;
braces hold all other fields as in a file, and steps that are not requests. ``|`` before a word: a user message starts
here. ``W[2:9]`` is a slice of a word; ``I4x2`` is an image of 4 by 2 tokens. ``s:S40+u:A60`` is a chat of a system and
a user message (``a`` assistant, ``t`` tool).

``tree`` holds the syntax tree, ``parse`` reads it, ``canonical_text`` writes it, ``flags`` is the table of fields in
braces, ``shrink`` shrinks a line. The notation does not depend on an engine's behaviour: scenarios, the search and the
conformance tests use it.
"""
