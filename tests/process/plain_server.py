"""A scripted program that stands where a llama-server binary would: `plain_server.py SCRIPT <flags>`.

It knows nothing of this package: it listens, logs what llama-server logs, and ends by a signal only. The
scripts are the keys of `SCRIPTS`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SCRIPTS = {
    "ok": "logs where it listens",
    "zero": "was given port 0 and logs that 0, as a build would that does not ask which port it got",
    "quiet": "logs nothing",
    "older": "logs in the words of older builds",
    "silent": "never listens",
    "sigill": "logs which instructions it was built for, and dies of SIGILL",
    "usage": "gives up with the words of a wrong argument",
    "beside": "starts the server as another process and waits for it",
}
SYSTEM_INFO = "0.00.007.369 I cmn  common_param: system_info: n_threads = 1 / 2 | CPU : SSE3 = 1 | {} = 1 | "


class Handler(BaseHTTPRequestHandler):
    """Says that it is healthy."""

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def prepare(script: str) -> None:
    """What happens before it listens."""
    if script == "silent":
        time.sleep(3600)
    if script == "sigill":
        say(SYSTEM_INFO.format(os.environ.get("BUILT_FOR", "AMX_INT8")))
        os.kill(os.getpid(), signal.SIGILL)
        time.sleep(3600)
    if script == "usage":
        say('error while handling argument "-ctk": Unsupported cache type: q9_9')
        sys.exit(1)
    if script == "beside":
        sys.exit(subprocess.call([sys.executable, __file__, "ok"]))


def main() -> None:
    script = sys.argv[1]
    if script not in SCRIPTS:
        sys.exit(f"no script {script!r}; there are {', '.join(SCRIPTS)}")
    prepare(script)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    if script == "ok":
        say(f"0.00.064.829 I srv          init: listening on {url}")
    elif script == "zero":
        say("0.00.064.829 I srv          init: listening on http://127.0.0.1:0")
    elif script == "older":
        say(f"main: server is listening on {url} - starting the main loop")
    server.serve_forever()


if __name__ == "__main__":
    main()
