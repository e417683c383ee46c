# SPDX-License-Identifier: Apache-2.0
# Serves four pod managers of examples/site.json, lists them, and schedules a node on them.
#   sh examples/live.sh FOLDER-OF-PROGRAMS

set -eu
program=$1/valence-sched
here=$(dirname "$0")
urls=$(mktemp)
served=
stop() {
    [ -z "$served" ] || kill "$served" 2>/dev/null || true
    [ -z "$served" ] || wait "$served" || true
    rm -f "$urls"
}
trap stop EXIT
trap 'exit 130' INT TERM

"$program" podm serve "$here/site.json" --port 8101 --latency-ms 20 \
    --podm gpu-east --podm gpu-north --podm gpu-west --podm mem-1 >"$urls" &
served=$!
tries=0
until [ "$(wc -l <"$urls")" -ge 4 ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 150 ] || ! kill -0 "$served" 2>/dev/null; then
        echo 'the pod managers did not start: check that ports 8101 to 8104 are free' >&2
        exit 1
    fi
    sleep 0.1
done
cat "$urls"
"$program" podm list --podm-file "$here/live.yaml"
"$program" podm schedule --podm-file "$here/live.yaml" --flavor gpu-large --alternates 2 --explain
