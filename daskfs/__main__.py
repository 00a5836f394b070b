"""The command ``daskfs``, and ``python -m daskfs``: wherever an interrupt comes, the process ends with 130."""

from __future__ import annotations

import sys

from daskfs import interrupts

EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command that the arguments name, and nothing else in this process."""
    with interrupts.guard(command=True):
        try:
            from daskfs.cli import app

            try:
                app(prog_name="daskfs")
            except SystemExit as end:
                if end.code != EXIT_INTERRUPTED:  # typer has its own end for what comes while it reads the options
                    interrupts.check()
                raise
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(EXIT_INTERRUPTED)
        finally:
            interrupts.ignore()


if __name__ == "__main__":
    main()
