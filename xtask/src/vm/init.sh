#!/bin/sh
# The first process of a guest: makes the file systems and devices that netto
# and its tests expect, runs them, says how it went, switches the machine off.
# Kernel messages go to the first serial port, everything here to the one that the
# kernel's command line names.
export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root TERM=dumb
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
exec >"/dev/$output" 2>&1 </dev/null
for module in $(cat /modules/order); do
	insmod "/modules/$module.ko" || echo "guest: no module $module"
done
ip link set lo up
hostname guest
/run-tests
echo "guest verdict: $?"
sync
poweroff -f
