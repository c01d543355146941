// The chat page's Markdown and its reader of streams: node --test tests/server/page.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { readFile } from "node:fs/promises";

// The page's files are modules by the server's word; here they are taken as such by their text.
const load = async (name) =>
  import("data:text/javascript," + encodeURIComponent(await readFile(new URL(`../../src/server/page/${name}`, import.meta.url), "utf8")));
const { blocks, spans } = await load("markdown.js");
const { events, add } = await load("stream.js");

test("blocks of a text", () => {
  const cases = [
    ["", []],
    ["a\nb\n\nc", [{ kind: "text", text: "a\nb" }, { kind: "text", text: "c" }]],
    ["## T ##\nx", [{ kind: "heading", level: 2, text: "T" }, { kind: "text", text: "x" }]],
    ["#no", [{ kind: "text", text: "#no" }]],
    ["```js\n# a\n- b\n```\nx", [{ kind: "code", language: "js", text: "# a\n- b" }, { kind: "text", text: "x" }]],
    ["````\n```\n````", [{ kind: "code", language: "", text: "```" }]],
    ["```\nopen", [{ kind: "code", language: "", text: "open" }]],
    ["- a\n  - b\n- c", [{ kind: "list", ordered: false, start: 1, items: [{ depth: 0, text: "a" }, { depth: 1, text: "b" }, { depth: 0, text: "c" }] }]],
    ["3. a\n4. b", [{ kind: "list", ordered: true, start: 3, items: [{ depth: 0, text: "a" }, { depth: 0, text: "b" }] }]],
  ];
  for (const [text, expected] of cases) assert.deepEqual(blocks(text), expected, JSON.stringify(text));
});

test("spans of a line", () => {
  const t = (text) => ({ kind: "text", text });
  const cases = [
    ["plain <b>", [t("plain <b>")]],
    ["a **b** c", [t("a "), { kind: "bold", text: "b" }, t(" c")]],
    ["*a* and _b_", [{ kind: "italic", text: "a" }, t(" and "), { kind: "italic", text: "b" }]],
    ["snake_case_name 2*3*4", [t("snake_case_name 2*3*4")]],
    ["`**x**`", [{ kind: "code", text: "**x**" }]],
    ["[a](https://b.example/c)", [{ kind: "link", text: "a", href: "https://b.example/c" }]],
    ["[a](javascript:alert)", [t("[a](javascript:alert)")]],
    ["[a](data:text/html,x)", [t("[a](data:text/html,x)")]],
  ];
  for (const [text, expected] of cases) assert.deepEqual(spans(text), expected, text);
});

test("a stream is read the same wherever it is cut", async () => {
  const chunk = (delta, more) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, ...more }] })}\n\n`;
  const call = (more, index = 0) => ({ tool_calls: [{ index, ...more }] });
  const text =
    chunk({ role: "assistant", content: null }) + ":\n\n" + chunk({ reasoning_content: "hm" }) + chunk({ content: "Grüße, 世" }) +
    chunk({ content: "界" }) + chunk(call({ id: "c", function: { name: "f", arguments: "" } })) +
    chunk(call({ function: { arguments: '{"x":' } })) + chunk(call({ function: { arguments: "1}" } })) +
    chunk({}, { finish_reason: "tool_calls" }) + 'data: {"choices":[],"usage":{"completion_tokens":3}}\n\ndata: [DONE]\n\ndata: never\n\n';
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 2, 3, 7, 64, bytes.length]) {
    const message = { content: "", reasoning: "", calls: [] };
    const pieces = [];
    for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.slice(at, at + size));
    for await (const event of events(ReadableStream.from(pieces))) add(message, event);
    assert.deepEqual(message, {
      content: "Grüße, 世界", reasoning: "hm", calls: [{ id: "c", name: "f", arguments: '{"x":1}' }],
      finish: "tool_calls", usage: { completion_tokens: 3 },
    }, `pieces of ${size}`);
  }
});

test("an error in a stream is told", () => {
  assert.throws(() => add({ content: "", reasoning: "", calls: [] }, { error: { message: "device lost" } }), /device lost/);
});
