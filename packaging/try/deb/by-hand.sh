# The package over an installation by hand: what runs goes on, its configuration stays, and the user is told what is in the way.
dpkg-deb --extract /packages/new.deb /tmp/extracted
install -m 755 /tmp/extracted/usr/bin/tidegate /usr/local/bin/tidegate
install -D -m 644 /tmp/extracted/usr/lib/systemd/system/tidegate.service /etc/systemd/system/tidegate.service
mkdir -p /etc/tidegate /var/lib/tidegate
useradd --system --user-group --home-dir /var/lib/tidegate --no-create-home tidegate
chown tidegate:tidegate /var/lib/tidegate
echo 'site "http://:80" { respond 200 body="Tidegate, installed by hand"; }' > "$configuration"
start /usr/local/bin/tidegate
before="$(process)"
load_begins
dpkg --force-confdef --force-confold --install /packages/new.deb 2> /tmp/said
cat /tmp/said
grep -q /usr/local/bin/tidegate /tmp/said || fail "nothing is said about the program in /usr/local/bin"
grep -q /etc/systemd/system/tidegate.service /tmp/said || fail "nothing is said about the unit in /etc/systemd/system"
equal "the process" "$(process)" "$before"
answers "installed by hand"

# As the package says: without them the package's program takes over.
rm /usr/local/bin/tidegate /etc/systemd/system/tidegate.service
tidegate upgrade --binary /usr/bin/tidegate --config "$configuration"
[ "$(process)" != "$before" ] || fail "the process is the one of before"
answers "installed by hand"
load_ends
