"""A turn of vLLM in bf16 on a GPU. Usage: see turn.py.

Written after its documentation; it has not been run on the machine whose records lie in benches/runs, which has no GPU.
"""

import sys
import tempfile

import shapes
from turn import clock_whole_answers, main, only_on_a_gpu, token


def measure(arguments):
    from vllm import LLM, SamplingParams

    config, _ = shapes.read(arguments.model)
    config.architectures = [type(config).__name__.replace("TextConfig", "Config").replace("Config", "ForCausalLM")]
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        llm = LLM(
            folder,
            load_format="dummy",  # random weights
            skip_tokenizer_init=True,
            dtype="bfloat16",
            max_model_len=arguments.prefill + arguments.decode + 1,
            max_num_seqs=1,
            enable_prefix_caching=False,  # or the second prompt would cost nothing
            seed=42,
        )
    prompt = {"prompt_token_ids": [token(i) for i in range(arguments.prefill)]}

    def generate(n):
        params = SamplingParams(temperature=0, max_tokens=n, ignore_eos=True, detokenize=False)
        answer = llm.generate([prompt], params, use_tqdm=False)[0]
        if len(answer.prompt_token_ids) != arguments.prefill:
            sys.exit(f"vLLM read {len(answer.prompt_token_ids)} tokens")
        return len(answer.outputs[0].token_ids)

    turn = clock_whole_answers(generate, arguments.decode)
    return turn | {"weights": "random weights in the same shapes", "precision": "weights, activations and KV bf16"}


if __name__ == "__main__":
    main(["vllm", "torch"], measure, usable=only_on_a_gpu, prepares_with=["transformers", "gguf"])
