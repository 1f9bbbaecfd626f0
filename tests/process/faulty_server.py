"""A scripted server that misbehaves on purpose: `faulty_server.py --script NAME <llama-server flags>`.

It keeps the promise of `pytest_ngram.engine.handshake` by hand, so that it depends on nothing, and answers
`/health`, `/slots` and `/completion`. The scripts are the keys of `SCRIPTS`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SCRIPTS = {
    "ok": "answers at once",
    "slow-start": "says its address after 0.7 s",
    "loading": "says its address at once, and is healthy after 0.7 s",
    "never-ready": "says its address and is never healthy",
    "silent": "never says its address",
    "babble": "says something else than its address",
    "exit-0-early": "ends with exit code 0 before it is ready",
    "no-mtp": "ends with exit code 1 and the log line of a model without a MTP block",
    "foreign-port": "says the address of another process (environment FOREIGN_URL)",
    "segfault": "dies of SIGSEGV in the middle of a request",
    "killed": "dies of SIGKILL in the middle of a request",
    "exit-mid-request": "ends with exit code 1 in the middle of a request",
    "hang": "never answers a request; /slots stands still",
    "deaf": "never answers a request, nor /slots",
    "slow": "takes 2.5 s for a request; /slots shows progress",
    "refuse": "answers a request with an error",
    "log-flood": "writes 40 MB to its log, and goes on",
    "polite": "says so when SIGTERM comes, takes 0.5 s to save its work, and ends with exit code 0",
    "immortal": "says so when SIGTERM comes, and goes on",
    "parent": "starts a process of its own and ignores SIGTERM",
}

TIMINGS = {"prompt_n": 3, "prompt_ms": 1.0, "predicted_n": 2, "predicted_ms": 1.0}
ANSWER = {"content": "ab", "tokens": [1, 2], "stop_type": "limit", "timings": TIMINGS, "tokens_evaluated": 3}


class Handler(BaseHTTPRequestHandler):
    """Answers as the script says."""

    script = "ok"
    healthy_at = 0.0
    n_decoded = 0
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        return

    def answer(self, body: object, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.path == "/health":
            ready = time.monotonic() >= self.healthy_at and self.script != "never-ready"
            self.answer({"status": "ok" if ready else "loading"}, 200 if ready else 503)
        elif self.path == "/slots":
            if self.script == "deaf":
                time.sleep(3600)
            busy = {"n_decoded": Handler.n_decoded}
            self.answer(
                [{"id": 0, "is_processing": True, "n_prompt_tokens_processed": 3, "next_token": [busy]}]
            )
        else:
            self.answer({"error": {"message": "File Not Found"}}, 404)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.script == "segfault":
            die(signal.SIGSEGV)
        elif self.script == "killed":
            die(signal.SIGKILL)
        elif self.script == "exit-mid-request":
            os._exit(1)
        elif self.script in ("hang", "deaf"):
            time.sleep(3600)
        elif self.script == "slow":
            for _ in range(25):
                time.sleep(0.1)
                Handler.n_decoded += 1
        if self.script == "refuse":
            self.answer({"error": {"code": 400, "message": "Prompt contains invalid tokens"}}, 400)
        else:
            self.answer(ANSWER)


def die(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(3600)  # the signal may take another thread first


def announce(url: str) -> None:
    line = json.dumps({"url": url, "pid": os.getpid(), "package": "faulty", "version": "1", "build": "b0"})
    fd = int(os.environ["PYTEST_NGRAM_READY_FD"])
    os.write(fd, line.encode() + b"\n")
    os.close(fd)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def write_line(line: str) -> None:
    """Straight to the log: a signal may come while `say` is writing."""
    os.write(1, line.encode() + b"\n")


def save_and_end(*_: object) -> None:
    write_line("SIGTERM: saving")
    time.sleep(0.5)
    write_line("saved")
    os._exit(0)


def prepare(script: str) -> None:
    """What happens before the address is known."""
    if script == "exit-0-early":
        say("nothing to do")
        sys.exit(0)
    if script == "no-mtp":
        say("E srv    load_model: failed to create MTP context")
        sys.exit(1)
    if script == "babble":
        os.write(int(os.environ["PYTEST_NGRAM_READY_FD"]), b"hello\n")
    if script in ("silent", "babble"):
        time.sleep(3600)
    if script == "slow-start":
        time.sleep(0.7)
    if script == "polite":
        signal.signal(signal.SIGTERM, save_and_end)
    if script == "immortal":
        signal.signal(signal.SIGTERM, lambda *_: write_line("SIGTERM: ignored"))
    if script == "parent":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "3600"])
        say(f"child {child.pid}")
    if script == "log-flood":
        flood(40)
        threading.Thread(target=flood, args=(400,), daemon=True).start()


def flood(megabytes: int) -> None:
    for number in range(megabytes):
        sys.stdout.write((f"line {number} " + "x" * 90 + "\n") * 10_000)
        sys.stdout.flush()
        if megabytes > 100:
            time.sleep(0.1)


def main() -> None:
    script = sys.argv[sys.argv.index("--script") + 1]
    if script not in SCRIPTS:
        sys.exit(f"no script {script!r}; there are {', '.join(SCRIPTS)}")
    prepare(script)
    Handler.script = script
    Handler.healthy_at = time.monotonic() + (0.7 if script == "loading" else 0.0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    announce(
        os.environ["FOREIGN_URL"] if script == "foreign-port" else f"http://127.0.0.1:{server.server_port}"
    )
    server.serve_forever()


if __name__ == "__main__":
    main()
