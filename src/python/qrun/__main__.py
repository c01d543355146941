"""`python -m qrun ...` is the program `qrun`."""

import sys

from qrun import main

sys.exit(main())
