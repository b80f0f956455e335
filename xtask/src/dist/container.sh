# The image in a container of podman and runc, by the line of docs/INSTALL.md; in a store of its own, which is removed.
# Arguments: a folder for the store, the archive, the image's name, the unit.
store=$1 archive=$2 image=$3 unit=$4
allowed=$(capabilities "$unit")
podman() {
    command podman --root "$store/root" --runroot "$store/run" --tmpdir "$store/tmp" --storage-driver vfs \
        --cgroup-manager cgroupfs --runtime runc "$@"
}
# Its default limits need CAP_SYS_RESOURCE; these can be had without. Podman 4.3 lowers its own second one.
files=$(sed -n 's/^Max open files *[^ ]* *\([^ ]*\).*/\1/p' /proc/self/limits)
said=$(mktemp)
podman load --quiet --input "$archive"
podman run --rm --name netto --log-driver none --pid=host --network=host --volume /sys:/sys:ro --cap-drop=all \
    --cap-add="$(echo "$allowed" | sed 's/cap_//g' | tr ' ' ',')" --ulimit "nofile=$files:$files" \
    --ulimit nproc=4096:4096 --env NETTO_PORT=0 "$image" >"$said" 2>&1 &
daemon=$!
trap 'podman rm --force --time 5 netto >/dev/null 2>&1 || true; rm -f "$said"' EXIT
answers
inside=$(podman inspect --format '{{.State.Pid}}' netto)
has_exactly "$inside" "$allowed"
echo "podman and runc run $image with $allowed (CapBnd $bounding): ready"
podman stop --time 10 netto >/dev/null
wait $daemon || fail "netto ended with $?: $(cat "$said")"
rm -f "$said"
trap - EXIT
