"""Agents behind the bot and the scheduler: scenarios like those of `scenarios.py`, on servers of their own."""
from __future__ import annotations

import json

from bot_api import CHAT, TOKEN, Chat
from scenarios import HELLO, TOOL_DONE, Stage, scenario, wait_for


@scenario
def telegram(stage: Stage) -> None:
    chat = Chat()
    try:
        stage.new_box({"AICODEBOX_API_MODE": "0", "AICODEBOX_TELEGRAM_MODE": "1", "AICODEBOX_TELEGRAM_MODE_TOKEN": TOKEN,
                       "AICODEBOX_TELEGRAM_MODE_API_URL": chat.address, "TELEGRAM_CHAT_ID": str(CHAT)})
        # A faster tool would be done before there is any progress to show.
        chat.write(f"{stage.tool('TOOLWAIT')} {stage.token}")
        progress = chat.hear("⏳ Working", 60)
        chat.hear(TOOL_DONE, 60)
        wait_for("the progress message goes", lambda: progress.deleted, 10)
        chat.write(f"Say hello {stage.token}")
        chat.hear(HELLO, 60)
        chat.write(f"This is the second turn {stage.token}")
        chat.hear("I remember the first turn. Second answer.", 60)
        heard = stage.sent()[-1].user
        assert "Say hello" in heard and "second turn" in heard, "the conversation did not go on"
    finally:
        chat.stop()


@scenario
def cron(stage: Stage) -> None:
    jobs = stage.box.folder / f"{stage.name}.yml"
    jobs.write_text(json.dumps({"jobs": [{"name": "hello", "schedule": "0 0 1 1 *", "workspace": stage.name,
                                          "instruction": f"Say hello {stage.token}"}]}))
    box = stage.new_box({"AICODEBOX_CRON_MODE": "1", "AICODEBOX_CRON_MODE_FILE": str(jobs)})

    def last() -> dict:
        return box.request("GET", "/cron").json["jobs"][0]["last"] or {}

    done = []
    for _ in range(2):
        answer = box.request("POST", "/cron/hello/run", {})
        assert answer.status == 200, answer.text
        wait_for("the job ends", lambda: last().get("endedAt") not in (None, *(run["endedAt"] for run in done)), 90)
        done.append(last())
        assert done[-1]["status"] == "completed", done[-1]
    first, second = done
    assert first["sessionId"] == second["sessionId"], "the job did not continue its conversation"
    request = stage.sent()[-1].user
    assert first["historyDir"] in request, request[-1000:]
