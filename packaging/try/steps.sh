# What the cases have in common. They run as root, in a root of their own where no service manager is.

configuration=/etc/tidegate/tidegate.kdl
welcome=/usr/share/tidegate/welcome

fail() {
    echo "FAILED: $*" >&2
    [ ! -e /tmp/log ] || tail -n 30 /tmp/log >&2
    exit 1
}

equal() { [ "$2" = "$3" ] || fail "$1: \`$2\` in place of \`$3\`"; }

# As the unit starts it: the user of the package, with the one capability.
start() {
    setpriv --reuid tidegate --regid tidegate --init-groups --inh-caps=-all,+net_bind_service \
        --ambient-caps=-all,+net_bind_service --bounding-set=-all,+net_bind_service -- \
        env STATE_DIRECTORY=/var/lib/tidegate "${1:-/usr/bin/tidegate}" run --config "$configuration" 2> /tmp/log > /dev/null &
    answers "Tidegate"
}

# Until the server answers with a page in which the words are.
answers() {
    for _ in $(seq 200); do
        if curl --silent --fail --max-time 5 http://127.0.0.1/ 2> /dev/null | grep -q "$1"; then return 0; fi
        sleep 0.1
    done
    fail "no page with \`$1\`"
}

# Who answers on the admin socket.
process() { tidegate status --json --config "$configuration" | sed -n 's/.*"process_id": *\([0-9][0-9]*\).*/\1/p' | head -n 1; }

gone() {
    for _ in $(seq 300); do
        kill -0 "$1" 2> /dev/null || return 0
        sleep 0.1
    done
    fail "the process $1 is still there"
}

# Requests by eight clients that keep their connections, a new set of them every 400, until `load_ends`.
load_begins() {
    rm -f /tmp/answers
    touch /tmp/loading
    while [ -e /tmp/loading ]; do
        curl --silent --parallel --parallel-max 8 --max-time 20 --output /dev/null --write-out '%{http_code}\n' \
            "http://127.0.0.1/?[1-400]" 2> /dev/null || true
    done > /tmp/answers &
    load=$!
    while [ "$(wc -l < /tmp/answers)" -lt 400 ]; do sleep 0.1; done
}

load_ends() {
    sleep 1
    rm /tmp/loading
    wait "$load"
    sent=$(wc -l < /tmp/answers)
    failed=$(grep -cv '^200$' /tmp/answers || true)
    echo "$sent requests, $failed failed"
    equal "failed requests" "$failed" 0
}

# A download of four megabytes that takes four seconds, begun before what the case does.
download_begins() {
    head -c 4000000 /dev/zero > "$welcome/big"
    curl --silent --fail --max-time 60 --limit-rate 1000000 --output /tmp/big http://127.0.0.1/big &
    download=$!
    sleep 0.5
}

download_ends() {
    wait "$download" || fail "the download was cut off: curl ended with $?"
    equal "bytes of the download" "$(stat -c %s /tmp/big)" 4000000
    rm -f "$welcome/big"
}

# A package like the one given, of another version and with a program of the case's: repack FROM TO VERSION PROGRAM
repack() {
    rm -rf /tmp/repack
    dpkg-deb --raw-extract "$1" /tmp/repack
    sed -i "s/^Version: .*/Version: $3/" /tmp/repack/DEBIAN/control
    install -m 755 "$4" /tmp/repack/usr/bin/tidegate
    dpkg-deb --build --root-owner-group -Zgzip -z1 /tmp/repack "$2" > /dev/null
    rm -rf /tmp/repack
}
