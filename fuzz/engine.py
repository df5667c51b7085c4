"""One oracle under libFuzzer: `python -m fuzz.engine MODULE PACKAGE,… OPTION… FOLDER…`; the options are libFuzzer's.

Knows: atheris (this file is its only importer), which code is watched for new ways through it.
Must not know: what an oracle checks.
"""

from __future__ import annotations

import logging
import sys

import atheris

from fuzz.harnesses import check_of


def main() -> None:
    """Runs until libFuzzer ends the process."""
    module, watched, *options = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    with atheris.instrument_imports(include=watched.split(","), enable_loader_override=False):
        check = check_of(module)
    atheris.Setup([sys.argv[0], *options], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
