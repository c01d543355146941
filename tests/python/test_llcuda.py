"""`qrun.llcuda`: every name of llcuda, its notebook's calls, and what was wrong there."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any, Iterator

import pytest

import qrun
import qrun.llcuda as llcuda
from conftest import DEVICE
from qrun.llcuda import chat, gguf_parser, jupyter, models, quantization, utils
from qrun.llcuda import _engine

DEMO = Path(__file__).parents[2] / "models/demo/qrun-demo-Q4_K_M.gguf"
GREEDY = {"temperature": 0.0, "max_tokens": 12}


@pytest.fixture(scope="module")
def engine() -> Iterator[llcuda.InferenceEngine]:
    with llcuda.InferenceEngine() as opened:
        assert opened.load_model("demo", verbose=False, device=DEVICE) is True
        assert opened.engine.info()["device"].startswith(DEVICE)
        yield opened


# Names: the same, better, or refused with the reason.

ALL = """InferenceEngine InferResult ServerManager bootstrap check_cuda_available get_cuda_device_info check_gpu_compatibility
    detect_cuda setup_environment find_gguf_models print_system_info get_llama_cpp_cuda_path quick_infer jupyter chat embeddings
    models quantization unsloth cuda inference""".split()

OFFERED: "dict[str, str]" = {
    "": " ".join(ALL)
    + " create_config_file load_config validate_model_path get_recommended_gpu_layers auto_configure_for_model",
    "models": """ModelInfo list_models download_model get_model_recommendations print_model_catalog ModelManager load_model_smart
        list_registry_models print_registry_models""",
    "chat": "Message ChatEngine ConversationManager",
    "jupyter": """stream_generate progress_generate display_metrics ChatWidget compare_temperatures visualize_tokens
        is_jupyter_available check_dependencies""",
    "gguf_parser": "GGUFReader GGUFTensorInfo GGMLType GGUFValueType inspect_gguf",
    "quantization": """GGUFConverter convert_to_gguf save_gguf load_gguf_metadata DynamicQuantizer AutoQuantConfig
        quantize_dynamic GGUFQuantType""",
    "embeddings": """EmbeddingEngine cosine_similarity euclidean_distance dot_product_similarity SemanticSearch
        TextClustering""",
}

METHODS: "dict[Any, str]" = {
    llcuda.InferenceEngine: """load_model infer infer_stream batch_infer get_metrics reset_metrics check_server unload_model
        is_loaded __enter__ __exit__""",
    llcuda.ServerManager: """start_server stop_server restart_server get_server_info check_server_health find_llama_server
        __enter__ __exit__""",
    chat.ChatEngine: """add_message add_user_message add_system_message add_assistant_message complete complete_stream
        clear_history get_history save_history load_history count_tokens""",
    chat.ConversationManager: """create_conversation switch_to get_current chat list_conversations delete_conversation save_all
        load_all""",
    models.ModelInfo: "from_file get_recommended_settings to_dict",
    models.ModelManager: "scan_directories find_by_size find_by_architecture get_best_for_vram __len__ __iter__",
    gguf_parser.GGUFReader: "get_tensor_data get_metadata_value list_tensors close __enter__ __exit__",
    quantization.GGUFConverter: "add_metadata add_tensor convert",
    quantization.DynamicQuantizer: "estimate_model_size_fp16 recommend_config quantize_model",
}

REFUSED: "dict[str, tuple[str, str]]" = {
    "unsloth": ("load_unsloth_model UnslothExporter export_to_gguf merge_lora_adapters", "torch"),
    "cuda": ("CUDAGraph TritonKernel enable_tensor_cores matmul_tensor_core", "PyTorch"),
    "inference": ("FlashAttentionConfig KVCache PagedKVCache ContinuousBatching", "PyTorch"),
    "api": ("LlamaCppClient MultiGPUConfig NCCLConfig", "qrun serve"),
    "graphistry": ("GraphWorkload SplitGPUManager", "graphistry"),
    "louie": ("LouieClient", "louie"),
    "quantization": ("quantize_nf4 dequantize_nf4 NF4Quantizer NF4Config", "Q4_K_M"),
}


@pytest.mark.parametrize("module", OFFERED)
def test_names_are_there_and_documented(module: str) -> None:
    found = importlib.import_module(f"qrun.llcuda.{module}") if module else llcuda
    for name in OFFERED[module].split():
        what = getattr(found, name)
        assert (what.__doc__ or "").strip(), name
    if not module:
        assert sorted(llcuda.__all__) == sorted(ALL)


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.__name__)
def test_methods_are_there_and_documented(kind: Any) -> None:
    for name in METHODS[kind].split():
        what = inspect.getattr_static(kind, name)
        assert name.startswith("__") or inspect.getdoc(getattr(what, "__func__", what)), name


@pytest.mark.parametrize("module", REFUSED)
def test_what_is_refused_says_why(module: str) -> None:
    names, reason = REFUSED[module]
    found = getattr(llcuda, module)
    for name in names.split():
        with pytest.raises(qrun.Unsupported, match=f"{module}.{name}: .*{reason}"):
            getattr(found, name)
    if module != "quantization":
        assert set(names.split()) <= set(found.__all__)
        for name in found.__all__:
            with pytest.raises(qrun.Unsupported):
                getattr(found, name)
    with pytest.raises(AttributeError):
        getattr(found, "no_such_name")


@pytest.mark.parametrize(
    "call, expected",
    [
        (llcuda.InferenceEngine.load_model, "model_name_or_path gpu_layers=None ctx_size=None auto_start=True "
         "auto_configure=True n_parallel=1 verbose=True interactive_download=True silent=False kwargs"),
        (llcuda.InferenceEngine.infer, "prompt max_tokens=128 temperature=0.7 top_p=0.9 top_k=40 seed=0 stop_sequences=None"),
        (llcuda.InferenceEngine.infer_stream, "prompt callback max_tokens=128 temperature=0.7 kwargs"),
        (llcuda.InferenceEngine.batch_infer, "prompts max_tokens=128 kwargs"),
        (llcuda.quick_infer, "prompt model_path=None max_tokens=128 server_url='http://127.0.0.1:8090' auto_start=True"),
        (llcuda.check_gpu_compatibility, "min_compute_cap=5.0"),
        (llcuda.ServerManager.start_server, "model_path port=8090 host='127.0.0.1' gpu_layers=99 ctx_size=2048 n_parallel=1 "
         "batch_size=512 ubatch_size=128 timeout=60 verbose=True skip_gpu_check=False silent=False kwargs"),
        (chat.ChatEngine, "engine system_prompt=None max_history=20 max_tokens=256 temperature=0.7"),
        (jupyter.stream_generate, "engine prompt max_tokens=256 temperature=0.7 show_timing=True markdown=True kwargs"),
        (models.load_model_smart, "model_name_or_path cache_dir=None interactive=True force_download=False"),
        (quantization.convert_to_gguf, "model output_path tokenizer=None quant_type='Q4_K_M' verbose=True"),
    ],
)  # fmt: skip
def test_signatures_are_llcudas(call: Any, expected: str) -> None:
    parameters = [p for p in inspect.signature(call).parameters.values() if p.name != "self"]
    shown = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters]
    assert " ".join(shown[: len(expected.split())]) == expected


# The notebook's calls.


def test_the_notebooks_cells_run(engine: llcuda.InferenceEngine, capsys: Any) -> None:
    assert llcuda.__version__ == qrun.__version__
    assert set(llcuda.check_gpu_compatibility()) == {
        "gpu_name",
        "compute_capability",
        "platform",
        "compatible",
        "reason",
    }
    engine.reset_metrics()
    result = engine.infer("What is qrun?", max_tokens=20, temperature=0.7, top_p=0.9)
    assert result.success and result.text and str(result) == result.text and result.error_message == ""
    assert 0 < result.tokens_generated <= 20 and result.latency_ms > 0 and result.tokens_per_sec > 0
    assert (
        result.prompt_tokens > 3
        and 0 < result.ttft_ms <= result.latency_ms
        and result.finish_reason in ("stop", "length")
    )
    results = engine.batch_infer(["One?", "Two?", "Three?", "Four?"], max_tokens=8, temperature=0.7)
    assert [r.success for r in results] == [True] * 4
    metrics = engine.get_metrics()
    assert list(metrics["latency"]) == "mean_ms p50_ms p95_ms p99_ms min_ms max_ms sample_count".split()
    assert list(metrics["throughput"])[:4] == "total_tokens total_requests tokens_per_sec requests_per_sec".split()
    assert metrics["latency"]["sample_count"] == metrics["throughput"]["total_requests"] == 5
    assert metrics["throughput"]["total_tokens"] == sum(r.tokens_generated for r in [result, *results])
    latency = metrics["latency"]
    assert 0 < latency["min_ms"] <= latency["p50_ms"] <= latency["p95_ms"] <= latency["p99_ms"] <= latency["max_ms"]
    engine.reset_metrics()
    assert (
        engine.get_metrics()["latency"]["sample_count"] == 0
        and engine.get_metrics()["throughput"]["tokens_per_sec"] == 0
    )
    with llcuda.InferenceEngine(server_url="http://127.0.0.1:8093") as other:
        assert not other.is_loaded and not other.check_server()
        other.load_model(str(DEMO), silent=True, auto_start=True, device=DEVICE)
        assert other.is_loaded and other.check_server()
        assert other.infer("Hello", max_tokens=3).success
    assert not other.is_loaded and capsys.readouterr().out == ""
    other.load_model("demo", gpu_layers=0, ctx_size=256, flash_attn=True)
    assert "cpu, 256 tokens of context" in capsys.readouterr().out and other.engine.info()["n_ctx"] == 256


# What was wrong in llcuda.


def test_prompts_go_through_the_chat_template_or_raw(engine: llcuda.InferenceEngine) -> None:
    alone = qrun.Engine(device=DEVICE)
    templated, raw = (alone.generate("What is qrun?", raw=raw, **GREEDY).text for raw in (False, True))
    assert engine.infer("What is qrun?", **GREEDY).text == templated != raw
    assert engine.infer("What is qrun?", raw=True, **GREEDY).text == raw
    # There the stop text of the notebook gave an empty answer.
    assert engine.infer("What is qrun?", stop_sequences=["\n\n"], **GREEDY).text == templated
    for stops in (templated[5:8], [templated[5:8]]):
        assert engine.infer("What is qrun?", stop_sequences=stops, **GREEDY).text == templated.split(templated[5:8])[0]


def test_a_model_without_a_template_goes_on_with_the_text(tmp_path: Path) -> None:
    qrun.synth("tiny-llama", tmp_path / "raw.gguf")
    with llcuda.InferenceEngine() as opened:
        opened.load_model(str(tmp_path / "raw.gguf"), silent=True, device=DEVICE)
        if opened.engine.info()["chat_template"] is None:
            assert opened.infer("Hello", max_tokens=3).success


def test_the_callback_hears_every_piece(engine: llcuda.InferenceEngine) -> None:
    pieces: "list[str]" = []
    result = engine.infer_stream("What is qrun?", pieces.append, **GREEDY)
    assert len(pieces) > 3 and "".join(pieces) == result.text == engine.infer("What is qrun?", **GREEDY).text
    assert "".join(engine.stream("What is qrun?", **GREEDY)) == result.text
    assert engine.infer_stream("What is qrun?", None, **GREEDY).text == result.text

    def stop(piece: str) -> None:
        raise ValueError(f"enough: {piece}")

    with pytest.raises(ValueError, match="enough: "):
        engine.infer_stream("What is qrun?", stop, **GREEDY)


def test_a_batch_is_one_batch(engine: llcuda.InferenceEngine, monkeypatch: Any) -> None:
    prompts, calls = ["What is qrun?", "Hello", "Who are you?"], []
    batch = qrun.Engine.batch
    monkeypatch.setattr(qrun.Engine, "batch", lambda self, given, **kw: calls.append(given) or batch(self, given, **kw))
    together = engine.batch_infer(prompts, **GREEDY)
    assert calls == [prompts] and engine.engine.info()["n_seq"] == _engine.PARALLEL
    assert [r.text for r in together] == [engine.infer(prompt, **GREEDY).text for prompt in prompts]
    # A prompt that is wrong spoils only its own answer.
    results = engine.batch_infer(["word " * 5000, "Hello"], **GREEDY)
    assert [r.success for r in results] == [False, True] and "too long" in results[0].error_message
    assert results[1].text == together[1].text


def test_zero_is_a_value(engine: llcuda.InferenceEngine) -> None:
    talk = chat.ChatEngine(engine, temperature=1.5, max_tokens=12)
    greedy = engine.infer("What is qrun?", **GREEDY).text
    for _ in range(3):
        talk.clear_history().add_user_message("What is qrun?")
        assert talk.complete(temperature=0) == greedy
    assert talk.complete(max_tokens=0) == ""


def test_errors_are_results(engine: llcuda.InferenceEngine) -> None:
    assert "load_model" in llcuda.InferenceEngine().infer("Hello").error_message
    wrong = engine.infer("Hello", temperatur=1.0)
    assert not wrong.success and "temperature" in wrong.error_message and repr(wrong).startswith("InferResult(Error: ")
    assert llcuda.InferResult().text == "" and not llcuda.InferResult().success
    seeds = {engine.infer("Hello", max_tokens=1, seed=seed).seed for seed in (0, 0, None, None)}
    assert "seed" in engine.infer("Hello", seed="x").error_message and len(seeds) == 4 and engine.infer("Hello", max_tokens=1, seed=5).seed == 5


NETWORK = """
import sys
def watch(event, args):
    if event.startswith("socket."): raise RuntimeError(event)
sys.addaudithook(watch)
import qrun.llcuda as llcuda
with llcuda.InferenceEngine() as engine:
    engine.load_model("demo", silent=True)
    assert engine.infer("Hello", max_tokens=2).success
llcuda.detect_cuda(); llcuda.bootstrap(); llcuda.setup_environment()
"""


def test_there_is_no_network_and_no_output() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", NETWORK], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_download_is_asked_for_only_at_a_terminal(monkeypatch: Any) -> None:
    asked: "list[str]" = []
    pulled: "list[str]" = []
    monkeypatch.setattr(qrun, "find", lambda name: None, raising=False)
    monkeypatch.setattr(qrun, "pull", lambda name: pulled.append(name) or str(DEMO), raising=False)
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or "n")
    name = "gemma-3-1b-Q4_K_M"
    monkeypatch.setattr(models, "_is_terminal", lambda: False)
    with llcuda.InferenceEngine() as opened:
        assert opened.load_model(name, verbose=False) is True and (asked, pulled) == ([], [name])
        monkeypatch.setattr(models, "_is_terminal", lambda: True)
        assert opened.load_model(name, silent=True) is True and asked == []
        assert opened.load_model(name, verbose=False) is None and "806 MB" in asked[0] and len(pulled) == 2
        with pytest.raises(FileNotFoundError):
            opened.load_model("no-such-file.gguf", verbose=False)


@pytest.mark.parametrize("name", models.list_registry_models())
def test_a_short_name_means_what_qrun_means_by_it(name: str, tmp_path: Path) -> None:
    row = models.list_registry_models()[name]
    with pytest.raises(qrun.DownloadError, match=f"{row['repo']}:{row['tag']}: not in the cache"):
        qrun.pull(name, cache_dir=tmp_path, offline=True)
    with pytest.raises(FileNotFoundError):
        models.load_model_smart("no-such-file.gguf")


# Tools.


def test_gpus_are_told_by_llcudas_keys(monkeypatch: Any) -> None:
    gpu = {"name": "Tesla T4", "memory": 15360 * 2**20, "compute_capability": "7.5"}
    facts = {"gpus": [gpu], "driver_cuda": "12.4"}
    monkeypatch.setattr(utils, "doctor", lambda: facts)
    found = llcuda.detect_cuda()
    assert found["available"] and found["version"] == "12.4"
    assert found["gpus"][0] == {"name": "Tesla T4", "memory": "15360 MiB", "compute_capability": "7.5",
                                "driver_version": found["gpus"][0]["driver_version"]}  # fmt: skip
    assert (
        llcuda.get_cuda_device_info() == {"cuda_version": "12.4", "gpus": found["gpus"]}
        and llcuda.check_cuda_available()
    )
    compat = llcuda.check_gpu_compatibility()
    assert compat["compatible"] and compat["compute_capability"] == 7.5 and compat["gpu_name"] == "Tesla T4"
    assert not llcuda.check_gpu_compatibility(min_compute_cap=8.0)["compatible"]
    gpu["compute_capability"] = "6.1"
    assert not llcuda.check_gpu_compatibility()["compatible"]  # llcuda says yes, and its bootstrap no
    monkeypatch.setattr(utils, "doctor", lambda: {"gpus": [], "driver_cuda": None})
    assert llcuda.detect_cuda() == {"available": False, "version": None, "gpus": []}
    assert llcuda.get_cuda_device_info() is None and "CPU" in llcuda.check_gpu_compatibility()["reason"]
    monkeypatch.setenv("COLAB_GPU", "1")
    assert llcuda.check_gpu_compatibility()["platform"] == "colab"


def test_settings_and_files(tmp_path: Path, capsys: Any) -> None:
    assert llcuda.setup_environment() == {} and llcuda.get_llama_cpp_cuda_path() is None and llcuda.bootstrap() is None
    path = tmp_path / "config.json"
    assert llcuda.load_config(path)["inference"]["max_tokens"] == 128 and not path.exists()
    assert llcuda.load_config(llcuda.create_config_file(path)) == llcuda.load_config(tmp_path / "none.json")
    (tmp_path / "whole.gguf").write_bytes(DEMO.read_bytes())
    (tmp_path / "broken.gguf").write_bytes(DEMO.read_bytes()[:1000])
    assert [p.name for p in llcuda.find_gguf_models(tmp_path)] == ["broken.gguf", "whole.gguf"]
    valid = [llcuda.validate_model_path(tmp_path / name) for name in ("whole.gguf", "broken.gguf", "none.gguf")]
    assert valid == [True, False, False]
    assert [found["filename"] for found in models.list_models([tmp_path])] == ["whole.gguf"]
    manager = models.ModelManager([tmp_path])
    assert len(manager) == 1 and [m.architecture for m in manager] == ["gemma3"]
    assert manager.find_by_architecture("Gemma") and not manager.find_by_architecture("llama")
    assert manager.find_by_size(min_mb=1, max_mb=5) and not manager.find_by_size(min_mb=5)
    assert manager.get_best_for_vram(4.0) is not None and manager.get_best_for_vram(0.1) is None
    llcuda.print_system_info()
    models.print_registry_models()
    models.print_model_catalog(8.0)
    out = capsys.readouterr().out
    assert qrun.__version__ in out and "gemma-3-1b-Q4_K_M" in out


def test_a_files_own_words() -> None:
    info = models.ModelInfo.from_file(DEMO)
    engine = qrun.Engine().info()
    assert (info.architecture, info.parameter_count, info.context_length) == ("gemma3", engine["parameters"], 2048)
    assert (info.embedding_length, info.quantization) == (256, "Q4_K_M") and info.to_dict()["filename"] == DEMO.name
    keys = "gpu_layers ctx_size batch_size ubatch_size recommended_vram_gb min_vram_gb".split()
    assert list(info.get_recommended_settings(8.0)) == keys
    assert [info.get_recommended_settings(gb)["gpu_layers"] for gb in (0.1, 8.0)] == [0, 99]
    assert info.get_recommended_settings(8.0)["ctx_size"] == 2048
    assert llcuda.auto_configure_for_model(DEMO, vram_gb=8.0)["gpu_layers"] == 99
    assert models.list_registry_models().keys() >= {"gemma-3-1b-Q4_K_M", "tinyllama-1.1b-Q5_K_M"}
    assert len(models.list_registry_models()) == 10
    fitting = [m["name"] for m in models.get_model_recommendations(2.0)]
    assert "gemma-3-1b-Q4_K_M" in fitting and not any("8b" in name or "phi" in name for name in fitting)


def test_the_reader_gives_the_files_bytes(capsys: Any) -> None:
    with gguf_parser.GGUFReader(DEMO) as reader:
        assert (
            reader.get_metadata_value("general.architecture") == "gemma3" and reader.get_metadata_value("none", 7) == 7
        )
        name = "output_norm.weight"
        tensor, data = reader.tensors[name], reader.get_tensor_data(name)
        assert len(data) == tensor.nbytes == 4 * tensor.numel and bytes(data) in DEMO.read_bytes()
        assert tensor.shape == [256] and tensor.ggml_type is gguf_parser.GGMLType.F32 and "F32" in repr(tensor)
        embedding = reader.tensors["token_embd.weight"]
        assert embedding.shape == [256, 2048] and len(reader.list_tensors()) == reader.tensor_count
        with pytest.raises(KeyError):
            reader.get_tensor_data("none")
    gguf_parser.inspect_gguf(DEMO)
    out = capsys.readouterr().out
    assert "general.architecture: gemma3" in out and "Q4_K" in out
    assert quantization.load_gguf_metadata(DEMO)["gemma3.context_length"] == 2048


def test_tensors_become_files_of_their_type(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    weights = numpy.linspace(-3, 3, 6 * 64, dtype=numpy.float32).reshape(6, 64)
    metadata = {"general.architecture": "test", "test.n": 7, "test.x": 1.5, "test.list": [1, 2], "test.flag": True}
    for kind, error in (("F32", 0.0), ("F16", 2e-3), ("BF16", 1.6e-2)):
        path = tmp_path / f"{kind}.gguf"
        quantization.save_gguf({"w.weight": weights, "norm.weight": weights[0]}, metadata, path, kind)
        file = qrun.Gguf(path)
        assert [(t.name, t.type, t.shape) for t in file.tensors] == [
            ("w.weight", kind, (6, 64)),
            ("norm.weight", "F32", (64,)),
        ]
        assert float(abs(file.tensor("w.weight") - weights).max()) <= error
        assert {key: file.metadata[key] for key in metadata} == metadata
    with pytest.raises(qrun.Unsupported, match="NVFP4"):
        quantization.save_gguf({"w.weight": weights}, {}, tmp_path / "x.gguf", "NVFP4")


def test_a_quantized_file_has_the_bytes_of_its_type(tmp_path: Path) -> None:
    qrun.synth("tiny-llama", tmp_path / "big.gguf", type="F16")
    path = quantization.convert_to_gguf(
        str(tmp_path / "big.gguf"), tmp_path / "small.gguf", quant_type="Q8_0", verbose=False
    )
    assert models.ModelInfo(path).quantization == "Q8_0"
    assert {t.type for t in qrun.Gguf(path).tensors if len(t.shape) > 1} == {"Q8_0"}
    # llcuda writes F16 bytes under another type's number; here the file opens and answers.
    assert len(qrun.Engine(path, n_ctx=64).generate("Hello", raw=True, max_tokens=3, ignore_eos=True).tokens) == 3
    config = quantization.quantize_dynamic(
        str(tmp_path / "big.gguf"), tmp_path / "fits.gguf", target_vram_gb=8.0, verbose=False
    )
    assert config["quant_type"] in quantization.BITS and (tmp_path / "fits.gguf").exists()
    with pytest.raises(qrun.Unsupported, match="convert_hf_to_gguf"):
        quantization.convert_to_gguf(object(), tmp_path / "x.gguf")


def test_conversations(engine: llcuda.InferenceEngine, tmp_path: Path) -> None:
    talk = chat.ChatEngine(engine, "You are brief.", max_history=4, **GREEDY)
    assert talk.add_user_message("Hello").complete() and talk.count_tokens() == len(
        engine.engine.apply_chat_template(talk.get_history(), tokenize=True)
    )
    pieces = list(talk.add_user_message("What is qrun?").complete_stream())
    assert len(pieces) > 3 and talk.messages[-1].content == "".join(pieces)
    assert [m.role for m in talk.messages] == ["system", "assistant", "user", "assistant"]
    talk.save_history(tmp_path / "talk.json")
    again = chat.ChatEngine(engine).load_history(tmp_path / "talk.json")
    assert again.get_history() == talk.get_history() and again.temperature == 0.0 and again.max_history == 4
    assert [m.role for m in talk.clear_history().messages] == ["system"]
    assert talk.clear_history(keep_system=False).messages == [] and "messages=0" in repr(talk)
    manager = chat.ConversationManager(engine)
    with pytest.raises(RuntimeError):
        manager.get_current()
    manager.create_conversation("a", **GREEDY)
    manager.create_conversation("b", "You are brief.", **GREEDY)
    assert manager.chat("Hello") and manager.list_conversations() == ["a", "b"] and manager.current_conversation == "a"
    assert manager.switch_to("b").messages[0].role == "system"
    with pytest.raises(KeyError, match="a, b"):
        manager.switch_to("c")
    manager.save_all(tmp_path / "all")
    manager.delete_conversation("b")
    assert manager.current_conversation == "a"
    loaded = chat.ConversationManager(engine)
    loaded.load_all(tmp_path / "all")
    assert loaded.list_conversations() == ["a", "b"]
    assert loaded.conversations["a"].get_history() == manager.get_current().get_history()


def test_without_a_notebook_answers_are_printed(engine: llcuda.InferenceEngine, capsys: Any) -> None:
    assert not jupyter.is_jupyter_available()
    text = jupyter.stream_generate(engine, "What is qrun?", **GREEDY)
    assert capsys.readouterr().out.startswith(text + "\n12 tokens in ")
    assert len(jupyter.progress_generate(engine, ["One?"] * 6, max_tokens=2)) == 6
    assert list(jupyter.compare_temperatures(engine, "Hello", [0.0, 1.0], max_tokens=2)) == [0.0, 1.0]
    capsys.readouterr()
    jupyter.visualize_tokens("Hello world", engine)
    assert capsys.readouterr().out.replace("|", "") == "Hello world\n"
    jupyter.display_metrics(engine)
    assert json.loads(capsys.readouterr().out).keys() == {"latency", "throughput"}


def test_the_widget_is_a_conversation(engine: llcuda.InferenceEngine) -> None:
    if not jupyter.check_dependencies(require_widgets=True):
        with pytest.raises(ImportError, match=r"qrun-llm\[notebook\]"):
            jupyter.ChatWidget(engine)
        pytest.skip("no ipywidgets")
    widget = jupyter.ChatWidget(engine, "You are brief.", max_tokens=8, temperature=0.0)
    widget.input_text.value = "Is 1 < 2?"
    widget.send_button.click()
    assert [m["role"] for m in widget.conversation_history] == ["user", "assistant"] and widget.input_text.value == ""
    assert "1 &lt; 2" in widget.output.value and widget.conversation_history[1]["content"] in widget.output.value
    widget.clear_button.click()
    assert widget.conversation_history == [] and widget.output.value == ""


def test_a_text_that_names_a_file_is_shown_as_text(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    pytest.importorskip("IPython")
    (tmp_path / "qrun").mkdir()
    monkeypatch.chdir(tmp_path)
    jupyter._show("text/markdown", "qrun", "qrun", "shown", update=True)
    assert "'text/markdown': 'qrun'" in capsys.readouterr().out


def test_the_server_is_a_child_that_answers(capsys: Any) -> None:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with llcuda.ServerManager() as server:
        assert not server.get_server_info()["running"] and not server.check_server_health()
        assert server.start_server("demo", port=port, gpu_layers=0, ctx_size=512, flash_attn=True, alias="mine")
        assert server.check_server_health() and f"{port}" in capsys.readouterr().out
        info = server.get_server_info()
        assert info["running"] and info["process_id"] and info["url"].endswith(f":{port}")
        asked = json.dumps({"prompt": "Hello", "n_predict": 3}).encode()
        request = urllib.request.Request(f"{info['url']}/completion", asked, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["content"]
        assert server.start_server("demo", port=port) is True
    assert not server.check_server_health() and not server.get_server_info()["running"]
    with pytest.raises(qrun.Error, match="no-such-file"):
        server.start_server("no-such-file.gguf", port=port, silent=True)
