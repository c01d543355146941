"""A turn of Eole in bf16 on a GPU. Usage: see turn.py.

Written after its source; it has not been run on the machine whose records lie in benches/runs, which has no GPU.
"""

import pathlib
import subprocess
import sys

from turn import clock_whole_answers, main, only_on_a_gpu, token


def measure(arguments):
    import gguf
    from eole.config.run import PredictConfig
    from eole.inference_engine import InferenceEnginePY

    target = pathlib.Path(arguments.model).with_suffix(".eole")
    if not target.exists():
        words = ["--gguf_path", arguments.model, "--output", target, "--dtype", "bf16"]
        subprocess.run(["eole", "convert", "GGUF", *words], check=True, stdout=sys.stderr)
    vocabulary = gguf.GGUFReader(arguments.model).get_field("tokenizer.ggml.tokens").contents()
    # Without transforms a prompt is split at spaces, and each part is a token.
    prompt = " ".join(vocabulary[token(i)] for i in range(arguments.prefill))
    config = PredictConfig(
        model_path=str(target),
        src="none",
        transforms=[],
        beam_size=1,
        top_k=1,
        compute_dtype="bf16",
        gpu_ranks=[0],
        world_size=1,
        fuse_kvq=True,
        fuse_gate=True,
    )
    engine = InferenceEnginePY(config)

    def generate(n):
        made = {}
        settings = {"min_length": n, "max_length": n}
        for _ in engine.infer_list_stream(prompt, settings=settings, generation_stats=made):
            pass
        return made["output_tokens"]

    turn = clock_whole_answers(generate, arguments.decode)
    return turn | {"weights": "the same file", "precision": "weights, activations and KV bf16"}


if __name__ == "__main__":
    main(["eole", "torch"], measure, usable=only_on_a_gpu, prepares_with=["gguf"])
