"""What the turns of all peers have in common: arguments, tokens, the clock and one line of JSON.

usage: run_PEER.py MODEL PREFILL DECODE THREADS [--device cpu|cuda]   one turn
       run_PEER.py --check [--device cpu|cuda]                        whether it could be run, and its versions

The last line of stdout is an object: `{"skipped": why}`, or versions, or the turn.
"""

import argparse
import importlib
import json
import resource
import sys
import time


def token(position):
    """The same tokens for every engine, all over the smallest vocabulary."""
    return 100 + position * 7919 % 900


def skip(why):
    print(json.dumps({"skipped": why}))
    sys.exit(0)


def only_on_a_gpu(device):
    if device != "cuda":
        skip("it is compared on a GPU only (--device cuda)")


def versions(packages):
    """Versions of packages that can be imported; one that cannot makes this peer be skipped."""
    found = {}
    for name in packages:
        try:
            found[name] = getattr(importlib.import_module(name), "__version__", "unknown")
        except Exception as error:  # Whatever an import raises: it cannot be used here.
            skip(f"Python cannot import {name} ({type(error).__name__}: {error})")
    return found


def clock(run, prefill, decode):
    """Seconds of a prompt and of greedy decoding after it. `run(tokens, position)` feeds tokens and returns
    the most probable next one."""
    start = time.perf_counter()
    following = run([token(i) for i in range(prefill)], 0)
    middle = time.perf_counter()
    for position in range(prefill, prefill + decode):
        following = run([following], position)
    end = time.perf_counter()
    return {"prefill_s": middle - start, "decode_s": end - middle, "decode_tokens": decode}


def clock_whole_answers(generate, decode):
    """The same of an engine that gives no time stamps: `generate(n)` makes n tokens after the prompt and returns
    how many it made. An answer of one token is the prompt."""
    generate(decode + 1)
    stamps = [time.perf_counter()]
    made = []
    for n in [1, decode + 1]:
        made.append(generate(n))
        stamps.append(time.perf_counter())
    prompt, whole = stamps[1] - stamps[0], stamps[2] - stamps[1]
    return {"prefill_s": prompt, "decode_s": whole - prompt, "decode_tokens": made[1] - made[0]}


def main(packages, measure, usable=lambda device: None, prepares_with=()):
    """Runs a peer's script. `measure(arguments)` returns `prefill_s`, `decode_s`, `decode_tokens` and whatever else
    describes the turn; `prepares_with` are packages that it needs besides, whose versions do not matter."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("model", nargs="?")
    for name in ["prefill", "decode", "threads"]:
        parser.add_argument(name, nargs="?", type=int)
    arguments = parser.parse_args()
    usable(arguments.device)
    found = versions(packages)
    if arguments.device == "cuda" and "torch" in found and not sys.modules["torch"].cuda.is_available():
        skip("torch.cuda.is_available() is false")
    if arguments.check:
        versions(prepares_with)
        print(json.dumps({"versions": found}))
        return
    turn = measure(arguments)
    speeds = {
        "prefill": arguments.prefill / turn.pop("prefill_s"),
        "decode": turn["decode_tokens"] / turn.pop("decode_s"),
        "prefill_tokens": arguments.prefill,
    }
    # KiB on Linux.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(speeds | turn | {"peak_mib": round(peak), "versions": found}))
