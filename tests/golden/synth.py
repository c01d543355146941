"""Compares greedy texts, and vectors, of all `qrun synth tiny-*` in F32 with those of llama.cpp.

Needs llama-cpp-python and a built qrun:
    python tests/golden/synth.py target/release/qrun [NAME …]
Where characters are cut in the middle llama-cpp-python leaves them out, so they are not compared. Prints a line for each
model; exits with 1 where one differs that is not known to (models/README.md).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROMPT = "Hello world, this is a test."
KNOWN = {"tiny-gpt-oss": "YaRN's corners", "tiny-exaone4": "windows", "tiny-phi3": "not loaded there"}

THEIRS = """
import json, sys, llama_cpp
path, prompt, embeds = sys.argv[1], sys.argv[2], sys.argv[3] == "True"
model = llama_cpp.Llama(path, n_ctx=128, verbose=False, embedding=embeds)
if embeds:
    found = model.embed(prompt)
else:
    found = model.create_completion(prompt, max_tokens=16, temperature=0.0)["choices"][0]["text"]
print(json.dumps(found))
"""


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, check=True).stdout.decode(errors="replace")


def names(qrun):
    """Those that `qrun synth` says it knows."""
    said = subprocess.run([qrun, "synth", "?", "?"], capture_output=True, text=True).stderr
    known = said[said.index("values:") + len("values:") : said.index("]")].split(",")
    return [name.strip() for name in known if name.strip().startswith("tiny-")]


def differs(qrun, path, name):
    """How much, or in what, qrun and llama.cpp differ; nothing where they do not."""
    run(qrun, "synth", name, path, "--type", "F32")
    embeds = "bert" in name or "embedding" in name
    try:
        theirs = json.loads(run(sys.executable, "-c", THEIRS, path, PROMPT, embeds).splitlines()[-1])
    except subprocess.CalledProcessError:
        return "llama.cpp does not run it"
    if embeds:
        ours = json.loads(run(qrun, "embed", path, "-p", PROMPT, "--embd-output-format", "array", "--device", "cpu"))[0]
        length = sum(x * x for x in theirs) ** 0.5
        cosine = sum(a * b for a, b in zip(ours, theirs, strict=True)) / length
        return None if cosine > 1 - 1e-6 else f"cosine {cosine}"
    flags = ("-n", 16, "--temp", 0, "-no-cnv", "--no-display-prompt", "--device", "cpu")
    ours = run(qrun, path, "-p", PROMPT, *flags).rstrip("\n")
    whole = ours.replace("\ufffd", "")
    # A character that ends behind the last token may be there whole, or left out.
    same = whole == theirs or theirs.startswith(whole) or whole.startswith(theirs)
    return None if same else f"{ours!r}, there {theirs!r}"


def main():
    qrun = str(Path(sys.argv[1]).resolve())
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or names(qrun):
            found = differs(qrun, Path(folder) / f"{name}.gguf", name)
            known = KNOWN.get(name)
            wrong += found is not None and known is None
            print(f"{name:20} {'same' if found is None else found if known is None else f'differs: {known}'}", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
