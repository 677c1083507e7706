# A new program that does not start, in two ways: the old process goes on, the package says so, and a mended one takes over.
dpkg --install /packages/old.deb
start
before="$(process)"
load_begins

# Not for this machine at all.
printf '#!/nonexistent\n' > /tmp/program
repack /packages/new.deb /tmp/broken.deb 98.0.0 /tmp/program
dpkg --install /tmp/broken.deb 2> /tmp/said
cat /tmp/said
grep -q "tidegate upgrade" /tmp/said || fail "nothing is said about the program that does not start"
answers "Tidegate"
kill -0 "$before" || fail "the process of before is gone"

# Commands work, and serving fails.
cp /proc/"$before"/exe /usr/libexec/tidegate-before
printf '#!/bin/sh\n[ "$1" != run ] || { echo "no such thing" >&2; exit 1; }\nexec /usr/libexec/tidegate-before "$@"\n' > /tmp/program
repack /packages/new.deb /tmp/broken.deb 99.0.0 /tmp/program
dpkg --install /tmp/broken.deb 2> /tmp/said
cat /tmp/said
grep -q "tidegate upgrade" /tmp/said || fail "nothing is said about the upgrade that failed"
equal "the process" "$(process)" "$before"

dpkg-deb --fsys-tarfile /packages/new.deb | tar -x -C /tmp ./usr/bin/tidegate
repack /packages/new.deb /tmp/mended.deb 99.0.1 /tmp/usr/bin/tidegate
dpkg --install /tmp/mended.deb
[ "$(process)" != "$before" ] || fail "the process is the one of before"
answers "Tidegate"
load_ends
