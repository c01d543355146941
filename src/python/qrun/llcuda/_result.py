"""`InferResult`, and the metrics of many of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List

from .. import Completion


@dataclass(repr=False)
class InferResult:
    """An answer: llcuda's fields, and when the first token came, tokens of the prompt, why it ended, its seed.

    `tokens_per_sec` counts the whole time as llcuda does, `decode_tokens_per_sec` only the steps behind the prompt.

    >>> InferResult(success=True, text="Hello.", tokens_generated=2, latency_ms=20.0, tokens_per_sec=100.0)
    InferResult(tokens=2, latency=20.00ms, throughput=100.00 tok/s)
    """

    success: bool = False
    text: str = ""
    tokens_generated: int = 0
    latency_ms: float = 0.0
    tokens_per_sec: float = 0.0
    error_message: str = ""
    ttft_ms: float = 0.0
    prompt_tokens: int = 0
    finish_reason: str = ""
    seed: int = 0
    decode_tokens_per_sec: float = 0.0

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        if not self.success:
            return f"InferResult(Error: {self.error_message})"
        speed = f"{self.tokens_per_sec:.2f} tok/s"
        return f"InferResult(tokens={self.tokens_generated}, latency={self.latency_ms:.2f}ms, throughput={speed})"

    @classmethod
    def of(cls, done: Completion) -> "InferResult":
        """The result of a finished answer."""
        n, seconds = len(done.tokens), done.latency_ms / 1e3
        return cls(
            success=True,
            text=done.text,
            tokens_generated=n,
            latency_ms=done.latency_ms,
            tokens_per_sec=n / seconds if seconds > 0 else 0.0,
            ttft_ms=done.ttft_ms,
            prompt_tokens=done.prompt_tokens,
            finish_reason=done.finish_reason,
            seed=done.seed,
            decode_tokens_per_sec=float(done.timings["predicted_per_second"]),
        )


def percentile(values: List[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed; 0 where there are none.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([4.0, 1.0, 3.0, 2.0], 0.95)
    (2.0, 4.0)
    """
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else 0.0


@dataclass
class Metrics:
    """Latencies and tokens of answers; `busy_ms` counts answers of one batch once."""

    latencies: List[float] = field(default_factory=list)
    tokens: int = 0
    busy_ms: float = 0.0
    decode_tokens: float = 0.0
    decode_ms: float = 0.0

    def add(self, results: List[InferResult], busy_ms: float) -> None:
        """Counts results that took `busy_ms` together."""
        good = [result for result in results if result.success]
        self.latencies += [result.latency_ms for result in good]
        self.tokens += sum(result.tokens_generated for result in good)
        self.busy_ms += busy_ms if good else 0.0
        for result in good:
            if result.decode_tokens_per_sec > 0 and result.tokens_generated > 1:
                self.decode_tokens += result.tokens_generated - 1
                self.decode_ms += (result.tokens_generated - 1) / result.decode_tokens_per_sec * 1e3

    def report(self) -> Dict[str, Dict[str, Any]]:
        """llcuda's dict, and `decode_tokens_per_sec`."""
        n, seconds = len(self.latencies), self.busy_ms / 1e3
        return {
            "latency": {
                "mean_ms": sum(self.latencies) / n if n else 0.0,
                "p50_ms": percentile(self.latencies, 0.50),
                "p95_ms": percentile(self.latencies, 0.95),
                "p99_ms": percentile(self.latencies, 0.99),
                "min_ms": min(self.latencies, default=0.0),
                "max_ms": max(self.latencies, default=0.0),
                "sample_count": n,
            },
            "throughput": {
                "total_tokens": self.tokens,
                "total_requests": n,
                "tokens_per_sec": self.tokens / seconds if seconds > 0 else 0.0,
                "requests_per_sec": n / seconds if seconds > 0 else 0.0,
                "decode_tokens_per_sec": self.decode_tokens / self.decode_ms * 1e3 if self.decode_ms > 0 else 0.0,
            },
        }
