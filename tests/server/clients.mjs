// OpenAI's JavaScript client: node clients.mjs URL KEY [part of a case's name], in a folder where the package openai is.
// The server answers with the demo model and asks for KEY. Ends with "N passed, N failed", and 1 if anything failed.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const require = createRequire(process.cwd() + "/");
const { OpenAI } = require("openai");
const { standardFunction, standardResponseFormat, standardTextFormat } = require("openai/helpers/standard-schema");
const [url, key, only = ""] = process.argv.slice(2);
const root = url.replace(/\/+$/, "");
const settings = { baseURL: root + "/v1", apiKey: key, maxRetries: 0, timeout: 120_000 };
const client = new OpenAI(settings);

const model = "demo";
const HELLO = [{ role: "user", content: "Hello!" }];
// Answers that differ: the demo model is sure of itself.
const WILD = { temperature: 3, top_p: 1, top_k: 0, min_p: 0 };
const SCHEMA = {
  type: "object",
  properties: { city: { type: "string", enum: ["Rome", "Oslo"] }, days: { type: "integer", enum: [1, 2] } },
  required: ["city", "days"],
  additionalProperties: false,
};
const fits = (value) =>
  ["Rome", "Oslo"].includes(value.city) && [1, 2].includes(value.days) && Object.keys(value).length === 2;
const tool = (name, parameters = SCHEMA) => ({ type: "function", function: { name, description: "What it is", parameters } });
const TIME = tool("get_time", { type: "object", properties: {}, additionalProperties: false });
const named = (name) => ({ type: "function", function: { name } });
// What a library of schemas gives to the client's helpers.
const trip = {
  "~standard": {
    version: 1,
    vendor: "qrun",
    validate: (value) => (fits(value) ? { value } : { issues: [{ message: "no trip" }] }),
    jsonSchema: { input: () => SCHEMA },
  },
};

const chat = (fields) => client.chat.completions.create({ model, messages: HELLO, max_tokens: 16, temperature: 0, ...fields });
const complete = (fields) => client.completions.create({ model, prompt: "2 + 3 =", max_tokens: 4, temperature: 0, ...fields });
const respond = (fields) => client.responses.create({ model, input: "Hello!", max_output_tokens: 16, temperature: 0, ...fields });
const content = (answer) => answer.choices[0].message.content;
const last = (array) => array[array.length - 1];
async function all(stream) {
  const chunks = [];
  for await (const chunk of await stream) chunks.push(chunk);
  return chunks;
}
const textOf = (chunks) => chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? chunk.choices[0]?.text ?? "").join("");
// The call is refused with an error of this class, status, field and part of a message.
async function refused(kind, call, { status, param, part = "" }) {
  const error = await call().then(() => assert.fail("not refused"), (caught) => caught);
  assert.ok(error instanceof kind, `${error.constructor.name} instead of ${kind.name}: ${error.message}`);
  assert.equal(error.status, status);
  if (param !== undefined) assert.equal(error.param, param, error.message);
  assert.ok(error.message.includes(part), error.message);
  assert.ok(error.headers.get("x-request-id"), "no x-request-id");
  return error;
}

const cases = {
  async "a chat, whole and streamed, is the same"() {
    const whole = await chat();
    assert.ok(whole.id.startsWith("chatcmpl-") && content(whole) && whole._request_id);
    const chunks = await all(chat({ stream: true }));
    assert.equal(textOf(chunks), content(whole));
    assert.equal(chunks[0].choices[0].delta.role, "assistant");
    assert.equal(last(chunks).choices[0].finish_reason, whole.choices[0].finish_reason);
    assert.ok(chunks.every((chunk) => chunk.id === chunks[0].id && chunk.usage == null));
  },
  async "usage at the end of a stream"() {
    const { usage } = await chat();
    const end = last(await all(chat({ stream: true, stream_options: { include_usage: true } })));
    assert.deepEqual(end.choices, []);
    for (const name of ["prompt_tokens", "completion_tokens", "total_tokens"]) assert.equal(end.usage[name], usage[name]);
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  },
  async "the helper for streams"() {
    const whole = await chat();
    const stream = client.chat.completions.stream({ model, messages: HELLO, max_tokens: 16, temperature: 0 });
    let text = "";
    stream.on("content", (delta) => (text += delta));
    assert.equal(content(await stream.finalChatCompletion()), content(whole));
    assert.equal(text, content(whole));
  },
  async "limits by both names"() {
    for (const limit of [{ max_tokens: 3 }, { max_tokens: undefined, max_completion_tokens: 3 }]) {
      const answer = await chat(limit);
      assert.deepEqual([answer.usage.completion_tokens, answer.choices[0].finish_reason], [3, "length"]);
    }
  },
  async "a tool that must be called, whole and streamed"() {
    const fields = { tools: [tool("get_weather")], tool_choice: "required", parallel_tool_calls: false, max_tokens: 200 };
    const [choice] = (await chat(fields)).choices;
    assert.equal(choice.finish_reason, "tool_calls");
    const [call] = choice.message.tool_calls;
    assert.ok(call.id && call.function.name === "get_weather" && fits(JSON.parse(call.function.arguments)));
    const chunks = await all(chat({ ...fields, stream: true }));
    const calls = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
    assert.ok(fits(JSON.parse(calls.map((one) => one.function.arguments ?? "").join(""))));
    assert.deepEqual(calls.flatMap((one) => one.function.name ?? []), ["get_weather"]);
    assert.equal(last(chunks).choices[0].finish_reason, "tool_calls");
  },
  async "one tool of two, or none"() {
    const tools = [tool("get_weather"), TIME];
    const one = await chat({ tools, tool_choice: named("get_time"), max_tokens: 200 });
    assert.ok(one.choices[0].message.tool_calls.every((call) => call.function.name === "get_time"));
    const none = await chat({ tools, tool_choice: "none" });
    assert.ok(content(none) && !none.choices[0].message.tool_calls?.length);
  },
  async "the helper that runs tools"() {
    const asked = [];
    const weather = standardFunction({ name: "get_weather", parameters: trip, function: (args) => (asked.push(args), "sunny") });
    for (const stream of [false, true]) {
      const fields = { model, messages: HELLO, tools: [weather], tool_choice: named("get_weather"), max_tokens: 200, temperature: 0, stream };
      assert.equal(await client.chat.completions.runTools(fields).finalFunctionToolCallResult(), "sunny");
    }
    assert.ok(asked.length === 2 && asked.every(fits), JSON.stringify(asked));
    // Here the model may answer with words after it has seen what the function said.
    const runner = client.chat.completions.runTools(
      { model, messages: HELLO, tools: [weather], max_tokens: 40, temperature: 0 }, { maxChatCompletions: 2 });
    assert.ok((await runner.finalMessage()).role === "assistant" && (await runner.totalUsage()).total_tokens > 0);
  },
  async "an answer by a schema"() {
    const raw = { type: "json_schema", json_schema: { name: "trip", schema: SCHEMA, strict: true } };
    assert.ok(fits(JSON.parse(content(await chat({ response_format: raw, max_tokens: 200 })))));
    assert.ok(fits(JSON.parse(textOf(await all(chat({ response_format: raw, max_tokens: 200, stream: true }))))));
    const fields = { model, messages: HELLO, max_tokens: 200, temperature: 0, response_format: standardResponseFormat(trip, "trip") };
    assert.ok(fits((await client.chat.completions.parse(fields)).choices[0].message.parsed));
    assert.ok(fits((await client.chat.completions.stream(fields).finalChatCompletion()).choices[0].message.parsed));
  },
  async "logprobs"() {
    const answer = await chat({ logprobs: true, top_logprobs: 3, max_tokens: 4 });
    const tokens = answer.choices[0].logprobs.content;
    assert.equal(tokens.map((one) => one.token).join(""), content(answer));
    for (const one of tokens) {
      assert.ok(one.logprob <= 0 && one.top_logprobs.length === 3);
      assert.equal(Buffer.from(one.bytes).toString(), one.token);
      // Greedy: the token is the likeliest.
      assert.equal(one.top_logprobs[0].token, one.token);
    }
    const streamed = await all(chat({ logprobs: true, top_logprobs: 3, max_tokens: 4, stream: true }));
    assert.deepEqual(streamed.flatMap((chunk) => chunk.choices[0].logprobs?.content ?? []), tokens);
  },
  async "several answers"() {
    const answer = await chat({ n: 3, seed: 1, ...WILD });
    assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1, 2]);
    const streamed = ["", "", ""];
    for (const { choices: [choice] } of await all(chat({ n: 3, seed: 1, ...WILD, stream: true })))
      streamed[choice.index] += choice.delta.content ?? "";
    assert.deepEqual(streamed, answer.choices.map((choice) => choice.message.content));
  },
  async "stop"() {
    const whole = content(await chat({ max_tokens: 40 }));
    const mark = whole.slice(3, 6);
    for (const stop of [mark, ["never said", mark]]) {
      const [choice] = (await chat({ max_tokens: 40, stop })).choices;
      assert.deepEqual([choice.message.content, choice.finish_reason], [whole.split(mark)[0], "stop"]);
    }
  },
  async "a seed repeats an answer"() {
    const texts = [];
    for (const seed of [5, 5, 6, 7]) texts.push(content(await chat({ seed, ...WILD })));
    assert.equal(texts[0], texts[1]);
    assert.ok(new Set(texts).size > 1, JSON.stringify(texts));
  },
  async "a stream that is cut off"() {
    const cancelled = async () => {
      const metrics = await fetch(root + "/metrics", { headers: { authorization: `Bearer ${key}` } });
      return Number((await metrics.text()).match(/^qrun:cancelled_total (\d+)/m)[1]);
    };
    const long = { max_tokens: 4000, ignore_eos: true };
    const before = await cancelled();
    // The demo model may be done before the server sees that nobody reads: then it is asked again.
    for (let tries = 0; tries < 20 && (await cancelled()) === before; tries++) {
      const stream = await chat({ ...long, stream: true });
      let seen = 0;
      for await (const _ of stream) if (++seen === 3) stream.controller.abort();
      assert.equal(seen, 3);
      await new Promise((done) => setTimeout(done, 50));
    }
    assert.ok((await cancelled()) > before);
    const aborter = new AbortController();
    const call = client.chat.completions.create({ model, messages: HELLO, ...long }, { signal: aborter.signal });
    setTimeout(() => aborter.abort(), 20);
    await assert.rejects(call, OpenAI.APIUserAbortError);
    assert.ok(content(await chat()));
  },
  async "what is wrong with a request"() {
    for (const [fields, param, part] of [
      [{ messages: [] }, "messages"],
      [{ temperature: "hot" }, "temperature"],
      [{ n: 0 }, "n"],
      [{ top_p: -1 }, "top_p"],
      [{ tools: [], tool_choice: "required" }, "tool_choice"],
      [{ response_format: { type: "sound" } }, "response_format.type"],
      [{ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }] }, undefined, "image_url"],
    ]) {
      const error = await refused(OpenAI.BadRequestError, () => chat(fields), { status: 400, param, part });
      assert.equal(error.type, "invalid_request_error");
    }
    const long = () => chat({ messages: [{ role: "user", content: "word ".repeat(40_000) }] });
    assert.equal((await refused(OpenAI.BadRequestError, long, { status: 400 })).code, "context_length_exceeded");
    // Before a stream has begun an error has its status, too.
    await refused(OpenAI.BadRequestError, () => chat({ stream: true, n: 0 }), { status: 400, param: "n" });
  },
  async "a wrong key"() {
    const stranger = new OpenAI({ ...settings, apiKey: "wrong" });
    const call = () => stranger.chat.completions.create({ model, messages: HELLO });
    await refused(OpenAI.AuthenticationError, call, { status: 401 });
  },
  async "models"() {
    const [one, ...more] = await all(client.models.list());
    assert.deepEqual(more, []);
    assert.equal((await client.models.retrieve(one.id)).id, one.id);
    await refused(OpenAI.NotFoundError, () => client.models.retrieve("none-such"), { status: 404, part: "none-such" });
  },
  async "completions, whole and streamed"() {
    // However soon the model would end.
    const fields = { ignore_eos: true };
    const both = await complete({ ...fields, prompt: ["2 + 3 =", "Hello"] });
    assert.deepEqual(both.choices.map((choice) => choice.index), [0, 1]);
    assert.equal(textOf(await all(complete({ ...fields, stream: true }))), both.choices[0].text);
  },
  async "completions that repeat the prompt, with logprobs"() {
    const [plain] = (await complete({ ignore_eos: true })).choices;
    const [choice] = (await complete({ ignore_eos: true, echo: true, logprobs: 2 })).choices;
    assert.equal(choice.text, "2 + 3 =" + plain.text);
    const { tokens, token_logprobs, top_logprobs, text_offset } = choice.logprobs;
    assert.equal(tokens.join(""), choice.text);
    assert.ok([token_logprobs, top_logprobs, text_offset].every((list) => list.length === tokens.length));
    // Nothing is before the first token.
    assert.ok(token_logprobs[0] === null && token_logprobs.slice(1).every((one) => one <= 0), JSON.stringify(token_logprobs));
    tokens.forEach((token, i) => assert.equal(choice.text.slice(text_offset[i], text_offset[i] + token.length), token));
    // Only the prompt: how likely a text is.
    const [scored] = (await complete({ echo: true, logprobs: 1, max_tokens: 0 })).choices;
    assert.equal(scored.text, "2 + 3 =");
  },
  async "a response, whole and streamed"() {
    const whole = await respond({ instructions: "Be brief.", metadata: { a: "b" }, store: false });
    assert.ok(whole.output_text && whole.id.startsWith("resp_"));
    assert.deepEqual([whole.instructions, whole.metadata], ["Be brief.", { a: "b" }]);
    const events = await all(respond({ instructions: "Be brief.", stream: true }));
    assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
    const kinds = events.map((event) => event.type.replace("response.", ""));
    assert.deepEqual(kinds.slice(0, 4), ["created", "in_progress", "output_item.added", "content_part.added"]);
    assert.deepEqual(kinds.slice(-4), ["output_text.done", "content_part.done", "output_item.done", whole.status]);
    assert.ok(kinds.slice(4, -4).every((kind) => kind === "output_text.delta"), kinds.join());
    assert.equal(events.map((event) => event.delta ?? "").join(""), whole.output_text);
    const { usage } = last(events).response;
    assert.deepEqual([usage.input_tokens, usage.output_tokens], [whole.usage.input_tokens, whole.usage.output_tokens]);
  },
  async "the helper for streams of responses"() {
    const stream = client.responses.stream({ model, input: "Hello!", max_output_tokens: 200, temperature: 0 });
    const final = await stream.finalResponse();
    assert.deepEqual([final.status, !!final.output_text], ["completed", true]);
  },
  async "a response by a schema, and one that calls a tool"() {
    const text = { format: standardTextFormat(trip, "trip") };
    const parsed = await client.responses.parse({ model, input: "Hello!", max_output_tokens: 200, temperature: 0, text });
    assert.ok(fits(parsed.output_parsed), parsed.output_text);
    const tools = [{ type: "function", name: "get_weather", parameters: SCHEMA, strict: true }];
    const fields = { tools, tool_choice: "required", parallel_tool_calls: false, max_output_tokens: 200 };
    const [call] = (await respond(fields)).output;
    assert.ok(call.type === "function_call" && call.call_id && fits(JSON.parse(call.arguments)));
    const output = { type: "function_call_output", call_id: call.call_id, output: "sunny" };
    assert.ok((await respond({ tools, tool_choice: "none", input: [{ role: "user", content: "Weather?" }, call, output] })).output_text);
    const events = await all(respond({ ...fields, stream: true }));
    const deltas = events.filter((event) => event.type === "response.function_call_arguments.delta");
    assert.equal(deltas.map((event) => event.delta).join(""), last(events).response.output[0].arguments);
  },
};

let passed = 0;
let failed = 0;
for (const [name, run] of Object.entries(cases)) {
  if (!name.includes(only)) continue;
  try {
    await run();
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`--- ${name}\n${error.stack}`);
  }
}
console.log(`${passed} passed, ${failed} failed`);
// Nothing run is no success.
process.exit(failed || !passed ? 1 : 0);
