"""The demo as others reach it: by requests that no browser would send."""

import json
import re
import signal
import urllib.error
import urllib.request

import pytest

from tests.children import attnx_command

pytest.importorskip("gradio", reason='the demo is made with Gradio: pip install "attnx[demo]"')

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from attnx.demo import LOOPBACK, MAX_UPLOAD, Guard

LOCAL = "http://127.0.0.1:7860"


def client(hosts):
    page = Starlette(routes=[Route("/", lambda request: PlainTextResponse("the page"), methods=["GET", "POST"])])
    return TestClient(Guard(page, hosts))


@pytest.mark.parametrize("address", [LOCAL, "http://localhost:1", "http://[::1]:7860"])
def test_on_this_machine_it_answers_under_the_names_of_this_machine(address):
    assert client(LOOPBACK).get(f"{address}/", headers={"Origin": address}).text == "the page"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:7860"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_under_another_name_or_for_another_page_it_does_not(headers, status):
    assert client(LOOPBACK).get(f"{LOCAL}/", headers=headers).status_code == status


def test_where_others_are_let_in_any_name_may_lead_there():
    headers = {"Host": "demo.example", "Origin": "https://demo.example"}
    assert client(()).get(f"{LOCAL}/", headers=headers).text == "the page"


@pytest.mark.parametrize("length", [{"Content-Length": str(MAX_UPLOAD + 1)}, {"Transfer-Encoding": "chunked"}])
def test_a_request_that_is_too_large_is_not_read(length):
    assert client(()).post(f"{LOCAL}/", headers=length, content=b"x").status_code == 413


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_opens_on_the_model_that_was_named_and_leaves_no_file(children, tmp_path, ending, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    log = (tmp_path.parent / f"{tmp_path.name}.log").open("w+")
    served = children.start(attnx_command("demo", "--model", "recall"), stdout=log, stderr=log)

    def address():
        log.seek(0)
        return re.search(r"http://127\.0\.0\.1:\d+", log.read())

    children.wait_for(served, address)
    local = address()[0]
    config = json.loads(urllib.request.urlopen(f"{local}/config").read())
    model = next(part for part in config["components"] if part["props"].get("label") == "Model")
    assert model["props"]["value"] == "recall"
    for content, status in ((b"x" * 1000, 200), (b"x" * (MAX_UPLOAD + 1), 413)):
        assert upload(local, content) == status
    assert any(path.is_file() for path in tmp_path.rglob("*.png"))
    served.send_signal(ending)
    served.wait(120)
    assert not list(tmp_path.rglob("*.png"))
    log.seek(0)
    assert "Traceback" not in log.read()


def upload(address, content):
    """The status with which a file is taken or refused."""
    head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    request = urllib.request.Request(f"{address}/gradio_api/upload", head + content + b"\r\n--x--\r\n", headers)
    try:
        return urllib.request.urlopen(request, timeout=120).status
    except urllib.error.HTTPError as error:
        return error.code
    except urllib.error.URLError as error:
        if isinstance(error.reason, (BrokenPipeError, ConnectionResetError)):
            return 413  # refused before all of it was sent
        raise
