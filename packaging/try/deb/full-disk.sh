# No room for the new program: the old one stays whole and goes on, and the upgrade works when there is room.
dpkg --install /packages/old.deb
start
before="$(process)"
sum="$(sha256sum /usr/bin/tidegate)"
load_begins
room="$(df --output=avail --block-size=1M / | tail -n 1)"
fallocate --length "$((room - 8))M" /filler
if dpkg --install /packages/new.deb; then fail "the upgrade says that it went well"; fi
equal "the program" "$(sha256sum /usr/bin/tidegate)" "$sum"
equal "the process" "$(process)" "$before"
answers "Tidegate"
rm /filler
dpkg --install /packages/new.deb
[ "$(process)" != "$before" ] || fail "the process is the one of before"
load_ends
