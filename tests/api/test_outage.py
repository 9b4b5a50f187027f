"""The server while its database is away, and after."""

from pathlib import Path

from anyio import to_thread

from house import PROJECT, House, house
from postgres import Server


async def status(here: House, method: str, path: str) -> tuple[int, str, str | None]:
    answer = await here.client.request(method, path, json={"metadata": {"name": "x"}} if method == "POST" else None)
    return answer.status_code, answer.json().get("reason", ""), answer.headers.get("Retry-After")


async def test_a_request_is_asked_to_come_back_and_the_server_stays(own_postgres: Server, tmp_path: Path) -> None:
    async with house(tmp_path / "home", own_postgres.database()) as here:
        await here.agent()
        await to_thread.run_sync(own_postgres.stop)
        for method in ("GET", "POST"):
            assert await status(here, method, f"{PROJECT}/agents") == (503, "Unavailable", "1")
        await to_thread.run_sync(own_postgres.start)
        assert (await here.client.get(f"{PROJECT}/agents/helper")).status_code == 200
        ended, _, answer = await here.finished("go [[fake:tool_calls=0]]")
        assert (ended["phase"], bool(answer)) == ("Succeeded", True)
