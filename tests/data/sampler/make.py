"""Writes cases.json: what llama.cpp's own samplers make of logits, for tests/sampler.rs.

    python make.py     # needs llama-cpp-python and numpy

Logits are not stored: both sides compute them from a case's seed by `logits` below, exactly, in f32.
"""
import ctypes
import json
import pathlib

import llama_cpp as lc
import numpy as np

HERE = pathlib.Path(__file__).parent
MASK = 2**64 - 1


def logits(seed, n, shape):
    """splitmix64; multiples of 2^-12 so that f32 holds them exactly. A bell, or a bell with one peak."""
    out = []
    for i in range(n):
        z = (seed + (i + 1) * 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        z ^= z >> 31
        bell = sum(z >> 16 * k & 0xFFFF for k in range(4)) - 2 * 0xFFFF  # -131070 … 131070
        out.append((bell // 4 + (5 * 4096 if shape == "peak" and i == n // 3 else 0)) / 4096)
    return np.array(out, dtype=np.float32)


def chain(params, n):
    """The samplers in llama.cpp's order (common/sampling.cpp), its defaults where a case says nothing."""
    p = {"temperature": 0.8, "top_n_sigma": -1.0, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "typical_p": 1.0, "repeat_penalty": 1.0,
         "repeat_last_n": 64, "frequency_penalty": 0.0, "presence_penalty": 0.0, "logit_bias": []} | params
    out = lc.llama_sampler_chain_init(lc.llama_sampler_chain_default_params())
    bias = p["logit_bias"]
    array = (lc.llama_logit_bias * max(1, len(bias)))(*[lc.llama_logit_bias(t, float(b)) for t, b in bias])
    add = lambda sampler: lc.llama_sampler_chain_add(out, sampler)
    add(lc.llama_sampler_init_logit_bias(n, len(bias), array))
    penalties = lc.llama_sampler_init_penalties(n, p["repeat_last_n"], p["repeat_penalty"], p["frequency_penalty"], p["presence_penalty"])
    add(penalties)
    add(lc.llama_sampler_init_top_n_sigma(p["top_n_sigma"]))
    add(lc.llama_sampler_init_top_k(p["top_k"]))
    add(lc.llama_sampler_init_typical(p["typical_p"], 0))
    add(lc.llama_sampler_init_top_p(p["top_p"], 0))
    add(lc.llama_sampler_init_min_p(p["min_p"], 0))
    add(lc.llama_sampler_init_temp_ext(p["temperature"], 0.0, 1.0))
    add(lc.llama_sampler_init_dist(1))
    return out, penalties


def run(case):
    n = case["n"]
    values = logits(case["seed"], n, case["shape"])
    smpl, _ = chain(case["params"], n)
    for token in case.get("history", []):
        lc.llama_sampler_accept(smpl, token)
    data = (lc.llama_token_data * n)(*[lc.llama_token_data(i, float(values[i]), 0.0) for i in range(n)])
    array = lc.llama_token_data_array(ctypes.cast(data, lc.llama_token_data_p), n, -1, False)
    lc.llama_sampler_apply(smpl, ctypes.byref(array))
    rest = [(array.data[i].id, array.data[i].p) for i in range(array.size) if array.data[i].p > 0]
    lc.llama_sampler_free(smpl)
    rest.sort(key=lambda pair: (-pair[1], pair[0]))
    return rest


CASES = [
    {},
    {"top_k": 0}, {"top_k": 0, "min_p": 0.0}, {"top_k": 0, "top_p": 1.0}, {"top_k": 5, "top_p": 1.0, "min_p": 0.0},
    {"top_k": 1}, {"top_k": 1000, "top_p": 0.5, "min_p": 0.0}, {"top_p": 0.0}, {"top_p": 0.3}, {"min_p": 0.5}, {"min_p": 1.0},
    {"temperature": 2.0}, {"temperature": 0.1}, {"temperature": 0.0}, {"temperature": -1.0},
    {"typical_p": 0.5}, {"typical_p": 0.9, "top_p": 0.8}, {"typical_p": 0.2, "top_k": 0, "min_p": 0.0}, {"typical_p": 0.5, "temperature": 0.0},
    {"repeat_penalty": 1.3}, {"repeat_penalty": 0.7}, {"frequency_penalty": 0.5}, {"presence_penalty": 1.5}, {"frequency_penalty": -0.4},
    {"repeat_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": 0.2, "repeat_last_n": 4},
    {"repeat_penalty": 1.2, "repeat_last_n": 0}, {"repeat_penalty": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.02},
    {"logit_bias": [[3, 4.0], [7, -2.5]]}, {"logit_bias": [[33, -1e30], [3, 5.0]], "repeat_penalty": 1.4},
]


def main():
    rows = []
    for number, params in enumerate(CASES):
        for shape in ("bell", "peak"):
            n = 100 if number % 2 else 997
            case = {"seed": 1000 + number, "n": n, "shape": shape, "params": params}
            if any("penalty" in name for name in params):
                order = np.argsort(-logits(case["seed"], n, shape), kind="stable")
                case["history"] = [int(order[i]) for i in (0, 3, 1, 0, 0, 2, n - 1, 5, 1)]
            case["tokens"], case["p"] = map(list, zip(*run(case)))
            case["p"] = [float(f"{p:.6g}") for p in case["p"]]
            # A wide set is checked by its size, its first tokens and the total of their probabilities.
            case["size"] = len(case["tokens"])
            case["tokens"], case["p"] = case["tokens"][:24], case["p"][:24]
            rows.append(case)
    with open(HERE / "cases.json", "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print(len(rows), "cases, sizes", [row["size"] for row in rows])


main()
