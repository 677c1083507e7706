# A configuration that somebody has changed outlives upgrades, also where the package comes with another one.
dpkg --install /packages/old.deb
sed -i 's|files "/usr/share/tidegate/welcome"|respond 200 body="Tidegate, changed by hand"|' "$configuration"
sum="$(sha256sum "$configuration")"
start
before="$(process)"
load_begins
dpkg --install /packages/new.deb
equal "the configuration" "$(sha256sum "$configuration")" "$sum"
answers "changed by hand"
[ "$(process)" != "$before" ] || fail "the process is the one of before"

dpkg-deb --raw-extract /packages/new.deb /tmp/repack
sed -i 's/^Version: .*/Version: 99.0.0/' /tmp/repack/DEBIAN/control
echo "// Another comment." >> /tmp/repack/etc/tidegate/tidegate.kdl
dpkg-deb --build --root-owner-group -Zgzip -z1 /tmp/repack /tmp/other.deb > /dev/null
dpkg --force-confdef --force-confold --install /tmp/other.deb
equal "the configuration" "$(sha256sum "$configuration")" "$sum"
[ -e "$configuration.dpkg-dist" ] || fail "what the package comes with is not beside it"
answers "changed by hand"
load_ends
