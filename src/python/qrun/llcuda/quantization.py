"""llcuda.quantization: GGUF files of other types, by `qrun.quantize`. PyTorch's models need llama.cpp's script."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Dict, NoReturn, Optional, Tuple, Union

from .. import Gguf, Unsupported, quantize
from ._gguf_writer import type_of, write
from ._model_info import RESERVE_GB, GGUFQuantType
from ._refused import refuse
from .gguf_parser import GGUFValueType
from .utils import detect_cuda

NF4 = ("quantize_nf4", "dequantize_nf4", "NF4Quantizer", "NF4Config")
"""Names that are refused."""

__all__ = [
    "convert_to_gguf", "GGUFConverter", "GGUFQuantType", "save_gguf", "load_gguf_metadata", "DynamicQuantizer",
    "quantize_dynamic", "AutoQuantConfig", "QuantStrategy",
]  # fmt: skip

AnyPath = Union[str, Path]


def __getattr__(name: str) -> NoReturn:
    refuse(
        __name__, NF4, name, "NF4 is PyTorch's (bitsandbytes) and no type of GGUF; Q4_K_M has as many bits and is run"
    )


def _type(name: Union[str, GGUFQuantType]) -> str:
    """The name of a type; llcuda's short ones mean the usual mixture."""
    if isinstance(name, GGUFQuantType):
        return name.name
    short = {"Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M", "Q6_K_M": "Q6_K", "Q6_K_S": "Q6_K"}
    name = short.get(name.upper(), name.upper())
    if name not in GGUFQuantType.__members__:
        raise Unsupported(f"quant_type={name!r}: expected one of {', '.join(GGUFQuantType.__members__)}")
    return name


class GGUFConverter:
    """Makes a GGUF file: of another GGUF file (`model` is its path), or of tensors that are added by llama.cpp's names.

    llcuda writes F16 bytes under the number of another type for Q4_K_M and Q5_K_M; here the bytes are what the type says.
    """

    def __init__(self, model: Optional[Any] = None, tokenizer: Optional[Any] = None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.metadata: Dict[str, Tuple[Any, GGUFValueType]] = {}
        self.tensors: Dict[str, Tuple[Any, str]] = {}

    def add_metadata(self, key: str, value: Any, value_type: Optional[GGUFValueType] = None) -> None:
        """Adds a value; the type is guessed from it where none is given."""
        self.metadata[key] = (value, type_of(value) if value_type is None else value_type)

    def add_tensor(self, name: str, tensor: Any, quant_type: Union[str, GGUFQuantType] = "F16") -> None:
        """Adds a tensor of numpy or torch: F32, F16 or BF16. Other types are those of the whole file, of `convert`."""
        kind = _type(quant_type)
        self.tensors[name] = (tensor, kind if kind in ("F32", "F16", "BF16") else "F32")

    def convert(
        self, output_path: AnyPath, quant_type: Union[str, GGUFQuantType] = "Q4_K_M", verbose: bool = True
    ) -> None:
        """Writes the file."""
        kind, target = _type(quant_type), Path(output_path)
        if isinstance(self.model, (str, os.PathLike)):
            quantize(os.fspath(self.model), target, kind, force=True)
        elif self.model is not None:
            raise Unsupported(
                f"a {type(self.model).__name__} is not converted here: llama.cpp's convert_hf_to_gguf.py, or Unsloth's "
                "model.save_pretrained_gguf, makes a GGUF file of it, which this takes by its path"
            )
        elif kind in ("F32", "F16", "BF16"):
            write(target, self._with_type(kind), {name: (tensor, kind) for name, (tensor, _) in self.tensors.items()})
        else:
            self._quantized(target, kind)
        if verbose:
            print(f"{target}: {kind}, {target.stat().st_size / 2**20:.1f} MiB")

    def _with_type(self, kind: str) -> Dict[str, Tuple[Any, GGUFValueType]]:
        return {**self.metadata, "general.file_type": (GGUFQuantType[kind].value, GGUFValueType.UINT32)}

    def _quantized(self, target: Path, kind: str) -> None:
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            plain = Path(folder) / "plain.gguf"
            write(plain, self._with_type("F32"), {name: (tensor, "F32") for name, (tensor, _) in self.tensors.items()})
            quantize(plain, target, kind, force=True)


def convert_to_gguf(
    model: Any, output_path: AnyPath, tokenizer: Optional[Any] = None, quant_type: str = "Q4_K_M", verbose: bool = True
) -> Path:
    """A GGUF file of another type from one whose path is given; its path."""
    GGUFConverter(model, tokenizer).convert(output_path, quant_type, verbose)
    return Path(output_path)


def save_gguf(tensors: Dict[str, Any], metadata: Dict[str, Any], output_path: AnyPath, quant_type: str = "F16") -> None:
    """Writes tensors, by llama.cpp's names, and metadata."""
    converter = GGUFConverter()
    for key, value in metadata.items():
        converter.add_metadata(key, value)
    for name, tensor in tensors.items():
        converter.add_tensor(name, tensor, quant_type)
    converter.convert(output_path, quant_type, verbose=False)


def load_gguf_metadata(gguf_path: AnyPath) -> Dict[str, Any]:
    """The metadata of a file."""
    return dict(Gguf(gguf_path).metadata)


class QuantStrategy(Enum):
    """How much of the memory the weights may take: all but a small context's share, or less for a longer context."""

    AGGRESSIVE = "aggressive"
    BALANCED = "balanced"
    QUALITY = "quality"
    MINIMAL = "minimal"


@dataclass
class AutoQuantConfig:
    """What a type is chosen for; without `target_vram_gb` for the first GPU here."""

    target_vram_gb: Optional[float] = None
    target_speed_tps: Optional[float] = None
    min_quality_ppl: Optional[float] = None
    strategy: QuantStrategy = QuantStrategy.BALANCED
    preserve_embeddings: bool = True
    preserve_output: bool = True


BITS = {"BF16": 16.0, "Q8_0": 8.5, "Q6_K": 6.56, "Q5_K_M": 5.7, "Q4_K_M": 4.9, "Q4_K_S": 4.6, "Q4_0": 4.5}
"""Bits of a weight in a file of a type, the most first; mixtures as in a model of some billion weights."""

SHARE = {
    QuantStrategy.AGGRESSIVE: 0.5,
    QuantStrategy.BALANCED: 0.75,
    QuantStrategy.QUALITY: 0.9,
    QuantStrategy.MINIMAL: 1.0,
}
"""How much of the memory the weights may take."""


class DynamicQuantizer:
    """The type with the most bits whose weights fit. llcuda chooses by a table of card sizes.

    >>> config = DynamicQuantizer(target_vram_gb=8.0).recommend_config(model_size_gb=16.0, verbose=False)
    >>> config["quant_type"]
    'Q4_K_M'
    """

    def __init__(
        self,
        target_vram_gb: Optional[float] = None,
        strategy: QuantStrategy = QuantStrategy.BALANCED,
        device: int = 0,
    ) -> None:
        gpus = detect_cuda()["gpus"]
        found = int(gpus[device]["memory"].split()[0]) / 1024 if device < len(gpus) else 8.0
        self.target_vram_gb = found if target_vram_gb is None else target_vram_gb
        self.strategy = QuantStrategy(strategy)
        self.device = device

    def estimate_model_size_fp16(self, model: Any) -> float:
        """GB of a model's weights at 16 bits: of a GGUF file by its path, or of a PyTorch model."""
        if isinstance(model, (str, os.PathLike)):
            return sum(math.prod(tensor.shape) for tensor in Gguf(os.fspath(model)).tensors) * 2 / 1e9
        return float(sum(parameter.numel() for parameter in model.parameters()) * 2 / 1e9)

    def recommend_config(
        self, model: Optional[Any] = None, model_size_gb: Optional[float] = None, verbose: bool = True
    ) -> Dict[str, Any]:
        """`quant_type, expected_vram_gb, compression_ratio, strategy` for a model, or a size in GB at 16 bits.

        `expected_speed_tps` is None: `qrun bench` measures it.
        """
        size = self.estimate_model_size_fp16(model) if model_size_gb is None else model_size_gb
        room = (self.target_vram_gb - RESERVE_GB) * SHARE[self.strategy]
        fits = [kind for kind, bits in BITS.items() if size * bits / 16 <= room]
        kind = fits[0] if fits else "Q4_0"
        config: Dict[str, Any] = {"quant_type": kind, "expected_vram_gb": size * BITS[kind] / 16 + RESERVE_GB}
        config.update(expected_speed_tps=None, compression_ratio=16 / BITS[kind], strategy=self.strategy.value)
        if verbose:
            print(f"{kind}: {config['expected_vram_gb']:.1f} of {self.target_vram_gb:.1f} GB")
        return config

    def quantize_model(
        self, model: Any, output_path: AnyPath, config: Optional[Dict[str, Any]] = None, verbose: bool = True
    ) -> None:
        """Writes a GGUF file, given by its path, in the type that fits."""
        chosen = config or self.recommend_config(model, verbose=verbose)
        convert_to_gguf(model, output_path, quant_type=chosen["quant_type"], verbose=verbose)


def quantize_dynamic(
    model: Any,
    output_path: AnyPath,
    target_vram_gb: Optional[float] = None,
    strategy: str = "balanced",
    verbose: bool = True,
) -> Dict[str, Any]:
    """Writes a GGUF file, given by its path, in the type that fits; what was chosen."""
    quantizer = DynamicQuantizer(target_vram_gb, QuantStrategy(strategy))
    config = quantizer.recommend_config(model, verbose=verbose)
    quantizer.quantize_model(model, output_path, config, verbose)
    return config
