"""Where settings come from, and everything that is refused on the way."""

import contextlib
import random
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from halfhitch.config import SETTINGS, Purpose, Setting, load
from halfhitch.config.load import _convert, bounds, expected
from halfhitch.errors import ConfigurationError

BASE: dict[str, object] = {"kafka.bootstrap": "kafka:9092", "handle.key": "k" * 32}
SECRET = "a-very-secret-secret"


def refusal(
    flags: dict[str, object] | None = None,
    environ: dict[str, str] | None = None,
    config_path: Path | None = None,
) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load({**BASE, **(flags or {})}, environ=environ, config_path=config_path)
    sentence = caught.value.message
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def write(folder: Path, text: str) -> Path:
    path = folder / "halfhitch.toml"
    path.write_text(text)
    return path


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(tmp_path: Path) -> None:
    path = write(tmp_path, '[http]\nport = 1\nhost = "127.0.0.2"\nidle_s_max = 5\n')
    environ = {"HALFHITCH_HTTP_PORT": "2", "HALFHITCH_HTTP_HOST": "127.0.0.3"}
    settings = load({**BASE, "http.port": "3"}, environ=environ, config_path=path)
    assert (settings.http.port, settings.http.host) == (3, "127.0.0.3")
    assert (settings.http.idle_s_max, settings.messages.bytes_max) == (5.0, 1_000_000)
    assert settings.sources["http.port"] == "flag --http-port"
    assert settings.sources["http.host"] == "env HALFHITCH_HTTP_HOST"
    assert settings.sources["http.idle_s_max"] == f"file {path}"
    assert "messages.bytes_max" not in settings.sources


def test_the_environment_can_name_the_file_and_a_flag_wins_over_that(tmp_path: Path) -> None:
    path = write(tmp_path, "[http]\nport = 1\n")
    assert load(BASE, environ={"HALFHITCH_CONFIG": str(path)}).http.port == 1
    other = tmp_path / "other.toml"
    other.write_text("[http]\nport = 2\n")
    environ = {"HALFHITCH_CONFIG": str(path)}
    assert load(BASE, environ=environ, config_path=other).http.port == 2


#: A good text for every setting, and what it becomes.
TEXTS: dict[str, tuple[str, object]] = {
    "kafka.bootstrap": ("a:1,b:2", "a:1,b:2"),
    "kafka.options": ("client.rack=a,broker.address.family=v4", None),
    "kafka.start_wait_s": ("1.5", 1.5),
    "http.host": ("127.0.0.9", "127.0.0.9"),
    "http.socket": ("/run/h.sock", Path("/run/h.sock")),
    "http.hosts": ("a, b:1", ("a", "b:1")),
    "topics.prefix": ("", ""),
    "topics.allow": ("a,b", ("a", "b")),
    "topics.create": ("true", True),
    "instance.id": ("shop-1", "shop-1"),
    "owner.enabled": ("false", False),
    "ledger.horizon_s": ("100", 100),
    "log.level": ("debug", "debug"),
    "log.format": ("json", "json"),
}


@pytest.mark.parametrize("key", TEXTS)
def test_flag_and_variable_mean_the_same(key: str) -> None:
    text, value = TEXTS[key]
    setting = next(s for s in SETTINGS if s.key == key)
    flags = {name: given for name, given in BASE.items() if name != key}
    by_flag = load({**flags, key: text})
    by_env = load(flags, environ={setting.env: text})
    assert by_flag.value_of(key) == by_env.value_of(key)
    if value is not None:
        assert by_flag.value_of(key) == value


def good_text(setting: Setting) -> str:
    if setting.key in TEXTS:
        return TEXTS[setting.key][0]
    if setting.plain_type is bool:
        return "true"
    if setting.plain_type in (int, float):
        metas = bounds(setting)
        low = max((part.ge for part in metas if part.ge is not None), default=None)
        high = next((part.le for part in metas if part.le is not None), None)
        return str(high if low is None else low)
    if get_origin(setting.plain_type) is Literal:
        return str(get_args(setting.plain_type)[0])
    return "a"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_a_setting_could_not_be_set_at_all(setting: Setting) -> None:
    # Bounds beside `| None` were a TypeError, which was told as the user's.
    text = good_text(setting)
    value = _convert(setting, text, f"flag {setting.flag}")
    assert _convert(setting, text, f"env {setting.env}") == value
    if setting.plain_type in (bool, int, float):
        native = value if setting.plain_type is bool else setting.plain_type(text)
        assert _convert(setting, native, "file x") == value
        assert type(value) is setting.plain_type


def test_a_number_that_may_be_left_out_had_no_bounds_in_words() -> None:
    key = "audit.replication_factor"
    assert load({**BASE, key: "2"}).audit.replication_factor == 2
    for wrong in ("0", "33", "x"):
        sentence = refusal({key: wrong})
        assert f"must be a whole number from 1 to 32, not '{wrong}'" in sentence
    setting = next(s for s in SETTINGS if s.key == key)
    assert setting.metavar == "INTEGER"


def test_a_file_has_tables_arrays_and_native_values(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        [kafka]
        bootstrap = "kafka:9092"
        start_wait_s = 5
        [kafka.options]
        "client.rack" = "a"
        socket.keepalive.enable = true
        [topics]
        allow = ["shop.*", "points"]
        [owner]
        enabled = false
        """,
    )
    settings = load({"handle.key": "k" * 16}, config_path=path)
    assert settings.kafka.start_wait_s == 5.0
    assert dict(settings.kafka.options) == {"client.rack": "a", "socket.keepalive.enable": "true"}
    assert settings.topics.allow == ("shop.*", "points")
    assert settings.owner.enabled is False


@pytest.mark.parametrize(
    "given",
    [
        "client.rack=a,ssl.cipher.suites=x,y,security.protocol=SSL",
        "client.rack=a, ssl.cipher.suites=x,y,\tsecurity.protocol =SSL",
        ["client.rack=a", "ssl.cipher.suites=x,y", "security.protocol=SSL"],
        '{"client.rack": "a", "ssl.cipher.suites": "x,y", "security.protocol": "SSL"}',
        {"client.rack": "a", "ssl.cipher.suites": "x,y", "security.protocol": "SSL"},
    ],
)
def test_kafka_options_come_as_pairs_json_or_a_table(given: object) -> None:
    settings = load({**BASE, "kafka.options": given})
    assert dict(settings.kafka.options) == {
        "client.rack": "a",
        "ssl.cipher.suites": "x,y",
        "security.protocol": "SSL",
    }


@pytest.mark.parametrize("given", ["rack", "=x", "{", "{1: 2}", ["client.rack=a", ""], [3]])
def test_kafka_options_that_are_no_pairs_are_refused(given: object) -> None:
    assert "kafka.options" in refusal({"kafka.options": given})


def test_unknown_names_are_refused_with_the_nearest_one(tmp_path: Path) -> None:
    assert "did you mean http.port?" in refusal({"http.prt": 1})
    assert "did you mean HALFHITCH_HTTP_PORT?" in refusal(environ={"HALFHITCH_HTPP_PORT": "1"})
    assert "did you mean HALFHITCH_ADDRESS?" in refusal(environ={"HALFHITCH_ADRESS": "1"})
    assert "did you mean HALFHITCH_REDIS_URL?" in refusal(environ={"HALFHITCH_REDIS_ADDRESS": "1"})
    assert "HALFHITCH_KAFKA_BOOTSTRAP?" in refusal(environ={"HALFHITCH_KAFKA_SERVERS": "1"})
    path = write(tmp_path, "[http]\nporrt = 1\n")
    sentence = refusal(config_path=path)
    assert "did you mean http.port?" in sentence
    assert str(path) in sentence
    assert "?" not in refusal(config_path=write(tmp_path, "zzzzzzzz = 1\n"))
    assert "http" in refusal(config_path=write(tmp_path, "http = 1\n"))


def test_variables_that_are_not_settings_are_let_alone() -> None:
    environ = {
        "HALFHITCH_CACHE_DIR": "/cache",
        "HALFHITCH_TEST_KAFKA": "kafka:9092",
        "PATH": "/bin",
        # What Kubernetes adds for the Services "halfhitch" and "halfhitch-http".
        "HALFHITCH_SERVICE_HOST": "10.0.0.1",
        "HALFHITCH_SERVICE_PORT": "8340",
        "HALFHITCH_SERVICE_PORT_HTTP": "8340",
        "HALFHITCH_PORT": "tcp://10.0.0.1:8340",
        "HALFHITCH_PORT_8340_TCP": "tcp://10.0.0.1:8340",
        "HALFHITCH_PORT_8340_TCP_PROTO": "tcp",
        "HALFHITCH_PORT_8340_TCP_PORT": "8340",
        "HALFHITCH_PORT_8340_TCP_ADDR": "10.0.0.1",
        "HALFHITCH_HTTP_PORT": "tcp://10.0.0.2:8340",
    }
    settings = load(BASE, environ=environ)
    assert settings.http.port == 8340
    assert "http.port" not in settings.sources


#: A wrong text for every kind of setting.
WRONG: list[tuple[str, object]] = [
    ("http.port", "many"),
    ("http.port", "-1"),
    ("http.port", "65536"),
    ("http.port", ""),
    ("http.port", "1.5"),
    ("http.port", []),
    ("http.host", ""),
    ("http.socket", ""),
    ("http.idle_s_max", "nan"),
    ("http.idle_s_max", "inf"),
    ("http.idle_s_max", "0"),
    ("owner.enabled", "perhaps"),
    ("log.level", "loud"),
    ("topics.allow", ""),
    ("topics.allow", []),
    ("topics.prefix", "no spaces"),
    ("instance.id", "a/b"),
    ("auth.tokens", "a,b,c"),
    ("handle.key", ""),
    ("ledger.finished_max", "999"),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_a_wrong_value_is_refused_with_name_source_and_what_would_be_right(
    key: str, value: object
) -> None:
    setting = next(s for s in SETTINGS if s.key == key)
    sentence = refusal({key: value})
    assert sentence.startswith(key)
    assert expected(setting) in sentence
    assert setting.flag in sentence


@pytest.mark.parametrize("text", ["8340\n", " 8340", "84\n00", "\t1"])
def test_blanks_and_line_breaks_are_refused(text: str) -> None:
    assert "line breaks" in refusal(environ={"HALFHITCH_HTTP_PORT": text})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("port", '"8340"'),
        ("port", "true"),
        ("port", "1.5"),
        ("idle_s_max", '"5"'),
        ("host", "1"),
        ("hosts", '"a,b"'),
        ("hosts", "[1]"),
        ("socket", "[]"),
    ],
)
def test_a_file_must_give_the_right_type(tmp_path: Path, key: str, text: str) -> None:
    if key == "hosts" and text == '"a,b"':
        # One text is taken as one value: "a,b" is not a host.
        assert "http.hosts" in refusal(config_path=write(tmp_path, f"[http]\n{key} = {text}\n"))
        return
    sentence = refusal(config_path=write(tmp_path, f"[http]\n{key} = {text}\n"))
    assert sentence.startswith(f"http.{key} must be")


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(config_path=tmp_path / "nothing")
    assert "cannot be read" in refusal(config_path=tmp_path)
    assert "is not TOML" in refusal(config_path=write(tmp_path, "[http"))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    assert "is not TOML" in refusal(config_path=binary)
    big = tmp_path / "big"
    big.write_bytes(b"#" * 1_048_577)
    assert "larger" in refusal(config_path=big)


def test_blanks_around_the_parts_of_a_list_do_not_count() -> None:
    environ = {"HALFHITCH_AUTH_TOKENS": f" {SECRET}, {SECRET}2\n"}
    assert [token.reveal() for token in load(BASE, environ=environ).auth.tokens] == [
        SECRET,
        SECRET + "2",
    ]


def test_no_sentence_ever_shows_a_secret(tmp_path: Path) -> None:
    tries: list[dict[str, object]] = [
        {"handle.key": f"{SECRET},{SECRET},{SECRET}"},
        {"auth.tokens": f"{SECRET}\0{SECRET}"},
        {"auth.tokens": SECRET[:15]},
        {"redis.url": SECRET + "\n"},
        {"kafka.options": f"sasl.password={SECRET},acks=1"},
        {"kafka.options": f"sasl.password={SECRET}"},
    ]
    for flags in tries:
        assert SECRET[:15] not in refusal(flags)
    path = write(tmp_path, f'[handle]\nkey = ["{SECRET}", 5]\n')
    with pytest.raises(ConfigurationError) as caught:
        load({"kafka.bootstrap": "a:1"}, config_path=path)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_secrets_can_come_from_files(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"\n{'n' * 16}\n{'o' * 16}  \n")
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    settings = load(
        {
            "kafka.bootstrap": "kafka:9092",
            "kafka.options": "security.protocol=SASL_SSL,sasl.mechanism=PLAIN,sasl.username=u",
            "kafka.sasl_password_file": password,
            "handle.key_file": str(keys),
        }
    )
    assert [key.reveal() for key in settings.handle.key] == ["n" * 16, "o" * 16]
    assert settings.kafka.options.for_client("admin")["sasl.password"] == "open sesame"
    assert settings.sources["handle.key"] == f"file {keys}"


def test_every_secret_may_come_from_a_file(tmp_path: Path) -> None:
    """What is given as a flag, every user of the machine can read."""
    path = tmp_path / "secret"
    path.write_text("redis://:open-sesame@redis:6379/0\n")
    settings = load({"redis.url_file": path}, purpose=Purpose.CLIENT)
    assert settings.redis.url is not None
    assert settings.redis.url.reveal() == "redis://:open-sesame@redis:6379/0"
    assert settings.sources["redis.url"] == f"file {path}"
    path.write_text("open-sesame\n")
    settings = load({"checks.url_token_file": path}, purpose=Purpose.CLIENT)
    assert settings.checks.url_token is not None
    assert settings.checks.url_token.reveal() == "open-sesame"
    oidc = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "sidecar",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
    }
    settings = load(
        {"kafka.options": oidc, "kafka.oauth_client_secret_file": path}, purpose=Purpose.CLIENT
    )
    options = settings.kafka.options
    assert options.for_client("member")["sasl.oauthbearer.client.secret"] == "open-sesame"  # type: ignore[arg-type]
    assert "open-sesame" in settings.secrets()
    assert "open-sesame" not in str(settings.describe())
    path.write_text("one\ntwo\n")
    assert "keep at most 1" in refusal({"redis.url_file": path})


def test_host_names_of_brokers_go_unverified_only_when_that_is_said() -> None:
    name = "ssl.endpoint.identification.algorithm"
    ssl_options = {"security.protocol": "SSL"}
    assert load({}, purpose=Purpose.CLIENT).kafka.verify_host_names
    given: dict[str, object] = {"kafka.options": ssl_options, "kafka.verify_host_names": False}
    assert load(given, purpose=Purpose.CLIENT).kafka.options[name] == "none"
    given["kafka.verify_host_names"] = True
    assert name not in load(given, purpose=Purpose.CLIENT).kafka.options
    load({"kafka.verify_host_names": False}, purpose=Purpose.CLIENT)


def test_a_secret_and_its_file_are_not_both_taken(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("k" * 16)
    sentence = refusal({"handle.key_file": path})
    assert "handle.key" in sentence
    assert "keep one" in sentence
    options = "security.protocol=SASL_SSL,sasl.mechanism=PLAIN,sasl.password=x"
    both = {"kafka.options": options, "kafka.sasl_password_file": path}
    assert "keep kafka.sasl_password_file" in refusal(both)


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff", b"1234567890123456\n" * 3, None])
def test_secret_files_that_hold_no_secret_are_refused(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_bytes(content)
    assert "auth.token_file" in refusal({"auth.token_file": path})


def test_no_text_whatsoever_ends_in_another_exception(rng: random.Random) -> None:
    pieces = ["", "1", "-1", "true", ",", "=", "{", "}", "\n", "\0", "a", "é", "\ud800", "1e999"]
    for _ in range(400):
        setting: Setting = rng.choice(SETTINGS)
        text = "".join(rng.choices(pieces, k=rng.randrange(5)))
        with contextlib.suppress(ConfigurationError):
            load({**BASE, setting.key: text}, purpose=Purpose.SERVE)
