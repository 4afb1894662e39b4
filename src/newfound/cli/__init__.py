"""The command line: each verb parses its options, calls one function below, and prints."""

import sys

from newfound.cli.signals import begin_imports, end_imports


def main() -> None:
    """Run `newfound`; exit codes: 0, 1 for work that fails, 2 for bad usage, 130 for Ctrl-C."""
    begin_imports()
    arguments = sys.argv[1:] or ["--help"]
    try:
        from newfound.cli.app import run

        code = run(arguments)
    except KeyboardInterrupt:
        print("Stopped by Ctrl-C.", file=sys.stderr)
        code = 130
    finally:
        end_imports()
    sys.exit(code)
