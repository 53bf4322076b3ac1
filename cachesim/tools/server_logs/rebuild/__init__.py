"""Simulation of a log: which prompts, settings and earlier requests make the server of a rule set print its numbers.

``settings_search.solve`` begins with a server run (``LogSession``) and ends with a ``Reconstruction``. Nothing here is
a fact of the log; what it assumes stands in the reconstruction.
"""
