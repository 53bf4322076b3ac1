"""What ends the server's generation thread."""

from cachesim.base.errors import ProcessAborted

INDEX_ERROR, VALUE_ERROR = "IndexError", "ValueError"     # kinds of the ends that are one


class Died(ProcessAborted):
    """An error that nothing in the server catches: the thread ends, and nobody is answered any more. ``kind`` is the
    exception, and where it comes from in the prompt cache."""
