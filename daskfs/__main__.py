"""``python -m daskfs`` is the command ``daskfs``."""

from daskfs.cli import main

if __name__ == "__main__":
    main()
