"""Scenarios: what a client asks of a server, as a file or as one line, and what is expected to happen.

``schema`` holds the forms, ``load`` reads TOML files, ``notation`` reads and writes the one-line form,
``words`` turns words into tokens, ``complete`` writes measured expectations back into a file.
"""
