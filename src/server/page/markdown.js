// A small view of Markdown: text becomes nodes. All text goes through textContent; nothing is parsed as HTML.
// `blocks` and `spans` are plain data, so that they can be tested without a page.

const FENCE = /^\s*(```+|~~~+)\s*([\w+#.-]*)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;

/** The blocks of a text: {kind: "heading" | "code" | "list" | "text", …}. A fence that is still open is code. */
export function blocks(text) {
  const out = [];
  const lines = text.split("\n");
  for (let i = 0; i < lines.length; ) {
    const fence = FENCE.exec(lines[i]);
    const heading = HEADING.exec(lines[i]);
    if (fence) {
      const body = [];
      for (i++; i < lines.length && !closes(lines[i], fence[1]); i++) body.push(lines[i]);
      i++;
      out.push({ kind: "code", language: fence[2], text: body.join("\n") });
    } else if (heading) {
      out.push({ kind: "heading", level: heading[1].length, text: heading[2] });
      i++;
    } else if (ITEM.test(lines[i])) {
      const first = ITEM.exec(lines[i]);
      const ordered = /\d/.test(first[2]);
      const items = [];
      for (; i < lines.length; i++) {
        const item = ITEM.exec(lines[i]);
        if (item && /\d/.test(item[2]) === ordered) items.push({ depth: Math.floor(item[1].length / 2), text: item[3] });
        else if (!item && /^\s+\S/.test(lines[i])) items.at(-1).text += "\n" + lines[i].trim();
        else break;
      }
      out.push({ kind: "list", ordered, start: ordered ? parseInt(first[2], 10) : 1, items });
    } else if (lines[i].trim() === "") {
      i++;
    } else {
      const body = [];
      for (; i < lines.length && lines[i].trim() && !FENCE.test(lines[i]) && !HEADING.test(lines[i]) && !ITEM.test(lines[i]); i++) body.push(lines[i]);
      out.push({ kind: "text", text: body.join("\n") });
    }
  }
  return out;
}

function closes(line, mark) {
  const found = line.trim();
  return found.length >= mark.length && found === mark[0].repeat(found.length);
}

const SPAN = /`([^`\n]+)`|\*\*([^\n]+?)\*\*|(?<![\w*])\*([^\s*][^*\n]*?)\*(?![\w*])|(?<!\w)_([^\s_][^_\n]*?)_(?!\w)|\[([^\]\n]+)\]\(([^()\s]+)\)/g;

/** The spans of a line of text: {kind: "text" | "code" | "bold" | "italic" | "link", text, href?}. */
export function spans(text) {
  const out = [];
  let at = 0;
  for (const found of text.matchAll(SPAN)) {
    const [all, code, bold, star, line, label, href] = found;
    if (href !== undefined && !isSafe(href)) continue;
    if (found.index > at) out.push({ kind: "text", text: text.slice(at, found.index) });
    if (code !== undefined) out.push({ kind: "code", text: code });
    else if (bold !== undefined) out.push({ kind: "bold", text: bold });
    else if (href !== undefined) out.push({ kind: "link", text: label, href });
    else out.push({ kind: "italic", text: star ?? line });
    at = found.index + all.length;
  }
  if (at < text.length) out.push({ kind: "text", text: text.slice(at) });
  return out;
}

/** Links lead to pages and mail, never to scripts. */
function isSafe(href) {
  return /^(https?:|mailto:)/i.test(href);
}

const TAGS = { code: "code", bold: "strong", italic: "em" };

function inline(parent, text) {
  for (const span of spans(text)) {
    if (span.kind === "text") {
      parent.append(span.text);
      continue;
    }
    const node = document.createElement(span.kind === "link" ? "a" : TAGS[span.kind]);
    if (span.kind === "link") {
      node.href = span.href;
      node.rel = "noopener noreferrer";
      node.target = "_blank";
    }
    if (span.kind === "code") node.textContent = span.text;
    else inline(node, span.text);
    parent.append(node);
  }
  return parent;
}

function list(block) {
  const make = () => document.createElement(block.ordered ? "ol" : "ul");
  const root = make();
  if (block.ordered) root.start = block.start;
  const open = [root];
  for (const item of block.items) {
    while (open.length > item.depth + 1) open.pop();
    if (open.length < item.depth + 1 && open.at(-1).lastElementChild) {
      const inner = make();
      open.at(-1).lastElementChild.append(inner);
      open.push(inner);
    }
    open.at(-1).append(inline(document.createElement("li"), item.text));
  }
  return root;
}

function code(block) {
  const box = document.createElement("div");
  box.className = "code";
  const pre = document.createElement("pre");
  const inner = document.createElement("code");
  inner.textContent = block.text;
  pre.append(inner);
  const copy = document.createElement("button");
  copy.type = "button";
  copy.textContent = "Copy";
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.text);
    copy.textContent = "Copied";
  });
  box.append(pre, copy);
  return box;
}

/** The nodes of a Markdown text. */
export function render(text) {
  return blocks(text).map((block) => {
    if (block.kind === "code") return code(block);
    if (block.kind === "list") return list(block);
    return inline(document.createElement(block.kind === "heading" ? `h${block.level}` : "p"), block.text);
  });
}
