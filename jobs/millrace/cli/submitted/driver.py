"""The program that ``spark-submit`` is given: the command ``millrace``, in the virtual machine's company."""

from __future__ import annotations

from millrace.cli import main

if __name__ == "__main__":
    main()
