# Configurations that do not say where their process is: broken, moved, or of variables that only the unit has. The new
# program takes over all the same, or the package says who goes on with the old one; removing ends the process.
dpkg --install /packages/old.deb
cat > /tmp/kept.kdl < "$configuration"

# What only the unit has, as `LoadCredential=` gives it.
printf 'edition "2026"\nsite "http://:80" {\n    header "X-Of" "{env.OF_THE_UNIT}"\n    files "%s"\n}\n' "$welcome" > "$configuration"
export OF_THE_UNIT=here
start
unset OF_THE_UNIT
before="$(process)"
load_begins
dpkg --install /packages/new.deb
after="$(process)"
[ "$after" != "$before" ] || fail "the process is the one of before, for a variable that only it has"

# Another place for the endpoint, which the process has not been told of.
printf 'edition "2026"\nadmin "unix:/var/lib/tidegate/other.sock"\nsite "http://:80" { files "%s"; }\n' "$welcome" > "$configuration"
before="$after"
repack /packages/new.deb /tmp/moved.deb 98.0.0 /usr/bin/tidegate
dpkg --install /tmp/moved.deb 2> /tmp/said
cat /tmp/said
tidegate status --admin unix:/var/lib/tidegate/other.sock > /dev/null || fail "the new process is not where the file says"
[ "$(process)" != "$before" ] || fail "the process is the one of before, for a place that it did not know"

# Broken: the old process goes on, and that is said.
cat < /tmp/kept.kdl > "$configuration"
tidegate apply --admin unix:/var/lib/tidegate/other.sock "$configuration"
before="$(process)"
echo 'sitee "http://x"' >> "$configuration"
repack /packages/new.deb /tmp/broken.deb 99.0.0 /usr/bin/tidegate
dpkg --install /tmp/broken.deb 2> /tmp/said
cat /tmp/said
grep -q "goes on with the version before" /tmp/said || fail "nothing is said of the process that goes on"
equal "the process" "$(process)" "$before"
load_ends

# Somebody else's, which nobody can ask.
cp "$configuration" /tmp/other.kdl
printf 'edition "2026"\nadmin "off"\nsite "http://:8081" { respond 200; }\n' > /tmp/other.kdl
STATE_DIRECTORY=/tmp/state /usr/bin/tidegate run --config /tmp/other.kdl > /dev/null 2>&1 &
other=$!
sleep 2
repack /packages/new.deb /tmp/more.deb 99.0.1 /usr/bin/tidegate
dpkg --install /tmp/more.deb 2> /tmp/said
grep -q "process $other still runs" /tmp/said || { cat /tmp/said; fail "nothing is said of the other process"; }

# Removing finds the process with a broken file as well.
before="$(process)"
dpkg --remove tidegate 2> /tmp/said
cat /tmp/said
gone "$before"
kill "$other"
