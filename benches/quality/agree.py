"""Perplexities of qrun beside llama.cpp's: the demo model in each type of weights, on two texts.

usage: agree.py [--qrun PROGRAM] [--types Q4_K_M,…] [--dir target/quality] [--threads N] [--save FILE]

Run from the root of the repository, with llama-cpp-python. One text is like those the model was trained on, one is not
at all (a licence, Python), so that it is worse than guessing there. Three ways to compute from the same file:
qrun as it runs, `qrun --exact` (the file's weights in f32: the truth of that file) and llama.cpp. Both engines round
activations to int8, each in its own way, which moves the perplexity at random: "noise" is the standard error of
qrun's distance from the truth. Ends with 1 where qrun and llama.cpp differ by more than LIMIT.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import llama_cpp
from llama_perplexity import perplexity

LIMIT = 0.002
DEMO = pathlib.Path("models/demo")
BASE = DEMO / "qrun-demo-BF16.gguf"
PROGRAMS = ["evaluate", "export", "model", "train", "vocabulary"]
UNLIKE = ["LICENSE-APACHE", *(f"models/demo/{name}.py" for name in PROGRAMS)]


def output_of(*command):
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {out.stderr.strip()}")
    return out.stdout.strip()


def measure(arguments, model, text, flags):
    """Perplexities of the three, and how far they are from each other, relative."""
    words = ["perplexity", model, "-f", text, "--json", "--threads", str(arguments.threads), *flags]
    ours = json.loads(output_of(arguments.qrun, *words, "--kl-base", model, "--kl-base-exact"))
    source = text.read_text(encoding="utf-8")
    theirs = perplexity(model, source, threads=arguments.threads, parse_special=bool(flags))
    counts = [(found["chunks"], found["scored"]) for found in (ours, theirs)]
    if counts[0] != counts[1]:
        sys.exit(f"{model}, {text}: chunks and tokens: {counts[0]} by qrun, {counts[1]} by llama.cpp")
    qrun, truth, llama = ours["ppl"]["mean"], ours["base"]["ppl"]["mean"], theirs["ppl"]["mean"]
    return {
        "scored": ours["scored"],
        "ppl": {"qrun": qrun, "exact": truth, "llama_cpp": llama},
        "qrun_to_llama_cpp": qrun / llama - 1,
        "qrun_to_exact": qrun / truth - 1,
        "llama_cpp_to_exact": llama / truth - 1,
        "noise": ours["ln_ppl_ratio"]["error"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qrun", default="target/release/qrun")
    parser.add_argument("--types", default="BF16,Q8_0,Q6_K,Q5_K_M,Q4_K_M,Q4_0")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("target/quality"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.dir.mkdir(parents=True, exist_ok=True)
    unlike = arguments.dir / "unlike.txt"
    unlike.write_text("".join(pathlib.Path(p).read_text(encoding="utf-8") for p in UNLIKE), encoding="utf-8")
    # The corpus has special tokens written out.
    texts = [("like training", DEMO / "corpus-sample.txt", ["--parse-special"]), ("unlike training", unlike, [])]
    versions = {
        "qrun": output_of(arguments.qrun, "--version"),
        "commit": output_of("git", "rev-parse", "--short=12", "HEAD"),
        "llama_cpp_python": llama_cpp.__version__,
    }
    rows = []
    print(f"{'type':7} {'text':15} {'qrun':>10} {'exact':>10} {'llama.cpp':>10}", end=" |")
    print(" ".join(f"{name:>15}" for name in ["qrun/llama.cpp", "qrun/exact", "llama.cpp/exact", "noise"]))
    for ty in arguments.types.split(","):
        model = BASE
        if ty != "BF16":
            model = arguments.dir / f"demo-{ty}.gguf"
            output_of(arguments.qrun, "quantize", "--force", BASE, model, ty)
        for name, text, flags in texts:
            row = measure(arguments, model, text, flags)
            rows.append({"type": ty, "text": name} | row)
            ppl = " ".join(f"{p:10.4f}" for p in row["ppl"].values())
            shares = [row[k] for k in ["qrun_to_llama_cpp", "qrun_to_exact", "llama_cpp_to_exact", "noise"]]
            far = " ".join(f"{100 * share:+13.3f} %" for share in shares)
            print(f"{ty:7} {name:15} {ppl} |{far}", flush=True)
    if arguments.save:
        arguments.save.write_text(json.dumps({"versions": versions, "limit": LIMIT, "rows": rows}, indent=2) + "\n")
    # A ratio that is NaN is not within the limit either.
    far = [r for r in rows if not abs(r["qrun_to_llama_cpp"]) <= LIMIT]
    for r in far:
        print(
            f"{r['type']}, {r['text']}: more than {100 * LIMIT} % apart; from exact arithmetic qrun is "
            f"{100 * r['qrun_to_exact']:+.3f} % away, llama.cpp {100 * r['llama_cpp_to_exact']:+.3f} %"
        )
    sys.exit(1 if far else 0)


if __name__ == "__main__":
    main()
