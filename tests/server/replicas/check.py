"""A proxy before two servers: python check.py haproxy|nginx QRUN. Ends with 1 if anything is not as the README says."""

import collections
import csv
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
PROXY, QRUN = sys.argv[1:]
SYSTEMS = [f"You are assistant number {i}. Answer in one short sentence, in the words of a {who}." for i, who in enumerate(
    ["sailor", "teacher", "gardener", "pilot", "baker", "judge"])]
EACH = 20
# Of each prompt's requests, how many may go elsewhere, should HAProxy still count an answer that it says has ended.
ELSEWHERE = 1


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until(what, so, seconds=60):
    end = time.monotonic() + seconds
    while not so():
        if time.monotonic() > end:
            sys.exit(f"{PROXY}: {what} does not happen")
        time.sleep(0.05)


def ask(port, system, more=None, stream=False, method="POST", path="/v1/chat/completions"):
    """Sends a request; gives the answer as it begins and its connection."""
    body = {"messages": [{"role": "system", "content": system}, {"role": "user", "content": "Hello!"}], "max_tokens": 4,
            "temperature": 0, "stream": stream} | (more or {})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, json.dumps(body) if method == "POST" else None, {"X-Session-Id": system})
    return connection.getresponse(), connection


def who(answer):
    """Which run of a server gave it: the first 16 digits of its id."""
    return answer.headers["x-request-id"][4:20]


def settle(folder):
    """Waits until HAProxy counts no answer any more: it does for a while after the client has read its end, and a replica with
    one in hand may be over 1.5 × the mean."""
    if PROXY != "haproxy":
        return

    def idle():
        with socket.socket(socket.AF_UNIX) as stats:
            stats.connect(str(folder / "stats"))
            stats.sendall(b"show stat\n")
            rows = csv.DictReader(stats.makefile())
            return sum(int(row["scur"]) for row in rows if row["svname"] in ("a", "b")) == 0

    until("all answers end", idle)


def whole(text, stream):
    return text.rstrip().endswith("data: [DONE]") if stream else "choices" in json.loads(text)


def is_healthy(port):
    try:
        return ask(port, "", method="GET", path="/health")[0].status == 200
    except OSError:
        return False


def configured(folder, front, back):
    """The configuration as it is in the repository, but for ports; how the proxy is started with it."""
    ports = {"8080": front, "8081": back[0], "8082": back[1]}
    name = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf"}[PROXY]
    text = re.sub(r"127\.0\.0\.1:(808[012])", lambda m: f"127.0.0.1:{ports[m[1]]}", (HERE / name).read_text())
    file = folder / name
    if PROXY == "haproxy":
        file.write_text(text.replace("global\n", f"global\n    stats socket {folder}/stats\n", 1))
        return ["haproxy", "-db", "-f", str(file)]
    paths = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    file.write_text(f"daemon off; pid {folder}/pid; error_log stderr crit; events {{}}\nhttp {{ access_log off; {paths}\n{text}\n}}\n")
    return ["nginx", "-p", str(folder), "-c", str(file), "-e", "stderr"]


def check(front, servers, folder):
    def lands(prompt):
        settle(folder)
        return who(ask(front, prompt)[0])

    replica = {who(ask(port, "x")[0]): port for port in servers}
    assert len(replica) == 2

    # Each prompt has a replica, and each replica prompts.
    until("both replicas are used", lambda: len({lands(f"system {i}") for i in range(32)}) == 2)
    landed = collections.defaultdict(collections.Counter)
    for i in range(EACH):
        for system in SYSTEMS:
            stream = i % 2 == 0
            settle(folder)
            answer, _ = ask(front, system, stream=stream)
            text = answer.read().decode()
            assert answer.status == 200 and whole(text, stream), text
            landed[system][who(answer)] += 1
    home = {system: runs.most_common(1)[0][0] for system, runs in landed.items()}
    for system, runs in landed.items():
        assert runs[home[system]] >= EACH - ELSEWHERE, f"{system}: {runs}"
    moved = sum(EACH - runs[home[system]] for system, runs in landed.items())
    share = collections.Counter(home.values())

    # One dies with an answer in hand: that one is lost, all others are not.
    dying = home[SYSTEMS[0]]
    other = next(run for run in replica if run != dying)
    elsewhere = next(prompt for prompt in map("system {}".format, range(1000)) if lands(prompt) == other)
    settle(folder)
    long = {"max_tokens": 3000, "ignore_eos": True}
    lost, _ = ask(front, SYSTEMS[0], long, stream=True)
    kept, _ = ask(front, elsewhere, long, stream=True)
    assert (who(lost), who(kept)) == (dying, other)
    lost.readline(), kept.readline()
    servers[replica[dying]].send_signal(signal.SIGKILL)
    after = collections.Counter()
    for i in range(EACH):
        for system in SYSTEMS:
            stream = i % 2 == 0
            answer, _ = ask(front, system, stream=stream)
            text = answer.read().decode()
            after[answer.status, answer.status == 200 and who(answer) == other and whole(text, stream)] += 1
    assert after == {(200, True): EACH * len(SYSTEMS)}, after
    try:
        cut = not whole(lost.read().decode(), True)
    except (http.client.HTTPException, OSError):
        cut = True
    assert cut, "the answer of a dead server is whole"
    assert whole(kept.read().decode(), True), "the answer of the other server is cut"
    n = EACH * len(SYSTEMS)
    print(f"{PROXY}: {n} requests of {len(SYSTEMS)} prompts, each on one replica ({' + '.join(map(str, share.values()))}) but {moved}; "
          f"one killed: 1 answer in hand lost, {n} of {n} after it from the other")


def main():
    started = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        try:
            servers = {}
            for _ in range(2):
                port = free_port()
                command = [QRUN, "serve", "--port", str(port), "--device", "cpu", "-c", "8192", "-np", "4"]
                servers[port] = subprocess.Popen(command, stderr=subprocess.DEVNULL)
                started.append(servers[port])
            for port in servers:
                until("a server is ready", lambda: is_healthy(port))
            front = free_port()
            started.append(subprocess.Popen(configured(folder, front, list(servers))))
            until("the proxy answers", lambda: is_healthy(front))
            check(front, servers, folder)
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(30)


main()
