"""Asks the held-out questions and counts right answers: with qrun and GGUF files, or with a checkpoint in PyTorch.

    python evaluate.py --qrun path/to/qrun demo-bf16.gguf demo-Q4_K_M.gguf
    python evaluate.py --qrun path/to/qrun demo-Q4_K_M.gguf --temp 0.4 --seeds 5
    python evaluate.py --run folder-of-the-training-run
"""

import argparse
import json
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
LIMIT = 200


def read_rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def chat_prompt(system, turns):
    """The text of a conversation up to the point where the model speaks; the template of export.py makes the same."""
    text = ""
    for i, (asked, said) in enumerate(turns):
        lead = f"{system.strip()}\n\n" if system and i == 0 else ""
        text += f"<start_of_turn>user\n{lead}{asked.strip()}<end_of_turn>\n<start_of_turn>model\n"
        text += "" if said is None else f"{said}<end_of_turn>\n"
    return text


def with_qrun(program, model, sampling):
    """Single questions go through the program's own chat; the later turns of a conversation are given as text."""

    def answer(command, text):
        done = subprocess.run(command, capture_output=True, input=text, timeout=120)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.decode()}")
        return done.stdout.decode("utf-8", "replace").strip()

    def ask(system, turns):
        common = [program, model, "-n", str(LIMIT), "-t", "1", *sampling]
        if len(turns) == 1:
            more = ["-sys", system] if system else []
            return answer([*common, "-st", "-p", turns[0][0], *more], None)
        return answer([*common, "-no-cnv", "-f", "-"], chat_prompt(system, turns).encode())

    return ask


def with_torch(folder):
    import torch

    from model import Model, config_of
    from vocabulary import BOS, END, EOS, Vocabulary

    torch.set_num_threads(1)
    vocabulary = Vocabulary(folder / "vocabulary.model")
    state = torch.load(folder / "checkpoint.pt")["model"]
    model = Model(config_of(state))
    model.load_state_dict(state)
    model.eval()

    def ask(system, turns):
        done = [(asked, said) for asked, said in turns[:-1]]
        ids = vocabulary.document(done, system)[0] if done else [BOS]
        return vocabulary.text(model.answer([*ids, *vocabulary.prompt(turns[-1][0], None if done else system)], (END, EOS)))

    return ask


def right(row, said):
    """Stories are never told twice alike, so they only have to be about the right animal and come to an end."""
    if any(part in said for part in row.get("not", ())):
        return False
    if "contains" in row:
        return row["contains"] in said and said.endswith((".", '"')) and len(said) > 150
    if "any" in row:
        return any(part in said for part in row["any"])
    return said == row["answer"]


def converse(ask, row):
    """The answer to the last message, after the model's own answers to those before."""
    turns = []
    for message in (*row.get("before", ()), row["prompt"]):
        said = ask(row.get("system"), [*turns, (message, None)])
        turns.append((message, said))
    return said


def score(ask, rows, verbose):
    counts = {}  # kind -> (right, asked)
    for row in rows:
        said = converse(ask, row)
        good = right(row, said)
        # Each answer that is learnt ends with one of these and is shorter than a story may be.
        if not said.endswith((".", "!", "?", '"')) or ("contains" not in row and len(said) > 400):
            print(f"  no end: {row['prompt']!r} -> {said[:80]!r}", flush=True)
        hits, total = counts.get(row["kind"], (0, 0))
        counts[row["kind"]] = hits + good, total + 1
        if verbose and not good:
            print(f"  {row['kind']}: {row.get('system', '')}{row['prompt']!r} -> {said!r}", flush=True)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="GGUF files, asked through qrun")
    parser.add_argument("--qrun", default="qrun", help="the program")
    parser.add_argument("--run", type=Path, help="folder with checkpoint.pt and vocabulary.model, asked through PyTorch")
    parser.add_argument("--rows", type=Path, default=HERE / "eval.jsonl")
    parser.add_argument("--all", action="store_true", help="every held-out question instead of --rows")
    parser.add_argument("--every", type=int, default=1, help="take only each N-th row")
    parser.add_argument("--kind", help="only rows of this kind")
    parser.add_argument("--temp", default="0", help="temperature; 'own': what the file asks for")
    parser.add_argument("--seeds", type=int, default=1, help="ask each question with so many seeds")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the wrong answers")
    args = parser.parse_args()
    if args.all:
        from held_out import every_held_out_row

        rows = every_held_out_row()
    else:
        rows = read_rows(args.rows)
    rows = [row for row in rows if args.kind in (None, row["kind"])][:: args.every]
    askers = {}
    for model in args.models:
        for seed in range(1, args.seeds + 1):
            temp = [] if args.temp == "own" else ["--temp", args.temp]
            askers[model, seed] = with_qrun(args.qrun, model, [*temp, "-s", str(seed)])
    if args.run:
        askers["checkpoint", 0] = with_torch(args.run)
    results = {}  # model -> kind -> (right, asked)
    for (name, _), ask in askers.items():
        sums = results.setdefault(name, {})
        for kind, (hits, total) in score(ask, rows, args.verbose).items():
            before = sums.get(kind, (0, 0))
            sums[kind] = before[0] + hits, before[1] + total
    for name, kinds in results.items():
        everything = tuple(map(sum, zip(*kinds.values())))
        for kind, (hits, total) in {**kinds, "all": everything}.items():
            print(f"{name:40} {kind:14} {hits:5} / {total:5}  {100 * hits / total:5.1f} %")


if __name__ == "__main__":
    main()
