"""The one-line notation: what may be asked of a server, as a tree; read from a text, written as one, made smaller.

    S40.A60>r4/B80{together+1}/{save@0 f}/S.C50!@1

Requests separated by ``/``, words by dots, a word with its length at first use. After a prompt, in this order: ``>r4``
the forced answer, or ``>3`` three tokens of the sampler; ``!`` sends cache_prompt = false; ``@1`` asks for slot 1;
braces hold what has no sign, as a file would have it, and steps that are no requests. ``|`` before a word: a user
message starts here. ``W[2:9]`` is a part of a word. ``s:S40+u:A60`` is a chat, of a system and a user message (``a``
assistant, ``t`` tool).

``tree`` holds the forms, ``parse`` and ``spell`` are the way from a text and back, ``flags`` is the table of what
stands in braces, ``shrink`` makes a line smaller. Nothing here knows an engine: scenarios, the search and the kit all
speak through this.
"""
