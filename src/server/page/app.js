// The chat page: one chat at a time, streamed from /v1/chat/completions.

import * as store from "./store.js";
import { add, events } from "./stream.js";
import { view } from "./view.js";

const $ = (id) => document.getElementById(id);
const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];

let chat = store.fresh();
/** Ends the answer that is running; null: none is. */
let running = null;

/** Asks the server, and for its key where it wants one. */
async function ask(path, options = {}) {
  const key = sessionStorage.getItem("qrun-key");
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  const response = await fetch(path, { ...options, headers });
  if (response.status !== 401) return response;
  $("secret").value = "";
  if (!$("key").open) $("key").showModal();
  await new Promise((resolve) => $("key").addEventListener("close", resolve, { once: true }));
  if (!$("secret").value) return response;
  sessionStorage.setItem("qrun-key", $("secret").value);
  return ask(path, options);
}

async function failure(response) {
  const body = await response.json().catch(() => null);
  return new Error(body?.error?.message ?? `${response.status} ${response.statusText}`);
}

function request() {
  const { system, ...numbers } = chat.settings;
  const messages = chat.messages.filter((m) => !m.error && (m.role === "user" || m.content));
  return {
    messages: [...(system ? [{ role: "system", content: system }] : []), ...messages.map(({ role, content }) => ({ role, content }))],
    stream: true,
    stream_options: { include_usage: true },
    ...numbers,
  };
}

/** Lets the model answer the last message. */
async function answer() {
  const mine = chat;
  const message = { role: "assistant", content: "", reasoning: "", calls: [] };
  const body = JSON.stringify(request());
  mine.messages.push(message);
  const stop = new AbortController();
  running = stop;
  show();
  const began = { at: 0, chunks: 0 };
  let frame = 0;
  try {
    const response = await ask("/v1/chat/completions", {
      method: "POST", headers: { "Content-Type": "application/json" }, body, signal: stop.signal,
    });
    if (!response.ok) throw await failure(response);
    for await (const chunk of events(response.body)) {
      add(message, chunk);
      began.at ||= performance.now();
      began.chunks += 1;
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        if (chat === mine) last(message);
      });
    }
  } catch (error) {
    if (error.name === "AbortError") message.stopped = true;
    else if (message.content) message.stopped = true;
    else message.error = error.message;
  } finally {
    cancelAnimationFrame(frame);
    const seconds = (performance.now() - began.at) / 1000;
    const tokens = message.usage?.completion_tokens ?? began.chunks;
    if (began.at && tokens > 1 && seconds > 0) message.speed = (tokens - 1) / seconds;
    try {
      // Until it is saved, what another tab says of this chat must not replace it.
      await store.save(mine);
    } finally {
      running = null;
      show();
      list();
    }
  }
}

/** Sends a text in place of message `at` and of all that followed. */
function send(text, at = chat.messages.length) {
  if (!text.trim() || running) return;
  chat.messages.length = at;
  chat.messages.push({ role: "user", content: text });
  if (at === 0) chat.title = text.trim().slice(0, 60);
  answer();
}

function again(at) {
  if (running) return;
  chat.messages.length = at;
  answer();
}

/** Draws the message that is written again. */
function last(message) {
  const box = $("messages");
  const follows = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
  const was = box.lastElementChild?.querySelector("details")?.open;
  const node = view(message, null, running !== null);
  const folded = node.querySelector("details");
  if (folded && was !== undefined) folded.open = was;
  box.lastElementChild?.replaceWith(node);
  if (follows) box.scrollTop = box.scrollHeight;
}

function show() {
  const actions = (at) => ({ edit: (text) => send(text, at), again: () => again(at), cancel: show });
  const end = chat.messages.length - 1;
  $("messages").replaceChildren(
    ...chat.messages.map((m, at) => view(m, running ? null : actions(at), running !== null && at === end)),
  );
  $("messages").scrollTop = $("messages").scrollHeight;
  $("send").hidden = running !== null;
  $("stop").hidden = running === null;
  $("settings").elements.system.value = chat.settings.system ?? "";
  for (const name of NUMBERS) $("settings").elements[name].value = chat.settings[name] ?? "";
}

async function list() {
  const nodes = (await store.all()).map((found) => {
    const node = document.createElement("button");
    node.textContent = found.title;
    if (found.id === chat.id) node.setAttribute("aria-current", "true");
    node.addEventListener("click", () => open(found.id));
    return node;
  });
  $("chats").replaceChildren(...nodes);
}

async function open(id) {
  running?.abort();
  chat = (id && (await store.load(id))) || store.fresh();
  sessionStorage.setItem("qrun-chat", chat.id);
  $("side").classList.remove("open");
  show();
  list();
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) return;
  const text = $("text").value;
  $("text").value = "";
  send(text);
  sessionStorage.setItem("qrun-chat", chat.id);
});
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("ask").requestSubmit();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
});
$("stop").addEventListener("click", () => running?.abort());
$("new").addEventListener("click", () => open(null));
$("menu").addEventListener("click", () => $("side").classList.toggle("open"));
$("tune").addEventListener("click", () => {
  $("settings").hidden = !$("settings").hidden;
  $("tune").setAttribute("aria-expanded", String(!$("settings").hidden));
});
$("settings").addEventListener("submit", (event) => event.preventDefault());
$("settings").addEventListener("change", async (event) => {
  const { name, value } = event.target;
  const valid = event.target.checkValidity() && value !== "";
  if (valid) chat.settings[name] = name === "system" ? value : Number(value);
  else delete chat.settings[name];
  if (chat.messages.length && !running) await store.save(chat);
});
$("export").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(chat, null, 2)], { type: "application/json" }));
  link.download = `${chat.title.replace(/[^\w -]/g, "").trim() || "chat"}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
$("remove").addEventListener("click", async () => {
  if (!confirm(`Delete "${chat.title}"?`)) return;
  await store.remove(chat.id);
  open(null);
});

store.onChange(async (id) => {
  list();
  if (id !== chat.id || running) return;
  // Another tab went on with this chat: show what it said. A chat that it deleted stays here until it is left.
  const found = await store.load(id);
  // Meanwhile something may have been asked here, or another chat opened.
  if (id !== chat.id || running) return;
  chat = found ?? { ...chat, revision: 0 };
  show();
});

await open(sessionStorage.getItem("qrun-chat"));
const props = await ask("/props").then((r) => (r.ok ? r.json() : {})).catch(() => ({}));
$("model").textContent = props.model_alias || props.model_path?.split("/").pop() || "qrun";
const params = props.default_generation_settings?.params ?? {};
for (const name of NUMBERS) {
  const value = params[name];
  if (typeof value === "number" && value >= 0) $("settings").elements[name].placeholder = String(Math.round(value * 1e4) / 1e4);
}
