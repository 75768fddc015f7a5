# shellcheck shell=bash
# What every script shares: where the tree is, how to speak, how to fail. Sourced, never run.

set -euo pipefail
umask 022
export LC_ALL=C.UTF-8

# Debian's own tools first (python3 has to be the one whose modules apt installs), and the
# administrator's directories, which a plain root shell may lack.
export PATH="/usr/bin:/usr/sbin:/bin:/sbin:$PATH"

EXECHOST_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
EXECHOST_BUILD=$EXECHOST_ROOT/build
EXECHOST_SCRIPT=script/$(basename "$0")
cd "$EXECHOST_ROOT"

say() {
    printf '%s\n' "$*"
}

step() {
    printf '\n== %s\n' "$*"
}

die() {
    printf '%s: %s\n' "$EXECHOST_SCRIPT" "$*" >&2
    exit 1
}

require_root() {
    if [ "$(id -u)" -ne 0 ]; then
        die "this needs root: it installs missing packages with apt, makes namespaces and control
groups, and talks to a Docker engine. Try: sudo $EXECHOST_SCRIPT"
    fi
}

# Runs a command with its output in a file below build/log; shows the end of it on failure.
logged() {
    local name=$1 log
    shift
    log=$EXECHOST_BUILD/log/$name.log
    mkdir -p "$EXECHOST_BUILD/log"
    if ! "$@" >"$log" 2>&1 </dev/null; then
        tail -n 40 "$log" >&2
        say "$name failed; all of its output: ${log#"$EXECHOST_ROOT"/}" >&2
        return 1
    fi
}

# Configures a preset where that has not been done and builds targets of it (all when none named).
build_preset() {
    local preset=$1
    shift
    if [ ! -f "$EXECHOST_BUILD/$preset/build.ninja" ]; then
        logged "configure-$preset" cmake -S "$EXECHOST_ROOT" --preset "$preset" || return 1
    fi
    logged "build-$preset" cmake --build "$EXECHOST_BUILD/$preset" -j "$(nproc)" \
        ${1:+--target "$@"}
}

# Names a process for good: its id, which may be used again, and its start time. Nothing when it
# is gone.
process_mark() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    # The name in parentheses may hold spaces; the start time is the 20th field behind it.
    printf '%s %s\n' "$1" "$(cut -d' ' -f20 <<<"${stat##*) }")"
}

# process_end MARK SECONDS: asks the process to end, insists when the time is over.
process_end() {
    local mark=$1 tries=$(($2 * 10)) pid=${1%% *}
    [ "$(process_mark "$pid")" = "$mark" ] || return 0
    kill -TERM "$pid" 2>/dev/null || return 0
    while [ "$(process_mark "$pid")" = "$mark" ]; do
        tries=$((tries - 1))
        if [ "$tries" -le 0 ]; then
            kill -KILL "$pid" 2>/dev/null || true
            return 0
        fi
        sleep 0.1
    done
}
