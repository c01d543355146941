"""What the tools wrote, as one record: record.py FOLDER MODEL [--count …] [--program …] [--save FILE].

FOLDER has TOOL/version and TOOL/SERVER/LOAD.json, as ../tools.sh leaves them.
"""

import argparse
import datetime
import json
import pathlib
import re
import subprocess


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return None


def says(*command):
    """The first line that a program prints, wherever it does."""
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return next(iter(run.stdout.strip().splitlines()), None)


def rounded(value, times=1.0):
    return None if value is None else round(value * times, 3)


def oha(report):
    codes = report["statusCodeDistribution"]
    sent = sum(codes.values()) + sum(report["errorDistribution"].values())
    times = report["latencyPercentiles"]
    return {
        "requests": sent,
        "rps": rounded(report["summary"]["requestsPerSec"]),
        "p50_ms": rounded(times["p50"], 1e3),
        "p99_ms": rounded(times["p99"], 1e3),
        "errors": sent - codes.get("200", 0),
    }


def wrk(report):
    return report  # wrk.lua writes it so.


def guidellm(report):
    return [strategy(run) for run in report["benchmarks"]]


def strategy(run):
    """One rate of a sweep. Of the requests that were asked for, some may have had no end: `unfinished`."""
    kind, metrics = run["config"]["strategy"], run["metrics"]
    counts, asked = metrics["request_totals"], run["scheduler_state"]["created_requests"]

    def of(metric, *places, times=1.0):
        found = metrics[metric]["successful"]
        for place in places:
            found = (found or {}).get(place)
        return rounded(found, times)

    row = {
        "strategy": kind["type_"],
        "rate": rounded(kind.get("rate")),
        "requests": counts["successful"],
        "errors": counts["errored"],
        "unfinished": asked - counts["successful"] - counts["errored"],
        "rps": of("requests_per_second", "mean"),
        "tokens_per_s": of("output_tokens_per_second", "mean"),
        "prompt_tokens": of("prompt_token_count", "median"),
        "tokens": of("output_token_count", "median"),
    }
    for part in ("p50", "p99"):
        row[f"{part}_ms"] = of("request_latency", "percentiles", part, times=1e3)
        row[f"ttft_{part}_ms"] = of("time_to_first_token_ms", "percentiles", part)
        row[f"itl_{part}_ms"] = of("inter_token_latency_ms", "percentiles", part)
    return {key: value for key, value in row.items() if value is not None}


def ordered(path):
    """`completions 8` stands before `completions 32`."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.stem)]


def pair(text):
    return text.split("=", 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--count", nargs="*", type=pair, default=[])
    parser.add_argument("--program", nargs="*", type=pair, default=[])
    parser.add_argument("--save", type=pathlib.Path)
    args = parser.parse_args()
    read = {"oha": oha, "wrk": wrk, "guidellm": guidellm}
    tools = {}
    for name in read:
        if not (args.folder / name).is_dir():
            continue
        tools[name] = {"version": (args.folder / name / "version").read_text().strip()}
        for server, _ in args.program:
            tools[name][server] = loads = {}
            for path in sorted((args.folder / name / server).glob("*.json"), key=ordered):
                try:
                    loads[path.stem] = read[name](json.loads(path.read_text()))
                except (ValueError, KeyError, TypeError) as error:
                    loads[path.stem] = {"failed": f"{type(error).__name__}: {error}"}
    record = {
        "machine": {
            "cpu": processor(),
            "date": f"{datetime.datetime.now(datetime.timezone.utc):%F}",
            "commit": says("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"),
            **{name: says(program, "--version") for name, program in args.program},
        },
        "model": args.model.stem,
        **{name: int(count) for name, count in args.count},
        "tools": tools,
    }
    print(json.dumps(record))
    if args.save:
        args.save.write_text(json.dumps(record, indent=2) + "\n")


main()
