"""Scenarios: what a client asks of a server, as a file or as one line, and what is expected to happen.

``schema`` holds the forms, ``load`` reads TOML files, ``from_notation`` makes a scenario of a line (the line itself is
read and written by ``notation``), ``words`` turns words into tokens, ``complete`` writes measured expectations back
into a file.
"""
