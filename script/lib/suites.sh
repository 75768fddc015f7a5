# shellcheck shell=bash
# Counts what was tested. A check is one case; a suite is a program that tells its own totals. Sourced.

SUITES_PASSED=0
SUITES_FAILED=0
SUITES_SKIPPED=0
SUITES_BROKEN=()
SUITE_MARK=
SUITE_LIMIT=1500 # seconds; what hangs has to end as a failure while there is time to say so

suites_add() {
    SUITES_PASSED=$((SUITES_PASSED + $1))
    SUITES_FAILED=$((SUITES_FAILED + $2))
    SUITES_SKIPPED=$((SUITES_SKIPPED + ${3:-0}))
}

# check NAME COMMAND...: one case; its output is shown when it fails.
check() {
    local name=$1 started=$SECONDS
    shift
    if logged "$name" "$@"; then
        say "ok      $name ($((SECONDS - started)) s)"
        suites_add 1 0
    else
        say "FAILED  $name ($((SECONDS - started)) s)"
        suites_add 0 1
        SUITES_BROKEN+=("$name")
        return 1
    fi
}

# Runs a command with its output both shown as it comes and kept in a log. Not through a pipe: a
# process that the command leaves behind by mistake must not hold this script.
suite_run() {
    local log=$1 status=0 pid
    shift
    mkdir -p "$(dirname "$log")"
    timeout --kill-after=60 "$SUITE_LIMIT" "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    SUITE_MARK=$(process_mark "$pid")
    tail --pid="$pid" -s 0.2 -n +1 -f "$log"
    wait "$pid" || status=$?
    SUITE_MARK=
    return "$status"
}

# Ends a suite that was interrupted.
suite_stop() {
    [ -z "$SUITE_MARK" ] || process_end "$SUITE_MARK" 20
}

# suite NAME PROGRAM...: a program (no function: `timeout` starts it) whose last line of the form "N passed, N failed[, N skipped]", or
# of ctest's form, tells its totals. Without such a line, or with a status that contradicts it, the
# suite itself counts as a failure.
suite() {
    local name=$1 log=$EXECHOST_BUILD/log/$1.log status=0 started=$SECONDS totals
    shift
    step "$name"
    suite_run "$log" "$@" || status=$?
    read -r -a totals <<<"$(suite_totals "$log")"
    [ "$status" -ne 124 ] || say "$name was ended: it took more than $SUITE_LIMIT s"
    if [ "${#totals[@]}" -lt 2 ] || { [ "$status" -ne 0 ] && [ "${totals[1]}" -eq 0 ]; }; then
        say "$name ended with status $status and no failure of its own to show"
        totals=("${totals[0]:-0}" 1 "${totals[2]:-0}")
    fi
    suites_add "${totals[@]}"
    say "$name: ${totals[0]} passed, ${totals[1]} failed ($((SECONDS - started)) s)"
    if [ "${totals[1]}" -gt 0 ]; then
        SUITES_BROKEN+=("$name")
        return 1
    fi
}

# Prints "PASSED FAILED SKIPPED" from a suite's log, or nothing.
suite_totals() {
    local line
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$1" | tail -n 1) || true
    if [ -n "$line" ]; then
        sed -E 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/' <<<"$line"
        return 0
    fi
    line=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests? failed out of [0-9]+$' "$1" | tail -n 1) || true
    if [ -n "$line" ]; then
        sed -E 's/^.*passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1 \2/' <<<"$line" |
            while read -r failed all; do
                printf '%s %s\n' "$((all - failed))" "$failed"
            done
    fi
}

# The last line of all. A skip is a failure in CI, where everything has to be there.
suites_report() {
    [ "${#SUITES_BROKEN[@]}" -eq 0 ] || say "failed: ${SUITES_BROKEN[*]}"
    if [ "$SUITES_SKIPPED" -gt 0 ]; then
        say "$SUITES_PASSED passed, $SUITES_FAILED failed, $SUITES_SKIPPED skipped"
    else
        say "$SUITES_PASSED passed, $SUITES_FAILED failed"
    fi
    [ "$SUITES_FAILED" -eq 0 ] && { [ "$SUITES_SKIPPED" -eq 0 ] || [ "${CI:-}" != true ]; }
}
