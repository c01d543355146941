// Chats in IndexedDB. A chat carries the number of its last change; who saves over a newer one gets a copy of their own.

const channel = new BroadcastChannel("qrun-chats");

const opened = new Promise((resolve, reject) => {
  const request = indexedDB.open("qrun", 1);
  request.onupgradeneeded = () => request.result.createObjectStore("chats", { keyPath: "id" });
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

const result = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function chats(mode) {
  return (await opened).transaction("chats", mode).objectStore("chats");
}

/** An empty chat, not saved yet. */
export function fresh() {
  return { id: crypto.randomUUID?.() ?? String(Date.now() + Math.random()), title: "New chat", changed: Date.now(), revision: 0, settings: {}, messages: [] };
}

/** All chats, the latest first. */
export async function all() {
  const found = await result((await chats("readonly")).getAll());
  return found.sort((a, b) => b.changed - a.changed);
}

export async function load(id) {
  return result((await chats("readonly")).get(id));
}

/** Saves a chat and counts its revision up. If another tab has changed it meanwhile, it becomes a copy with an id of its own. */
export async function save(chat) {
  const store = await chats("readwrite");
  const there = await result(store.get(chat.id));
  if (there ? there.revision !== chat.revision : chat.revision > 0) {
    chat.id = fresh().id;
    chat.title += " (copy)";
  }
  chat.revision += 1;
  chat.changed = Date.now();
  await result(store.put(structuredClone(chat)));
  channel.postMessage(chat.id);
}

export async function remove(id) {
  await result((await chats("readwrite")).delete(id));
  channel.postMessage(id);
}

/** Calls back when another tab has changed something. */
export function onChange(call) {
  channel.addEventListener("message", (event) => call(event.data));
}
