"""Make the development certificates beside this script: `python certs/make_dev_certs.py [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # also works from a checkout that was not installed

from gateway.devcerts import make, make_token_key  # noqa: E402  the line above makes it importable


def main(arguments: list[str]) -> int:
    """Make or keep the files and say where they are; 0, or 2 with one line when the folder cannot be written."""
    folder = Path(arguments[0]) if arguments else HERE
    try:
        paths = make(folder)
        token_key = make_token_key(folder)
    except OSError as error:
        sys.stderr.write(f"{error.filename or folder}: {error.strerror}; give another folder\n")
        return 2
    sys.stdout.write(f"authority   {paths.ca}\ncertificate {paths.certificate}\nkey         {paths.key}\n")
    sys.stdout.write(f"tokens' key {token_key}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
