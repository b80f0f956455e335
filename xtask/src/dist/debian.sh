# A package's life in a clean Debian 11: installed, started, upgraded, removed, purged.
# Arguments: the root, the package, a newer one. Runs in a mount namespace of its own.
root=$1
cp "$2" "$root/tmp/first.deb"
cp "$3" "$root/tmp/second.deb"
mount --bind /proc "$root/proc"
mount --rbind /sys "$root/sys"
in_root() { chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
listing() { (cd "$root" && find . -xdev -not -path './var/*/dpkg*' -not -path './tmp/*' | sort); }

# systemd's own.
mkdir -p "$root/var/log/private"
before=$(listing)
in_root dpkg --install /tmp/first.deb >/dev/null
in_root netto --version
in_root netto config
in_root dpkg --verify netto
[ -L "$root/etc/systemd/system/multi-user.target.wants/netto.service" ] || fail "the unit is not enabled"
[ ! -e "$root/etc/systemd/system/sockets.target.wants/netto.socket" ] || fail "the socket is enabled"
in_root ls /usr/share/man/man1 | grep -q '^netto.1.gz$' || fail "no man page"

# The unit's own line, with the unit's own capabilities and no others.
unit=$root/usr/lib/systemd/system/netto.service
start "$root" "$unit" "$(sed -n 's/^ExecStart=//p' "$unit")"

# A changed configuration stays, over an upgrade and a removal.
echo 'user-period = 1000' >>"$root/etc/netto.toml"
in_root dpkg --force-confdef --install /tmp/second.deb >/dev/null
grep -q '^user-period' "$root/etc/netto.toml" || fail "an upgrade changed the configuration"
in_root dpkg-query --show --showformat='upgraded to ${Version}\n' netto
in_root dpkg --remove netto >/dev/null
[ -e "$root/etc/netto.toml" ] && [ ! -e "$root/usr/bin/netto" ] || fail "a removal"
# As systemd and netto leave it.
mkdir "$root/var/log/private/netto" && touch "$root/var/log/private/netto/netto.log"
ln -s private/netto "$root/var/log/netto"
in_root dpkg --purge netto >/dev/null
after=$(listing)
[ "$before" = "$after" ] || fail "a purge leaves: $(printf '%s\n%s\n' "$before" "$after" | sort | uniq -u)"
echo "purged: nothing is left"
