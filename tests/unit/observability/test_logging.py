"""A log line is one line, says its action, and keeps secrets."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from halfhitch.observability.logging import JsonFormatter, TextFormatter, mask_also, set_up

SECRET = "open-sesame-1234"
logger = logging.getLogger("halfhitch.test")


@pytest.fixture(autouse=True)
def _root_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, logging.raiseExceptions)
    yield
    root.handlers[:], _, logging.raiseExceptions = before
    root.setLevel(before[1])


def lines(form: str, **options: object) -> tuple[io.StringIO, logging.Logger]:
    stream = io.StringIO()
    set_up(form=form, stream=stream, **options)  # type: ignore[arg-type]
    return stream, logger


def test_a_text_line_has_time_level_logger_sentence_and_action() -> None:
    stream, log = lines("text")
    log.info(
        "took over partition %d", 3, extra={"action": "partition_taken", "partition": 3, "z": None}
    )
    line = stream.getvalue()
    assert line.endswith(
        "Z INFO    halfhitch.test: took over partition 3 "
        "[action=partition_taken partition=3 z=None]\n"
    )
    assert line[:4].isdigit()


def test_a_json_line_is_one_object_with_the_fields() -> None:
    stream, log = lines("json")
    log.warning("näher", extra={"action": "closer", "count": 2, "is_late": False})
    row = json.loads(stream.getvalue())
    assert row.pop("time").endswith("Z")
    assert row == {
        "level": "warning",
        "logger": "halfhitch.test",
        "message": "näher",
        "action": "closer",
        "count": 2,
        "is_late": False,
    }


def test_no_field_can_pass_itself_off_as_the_level() -> None:
    stream, log = lines("json")
    log.error("x", extra={"level": "debug", "time": "never", "logger": "l", "exception": "none"})
    row = json.loads(stream.getvalue())
    assert row["level"] == "error"
    assert row["time"] != "never"
    assert "exception" not in row


@pytest.mark.parametrize("form", ["text", "json"])
def test_text_of_a_users_cannot_begin_a_line_of_its_own(form: str) -> None:
    stream, log = lines(form)
    log.info("topic %s", "a\n2026 ERROR forged\r\x1b[31m", extra={"group": "g\nh"})
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert "\r" not in stream.getvalue()


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_masked_wherever_they_appear(form: str) -> None:
    stream, log = lines(form, secrets=[SECRET, "sesame", "x"])
    try:
        raise ValueError(f"cannot log in with {SECRET}")
    except ValueError:
        log.exception("tried %s", SECRET, extra={"url": f"redis://:{SECRET}@h", "list": [SECRET]})
    log.warning("exactly", stack_info=True, extra={"password": SECRET})
    written = stream.getvalue()
    assert "sesame" not in written
    assert written.count("***") >= 5
    assert "exactly" in written  # a secret of one letter is not searched for


def test_a_traceback_is_indented_in_text_and_a_field_in_json() -> None:
    for form in ("text", "json"):
        stream, log = lines(form)
        try:
            raise KeyError("k")
        except KeyError:
            log.exception("failed")
        written = stream.getvalue()
        if form == "json":
            assert "KeyError" in json.loads(written)["exception"]
        else:
            first, *rest = written.splitlines()
            assert first.endswith("failed")
            assert rest
            assert all(line.startswith("    ") for line in rest)


def test_levels_are_obeyed_and_libraries_are_quiet() -> None:
    stream, log = lines("text", level="warning")
    log.info("no")
    assert stream.getvalue() == ""
    stream, log = lines("text", level="debug")
    logging.getLogger("asyncio").info("no")
    logging.getLogger("asyncio").debug("no")
    log.debug("yes")
    assert stream.getvalue().count("\n") == 1


def test_setting_up_twice_writes_each_line_once() -> None:
    lines("text")
    stream, log = lines("json")
    log.info("once")
    assert stream.getvalue().count("\n") == 1


def test_formatters_without_secrets_work_alone() -> None:
    record = logging.LogRecord("n", logging.INFO, "f", 1, "m", None, None)
    assert "m" in TextFormatter().format(record)
    assert json.loads(JsonFormatter().format(record))["message"] == "m"


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_that_came_later_are_masked_too_and_those_of_before_stay_so(form: str) -> None:
    stream, log = lines(form, secrets=[SECRET])
    mask_also(["another-secret", "abc"])
    log.warning("%s, another-secret and abc", SECRET)
    assert SECRET not in stream.getvalue()
    assert "another-secret" not in stream.getvalue()
    assert "abc" in stream.getvalue()
