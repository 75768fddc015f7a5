# shellcheck shell=bash
# Two S3 servers on loopback for tests and bench: tests/objects/servers. Sourced.
#
# Who runs against them finds their addresses and keys in the file of $EXECHOST_OBJECTS.

OBJECTS_DIR=$EXECHOST_BUILD/objects
OBJECTS_WAIT_SECONDS=300
OBJECTS_MARK=

# objects_start [ARGUMENT...]: more arguments for tests/objects/servers.
objects_start() {
    local tries=$((OBJECTS_WAIT_SECONDS * 10)) pid
    # The script that called this one has started them.
    [ ! -e "${EXECHOST_OBJECTS:-}" ] || return 0
    mkdir -p "$OBJECTS_DIR"
    # Those that a killed run of these scripts left behind.
    process_end "$(cat "$OBJECTS_DIR/started" 2>/dev/null || echo none)" 10
    rm -f "$OBJECTS_DIR/servers.json"
    setsid tests/objects/servers --directory "$OBJECTS_DIR" "$@" >"$OBJECTS_DIR/log" 2>&1 \
        </dev/null &
    pid=$!
    OBJECTS_MARK=$(process_mark "$pid")
    printf '%s\n' "$OBJECTS_MARK" >"$OBJECTS_DIR/started"
    while [ ! -e "$OBJECTS_DIR/servers.json" ]; do
        tries=$((tries - 1))
        if [ "$tries" -le 0 ] || [ "$(process_mark "$pid")" != "$OBJECTS_MARK" ]; then
            tail -n 20 "$OBJECTS_DIR/log" >&2
            objects_stop
            die "the S3 servers of the tests did not start"
        fi
        sleep 0.1
    done
    export EXECHOST_OBJECTS=$OBJECTS_DIR/servers.json
}

objects_stop() {
    if [ -n "$OBJECTS_MARK" ]; then
        process_end "$OBJECTS_MARK" 20
        rm -f "$OBJECTS_DIR/started"
        OBJECTS_MARK=
    fi
}
