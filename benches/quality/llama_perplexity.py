"""Perplexity by llama.cpp, through llama-cpp-python, measured as its own perplexity tool measures it.

usage: llama_perplexity.py MODEL TEXT [--ctx N] [--threads N] [--parse-special]

The text, less one final newline, is cut into chunks of N tokens; what does not fill the last one is left out. Where the
model adds BOS, it takes the place of the first token of each chunk. The second half of a chunk is scored. KV f16.
Prints one JSON object, with the keys of `qrun perplexity --json`.
"""

import argparse
import ctypes
import json
import math
import sys

import llama_cpp
import numpy

# Kept for as long as llama.cpp may call it.
QUIET = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda level, text, data: None)


def tokenize(vocab, text, parse_special):
    """Token ids; special ones are added where the model wants them."""
    data = text.encode()
    room = len(data) + 2
    tokens = (llama_cpp.llama_token * room)()
    n = llama_cpp.llama_tokenize(vocab, data, len(data), tokens, room, True, parse_special)
    if n < 0:
        sys.exit(f"llama.cpp needs room for {-n} tokens, {room} were given")
    return list(tokens[:n])


def log_p(logits, token):
    """Natural logarithm of the probability of a token."""
    logits = logits.astype(numpy.float64)
    top = logits.max()
    return float(logits[token] - top - math.log(numpy.exp(logits - top).sum()))


def perplexity(path, text, ctx=512, threads=2, parse_special=False):
    """`{"ppl", "nll", "chunks", "scored"}` of a text under a model."""
    llama_cpp.llama_log_set(QUIET, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        sys.exit(f"llama.cpp does not load {path}")
    vocab = llama_cpp.llama_model_get_vocab(model)
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = ctx
    params.n_threads = params.n_threads_batch = threads
    context = llama_cpp.llama_init_from_model(model, params)
    n_vocab = llama_cpp.llama_vocab_n_tokens(vocab)

    tokens = tokenize(vocab, text.removesuffix("\n"), parse_special)
    chunks, first = len(tokens) // ctx, ctx // 2
    if chunks == 0:
        sys.exit(f"the text has {len(tokens)} tokens, fewer than one chunk of {ctx}")
    nll = []
    for c in range(chunks):
        chunk = tokens[c * ctx : (c + 1) * ctx]
        if llama_cpp.llama_vocab_get_add_bos(vocab):
            chunk[0] = llama_cpp.llama_vocab_bos(vocab)
        batch = llama_cpp.llama_batch_init(ctx, 0, 1)
        batch.n_tokens = ctx
        for i, token in enumerate(chunk):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, i, 1, 0
            batch.logits[i] = i >= first
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        if llama_cpp.llama_decode(context, batch) != 0:
            sys.exit("llama_decode failed")
        for i in range(first, ctx - 1):
            logits = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, i), (n_vocab,))
            nll.append(-log_p(logits, chunk[i + 1]))
        llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    mean, error = float(numpy.mean(nll)), float(numpy.std(nll) / math.sqrt(len(nll) - 1))
    ppl = math.exp(mean)
    return {
        "ppl": {"mean": ppl, "error": ppl * error},
        "nll": {"mean": mean, "error": error},
        "chunks": chunks,
        "n_ctx": ctx,
        "scored": len(nll),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text", type=argparse.FileType(encoding="utf-8"))
    parser.add_argument("--ctx", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--parse-special", action="store_true")
    a = parser.parse_args()
    print(json.dumps(perplexity(a.model, a.text.read(), a.ctx, a.threads, a.parse_special)))
