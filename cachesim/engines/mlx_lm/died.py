"""What ends the server's generation thread."""


class Died(Exception):
    """An error that nothing in the server catches: the thread ends, and nobody is answered any more."""
