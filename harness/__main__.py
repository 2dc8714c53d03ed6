"""The console command, and `python -m sinkproof`. Importing the commands takes a moment, in which Ctrl-C may come."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    try:
        from sinkproof.cli.main import main as run_command

        run_command()
    except KeyboardInterrupt:
        print("sinkproof: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
