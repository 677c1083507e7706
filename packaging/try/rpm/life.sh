# From the signed repository, as docs/packages.md has it: `dnf install`, `dnf upgrade` under load, `dnf remove`. The root is a Debian with dnf:
# what a Fedora has and the package asks for, a shell at /bin/sh, is provided by an empty package.
cat > /tmp/system.spec << 'SPEC'
Name: system
Version: 1
Release: 1
Summary: What a system has
License: none
BuildArch: noarch
Provides: /bin/sh
%description
What a system has.
%files
SPEC
rpmbuild -bb --quiet --define '_rpmdir /tmp/rpms' /tmp/system.spec
rpm --install /tmp/rpms/noarch/system-1-1.noarch.rpm

mkdir -p /etc/yum.repos.d
cat > /etc/yum.repos.d/tidegate.repo << 'REPOSITORY'
[tidegate]
name=Tidegate
baseurl=file:///packages/dnf/$basearch
gpgkey=file:///packages/dnf/tidegate.asc
gpgcheck=1
repo_gpgcheck=1
REPOSITORY
dnf --assumeyes --quiet install "tidegate-$(cat /packages/old-version)"
equal "owner of the state" "$(stat -c %U:%G:%a /var/lib/tidegate)" tidegate:tidegate:700
echo "// Changed by hand." >> "$configuration"
start
before="$(process)"
load_begins
download_begins
dnf --assumeyes --quiet upgrade
equal "the version" "$(rpm --query --queryformat '%{VERSION}' tidegate)" "$(cat /packages/new-version)"
after="$(process)"
[ "$after" != "$before" ] || fail "the process is the one of before"
grep -q "Changed by hand" "$configuration" || fail "the changed configuration is gone"
download_ends
load_ends
gone "$before"

download_begins
dnf --assumeyes --quiet remove tidegate
download_ends
gone "$after"
[ -d /var/lib/tidegate ] || fail "removing took the state"
[ -e "$configuration.rpmsave" ] || fail "removing took the changed configuration"

# A package that somebody has changed is refused.
rpm --install --test --nodeps "/packages/dnf/$(uname -m)/tidegate-$(cat /packages/new-version)-1.$(uname -m).rpm"
printf x >> "/packages/dnf/$(uname -m)/tidegate-$(cat /packages/new-version)-1.$(uname -m).rpm"
dnf clean all > /dev/null
! dnf --assumeyes --quiet install "tidegate-$(cat /packages/new-version)" || fail "a changed package is taken"
