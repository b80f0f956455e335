# The image's root, which has netto and no library, with the capabilities of the unit.
# Arguments: the root, the unit.
root=$1
[ "$(find "$root" -type f | wc -l)" -eq 4 ] || fail "the image has not exactly netto and its licences"
mkdir -p "$root/proc" "$root/sys"
mount --bind /proc "$root/proc"
mount --rbind -o ro /sys "$root/sys"
start "$root" "$2" "/netto run"
