# From the first installation to the purge, with an upgrade under load.
! command -v systemctl > /dev/null || fail "this root has a systemctl; the case is about roots without"

dpkg --install /packages/old.deb
equal "owner of the state" "$(stat -c %U:%G:%a /var/lib/tidegate)" tidegate:tidegate:700
start
before="$(process)"
[ -n "$before" ] || fail "nobody answers on the admin socket"

load_begins
download_begins
dpkg --install /packages/new.deb
after="$(process)"
[ "$after" != "$before" ] || fail "the process is the one of before"
download_ends
load_ends
gone "$before"
equal "owner of the state" "$(stat -c %U:%G /var/lib/tidegate/admin.sock)" tidegate:tidegate

# Removing drains, and keeps state and configuration.
download_begins
dpkg --remove tidegate
download_ends
gone "$after"
[ -e "$configuration" ] && [ -d /var/lib/tidegate ] || fail "removing took what belongs to the user"
! command -v tidegate > /dev/null || fail "the program is still there"

dpkg --purge tidegate
[ ! -e /etc/tidegate ] && [ ! -e /var/lib/tidegate ] || fail "purging left something"
