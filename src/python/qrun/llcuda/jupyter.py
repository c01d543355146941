"""llcuda.jupyter: answers in a notebook. What is needed for it is imported where it is used."""

from __future__ import annotations

import html
import importlib.util
import json
import time
from typing import Any, Dict, List, Optional, Sequence

from ._engine import PARALLEL, InferenceEngine


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def is_jupyter_available() -> bool:
    """Whether this runs in a notebook."""
    if not _has("IPython"):
        return False
    from IPython import get_ipython  # type: ignore[import-not-found,unused-ignore]

    shell: Any = get_ipython()  # type: ignore[no-untyped-call,unused-ignore]
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


def check_dependencies(require_widgets: bool = False) -> bool:
    """Whether what this module shows can be shown: IPython, and with `require_widgets` ipywidgets."""
    return _has("IPython") and (not require_widgets or _has("ipywidgets"))


def _show(mime: str, form: str, plain: str, shown: Optional[str] = None, update: bool = False) -> None:
    """Shows a form as it stands, and `plain` where a front end does not know it. IPython's own Markdown(text) reads a file
    where the text is the name of one."""
    from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

    more = {} if shown is None else {"display_id": shown}
    forms = {mime: form, "text/plain": plain}
    display(forms, raw=True, update=update, **more)  # type: ignore[no-untyped-call,unused-ignore]


def stream_generate(
    engine: InferenceEngine,
    prompt: str,
    max_tokens: int = 256,
    temperature: float = 0.7,
    show_timing: bool = True,
    markdown: bool = True,
    **kwargs: Any,
) -> str:
    """Shows the answer while it is generated, at most 20 times a second; without a notebook it is printed."""
    text, due, started = "", 0.0, time.perf_counter()
    notebook, shown = is_jupyter_available(), f"qrun-{time.monotonic_ns()}"
    mime = "text/markdown" if markdown else "text/html"

    def form() -> str:
        return text if markdown else f"<pre>{html.escape(text)}</pre>"

    if notebook:
        _show(mime, form(), text, shown)
    with engine.stream(prompt, max_tokens=max_tokens, temperature=temperature, **kwargs) as stream:
        for piece in stream:
            text += piece
            now = time.perf_counter()
            if not notebook:
                print(piece, end="", flush=True)
            elif now >= due:
                _show(mime, form(), text, shown, update=True)
                due = now + 0.05
        done = stream.completion
    n, seconds = len(done.tokens), time.perf_counter() - started
    timing = f"{n} tokens in {seconds:.2f} s, the first after {done.ttft_ms:.0f} ms"
    timing += f"; decoding {done.tokens_per_sec:.1f} tok/s"
    if notebook:
        _show(mime, form(), text, shown, update=True)
    else:
        print()
    if show_timing:
        _show("text/html", f"<small>{timing}</small>", timing) if notebook else print(timing)
    return text


def progress_generate(
    engine: InferenceEngine, prompts: Sequence[str], max_tokens: int = 128, **kwargs: Any
) -> List[str]:
    """Answers to many prompts, several in each step, with a bar where tqdm is there; "" where one went wrong."""
    bar: Any = None
    if _has("tqdm"):
        from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]

        bar = tqdm(total=len(prompts), desc="Generating")
    texts: List[str] = []
    for at in range(0, len(prompts), PARALLEL):
        results = engine.batch_infer(list(prompts[at : at + PARALLEL]), max_tokens=max_tokens, **kwargs)
        texts += [result.text if result.success else "" for result in results]
        if bar is not None:
            bar.update(len(results))
        else:
            print(f"{len(texts)} of {len(prompts)}")
    if bar is not None:
        bar.close()
    return texts


def _table(rows: Sequence[Sequence[str]], head: Sequence[str]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(head, "th") + "".join(line(row, "td") for row in rows) + "</table>"


def display_metrics(engine: InferenceEngine, as_dataframe: bool = True) -> None:
    """Shows `engine.get_metrics()`: as pandas' table, as a table, or without IPython as JSON."""
    metrics = engine.get_metrics()
    if not is_jupyter_available():
        print(json.dumps(metrics, indent=2))
        return
    rows = [
        (group, name, f"{value:.2f}" if isinstance(value, float) else str(value))
        for group, values in metrics.items()
        for name, value in values.items()
    ]
    head = ("Category", "Metric", "Value")
    if as_dataframe and _has("pandas"):
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        display(pandas.DataFrame(rows, columns=list(head)))  # type: ignore[no-untyped-call,unused-ignore]
    else:
        _show("text/html", _table(rows, head), json.dumps(metrics))


def compare_temperatures(
    engine: InferenceEngine, prompt: str, temperatures: Sequence[float] = (0.3, 0.7, 1.0, 1.5), max_tokens: int = 100
) -> Dict[float, str]:
    """Answers to one prompt at several temperatures, shown and returned by temperature."""
    notebook, found = is_jupyter_available(), {}
    for temperature in temperatures:
        result = engine.infer(prompt, max_tokens=max_tokens, temperature=temperature)
        found[temperature] = result.text if result.success else f"Error: {result.error_message}"
        head = f"temperature {temperature}, {result.tokens_per_sec:.1f} tok/s"
        if notebook:
            _show(
                "text/html",
                f"<b>{head}</b><pre>{html.escape(found[temperature])}</pre>",
                f"{head}\n{found[temperature]}",
            )
        else:
            print(f"{head}\n{found[temperature]}\n")
    return found


def visualize_tokens(text: str, engine: Optional[InferenceEngine] = None) -> None:
    """Shows where a text's tokens begin and end; without an engine the text itself."""
    pieces = [text]
    if engine is not None:
        tokens = engine.engine.tokenize(text, add_special=False)
        pieces = [piece.decode("utf-8", errors="replace") for piece in engine.engine.pieces(tokens)]
    if not is_jupyter_available():
        print("|".join(pieces))
        return
    style = "border:1px solid #aaa;margin:1px;padding:0 2px;white-space:pre;font-family:monospace"
    spans = "".join(f'<span style="{style}">{html.escape(piece)}</span>' for piece in pieces)
    count = f"<small>{len(pieces)} tokens</small>" if engine is not None else ""
    _show("text/html", f"<div>{spans}</div>{count}", "|".join(pieces))


class ChatWidget:
    """A conversation in a notebook: a field, what was said, sliders for length and temperature. Needs ipywidgets."""

    def __init__(
        self,
        engine: InferenceEngine,
        system_prompt: Optional[str] = None,
        max_tokens: int = 256,
        temperature: float = 0.7,
    ) -> None:
        if not check_dependencies(require_widgets=True):
            raise ImportError("ChatWidget needs ipywidgets: pip install 'qrun-llm[notebook]'")
        import ipywidgets  # type: ignore[import-untyped,import-not-found,unused-ignore]

        from .chat import ChatEngine

        self.engine = engine
        self.chat = ChatEngine(engine, system_prompt, max_tokens=max_tokens, temperature=temperature)
        wide = ipywidgets.Layout(width="100%")
        self.output = ipywidgets.HTML(layout=wide)
        self.input_text = ipywidgets.Textarea(placeholder="Your message", layout=wide)
        self.send_button = ipywidgets.Button(description="Send", button_style="primary")
        self.clear_button = ipywidgets.Button(description="Clear")
        self.max_tokens_slider = ipywidgets.IntSlider(max_tokens, 1, max(1024, max_tokens), description="Tokens")
        self.temperature_slider = ipywidgets.FloatSlider(
            temperature, min=0.0, max=2.0, step=0.1, description="Temperature"
        )
        self.send_button.on_click(self._on_send)
        self.clear_button.on_click(self._on_clear)
        buttons = ipywidgets.HBox(
            [self.send_button, self.clear_button, self.max_tokens_slider, self.temperature_slider]
        )
        self.widget = ipywidgets.VBox([self.output, self.input_text, buttons])

    @property
    def conversation_history(self) -> List[Dict[str, str]]:
        """What was said, without the system's messages."""
        return [message for message in self.chat.get_history() if message["role"] != "system"]

    def _on_send(self, button: Any) -> None:
        text = self.input_text.value.strip()
        if not text:
            return
        self.input_text.value = ""
        self.chat.add_user_message(text)
        answer = ""
        limits = {"max_tokens": self.max_tokens_slider.value, "temperature": self.temperature_slider.value}
        for piece in self.chat.complete_stream(**limits):
            answer += piece
            self._draw([*self.conversation_history, {"role": "assistant", "content": answer}])
        self._draw(self.conversation_history)

    def _on_clear(self, button: Any) -> None:
        self.chat.clear_history()
        self._draw([])

    def _draw(self, messages: Sequence[Dict[str, str]]) -> None:
        said = (f"<p><b>{m['role']}</b><br>{html.escape(m['content'])}</p>" for m in messages)
        self.output.value = "".join(said).replace("\n", "<br>")

    def display(self) -> None:
        """Shows it."""
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        display(self.widget)  # type: ignore[no-untyped-call,unused-ignore]
