"""The command `python -m ctxlib MODEL`. It makes a page and a report, so it is with the views."""

import sys

from ctxviews.command import main

if __name__ == "__main__":
    sys.exit(main())
