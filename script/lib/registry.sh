# shellcheck shell=bash
# Debian's docker-registry on loopback, so that tests have images with registry digests. Sourced.
#
# Port: $EXECHOST_REGISTRY_PORT, else the one used last, else the first free one from 5801 on.

REGISTRY_DIR=$EXECHOST_BUILD/registry
REGISTRY_PORT=
REGISTRY_MARK=

registry_port_taken() {
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

registry_choose_port() {
    local port=${EXECHOST_REGISTRY_PORT:-$(cat "$REGISTRY_DIR/port" 2>/dev/null || echo 5801)}
    while registry_port_taken "$port"; do
        [ -z "${EXECHOST_REGISTRY_PORT:-}" ] || die "port $port, asked for the registry, is taken"
        port=$((port + 1))
    done
    REGISTRY_PORT=$port
    printf '%s\n' "$port" >"$REGISTRY_DIR/port"
}

registry_write_config() {
    cat >"$REGISTRY_DIR/config.yml" <<EOF
version: 0.1
log:
  level: warn
storage:
  filesystem:
    rootdirectory: $REGISTRY_DIR/data
  delete:
    enabled: true
http:
  addr: 127.0.0.1:$REGISTRY_PORT
EOF
}

registry_start() {
    local tries=100
    mkdir -p "$REGISTRY_DIR/data"
    # One that a killed run of these scripts left behind.
    process_end "$(cat "$REGISTRY_DIR/started" 2>/dev/null || echo none)" 5
    registry_choose_port
    registry_write_config
    setsid docker-registry serve "$REGISTRY_DIR/config.yml" >"$REGISTRY_DIR/registry.log" 2>&1 \
        </dev/null &
    REGISTRY_MARK=$(process_mark "$!")
    printf '%s\n' "$REGISTRY_MARK" >"$REGISTRY_DIR/started"
    while ! curl -fsS -m 2 -o /dev/null "http://127.0.0.1:$REGISTRY_PORT/v2/" 2>/dev/null; do
        tries=$((tries - 1))
        if [ "$tries" -le 0 ] || [ -z "$(process_mark "${REGISTRY_MARK%% *}")" ]; then
            tail -n 20 "$REGISTRY_DIR/registry.log" >&2
            die "the image registry did not start on 127.0.0.1:$REGISTRY_PORT"
        fi
        sleep 0.1
    done
}

registry_stop() {
    if [ -n "$REGISTRY_MARK" ]; then
        process_end "$REGISTRY_MARK" 5
        rm -f "$REGISTRY_DIR/started"
        REGISTRY_MARK=
    fi
}
