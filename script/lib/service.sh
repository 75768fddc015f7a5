# shellcheck shell=bash
# The service as the scripts start it: wait for its line, talk to it, stop it. Sourced.

SERVICE_PID=
SERVICE_URL=
SERVICE_WAIT_SECONDS=60

# service_start BINARY OUTPUT [serve OPTION...]: returns once it accepts. Its standard output is in
# the file OUTPUT, its log goes to this script's standard error. SERVICE_URL is empty where it
# listens on something else than TCP.
service_start() {
    local binary=$1 output=$2 line tries=$((SERVICE_WAIT_SECONDS * 20))
    shift 2
    : >"$output"
    "$binary" serve "$@" >"$output" </dev/null &
    SERVICE_PID=$!
    while ! grep -q '^listening on ' "$output"; do
        tries=$((tries - 1))
        if [ "$tries" -le 0 ] || ! kill -0 "$SERVICE_PID" 2>/dev/null; then
            service_stop
            return 1
        fi
        sleep 0.05
    done
    line=$(grep -m 1 '^listening on ' "$output")
    SERVICE_URL=${line#listening on }
    [[ "$SERVICE_URL" == http://* ]] || SERVICE_URL=
}

service_stop() {
    if [ -n "$SERVICE_PID" ]; then
        kill -TERM "$SERVICE_PID" 2>/dev/null || true
        wait "$SERVICE_PID" 2>/dev/null || true
        SERVICE_PID=
    fi
}

# service_call METHOD PATH [JSON]: prints the answer's body; fails on a status of 400 or more.
service_call() {
    local body=()
    [ $# -lt 3 ] || body=(-H 'Content-Type: application/json' -d "$3")
    curl -sS --fail-with-body -m 120 -X "$1" "${body[@]}" "$SERVICE_URL$2"
}
