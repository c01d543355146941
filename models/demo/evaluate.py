"""Asks the held-out questions and counts exact answers: with qrun and GGUF files, or with a checkpoint in PyTorch.

    python evaluate.py --qrun path/to/qrun demo-bf16.gguf demo-Q4_K_M.gguf
    python evaluate.py --run folder-of-the-training-run
"""

import argparse
import json
import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def read_rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def every_held_out_row():
    """More rows than eval.jsonl, which is kept small: all held-out paraphrases, and more sums."""
    from generate import held_out, read_facts

    return held_out(read_facts())


def with_qrun(program, model):
    def ask(prompt):
        command = [program, model, "-p", prompt, "--temp", "0", "-st", "-n", "200"]
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.decode()}")
        return done.stdout.decode("utf-8", "replace").strip()

    return ask


def with_torch(folder):
    import torch

    from model import Config, Model
    from vocabulary import BOS, END, EOS, Vocabulary

    torch.set_num_threads(1)
    vocabulary = Vocabulary(folder / "vocabulary.model")
    model = Model(Config())
    model.load_state_dict(torch.load(folder / "checkpoint.pt")["model"])
    model.eval()

    def ask(prompt):
        return vocabulary.text(model.answer([BOS, *vocabulary.prompt(prompt)], (END, EOS)))

    return ask


def right(row, said):
    """Stories are never told twice alike, so they only have to be about the right animal and come to an end."""
    if "contains" in row:
        return row["contains"] in said and said.endswith((".", '"')) and len(said) > 150
    return said == row["answer"]


def score(ask, rows, verbose):
    counts = {}  # kind -> (right, asked)
    for row in rows:
        said = ask(row["prompt"])
        good = right(row, said)
        hits, total = counts.get(row["kind"], (0, 0))
        counts[row["kind"]] = hits + good, total + 1
        if verbose and not good:
            print(f"  {row['kind']}: {row['prompt']!r} -> {said!r}", flush=True)
    return {kind: {"right": hits, "of": total, "share": round(hits / total, 4)} for kind, (hits, total) in counts.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="GGUF files, asked through qrun")
    parser.add_argument("--qrun", default="qrun", help="the program")
    parser.add_argument("--run", type=Path, help="folder with checkpoint.pt and vocabulary.model, asked through PyTorch")
    parser.add_argument("--rows", type=Path, default=HERE / "eval.jsonl")
    parser.add_argument("--all", action="store_true", help="every held-out question instead of --rows")
    parser.add_argument("--every", type=int, default=1, help="take only each N-th row")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the wrong answers")
    args = parser.parse_args()
    rows = (every_held_out_row() if args.all else read_rows(args.rows))[:: args.every]
    askers = {model: with_qrun(args.qrun, model) for model in args.models}
    if args.run:
        askers["checkpoint"] = with_torch(args.run)
    results = {}
    for name, ask in askers.items():
        results[name] = score(ask, rows, args.verbose)
        for kind, counts in results[name].items():
            print(f"{name:40} {kind:14} {counts['right']:4} / {counts['of']:4}  {100 * counts['share']:5.1f} %")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
