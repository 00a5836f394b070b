"""Entry point of ``daskfs`` and ``python -m daskfs``. Any interrupt ends the process with exit code 130."""

from __future__ import annotations

import sys

from daskfs import interrupts

EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command that the arguments name."""
    with interrupts.guard(command=True):
        try:
            from daskfs.cli import app

            try:
                app(prog_name="daskfs")
            except SystemExit as end:
                if end.code != EXIT_INTERRUPTED:  # typer itself exits if interrupted while it parses the options
                    interrupts.check()
                raise
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(EXIT_INTERRUPTED)
        finally:
            interrupts.ignore()


if __name__ == "__main__":
    main()
