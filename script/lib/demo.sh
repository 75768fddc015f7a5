# shellcheck shell=bash
# The demonstration of script/run --demo: a git workspace in, a command, a checkpoint, terminate,
# restore, the file's content back; a program that calls a binding. Leaves nothing behind. Sourced.

DEMO_DIR=

demo_cleanup() {
    if [ -n "$SERVICE_URL" ] && [ -n "$SERVICE_PID" ]; then
        service_call DELETE /v1/executions/demo >/dev/null 2>&1 || true
        service_call DELETE /v1/executions/demo-restored >/dev/null 2>&1 || true
    fi
    service_stop
    [ -z "$DEMO_DIR" ] || rm -rf "$DEMO_DIR"
    engine_stop
}

demo_repository() {
    local directory=$1
    git init -q -b main "$directory"
    printf 'input of the demonstration\n' >"$directory/input.txt"
    git -C "$directory" add input.txt
    git -C "$directory" -c user.name=demo -c user.email=demo@example.org commit -q -m "Add the input"
}

# demo_step TEXT METHOD PATH [JSON]: shows the request and its answer, keeps it in DEMO_ANSWER.
demo_step() {
    step "$1"
    say "$2 $3 ${4:-}"
    DEMO_ANSWER=$(service_call "${@:2}") || die "the service answered: $DEMO_ANSWER"
    [ -z "$DEMO_ANSWER" ] || say "$DEMO_ANSWER"
}

# demo_expect TEXT: the last answer has to hold the text.
demo_expect() {
    [[ "$DEMO_ANSWER" == *"$1"* ]] || die "the answer should hold: $1"
}

demo_run() {
    local binary=$1 resources=$2
    DEMO_DIR=$(mktemp -d)
    trap demo_cleanup EXIT
    demo_repository "$DEMO_DIR/repository"
    printf '{"gitRoots":{"default":["%s"]}}\n' "$DEMO_DIR" >"$DEMO_DIR/config.json"

    step "import an image"
    import_image --config "$DEMO_DIR/config.json" --data "$DEMO_DIR/data"
    say "$reference"

    step "start the service"
    service_start "$binary" "$DEMO_DIR/output" --config "$DEMO_DIR/config.json" \
        --listen 127.0.0.1:0 --data "$DEMO_DIR/data" 2>"$DEMO_DIR/service.log" || {
        cat "$DEMO_DIR/service.log" >&2
        die "the service did not start"
    }
    cat "$DEMO_DIR/output"

    demo_step "provision an execution with a git workspace" POST /v1/executions \
        "{\"executionId\":\"demo\",\"image\":\"$reference\",\"workspace\":{\"kind\":\"git-worktree\",\"repositoryPath\":\"$DEMO_DIR/repository\",\"revision\":\"main\"},\"resources\":$resources,\"network\":{\"mode\":\"none\"}}"
    demo_expect '"provisioned"'

    demo_step "run a command that reads the workspace and writes a file" \
        POST /v1/executions/demo/commands \
        '{"command":"sh","args":["-c","id -u; tr a-z A-Z <input.txt | tee output.txt"]}'
    demo_expect 'INPUT OF THE DEMONSTRATION'

    demo_step "checkpoint the workspace" POST /v1/executions/demo/checkpoints \
        "{\"checkpointId\":\"demo-$$\"}"
    demo_step "terminate the execution" DELETE /v1/executions/demo
    demo_step "it is gone" GET /v1/executions/demo
    demo_expect '"terminated"'

    demo_step "restore the checkpoint as a new execution" POST "/v1/checkpoints/demo-$$/restore" \
        '{"executionId":"demo-restored"}'
    demo_expect '"provisioned"'
    demo_step "read the file back" POST /v1/executions/demo-restored/commands \
        '{"command":"cat","args":["output.txt"]}'
    demo_expect 'INPUT OF THE DEMONSTRATION'
    demo_step "the image brings Node" POST /v1/executions/demo-restored/commands \
        '{"command":"node","args":["-p","\"Node \" + process.versions.node"]}'
    demo_expect 'Node '
    demo_step "terminate the restored execution" DELETE /v1/executions/demo-restored

    demo_program
    step "the file written before the checkpoint came back; done"
}

# Where the machine confines no programs (a chroot, a container without user namespaces), the
# service says why, and runs none.
demo_program() {
    demo_step "what holds for programs of a model" GET /v1/ptc
    if [[ "$DEMO_ANSWER" == *'"enforcement":"none"'* ]]; then
        say "no program can be run on this machine: enforcementReason says why"
        return 0
    fi
    demo_step "run a program of a model, which calls a binding" POST "/v1/ptc/runs?wait=false" \
        "{\"runId\":\"demo-$$\",\"program\":\"const n: number = await host.number({of: 'the day'}); console.log('got', n); return n + 1\",\"description\":\"the demonstration\",\"bindings\":[{\"global\":\"host\",\"functions\":[\"number\"]}]}"
    demo_step "the call that it waits for" GET "/v1/ptc/runs/demo-$$/calls?waitMs=20000"
    demo_expect '"number"'
    demo_step "answer it" POST "/v1/ptc/runs/demo-$$/calls/1" '{"ok":true,"value":41}'
    demo_step "its result" GET "/v1/ptc/runs/demo-$$?waitMs=20000"
    demo_expect '"value":42'
    step "the program got its answer"
}
