"""The command line: each verb parses, calls one function below, prints."""

import sys


def main() -> None:
    """Run `newfound`; exit codes: 0, 1 for a failed run, 2 for bad usage."""
    from newfound.cli.app import app
    from newfound.core.errors import NewfoundError

    try:
        app()
    except NewfoundError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print(
            "stopped at once; what the last checkpoint holds can be continued with --resume", file=sys.stderr
        )
        sys.exit(1)
