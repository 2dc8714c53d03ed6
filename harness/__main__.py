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
    except SystemExit as end:
        state = sys.modules.get("sinkproof.chaos.processes.process_wide_state")
        if state is not None and isinstance(end.code, int):
            state.end_now_if_functions_are_left(end.code)
        raise


if __name__ == "__main__":
    main()
