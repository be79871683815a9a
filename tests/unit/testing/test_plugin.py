"""The fixtures, in a run of pytest's own: the tests of docs/testing.md."""

from __future__ import annotations

import pytest

from harness.pytest_runs import run_pytest
from harness.snippets import fence_with


def test_the_page_s_tests_of_a_service_pass(tmp_path):
    ended = run_pytest(tmp_path, fence_with("docs/testing.md", "class Shop", "@topics"))
    assert "3 passed" in ended.stdout, ended.stdout + ended.stderr


def test_a_shop_that_forgets_its_check_is_found_out(tmp_path):
    shown = fence_with("docs/testing.md", "class Shop", "@topics")
    forgetful = shown.replace("check=self.barrier.check", "answers_checks=False")
    assert forgetful != shown
    ended = run_pytest(tmp_path, forgetful)
    assert "1 failed, 2 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "although_the_shop_ended" in ended.stdout


def test_the_page_s_program_without_a_fixture_runs():
    exec(compile(fence_with("docs/testing.md", "checks.count_max"), "docs/testing.md", "exec"), {})


TAKES_A_SIDECAR = "def test_it(halfhitch_sidecar):\n    pass\n"


def test_a_container_without_an_engine_is_refused_in_one_sentence(tmp_path):
    pytest.importorskip("testcontainers")
    ended = run_pytest(
        tmp_path,
        TAKES_A_SIDECAR,
        "--halfhitch-sidecar=container",
        DOCKER_HOST=f"unix://{tmp_path}/docker.sock",
        HALFHITCH_TEST_KAFKA="127.0.0.1:1",
    )
    assert "NoContainer: No container engine answers" in ended.stdout, ended.stdout + ended.stderr


def test_a_kind_that_does_not_exist_is_refused_with_those_that_do(tmp_path):
    ended = run_pytest(tmp_path, TAKES_A_SIDECAR, "--halfhitch-sidecar=image")
    assert "choose from process, container" in ended.stderr.replace("'", "")


def test_the_configuration_of_pytest_says_it_once_for_all(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nhalfhitch_sidecar = vessel\n")
    ended = run_pytest(tmp_path, TAKES_A_SIDECAR)
    assert "halfhitch_sidecar is 'vessel': say process or container" in ended.stdout, ended.stdout
