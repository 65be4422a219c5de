#!/bin/sh
# Prepares a machine: uv, the environment in .venv from uv.lock, Java 17 or newer. With --prepared also the jars and the
# record of Spark's classes; with --platform also PostgreSQL's server, for Airflow's tables; with --tests also that,
# Prometheus, its Pushgateway and Alertmanager (rules and dashboards), Chromium (the page Streams) and docker-compose.
# Does nothing that is done already. The demo fetches its jars itself, while Airflow starts.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

# apt-get where this user may use it: as root, or by sudo without a password.
apt() {
    if [ "$(id -u)" = 0 ]; then DEBIAN_FRONTEND=noninteractive apt-get -y -qq "$@" >&2
    else sudo -n env DEBIAN_FRONTEND=noninteractive apt-get -y -qq "$@" >&2; fi
}
may_use_apt() {
    command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

find_uv() {
    for candidate in "$(command -v uv || true)" .tools/bin/uv "$HOME/.local/bin/uv" "$HOME/.cargo/bin/uv"; do
        if [ -n "$candidate" ] && "$candidate" --version >/dev/null 2>&1; then
            printf '%s' "$candidate"
            return
        fi
    done
}

install_uv() {
    command -v python3 >/dev/null 2>&1 || fail "python3 was not found. Remedy: install Python 3.11 or 3.12"
    say "uv is missing: installing it into .tools"
    if ! python3 -m venv .tools >/dev/null 2>&1; then
        may_use_apt || fail "python3 cannot make a virtual environment. Remedy: install its venv module (python3-venv)"
        say "installing python3-venv"
        apt update && apt install python3-venv
        python3 -m venv .tools
    fi
    .tools/bin/python -m pip install --quiet --disable-pip-version-check uv
}

java_is_there() {
    java=java
    [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || return 1
    [ -n "$version" ] && [ "$version" -ge 17 ]
}

install_java() {
    [ -z "${JAVA_HOME:-}" ] || fail "JAVA_HOME ($JAVA_HOME) is no Java 17 or newer. Remedy: correct or unset it"
    may_use_apt || fail "Java 17 or newer was not found. Remedy: install it (Debian, Ubuntu: openjdk-17-jre-headless)"
    say "Java is missing: installing openjdk-17-jre-headless"
    apt update && { apt install openjdk-17-jre-headless || apt install default-jre-headless; }
    java_is_there || fail "apt-get installed no Java 17 or newer. Remedy: install it by hand and set JAVA_HOME"
}

postgres_is_there() {
    command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

install_postgres() {
    may_use_apt || { say "PostgreSQL was not found: what needs it will fail"; return; }
    say "PostgreSQL is missing: installing postgresql"
    apt update && apt install postgresql
}

compose_is_there() {
    docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null 2>&1
}

install_compose() {
    may_use_apt || { say "docker-compose was not found: docker-compose.yml is not checked by it"; return; }
    say "docker-compose is missing: installing it, without an engine"
    apt update && apt install --no-install-recommends docker-compose
}

chromium_is_there() {
    command -v chromium >/dev/null 2>&1 && command -v chromedriver >/dev/null 2>&1
}

install_chromium() {
    may_use_apt || { say "Chromium was not found: the tests of the page Streams will fail"; return; }
    say "Chromium is missing: installing chromium and chromium-driver"
    apt update && apt install chromium chromium-driver
}

prometheus_is_there() {
    command -v promtool >/dev/null 2>&1 && command -v amtool >/dev/null 2>&1 \
        && command -v prometheus-pushgateway >/dev/null 2>&1
}

# The packages would start their services, on ports of their own: a policy keeps them from it while they are installed.
install_prometheus() {
    may_use_apt || { say "Prometheus was not found: the tests of rules and dashboards will fail"; return; }
    say "Prometheus is missing: installing prometheus, prometheus-alertmanager and prometheus-pushgateway"
    as_root=""
    [ "$(id -u)" = 0 ] || as_root="sudo -n"
    policy=/usr/sbin/policy-rc.d
    made=""
    if [ ! -e $policy ]; then
        made=yes
        printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
        $as_root chmod 755 $policy
    fi
    apt update
    apt install --no-install-recommends prometheus prometheus-alertmanager prometheus-pushgateway || failed=yes
    [ -z "$made" ] || $as_root rm -f $policy
    [ -z "${failed:-}" ] || fail "Prometheus could not be installed, see above"
}

# What comes from apt-get, of which one may run at a time.
install_packages() {
    java_is_there || install_java
    case "$1" in --platform | --tests) postgres_is_there || install_postgres ;; esac
    [ "$1" = --tests ] || return 0
    prometheus_is_there || install_prometheus
    chromium_is_there || install_chromium
    compose_is_there || install_compose
}

uv=$(find_uv)
if [ -z "$uv" ]; then
    install_uv
    uv=.tools/bin/uv
fi
install_packages "${1:-}" &
packages=$!
[ -x .venv/bin/python ] || say "creating the environment from uv.lock (about 1 GB, a minute or two)"
"$uv" sync --locked --quiet || fail "the environment could not be made. Remedy: see uv's message above"
wait $packages || exit 1
[ -z "${1:-}" ] || .venv/bin/millrace prepare >/dev/null || fail "the installation could not be prepared, see above"
