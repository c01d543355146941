"""llcuda.chat: conversations, through the model's own chat template."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Union

from .. import Engine
from ._engine import InferenceEngine

AnyEngine = Union[InferenceEngine, Engine]


class Message:
    """What somebody said.

    >>> Message("user", "Hello").to_dict()
    {'role': 'user', 'content': 'Hello'}
    """

    def __init__(self, role: str, content: str, name: Optional[str] = None) -> None:
        self.role = role
        self.content = content
        self.name = name
        self.timestamp = time.time()

    def to_dict(self) -> Dict[str, str]:
        """As chat templates and APIs take it."""
        message = {"role": self.role, "content": self.content}
        return {**message, "name": self.name} if self.name else message

    def __repr__(self) -> str:
        shown = self.content if len(self.content) <= 50 else self.content[:50] + "..."
        return f"Message(role={self.role!r}, content={shown!r})"


class ChatEngine:
    """A conversation. The oldest messages but the system's are left out when there are more than `max_history`.

    >>> from qrun.llcuda import InferenceEngine
    >>> engine = InferenceEngine()
    >>> engine.load_model("demo", verbose=False)
    True
    >>> chat = ChatEngine(engine, max_tokens=8, temperature=0)
    >>> answer = chat.add_user_message("What is qrun?").complete()
    >>> [message.role for message in chat.messages], chat.count_tokens() > 8
    (['user', 'assistant'], True)
    """

    def __init__(
        self,
        engine: AnyEngine,
        system_prompt: Optional[str] = None,
        max_history: int = 20,
        max_tokens: int = 256,
        temperature: float = 0.7,
    ) -> None:
        self.engine = engine
        self.messages: List[Message] = []
        self.max_history = max_history
        self.max_tokens = max_tokens
        self.temperature = temperature
        if system_prompt:
            self.add_system_message(system_prompt)

    @property
    def _qrun(self) -> Engine:
        return self.engine.engine if isinstance(self.engine, InferenceEngine) else self.engine

    def add_message(self, role: str, content: str, name: Optional[str] = None) -> "ChatEngine":
        """Adds a message; returns this conversation."""
        self.messages.append(Message(role, content, name))
        if len(self.messages) > self.max_history:
            system = [message for message in self.messages if message.role == "system"]
            others = [message for message in self.messages if message.role != "system"]
            kept = max(self.max_history - len(system), 1)
            self.messages = system + others[-kept:]
        return self

    def add_system_message(self, content: str) -> "ChatEngine":
        """Adds what the model is told beforehand."""
        return self.add_message("system", content)

    def add_user_message(self, content: str) -> "ChatEngine":
        """Adds a question."""
        return self.add_message("user", content)

    def add_assistant_message(self, content: str) -> "ChatEngine":
        """Adds an answer that the model is to have given."""
        return self.add_message("assistant", content)

    def _given(self, max_tokens: Optional[int], temperature: Optional[float], kwargs: Dict[str, Any]) -> Dict[str, Any]:
        # 0 is a value: only None means the conversation's own.
        limit = self.max_tokens if max_tokens is None else max_tokens
        return {"max_tokens": limit, "temperature": self.temperature if temperature is None else temperature, **kwargs}

    def complete(self, max_tokens: Optional[int] = None, temperature: Optional[float] = None, **kwargs: Any) -> str:
        """The model's answer, which becomes part of the conversation. What goes wrong is raised, not answered."""
        done = self._qrun.generate(self.get_history(), **self._given(max_tokens, temperature, kwargs))
        self.add_assistant_message(done.text)
        return done.text

    def complete_stream(
        self, max_tokens: Optional[int] = None, temperature: Optional[float] = None, **kwargs: Any
    ) -> Iterator[str]:
        """The same, piece by piece as it is generated. An answer that is left early becomes part as far as it was read."""
        text = ""
        with self._qrun.stream(self.get_history(), **self._given(max_tokens, temperature, kwargs)) as stream:
            try:
                for piece in stream:
                    text += piece
                    yield piece
            finally:
                self.add_assistant_message(text)

    def clear_history(self, keep_system: bool = True) -> "ChatEngine":
        """Forgets the conversation, by default all but the system's messages."""
        self.messages = [message for message in self.messages if keep_system and message.role == "system"]
        return self

    def get_history(self) -> List[Dict[str, str]]:
        """The messages as dicts."""
        return [message.to_dict() for message in self.messages]

    def save_history(self, filepath: Union[str, Path]) -> None:
        """Writes the conversation as JSON, as llcuda does."""
        settings = {"max_history": self.max_history, "max_tokens": self.max_tokens, "temperature": self.temperature}
        data = {"messages": self.get_history(), "metadata": {**settings, "timestamp": time.time()}}
        Path(filepath).write_text(json.dumps(data, indent=2, ensure_ascii=False), encoding="utf-8")

    def load_history(self, filepath: Union[str, Path]) -> "ChatEngine":
        """Reads a conversation that qrun or llcuda wrote."""
        data = json.loads(Path(filepath).read_text(encoding="utf-8"))
        self.messages = [Message(m["role"], m["content"], m.get("name")) for m in data["messages"]]
        for name in ("max_history", "max_tokens", "temperature"):
            setattr(self, name, data.get("metadata", {}).get(name, getattr(self, name)))
        return self

    def count_tokens(self) -> int:
        """Tokens of the conversation in the model's own form, the opening of the next answer included: exact."""
        return len(self._qrun.apply_chat_template(self.get_history(), tokenize=True)) if self.messages else 0

    def __repr__(self) -> str:
        return f"ChatEngine(messages={len(self.messages)})"


class ConversationManager:
    """Conversations by name on one engine."""

    def __init__(self, engine: AnyEngine) -> None:
        self.engine = engine
        self.conversations: Dict[str, ChatEngine] = {}
        self.current_conversation: Optional[str] = None

    def create_conversation(self, name: str, system_prompt: Optional[str] = None, **kwargs: Any) -> ChatEngine:
        """A new conversation; the first one becomes the current one."""
        self.conversations[name] = ChatEngine(self.engine, system_prompt=system_prompt, **kwargs)
        self.current_conversation = self.current_conversation or name
        return self.conversations[name]

    def switch_to(self, name: str) -> ChatEngine:
        """Makes a conversation the current one; KeyError where there is none of this name."""
        if name not in self.conversations:
            raise KeyError(f"no conversation {name!r}: there are {', '.join(self.conversations) or 'none'}")
        self.current_conversation = name
        return self.conversations[name]

    def get_current(self) -> ChatEngine:
        """The current conversation; RuntimeError where there is none."""
        if self.current_conversation is None:
            raise RuntimeError("no conversation yet: create_conversation makes one")
        return self.conversations[self.current_conversation]

    def chat(self, message: str, **kwargs: Any) -> str:
        """Says something in the current conversation; the answer."""
        return self.get_current().add_user_message(message).complete(**kwargs)

    def list_conversations(self) -> List[str]:
        """All names."""
        return list(self.conversations)

    def delete_conversation(self, name: str) -> None:
        """Forgets a conversation; another one becomes the current one."""
        self.conversations.pop(name, None)
        if self.current_conversation == name:
            self.current_conversation = next(iter(self.conversations), None)

    def save_all(self, directory: Union[str, Path]) -> None:
        """Writes each conversation into a file of the folder."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        for name, chat in self.conversations.items():
            chat.save_history(folder / f"{name}.json")

    def load_all(self, directory: Union[str, Path]) -> None:
        """Reads all conversations of a folder."""
        for path in sorted(Path(directory).glob("*.json")):
            self.create_conversation(path.stem).load_history(path)
