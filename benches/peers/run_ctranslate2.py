"""A turn of CTranslate2. Usage: see turn.py.

A BF16 file is compared in the type that CTranslate2 computes it in here (float32 on a CPU without bfloat16), a
Q8_0 file as int8 with a scale per row. The converted model is kept beside the file, with random weights.
"""

import multiprocessing
import pathlib
import sys
import tempfile
import time

from turn import main, token


class Numbers:
    """A tokenizer whose tokens are their numbers: CTranslate2 takes and gives words."""

    bos_token, eos_token, unk_token, pad_token, chat_template = "0", "1", "2", "0", None

    def __init__(self, n_vocab):
        self.n_vocab = n_vocab

    def get_vocab(self):
        return {str(i): i for i in range(self.n_vocab)}


def convert(path, target, quantization):
    """Converts a model with the file's shapes, through the converter of transformers' models."""
    import shapes
    from ctranslate2.converters import TransformersConverter

    config, _ = shapes.read(path)

    class Converter(TransformersConverter):
        def load_model(self, *_, **__):
            return shapes.model(path)

        def load_tokenizer(self, *_, **__):
            return Numbers(config.vocab_size)

    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        Converter(folder).convert(str(target), quantization=quantization, force=True)


def measure(arguments):
    import ctranslate2

    types = ctranslate2.get_supported_compute_types(arguments.device)
    full = "bfloat16" if "bfloat16" in types else "float32"
    int8 = arguments.model.endswith("Q8_0.gguf")
    target = pathlib.Path(arguments.model).with_suffix(".int8.ct2" if int8 else ".bf16.ct2")
    if not (target / "model.bin").exists():
        # Another process: what it takes is not this turn's memory.
        words = (arguments.model, target, "int8" if int8 else "bfloat16")
        child = multiprocessing.get_context("spawn").Process(target=convert, args=words)
        child.start()
        child.join()
        if child.exitcode != 0:
            sys.exit(f"the conversion of {arguments.model} failed")
    generator = ctranslate2.Generator(
        str(target),
        device=arguments.device,
        compute_type="int8" if int8 else full,
        intra_threads=arguments.threads,
        inter_threads=1,
    )
    times = []

    def generate(prefill, decode):
        """Time stamps of the start and of each token; the first one comes from the prompt."""
        times[:] = [time.perf_counter()]
        generator.generate_batch(
            [[str(token(i)) for i in range(prefill)]],
            max_length=decode + 1,
            min_length=decode + 1,
            include_prompt_in_result=False,
            callback=lambda step: times.append(time.perf_counter()) is not None,
        )

    generate(8, 2)
    generate(arguments.prefill, arguments.decode)
    if len(times) < 3:
        sys.exit(f"CTranslate2 generated {len(times) - 1} tokens")
    return {
        "prefill_s": times[1] - times[0],
        "decode_s": times[-1] - times[1],
        "decode_tokens": len(times) - 2,
        "weights": "random weights in the same shapes",
        "precision": "weights and activations int8, a scale per row" if int8 else f"{full} throughout",
    }


if __name__ == "__main__":
    main(["ctranslate2"], measure, prepares_with=["torch", "transformers", "gguf"])
