# A package's life by rpm, in a root that has a shell and a glibc of 2.31.
# Arguments: the root, the package, a newer one.
root=$1
rpm() { command rpm --root "$root" "$@"; }

command rpm --query --package --requires "$2" | grep -q '^glibc >= 2.31' || fail "it requires no glibc"
mkdir -p "$root/var/lib/rpm"
rpm --initdb
# Debian's glibc is unknown to rpm.
rpm --install --nodeps "$2"
rpm --verify --nodeps netto
chroot "$root" /usr/bin/netto config
echo 'user-period = 1000' >>"$root/etc/netto.toml"
rpm --upgrade --nodeps "$3"
grep -q '^user-period' "$root/etc/netto.toml" || fail "an upgrade changed the configuration"
rpm --query netto
rpm --erase netto
[ ! -e "$root/usr/bin/netto" ] && [ ! -e "$root/usr/lib/systemd/system/netto.service" ] || fail "something is left"
echo "erased"
