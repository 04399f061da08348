"""As much of Telegram's Bot API as one chat needs: updates go in, what the bot says comes out.

The strict one is in the Rust tests; here the agents are what is tried.
"""
from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "4242:AAfake"
CHAT = 5


@dataclass
class Said:
    number: int
    texts: list[str]
    """What the message has said, the latest last."""
    deleted: bool = False


@dataclass
class Chat:
    said: list[Said] = field(default_factory=list)
    updates: list[dict] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        chat = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:  # noqa: N802 - the name is http.server's
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                result = chat.call(self.path.rsplit("/", 1)[-1].lower(), json.loads(body or b"{}"))
                answer = json.dumps({"ok": True, "result": result}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                # A server that was stopped while it asked does not wait for its answer.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()

    def call(self, method: str, params: dict):
        with self.news:
            match method:
                case "getme":
                    return {"id": 4242, "is_bot": True, "first_name": "Box", "username": "box_bot", "can_join_groups": True,
                            "can_read_all_group_messages": False, "supports_inline_queries": False,
                            "can_connect_to_business": False, "has_main_web_app": False}
                case "getupdates":
                    offset = params.get("offset", 0)
                    self.updates = [update for update in self.updates if update["update_id"] >= offset]
                    self.news.wait_for(lambda: self.updates, timeout=params.get("timeout", 0))
                    return self.updates
                case "sendmessage":
                    said = Said(len(self.said) + 1000, [params["text"]])
                    self.said.append(said)
                case "editmessagetext" | "deletemessage":
                    said = next(said for said in self.said if said.number == params["message_id"])
                    if method == "deletemessage":
                        said.deleted = True
                        return True
                    said.texts.append(params["text"])
                case _:
                    return True
            self.news.notify_all()
            return {"message_id": said.number, "date": 1, "chat": {"id": CHAT, "type": "private", "first_name": "U"},
                    "text": params["text"]}

    def write(self, text: str) -> None:
        with self.news:
            number = int(time.time()) % 1_000_000 * 100 + len(self.said)
            sender = {"id": 7, "is_bot": False, "first_name": "U"}
            place = {"id": CHAT, "type": "private", "first_name": "U"}
            message = {"message_id": number, "date": 1, "chat": place, "from": sender, "text": text}
            self.updates.append({"update_id": number, "message": message})
            self.news.notify_all()

    def hear(self, text: str, seconds: float) -> Said:
        """Waits until a message says this."""
        with self.news:
            heard = self.news.wait_for(lambda: self.saying(text), timeout=seconds)
            assert heard, f"not said within {seconds} s: {text!r}; {self.said}"
        return heard[0]

    def saying(self, text: str) -> list[Said]:
        """The messages that say this, or have said it."""
        return [said for said in self.said if any(text in one for one in said.texts)]
