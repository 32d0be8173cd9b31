"""`python -m core …`: the same work from a shell. The commands are in `core/cli`."""

from core.cli import main

if __name__ == "__main__":
    main()
