# From the signed repository, as docs/packages.md has it: `apt install` and `apt upgrade`.
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d
mkdir -p /etc/apt/keyrings /etc/apt/sources.list.d
cp /packages/apt/tidegate.asc /etc/apt/keyrings/tidegate.asc
cat > /etc/apt/sources.list.d/tidegate.sources << 'SOURCES'
Types: deb
URIs: file:/packages/apt
Suites: stable
Components: main
Signed-By: /etc/apt/keyrings/tidegate.asc
SOURCES
apt-get update 2>&1 | tee /tmp/said
! grep -q '^[EW]:' /tmp/said || fail "apt is not content with the repository"
apt-get install --yes --no-install-recommends "tidegate=$(cat /packages/old-version)"
start
before="$(process)"
load_begins
apt-get upgrade --yes
equal "the version" "$(dpkg-query --show --showformat='${Version}' tidegate)" "$(cat /packages/new-version)"
[ "$(process)" != "$before" ] || fail "the process is the one of before"
load_ends

# A list that somebody has changed is refused.
sed -i 's/^Size: ./&0/' /packages/apt/dists/stable/main/binary-*/Packages
rm -r /packages/apt/dists/stable/main/binary-*/Packages.gz /packages/apt/dists/stable/main/binary-*/by-hash /var/lib/apt/lists
! apt-get update || fail "a changed list is taken"
