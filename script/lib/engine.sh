# shellcheck shell=bash
# The Docker engine on its usual socket: used where one answers, started where none does. Sourced.
#
# What was started here is remembered below build/engine, and engine_stop stops only that.

ENGINE_SOCKET=/var/run/docker.sock
ENGINE_DIR=$EXECHOST_BUILD/engine
ENGINE_WAIT_SECONDS=60

engine_answers() {
    curl -fsS -m 5 -o /dev/null --unix-socket "$ENGINE_SOCKET" http://engine/_ping 2>/dev/null
}

# engine_call METHOD PATH [CURL OPTION...]: one request to the engine, its body on stdout.
engine_call() {
    local method=$1 path=$2
    shift 2
    curl -sS --fail-with-body -X "$method" --unix-socket "$ENGINE_SOCKET" "$@" "http://engine$path"
}

engine_wait() {
    local tries=$((ENGINE_WAIT_SECONDS * 5))
    while ! engine_answers; do
        tries=$((tries - 1))
        if [ "$tries" -le 0 ] || ! engine_alive; then
            return 1
        fi
        sleep 0.2
    done
}

# The first field is the process id, the second its start time: an id may be used again.
engine_process_mark() {
    [ -r "/proc/$1/stat" ] && printf '%s %s\n' "$1" "$(sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f20)"
}

engine_alive() {
    local mark pid
    mark=$(cat "$ENGINE_DIR/started" 2>/dev/null) || return 1
    [ "$mark" != systemd ] || return 0
    pid=${mark%% *}
    [ "$(engine_process_mark "$pid")" = "$mark" ]
}

# A container or a minimal machine may have no control groups mounted; the engine needs them.
engine_mount_cgroups() {
    if ! grep -qE ' (cgroup|cgroup2) ' /proc/self/mounts; then
        mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null ||
            die "no control groups are mounted at /sys/fs/cgroup and they can't be mounted here"
    fi
}

# A pid file left by a crash stops a new engine when its number now belongs to something else.
engine_drop_stale_pidfile() {
    local pid
    pid=$(cat /var/run/docker.pid 2>/dev/null) || return 0
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != dockerd ]; then
        rm -f /var/run/docker.pid
    fi
}

# Executions have no network, so this engine gets no bridge and leaves the firewall alone.
engine_start_process() {
    engine_mount_cgroups
    engine_drop_stale_pidfile
    setsid dockerd --bridge=none --iptables=false --ip6tables=false \
        --host "unix://$ENGINE_SOCKET" >"$ENGINE_DIR/dockerd.log" 2>&1 </dev/null &
    engine_process_mark "$!" >"$ENGINE_DIR/started"
}

engine_start() {
    if engine_answers; then
        return 0
    fi
    mkdir -p "$ENGINE_DIR"
    if [ -d /run/systemd/system ] && systemctl cat docker.service >/dev/null 2>&1; then
        say "starting docker.service"
        printf 'systemd\n' >"$ENGINE_DIR/started"
        systemctl start docker.service >/dev/null 2>&1 </dev/null || true
    else
        say "starting a Docker engine"
        engine_start_process
    fi
    if ! engine_wait; then
        tail -n 20 "$ENGINE_DIR/dockerd.log" >&2 2>/dev/null || true
        engine_stop
        die "no Docker engine answers on $ENGINE_SOCKET and none could be started"
    fi
}

engine_started_here() {
    engine_alive
}

engine_stop() {
    local mark pid tries=150
    engine_alive || return 0
    mark=$(cat "$ENGINE_DIR/started")
    rm -f "$ENGINE_DIR/started"
    if [ "$mark" = systemd ]; then
        systemctl stop docker.socket docker.service >/dev/null 2>&1 || true
        return 0
    fi
    pid=${mark%% *}
    kill -TERM "$pid" 2>/dev/null || return 0
    while [ "$(engine_process_mark "$pid")" = "$mark" ] && [ "$tries" -gt 0 ]; do
        tries=$((tries - 1))
        sleep 0.2
    done
    kill -KILL "$pid" 2>/dev/null || true
}
