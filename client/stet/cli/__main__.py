"""``python -m stet.cli`` is ``stet``."""

import sys

from stet.cli import main

sys.exit(main())
