"""`python -m core …`: the same work from a shell. The commands are in `core/cli`."""

import sys

if __name__ == "__main__":
    try:
        from core.cli import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)
