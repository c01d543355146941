// The chat page in a real browser: node browser.mjs URL CHROMIUM [SCREENSHOT]. Needs the package playwright-core.
// The server answers with the demo model. Ends with "N passed, N failed", and 1 if anything failed.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const { chromium } = createRequire(process.cwd() + "/")("playwright-core");
const [url, executablePath, screenshot] = process.argv.slice(2);
const root = url.replace(/\/?$/, "/");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const foreign = [];
const errors = [];

async function context(options) {
  const made = await browser.newContext(options);
  made.on("request", (request) => /^(blob:|data:)/.test(request.url()) || request.url().startsWith(root) || foreign.push(request.url()));
  made.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  made.on("weberror", (error) => errors.push(String(error.error())));
  return made;
}

const open = async (made) => {
  const page = await made.newPage();
  await page.goto(root);
  await page.waitForFunction(() => document.querySelector("#model").textContent !== "qrun");
  return page;
};
const texts = (page) => page.$$eval("article .body", (nodes) => nodes.map((node) => node.innerText));
const idle = (page) => page.waitForFunction(() => document.querySelector("#stop").hidden && document.querySelector("article.assistant .stats, article.error"));
const say = async (page, text) => {
  await page.fill("#text", text);
  await page.press("#text", "Enter");
};
const answered = async (page, text) => {
  await say(page, text);
  await page.waitForFunction((said) => [...document.querySelectorAll("article .body")].some((node) => node.innerText === said), text);
  await idle(page);
};
// Long answers, to be stopped.
const talkative = async (page) => {
  await page.click("#tune");
  for (const [name, value] of [["temperature", "3"], ["top_p", "1"], ["top_k", "0"], ["min_p", "0"]]) await page.fill(`[name=${name}]`, value);
  await page.press("[name=min_p]", "Tab");
};
const stored = (page) => page.evaluate(() => new Promise((resolve) => {
  const request = indexedDB.open("qrun");
  request.onsuccess = () => {
    const all = request.result.transaction("chats").objectStore("chats").getAll();
    all.onsuccess = () => resolve(all.result.map((chat) => chat.messages.map((message) => message.content)));
  };
}));

const cases = {
  async "an answer, its numbers, and the same after a reload"() {
    const page = await open(await context({ viewport: { width: 1100, height: 750 } }));
    await answered(page, "What is qrun?");
    const said = await texts(page);
    assert.equal(said.length, 2);
    assert.ok(said[1].length > 10, said[1]);
    assert.match(await page.textContent(".stats"), /\d+ tokens · [\d.]+ tokens\/s · \d+ of \d+ prompt tokens cached/);
    if (screenshot) await page.screenshot({ path: screenshot });
    await page.reload();
    await page.waitForSelector("article.assistant");
    assert.deepEqual(await texts(page), said);
  },
  async "Esc stops an answer"() {
    const page = await open(await context());
    await talkative(page);
    // The demo model may be done before the key is down: then it is asked again.
    for (let tries = 0; tries < 20 && !/stopped/.test(await page.$$eval(".stats", (all) => all.map((one) => one.textContent).join())); tries++) {
      await say(page, "Tell a long story.");
      await page.waitForFunction(() => !document.querySelector("#stop").hidden || document.querySelector(".stats"));
      await page.keyboard.press("Escape");
      await idle(page);
    }
    assert.match(await page.$$eval(".stats", (all) => all.at(-1).textContent), /stopped/);
  },
  async "an edited message and another answer take the place of the old ones"() {
    const page = await open(await context());
    await answered(page, "Hello!");
    await page.click("article.user footer button");
    await page.fill("article textarea", "What is qrun?");
    await page.press("article textarea", "Enter");
    await idle(page);
    assert.equal((await texts(page))[0], "What is qrun?");
    await page.click("article.assistant footer button");
    await idle(page);
    assert.equal((await texts(page)).length, 2);
  },
  async "what two tabs say at once is kept"() {
    const made = await context();
    const first = await open(made);
    await answered(first, "Hello!");
    const second = await open(made);
    await second.click("nav button");
    await second.waitForSelector("article");
    await Promise.all([answered(first, "From one"), answered(second, "From two")]);
    const all = (await stored(first)).flat();
    assert.ok(all.includes("From one") && all.includes("From two"), JSON.stringify(all));
  },
  async "a telephone in the dark"() {
    const page = await open(await context({ viewport: { width: 390, height: 800 }, colorScheme: "dark" }));
    await answered(page, "Hello!");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  },
  async "no error in the console, no request elsewhere"() {
    assert.deepEqual([errors, foreign], [[], []]);
  },
};

let failed = 0;
for (const [name, run] of Object.entries(cases)) {
  try {
    await run();
  } catch (error) {
    failed += 1;
    console.log(`--- ${name}\n${error.stack}`);
  }
}
await browser.close();
console.log(`${Object.keys(cases).length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
