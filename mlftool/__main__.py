"""`python -m mlftool` is the same as the `mlftool` command."""

import sys

from mlftool.start import main

sys.exit(main())
