"""Lines of a log: message and prefix of each, its kind, the server run and the request that it belongs to.

Nothing here knows what follows from a number. ``logical_lines`` begins with the text of a file, ``LineTies`` ends with
the requests as groups of lines (``TiedRequest``).
"""
