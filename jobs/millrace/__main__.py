"""``python -m millrace``: the same as the command ``millrace``."""

from __future__ import annotations

from millrace.cli import main

if __name__ == "__main__":
    main()
