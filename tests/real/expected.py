"""Makes expected.json: what transformers and tokenizers say of the two models, in f32.

Needs torch and transformers 5 beside the packages of run.sh; run it from anywhere: python tests/real/expected.py
"""

import json
import math

import torch
import transformers
from models import AT, HERE, LINES, QUESTIONS, SENTENCES, TEXT, minilm, smollm2
from tokenizers import pre_tokenizers


@torch.no_grad()
def causal():
    file = smollm2()
    where = dict(pretrained_model_name_or_path=file.parent, gguf_file=file.name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    # What the model's own tokenizer.json has; out of a GGUF file transformers makes GPT-2's alone.
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    net = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()

    def ids(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    text = ids(TEXT)
    logits = net(torch.tensor([text])).logits[0]
    scores = logits.double().log_softmax(-1)[:-1].gather(1, torch.tensor(text[1:])[:, None])
    chats = []
    for question in QUESTIONS:
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_dict=True)
        tokens = torch.tensor([prompt["input_ids"]])
        answer = net.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=24, do_sample=False)
        chats.append({"prompt": prompt["input_ids"], "answer": answer[0, tokens.shape[1] :].tolist()})
    best = logits[AT].topk(16)
    return {
        "lines": [ids(line) for line in LINES],
        "text": text,
        "nll": -scores.mean().item(),
        "best": best.indices.tolist(),
        "logits": [[round(x, 5) for x in row] for row in best.values.tolist()],
        "logsumexp": [round(x, 5) for x in logits[AT].logsumexp(-1).tolist()],
        "chats": chats,
    }


@torch.no_grad()
def embedding():
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm())
    net = transformers.BertModel.from_pretrained(minilm(), attn_implementation="eager").eval()
    rows = []
    for sentence in SENTENCES:
        tokens = tokenizer(sentence)["input_ids"]
        mean = net(torch.tensor([tokens])).last_hidden_state[0].mean(0)
        rows.append({"tokens": tokens, "vector": [round(x, 7) for x in (mean / mean.norm()).tolist()]})
    return rows


def main():
    found = {"smollm2": causal(), "minilm": embedding()}
    print("perplexity of the text", math.exp(found["smollm2"]["nll"]))
    lines = ",\n".join(f'"{name}": {json.dumps(value)}' for name, value in found["smollm2"].items())
    rows = ",\n".join(json.dumps(row) for row in found["minilm"])
    (HERE / "expected.json").write_text(f'{{"smollm2": {{\n{lines}\n}},\n"minilm": [\n{rows}\n]}}\n')


main()
