"""What is missing skips a test, unless the environment requires it."""

from __future__ import annotations

import pytest

from tests.faults.requirements import VARIABLE, require


def test_what_is_missing_skips_a_test(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    require("mount", None)
    with pytest.raises(pytest.skip.Exception, match="mount is missing: not root"):
        require("mount", "not root")
    assert "not root" in capsys.readouterr().out


def test_what_is_required_fails_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "netns, mount")
    require("mount", None)
    with pytest.raises(pytest.fail.Exception, match="not root"):
        require("mount", "not root")
    with pytest.raises(pytest.skip.Exception):
        require("disk", "too small")
