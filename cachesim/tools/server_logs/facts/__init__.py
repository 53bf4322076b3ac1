"""Facts of a log and what follows from them: ranges of the numbers of each request, with the lines that prove them.

A fact is a printed value (``ReadLine``, ``server_facts``), a conclusion a range that facts leave (``ProvenRange`` in
``DerivedNumbers``), a statement what a report may print about either (``Statement``): ``read_statement`` makes one of a
line, ``conclusion`` one of what follows, with the lines that prove it. ``read_session`` begins with the text of a file,
``conclude`` ends with all statements.
"""
