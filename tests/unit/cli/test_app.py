"""The root of the command line: help, version, errors as one line, exit codes."""

import pytest

import halfhitch
from halfhitch.embedded import EmbeddedError
from halfhitch.errors import BackendError, ConfigurationError, HalfHitchError, TopologyError
from halfhitch_cli import root
from halfhitch_cli.app import main
from halfhitch_cli.speed import version_text

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(("is_compiled", "is_native"), [(True, False), (False, True), (True, True)])
def test_the_version_says_which_fast_parts_are_here(
    is_compiled: bool, is_native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(halfhitch, "is_compiled", lambda: is_compiled)
    monkeypatch.setattr(halfhitch, "is_native", lambda: is_native)
    first, *others = version_text().splitlines()
    names = ["compiled"] * is_compiled + ["native"] * is_native + ["uvloop"]
    assert first == f"halfhitch {halfhitch.__version__} ({', '.join(names)})"
    assert len(others) == 3 - len(names)
    assert all(line.startswith("Faster with ") for line in others)


@pytest.mark.parametrize("is_native", [True, False])
def test_doctor_says_which_fast_parts_are_here(
    is_native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from halfhitch_cli.commands.doctor import _speed

    monkeypatch.setattr(halfhitch, "is_native", lambda: is_native)
    finding = _speed()
    assert finding.severity == "ok"
    assert "uvloop" in finding.sentence
    assert ("the native way" in finding.sentence) is is_native
    assert ("--find-links dist 'halfhitch[speed]'" in finding.remedy) is not is_native


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["statsu"], ["'statsu'", "Did you mean 'status'?"]),
        (["zzz"], ["'zzz'", "halfhitch --help"]),
        (["--bad"], ["--bad", "halfhitch --help"]),
        (["status", "--admin-prt", "1"], ["--admin-prt", "--admin-port", "status --help"]),
        (["status", "-o", "xml"], ["table", "json", "yaml"]),
        (["status", "surplus"], ["surplus"]),
        (["status", "--admin-port", "many"], ["admin.port", "whole number", "--admin-port"]),
        (["serve"], ["kafka.bootstrap", "HALFHITCH_KAFKA_BOOTSTRAP"]),
        (["serve", "--kafka-bootstrap", "k:1"], ["handle.key", "keygen"]),
        (["topics", "inti"], ["inti"]),
        (["dev", "--topic", "a b"], ["--topic", "orders:4"]),
        (["dev", "--topic", "a:0"], ["--topic"]),
        (["tx", "trace", "-dash"], ["write -- before it", "`halfhitch tx trace -- -d...`"]),
    ],
)
def test_wrong_usage_is_one_line_with_the_next_step(
    arguments: list[str], words: list[str], capsys: Capture
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("halfhitch: ")
    assert err.count("\n") == 1
    assert all(word in err for word in words), err


def test_wrong_variables_are_refused_by_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("HALFHITCH_ADMIN_PROT", "1")
    code, _, err = run(capsys, "status")
    assert code == 2
    assert "did you mean HALFHITCH_ADMIN_PORT?" in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HalfHitchError("a sentence."), 1),
        (BackendError("a sentence."), 1),
        (TopologyError("a sentence."), 1),
        (ConfigurationError("a sentence."), 2),
        (EmbeddedError("a sentence."), 1),
    ],
)
def test_errors_on_purpose_show_no_traceback(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(root, "app", fail)
    assert main(["x"]) == code
    assert capsys.readouterr().err == "halfhitch: a sentence.\n"


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(root, "app", fail)
    with pytest.raises(ZeroDivisionError):
        main(["x"])


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    from halfhitch_cli.commands import keygen

    def interrupt(_: int) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(keygen.secrets, "token_urlsafe", interrupt)
    assert main(["keygen"]) == 130


def test_keygen_prints_a_key_that_serve_takes(capsys: Capture) -> None:
    keys = {run(capsys, "keygen")[1].strip() for _ in range(3)}
    assert len(keys) == 3
    assert all(len(key) >= 43 and "," not in key and key.isascii() for key in keys)


def test_python_m_works() -> None:
    import halfhitch_cli.__main__ as module

    assert module.main is main
