"""The fixtures, in a run of pytest's own: the tests of docs/testing.md."""

from __future__ import annotations

import os
import subprocess
import sys

from harness.places import ROOT
from harness.snippets import fence_with


def run_pytest(folder, text, *options):
    (folder / "test_shown.py").write_text(text)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("COVERAGE", "HALFHITCH_"))},
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "sidecar"), str(ROOT / "cli")]),
    }
    command = [sys.executable, "-m", "pytest", "-p", "halfhitch.testing.plugin", "-q", *options]
    return subprocess.run(
        [*command, "--strict-markers", "-p", "no:cacheprovider", "--rootdir", folder, folder],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


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
