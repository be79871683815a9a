#!/bin/sh
# The programs that no package registry of Python's has, from Debian: MariaDB, pgbouncer and kcat;
# Prometheus with promtool, without which metrics and alerts are not tried by it; and
# Chromium with its driver, without which the console is not tried in a browser.
# Run again it does nothing. Only programs are installed: no service is started by it.
set -eu

has() { PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1; }

missing=""
has mariadbd || missing="$missing mariadb-server-core"
has my_print_defaults || missing="$missing mariadb-client-core" # mariadb-install-db asks it
has pgbouncer || missing="$missing pgbouncer"
has kcat || missing="$missing kcat" # the page about reading shows it
{ has prometheus && has promtool; } || missing="$missing prometheus"
browser=""
has chromium || browser="$browser chromium"
has chromedriver || browser="$browser chromium-driver"
[ -n "$missing$browser" ] || exit 0

if ! has apt-get; then
    echo "The tests of the barrier's databases need mariadbd and pgbouncer on the PATH, those of metrics" \
        "prometheus and promtool, of the console chromium and chromedriver, and this is no Debian" \
        "where they could be installed for you. Without them those tests are skipped." >&2
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "The tests of the barrier's databases, of metrics and of the console need$missing$browser." \
        "Installing takes root: run \`sudo apt-get install --no-install-recommends$missing$browser\`." \
        "Without them those tests are skipped." >&2
    exit 0
fi

# Debian's packages start their service at once, unless this says no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# A machine just made has no lists, or old ones.
# shellcheck disable=SC2086
if ! {
    apt-get update || true # one list of many that fails need not be the one
    [ -z "$missing" ] ||
        apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=120 $missing
} >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    rm -f "$log"
    echo "apt-get could not install$missing, which tests of databases and metrics need. Is" \
        "Debian's registry to be reached from here (\`apt-get update\`)? Install them, then run" \
        "this again." >&2
    exit 1
fi
# Debian's relatives have them under other names, or not as packages: nothing else waits for them.
# shellcheck disable=SC2086
if [ -n "$browser" ] && ! apt-get install --yes --no-install-recommends \
    -o DPkg::Lock::Timeout=120 $browser >"$log" 2>&1; then
    echo "apt-get could not install$browser: the tests of the console are skipped." >&2
fi
rm -f "$log"
