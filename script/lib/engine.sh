# shellcheck shell=bash
# The Docker engine on its usual socket: used where one answers, started where none does. Sourced.
#
# engine_stop stops only what the same script has started. Tests that stop the engine and start it
# again do so with script/lib/engine-restart; which process it is then stands in build/engine/mark.

ENGINE_SOCKET=/var/run/docker.sock
ENGINE_DIR=$EXECHOST_BUILD/engine
ENGINE_WAIT_SECONDS=60
ENGINE_OURS=

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
        if [ "$tries" -le 0 ] || ! engine_starting; then
            return 1
        fi
        sleep 0.2
    done
}

# Set while the process that was started last, or systemd's unit, may still come to answer.
engine_starting() {
    local mark
    mark=$(cat "$ENGINE_DIR/mark")
    [ "$mark" = systemd ] || [ "$(process_mark "${mark%% *}")" = "$mark" ]
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
    process_mark "$!" >"$ENGINE_DIR/mark"
}

# Starts one, whoever asks, and returns once it answers.
engine_launch() {
    mkdir -p "$ENGINE_DIR"
    if [ -d /run/systemd/system ] && systemctl cat docker.service >/dev/null 2>&1; then
        printf 'systemd\n' >"$ENGINE_DIR/mark"
        systemctl start docker.service >/dev/null 2>&1 </dev/null || true
    else
        engine_start_process
    fi
    engine_wait
}

engine_start() {
    if engine_answers; then
        return 0
    fi
    say "starting a Docker engine"
    ENGINE_OURS=yes
    if ! engine_launch; then
        tail -n 20 "$ENGINE_DIR/dockerd.log" >&2 2>/dev/null || true
        engine_stop
        die "no Docker engine answers on $ENGINE_SOCKET and none could be started"
    fi
    # For tests that stop it and start it again: only one of our own may be treated so.
    export EXECHOST_ENGINE_PID=/var/run/docker.pid
    export EXECHOST_ENGINE_RESTART=$EXECHOST_ROOT/script/lib/engine-restart
}

# Stops the engine when this very script started it.
engine_stop() {
    local mark
    [ -n "$ENGINE_OURS" ] || return 0
    ENGINE_OURS=
    mark=$(cat "$ENGINE_DIR/mark" 2>/dev/null) || return 0
    rm -f "$ENGINE_DIR/mark"
    if [ "$mark" = systemd ]; then
        systemctl stop docker.socket docker.service >/dev/null 2>&1 || true
    else
        process_end "$mark" 30
    fi
}
