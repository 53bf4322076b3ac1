"""``python -m cachesim`` is the same as the command ``cachesim``."""

import sys

from cachesim.cli.main import main

sys.exit(main())
