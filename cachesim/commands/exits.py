"""Which exit code means what? The only list of them."""

HOLDS = 0            # everything asked for holds
BROKEN = 1           # something is broken
BAD_INPUT = 2        # a file or an argument that cannot be used
UNDECIDED = 3        # nothing is broken, but not everything could be decided
NOTHING = 5          # nothing was selected
CRASH = 70           # a fault of cachesim
INTERRUPTED = 130    # the user pressed Ctrl-C
BROKEN_PIPE = 141    # the reader of our output went away
