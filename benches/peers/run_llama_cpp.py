"""A turn of llama.cpp through llama-cpp-python, on the same file. Usage: see turn.py."""

import ctypes
import sys

from turn import clock, main

UBATCH = 512


def measure(arguments):
    import llama_cpp
    import numpy

    callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    quiet = callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    if arguments.device == "cuda" and not llama_cpp.llama_supports_gpu_offload():
        sys.exit("this llama-cpp-python was built without a GPU")
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 999 if arguments.device == "cuda" else 0
    model = llama_cpp.llama_model_load_from_file(arguments.model.encode(), params)
    if not model:
        sys.exit(f"llama.cpp does not load {arguments.model}")
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = arguments.prefill + arguments.decode
    params.n_batch = params.n_ubatch = UBATCH
    params.n_threads = params.n_threads_batch = arguments.threads
    context = llama_cpp.llama_init_from_model(model, params)
    memory = llama_cpp.llama_get_memory(context)
    n_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))

    def run(tokens, position):
        for at in range(0, len(tokens), UBATCH):
            part = tokens[at : at + UBATCH]
            array = (llama_cpp.llama_token * len(part))(*part)
            if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(array, len(part))) != 0:
                sys.exit("llama_decode failed")
        logits = llama_cpp.llama_get_logits_ith(context, -1)
        return int(numpy.ctypeslib.as_array(logits, (n_vocab,)).argmax())

    run([0], 0)
    llama_cpp.llama_memory_clear(memory, True)
    turn = clock(run, arguments.prefill, arguments.decode)
    precision = "weights as in the file, activations int8 (bf16 where weights are BF16), KV f16"
    return turn | {"weights": "the same file", "precision": precision}


if __name__ == "__main__":
    main(["llama_cpp"], measure, prepares_with=["numpy"])
