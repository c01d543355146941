"""A turn of transformers in bf16: eager with a growing cache, or --compile: torch.compile with a static cache.
Usage: see turn.py."""

import sys
import time

import shapes
from turn import clock, main


def measure(arguments):
    import torch
    from transformers import DynamicCache, StaticCache

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(42)
    model = shapes.model(arguments.model, arguments.device)
    length = arguments.prefill + arguments.decode
    # As transformers' own `generate` does it: the prompt eager, single tokens compiled.
    single = torch.compile(model) if arguments.compile else model
    cache = None

    def compiled():
        return torch._dynamo.utils.counters["stats"]["unique_graphs"]

    def run(tokens, position):
        ids = torch.tensor([tokens], device=arguments.device)
        positions = torch.arange(position, position + len(tokens), device=arguments.device)[None]
        forward = single if len(tokens) == 1 else model
        out = forward(input_ids=ids, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return int(out.logits[0, -1].argmax())

    with torch.inference_mode():
        if arguments.compile:
            cache = StaticCache(config=model.config, max_cache_len=length)
            # The whole turn once: every state of the cache that code is compiled for.
            start = time.perf_counter()
            clock(run, arguments.prefill, arguments.decode)
            warm = time.perf_counter() - start
            cache.reset()
            graphs = compiled()
        else:
            cache = DynamicCache(config=model.config)
            clock(run, arguments.prefill, 2)
            cache = DynamicCache(config=model.config)
        turn = clock(run, arguments.prefill, arguments.decode)
    if arguments.compile:
        if compiled() != graphs:
            sys.exit("torch compiled code inside the clock")
        turn["compile_s"] = warm - turn["prefill_s"] - turn["decode_s"]
    return turn | {"weights": "random weights in the same shapes", "precision": "weights, activations and KV bf16"}


if __name__ == "__main__":
    main(["transformers", "torch"], measure, prepares_with=["gguf"])
