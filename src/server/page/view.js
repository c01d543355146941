// Messages as nodes.

import { render } from "./markdown.js";

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function button(text, click) {
  const node = element("button", "", text);
  node.type = "button";
  node.addEventListener("click", click);
  return node;
}

function fold(title, text, open) {
  const node = element("details");
  node.open = open;
  node.append(element("summary", "", title), text);
  return node;
}

/** Speed and cached tokens of an answer, as far as they are known. */
export function stats(message) {
  const { usage, timings, finish } = message;
  const parts = [];
  if (usage) parts.push(`${usage.completion_tokens} tokens`);
  const speed = timings?.predicted_per_second ?? message.speed;
  if (speed) parts.push(`${speed.toFixed(1)} tokens/s`);
  const cached = timings?.cache_n ?? usage?.prompt_tokens_details?.cached_tokens;
  if (usage && cached !== undefined) parts.push(`${cached} of ${usage.prompt_tokens} prompt tokens cached`);
  if (finish === "length") parts.push("cut at the limit");
  if (message.stopped) parts.push("stopped");
  return parts.join(" · ");
}

/** A message; `act` has edit(text) for what the user wrote and again() for answers, null: no buttons now. */
export function view(message, act, running) {
  const node = element("article", message.error ? "error" : message.role);
  const body = element("div", "body");
  if (message.role === "user") {
    body.textContent = message.content;
  } else {
    if (message.reasoning) node.append(fold("Thoughts", message.reasoning, running && !message.content));
    for (const call of message.calls ?? []) node.append(fold(`Call of ${call.name}`, call.arguments, false));
    body.append(...(message.error ? [message.error] : render(message.content)));
  }
  node.append(body);
  const foot = element("footer");
  if (act) foot.append(message.role === "user" ? button("Edit", () => edit(node, message, act)) : button("Again", act.again));
  if (message.role !== "user" && !running) foot.append(element("span", "stats", stats(message)));
  if (foot.hasChildNodes()) node.append(foot);
  return node;
}

function edit(node, message, act) {
  const area = element("textarea");
  area.value = message.content;
  area.rows = Math.min(12, message.content.split("\n").length + 1);
  const foot = element("footer");
  foot.append(button("Send", () => act.edit(area.value)), button("Cancel", act.cancel));
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") act.cancel();
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      act.edit(area.value);
    }
  });
  node.replaceChildren(area, foot);
  area.focus();
}
