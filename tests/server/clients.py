"""The official clients against a running server: python clients.py URL [part of a case's name].

Needs the packages openai, anthropic and ollama. Ends with "N passed, N failed", and 1 if anything failed.
"""

import pathlib
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).with_name("clients")))

import chat, lines, messages, responses  # noqa: E401,F401: their cases
from common import CASES, ONLY


def main():
    passed, failed = 0, []
    for run in CASES:
        if ONLY not in run.__name__:
            continue
        try:
            run()
            passed += 1
        except Exception:
            failed.append(run.__name__)
            print(f"--- {run.__name__}\n{traceback.format_exc(limit=-3)}")
    print(*failed, sep="\n")
    print(f"{passed} passed, {len(failed)} failed")
    # Nothing run is no success.
    sys.exit(1 if failed or not passed else 0)


main()
