#!/usr/bin/env bash
# Writes benches/gpu.md and the GPU's table in README.md from the newest records of a card in benches/runs:
# DATE-gpu-CARD.json (tests/gpu/run.sh) and DATE-gpu-peers-CARD.json (tests/gpu/peers.sh). Needs python3, no GPU.
# Usage: benches/gpu.sh; --record DIR... first keeps what lies in these folders: results.json, with commit and date (of a part
# that several have, the last one's), and peers.json.
set -euo pipefail
if [[ ${1-} == --record ]]; then
    shift
    folders=()
    for folder; do folders+=("$(realpath "$folder")"); done
    set -- "${folders[@]}"
fi
cd "$(dirname "$0")/.."
python3 - "$@" <<'END_OF_PYTHON'
import glob, json, os, re, subprocess, sys, time

RUNS = "benches/runs"


def read(path):
    with open(path) as file:
        return json.load(file)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def slug(name):
    """h100 of NVIDIA H100 80GB HBM3, rtx-4090 of NVIDIA GeForce RTX 4090."""
    found = re.search(r"RTX (PRO )?\w+|[A-Z]+\d+", name)
    return found[0].lower().replace(" ", "-") if found else "card"


def keep(name, record):
    path = f"{RUNS}/{record['date']}-gpu-{name}.json"
    write(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    print("written:", path)


def record(folders):
    """Keeps results and peers of these folders. The commit is the one that the programs were built from."""
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    results, parts = {"commit": commit, "date": time.strftime("%F", time.gmtime())}, {}
    for folder in folders:
        if os.path.exists(path := f"{folder}/models.json"):
            machine = read(path)[0]["machine"]
            results |= {"commit": machine["commit"], "date": machine["timestamp"][:10]}
        if os.path.exists(path := f"{folder}/results.json"):
            found = read(path)
            parts |= found.pop("parts")
            results |= found
        if os.path.exists(path := f"{folder}/peers.json"):
            peers = read(path)
            keep(f"peers-{slug(peers['device']['name'])}", peers)
    if parts:
        keep(slug(parts["device"]["result"]["device"]["name"]), {**results, "parts": parts})


def newest(ending):
    paths = sorted(glob.glob(f"{RUNS}/*-gpu-{ending}.json"))
    if not paths:
        sys.exit(f"{RUNS}: expected a record DATE-gpu-{ending}.json")
    return paths[-1]


def plain(x):
    return f"{x:.0f}" if x >= 1000 else f"{x:.1f}"


def table(head, rows):
    """In Markdown; a head that begins with < is of words, on the left."""
    line = lambda cells: f"| {' | '.join(cells)} |\n"
    ruler = "".join("---|" if h.startswith("<") else "--:|" for h in head)
    return line([h.lstrip("<") for h in head]) + f"|{ruler}\n" + "".join(line(map(str, row)) for row in rows)


def best(engine, kind):
    """The kind of the row that begins so (pp512, tg128), and the fastest turn."""
    found = [(name, max(turns)) for name, turns in engine.items() if name.startswith(kind)]
    return found[0] if found else (kind, None)


def beside_llama(peers, rows):
    """Speeds of qrun, and beside them how many times as fast it is."""
    kinds = [best(rows[0]["engines"]["qrun"], kind)[0] for kind in ("pp", "tg")]
    engines = list(peers["versions"])
    shares = any("share_of_limit" in row["engines"]["qrun"] for row in rows)

    def cell(row, name):
        if "failed" in row["engines"][name]:
            return "failed"
        cells = []
        for kind in ("pp", "tg"):
            ours, speed = (best(row["engines"][engine], kind)[1] for engine in ("qrun", name))
            times = f" (×{ours / speed:.2f})" if name != "qrun" and ours and speed else ""
            cells.append(plain(speed) + times if speed else "–")
        return " / ".join(cells)

    def row_of(row):
        found = [best(row["engines"]["qrun"], kind)[0] for kind in ("pp", "tg")]
        other = [kind for kind, expected in zip(found, kinds) if kind != expected and kind[2:]]
        behind = [f"behind {row['depth']} tokens"] * (row["depth"] > 0)
        share = max(row["engines"]["qrun"].get("share_of_limit", [0]))
        cells = [", ".join([row["model"], *behind, *other]), row["type"], *(cell(row, name) for name in engines)]
        return cells + [f"{100 * share:.0f} %" if share else "–"] * shares

    head = [f"{name} {kinds[0]} / {kinds[1]}" if name == "qrun" else name for name in engines]
    return table(["<model", "<type", *head, *["tg of memory bandwidth"] * shares], map(row_of, rows))


def of_peers(peers):
    llama = peers["versions"].get("llama.cpp")
    other = f"; llama.cpp {llama.get('commit', 'failed')}, with flash attention" if llama else ""
    return (
        f"{peers['device']['name']}, driver {peers['device']['driver']}, commit {peers['versions']['qrun']['commit']}, "
        f"{peers['date']}{other}; tokens per second of a prompt (pp) and of steps (tg), best of the recorded turns; in "
        "brackets how many times as fast qrun is"
    )


def of_device(device):
    facts = [f"{device['multiprocessors']} multiprocessors of SM {device['sm'] / 10}", f"{device['memory'] / 1e9:.0f} GB"]
    words = {"clock_sm_max": "at most", "clock_memory_max": "memory", "power_limit": "", "driver": "driver"}
    facts += [f"{word} {device[key].replace('.00', '')}".strip() for key, word in words.items() if device[key]]
    return f"{device['name']}: {', '.join(facts)}."


def models(rows):
    fields = ["TTFT ms", "prompt tok/s", "decode tok/s", "step P50 ms", "P99", "GB/s", "of memory limit %"]
    shown = ("short", "prefill", "decode")
    rows = [row for row in rows if row.get("config", "failed").split(" ")[0] in (*shown, "failed")]
    cells = lambda row: [row.get(f, "–") for f in fields] if "failed" not in row else [row["failed"], *"–" * 6]
    return table(
        ["<model", "<type", "<configuration", *fields],
        ([row["model"], row["mix"], row.get("config", "–"), *cells(row)] for row in rows),
    )


def predicted(sm, card, peers):
    counts = read(newest(f"code-sm_{sm}"))
    rows = []
    for row in peers["rows"]:
        of_model = counts["counts"][f"sm_{sm}"].get(row["model"], {}).get("us", {})
        us = next((us for name, us in of_model.items() if slug(name) == card), None)
        speed = best(row["engines"]["qrun"], "tg")[1]
        if us and speed and row["type"] == "Q4_K_M" and not row["depth"]:
            range_of = " – ".join(f"{us[end] / 1000:.2f}" for end in ("floor", "low", "high"))
            rows.append([row["model"], range_of, f"{1000 / speed:.2f}", f"{1000 * 1000 / speed / us['low']:.2f}"])
    head = ["<model", "predicted: floor – low – high", "measured", "measured over low"]
    return counts["commit"], table(head, rows) if rows else "Nothing is predicted for this card.\n"


def kernels(rows):
    shapes = [(6912, 1152), (262144, 1152), (14336, 4096)]
    many = (8192, 2048)
    speeds = {}
    for row in rows:
        family, _, form = row["kernel"].partition("_")
        if family not in ("gemv", "product", "gemm"):
            continue
        shape, columns = (row["rows"], row["k"]), row["columns"]
        if columns == 1 and shape in shapes:
            speeds.setdefault(form, {})[shape] = f"{row['GB_per_s']:.0f} ({row['percent_of_read']:.0f} %)"
        elif columns == 512 and shape == many:
            speeds.setdefault(form, {})[many] = f"{row['TFLOP_per_s']:.0f}"
    head = [f"{rows} × {k}" for rows, k in shapes] + [f"{many[0]} × {many[1]}, 512 columns: TFLOP/s"]
    cells = ([form.upper(), *(found.get(s, "–") for s in (*shapes, many))] for form, found in speeds.items())
    return table(["<format", *head], cells)


def note(record):
    """What somebody has to say about a record."""
    return f"\n\n{record['note']}" if "note" in record else ""


def tests(parts):
    rows, count = [], 0
    for name in (name for name in parts if name.startswith(("tests", "memcheck", "racecheck"))):
        result = parts[name]["result"]
        if isinstance(result, dict):
            rows.append([name, "–", result.get("failed") or result.get("skipped"), "–", parts[name]["seconds"]])
            continue
        for suite in result:
            passed, failed = map(int, re.search(r"(\d+) passed; (\d+) failed", suite["summary"]).groups())
            # One that does nothing on a real card passes.
            passed -= suite["skipped"]
            words = f"{passed} passed" if suite["passed"] else f"{passed} passed, {failed} failed"
            count += passed if name == "tests" else 0
            rows.append([name, suite["program"], words, suite["skipped"], parts[name]["seconds"]])
    head = ["<part", "<program", "<tests", "skipped: for an emulated GPU only", "seconds"]
    return count, table(head, rows)


def pages():
    path = newest("peers-*")
    card = re.fullmatch(r".*-gpu-peers-(.*)\.json", path)[1]
    results, peers = read(newest(card)), read(path)
    parts = {name: part["result"] for name, part in results["parts"].items()}
    device = parts["device"]["device"]
    count, of_tests = tests(results["parts"])
    counted, of_predictions = predicted(device["sm"], card, peers)
    launches = parts["launches"]
    dependent = launches.get("dependent_graph_4KB_us")
    startup = parts.get("startup")
    page = f"""# qrun on a GPU

{of_device(device)}

Measured by `tests/gpu/run.sh` at commit {results['commit']}, {results['date']}, but for what stands beside llama.cpp. Made by
`benches/gpu.sh` from the newest records `runs/DATE-gpu-CARD.json` and `runs/DATE-gpu-peers-CARD.json`;
[README.md](README.md) says what is inside each number. Models have random weights in exact shapes.

## Beside llama.cpp

{of_peers(peers)}.

A clock of qrun has the choice of each token and its text inside, llama-bench's has neither: it feeds random tokens.
`tests/gpu/peers.sh` repeats it.{note(peers)}

{beside_llama(peers, peers["rows"])}
## Measured beside predicted

Milliseconds per token of decoding, Q4_K_M. Predicted at commit {counted} ([predictions.md](predictions.md)): the second
token, without the host's share. Measured: one of the 128 steps above, on average.

{of_predictions}
## The card's limits

{table(["MiB", "reading, GB/s", "copying, GB/s"], [list(row.values()) for row in parts["bandwidth"]])}
Microseconds per kernel in a chain of {launches['kernels']}: launched one by one {launches['stream_empty_us']}, as a graph \
{launches['graph_empty_us']}; with 4 KB
that each hands to the next {launches['stream_4KB_us']} and {launches['graph_4KB_us']}\
{f", with dependent launch {dependent}" if dependent else ""}.

## Models

Configurations of the generation log, prompt/answer in tokens; the limit is to read the weights and the cache once per step.

{models(parts['models'])}
## Products by format

One column: GB/s of weights, and the share of what the card reads of as many bytes at most. Rows × columns of a matrix: gate
or up and the head of gemma-3-1b, gate or up of llama-3.1-8b. K formats have blocks of 256, which 1152 is no multiple of.

{kernels(parts['kernels'])}
## Tests

What was run with kernels of a `compute_` target is PTX, compiled by the driver; memcheck and racecheck are
compute-sanitizer's.

{of_tests}{note(results)}"""
    if isinstance(startup, list):
        head = ["<milliseconds, gemma-3-1b Q4_K_M", "first start", "median of three after it"]
        rows = [[row["step"], row["first_ms"], row["ms"]] for row in startup]
        page += f"\n## From exec to the first token\n\n{table(head, rows)}"
    guesses = parts.get("guesses")
    if isinstance(guesses, list):
        fast = [key for key in guesses[-1] if key.startswith("times as fast")]
        head = ["<guesses", "step, ms", "draft, ms", *fast]
        rows = [[row.get(key, "–") for key in ("guesses", "step ms", "draft ms", *fast)] for row in guesses]
        page += f"\n## Guesses of a draft head\n\n{guesses[0]['model']}, all guesses right; a text where fewer are by these times.\n\n{table(head, rows)}"
    write("benches/gpu.md", page)

    mark, end = "<!-- gpu -->\n", "<!-- end -->"
    with open("README.md") as file:
        before, found, rest = file.read().partition(mark)
    if not found:
        sys.exit(f"README.md: expected {mark.strip()} … {end}")
    after = rest.partition(end)[2]
    passed = f"{count} tests of kernels and engine passed" if count else "tests failed"
    block = (
        f"On a GPU (`tests/gpu/peers.sh`; more, and beside what was predicted: `benches/gpu.md`): {of_peers(peers)}; {passed}"
        f"\n\n{beside_llama(peers, [row for row in peers['rows'] if not row['depth']])}"
    )
    write("README.md", before + mark + block + end + after)


if len(sys.argv) > 1:
    record(sys.argv[1:])
pages()
END_OF_PYTHON
