"""Scenarios: requests to a server, as a TOML file or a line in notation, with expected results.

``schema`` holds the dataclasses, ``load`` reads TOML files, ``from_notation`` builds a scenario from a line (the line
itself is parsed and written by ``notation``), ``request_spec`` turns words into tokens, ``runner`` runs a scenario, and
``toml_writer`` writes scenarios and measured expectations into files.
"""
