"""Writes the fixtures of this folder with the public `gguf` package (0.19): run `python make.py` in it.

expected.json says what each file holds, as the package was told; data of tensors as little-endian hex
of the first 32 bytes and a CRC-32 of all.
"""

import json
import zlib

import gguf
import numpy as np

VALUES = [
    ("add_uint8", 255),
    ("add_int8", -128),
    ("add_uint16", 65535),
    ("add_int16", -32768),
    ("add_uint32", 4294967295),
    ("add_int32", -2147483648),
    ("add_uint64", 18446744073709551615),
    ("add_int64", -9223372036854775808),
    ("add_float32", 0.25),
    ("add_float64", 1e-300),
    ("add_bool", True),
    ("add_string", "zażółć gęślą 🦀"),
    ("add_array", [1, 2, -3]),
    ("add_array", [0.5, -0.25]),
    ("add_array", [True, False]),
    ("add_array", ["", "▁a", "<0x0A>"]),
]
rng = np.random.default_rng(1)


def tensors():
    yield "f32.weight", rng.standard_normal((3, 5), dtype=np.float32), None
    yield "f16.weight", rng.standard_normal((2, 2, 3)).astype(np.float16), None
    for name in ["BF16", "Q8_0", "Q5_0", "Q4_1"]:
        kind = gguf.GGMLQuantizationType[name]
        data = gguf.quants.quantize(rng.standard_normal((2, 64), dtype=np.float32), kind)
        yield f"{name.lower()}.weight", data, kind
    for name, block in [("IQ4_NL", 18), ("Q4_K", 144), ("Q6_K", 210)]:
        yield f"{name.lower()}.weight", rng.integers(0, 256, (2, block), dtype=np.uint8), gguf.GGMLQuantizationType[name]


def add(writer, key_values, tensor_list):
    """Fills a writer; returns what a reader should find."""
    said = {"metadata": {}, "tensors": []}
    for i, (add, value) in enumerate(key_values):
        getattr(writer, add)(f"test.{i}.{add[4:]}", value)
        said["metadata"][f"test.{i}.{add[4:]}"] = value
    for name, data, kind in tensor_list:
        writer.add_tensor(name, data, raw_dtype=kind)
        kind = kind or {"float32": gguf.GGMLQuantizationType.F32, "float16": gguf.GGMLQuantizationType.F16}[str(data.dtype)]
        shape = data.shape
        if data.dtype == np.uint8:
            shape = gguf.quant_shape_from_byte_shape(shape, kind)
        raw = data.tobytes()
        row = {"name": name, "type": kind.name, "shape": [int(n) for n in reversed(shape)]}
        said["tensors"].append(row | {"head": raw[:32].hex(), "crc32": zlib.crc32(raw)})
    return said


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    expected = {}
    for name, alignment in [("everything.gguf", None), ("aligned-256.gguf", 256)]:
        writer = gguf.GGUFWriter(name, "llama")
        if alignment:
            writer.add_custom_alignment(alignment)
        expected[name] = add(writer, VALUES, tensors())
        finish(writer)
    # By number of tensors, two in each shard.
    writer = gguf.GGUFWriter("shards.gguf", "llama", split_max_tensors=2)
    said = add(writer, VALUES[:2], list(tensors())[:5])
    finish(writer)
    for i in range(3):
        expected[f"shards-{i + 1:05}-of-00003.gguf"] = said
    with open("expected.json", "w") as f:
        json.dump(expected, f, indent=1, ensure_ascii=False)
        f.write("\n")


main()
