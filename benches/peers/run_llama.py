"""Prefill and decode speed of llama.cpp through llama-cpp-python: one JSON line with tokens per second.

usage: run_llama.py MODEL PREFILL DECODE THREADS
"""

import ctypes
import json
import sys
import time

import llama_cpp


def main():
    path, prefill, decode, threads = sys.argv[1], *map(int, sys.argv[2:5])
    callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    quiet = callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
    if not model:
        sys.exit(f"llama.cpp does not load {path}")
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = prefill + decode
    params.n_batch = params.n_ubatch = 512
    params.n_threads = params.n_threads_batch = threads
    context = llama_cpp.llama_init_from_model(model, params)
    memory = llama_cpp.llama_get_memory(context)

    def run(tokens):
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(array, len(tokens))) != 0:
            sys.exit("llama_decode failed")
        llama_cpp.llama_synchronize(context)

    def token(position):
        return (position * 7919 + 1000) % 20000

    run([token(0)])
    llama_cpp.llama_memory_clear(memory, True)
    start = time.perf_counter()
    for at in range(0, prefill, 512):
        run([token(i) for i in range(at, min(at + 512, prefill))])
    prefill_time = time.perf_counter() - start
    start = time.perf_counter()
    for i in range(prefill, prefill + decode):
        run([token(i)])
    decode_time = time.perf_counter() - start
    speeds = {"prefill": prefill / prefill_time, "decode": decode / decode_time}
    print(json.dumps(speeds | {"version": llama_cpp.__version__}))


if __name__ == "__main__":
    main()
