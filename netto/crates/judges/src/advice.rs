//! What to do about networking's cost: typical reasons for a large component and possible remedies,
//! a few sentences for every row of [`COMPONENTS`](metrics_common::COMPONENTS), and the table of rules
//! ([`RULES`]) that look at measured figures and say what could be tried on this host, and how much
//! could be gained at most. Tests check that both tables are complete.

use metrics_common::sections::Columns;
use metrics_common::snapshot::Snapshot;

mod adviser;
mod commands;
pub(crate) mod figures;
#[doc(hidden)]
pub mod fixture;
mod lasting;
mod rules;

pub use adviser::{Advice, Adviser, Holds, Judgement, LimitFigure, Unjudged, unjudged_words};
pub use lasting::{LEAST_NS, LastingAdvice, Watch, silent_words};
pub use rules::{Limit, RULES, Rule, Unit};

/// The sections that rules look at besides owners.
const LOOKED_AT: [&str; 6] = ["cost", "modes", "power", "traffic", "advice", "own"];

/// The sections that rules and the verdict look at: adding these up is all that they cost.
pub fn looked_at(snapshot: &Snapshot) -> Snapshot {
    let mut sum = Snapshot {
        cpus: snapshot.cpus.clone(),
        ..Snapshot::default()
    };
    add_looked_at(&mut sum, snapshot);
    sum
}

/// Adds the same sections of a later interval.
pub fn add_looked_at(sum: &mut Snapshot, later: &Snapshot) {
    let columns = add_without_owners(sum, later);
    sum.sections.add_one("owners", &later.sections, &columns);
}

fn add_without_owners(sum: &mut Snapshot, later: &Snapshot) -> Columns {
    let columns = sum.add_time(later);
    for name in LOOKED_AT {
        sum.sections.add_one(name, &later.sections, &columns);
    }
    columns
}

/// Typical reasons for a large component with this slug and possible remedies: a paragraph of
/// plain text. `None` if there is no such component.
pub fn advice(slug: &str) -> Option<&'static str> {
    let mut all = ADVICE.iter();
    all.find(|(slugs, _)| slugs.contains(&slug))
        .map(|(_, text)| *text)
}

/// A text for each list of components. Rustfmt leaves what is in braces as it is.
macro_rules! texts {
    ($($($slug:literal),+: $text:literal;)*) => { &[$((&[$($slug),+], $text)),*] };
}

/// Slugs of rows, and the advice that applies to all of them.
const ADVICE: &[(&[&str], &str)] = texts! {
    "network":
        "It follows packets more than bytes: many small packets cost a host several times what the same bytes cost \
         in large ones. See first whether sending, receiving or the RX softirq leads, then which of its parts. \
         Segmentation and receive offloads, larger messages and spreading queues over CPUs are what helps most hosts.";
    "tx_syscall":
        "A send usually runs down to the driver within the call, so that TCP, IP, netfilter, queueing and the driver are \
         all part of it. Many small sends make it large: write more at once, cork (MSG_MORE), use sendmmsg or UDP_SEGMENT. \
         Where the copy leads, see sendfile and MSG_ZEROCOPY; where segmentation does, see whether the device has TSO.";
    "send_copy":
        "It grows with the bytes sent and with how far away their memory is; sums are computed on the way if the device \
         cannot. sendfile or splice copy nothing, MSG_ZEROCOPY and io_uring's SEND_ZC pay from some 10 KB per message on. \
         Keep the sender on the NUMA node that its data lie on.";
    "send_buffers":
        "Every segment needs a buffer and pages, and each is charged to the socket and its cgroup. Small writes make it large, \
         and so does memory pressure: see tcp_mem, the cgroup's memory.high, and failing large pages where memory is \
         fragmented. Larger writes and TSO mean fewer buffers for the same bytes.";
    "send_wait":
        "Senders sleep where the send buffer is full, so the network or the peer is slower than the program. Larger buffers \
         (SO_SNDBUF, tcp_wmem) make sleeps rarer, non-blocking sockets avoid them. Where several threads share one socket \
         they wait for its lock: give each one of its own.";
    "send_backlog", "receive_backlog":
        "Packets that come while a call holds the socket's lock are left to that call. It is large where a connection's packets \
         arrive on another CPU than its program runs on: RFS or the device's own flow steering (aRFS) bring them together, \
         as does pinning. The work itself is TCP's and would otherwise be in the RX softirq.";
    "send_tls", "receive_tls":
        "Cryptography costs by the byte. See that the kernel uses the CPU's AES instructions (/proc/crypto names the driver, \
         such as aesni), and let applications write whole 16 KB records. Some devices encrypt themselves: ethtool -k shows \
         tls-hw-tx-offload and tls-hw-rx-offload.";
    "send_tcp":
        "It is large with many small writes, each of which may become a segment, and with losses, which make TCP search what \
         to send again. Write more at once, leave TSO and tcp_autocorking on, and see nstat for TcpRetransSegs. A socket with \
         TCP_NODELAY sends every write by itself.";
    "send_datagram":
        "A datagram passes the whole stack by itself, so it grows with messages rather than bytes. UDP_SEGMENT hands the stack \
         dozens of datagrams as one, sendmmsg at least saves system calls. Connected sockets save the look-ups of each message.";
    "send_routing":
        "Sockets remember their route, so it should be small. Unconnected UDP looks up every message anew: connect the socket. \
         Each policy rule (ip rule) is one more look-up, and every change of routes makes all sockets look again, which \
         hosts with BGP or many containers feel.";
    "send_netfilter", "nf_input", "nf_forward", "nf_output", "nf_postrouting":
        "Rules are tried one after the other for every packet; address translation and connection tracking come with them. Put \
         what accepts most packets first, and replace long lists by sets and verdict maps (nftables, ipset). \
         Kubernetes' iptables mode makes thousands of rules: its nftables or eBPF replacements do not.";
    "send_ip":
        "It is small unless packets are cut into fragments or link-layer addresses have to be found. Fragments come from UDP \
         messages above the MTU: send smaller ones. Many neighbours overflow their table: see net.ipv4.neigh.default.gc_thresh3 \
         and table overflow messages in the kernel's log.";
    "send_tc", "tc_classify":
        "Filters of one priority after the other are tried on every packet, and BPF programs cost what they do; container networks \
         often put several there. tc filter show and bpftool net name them, bpftool prog profile says which is dear. One \
         direct-action BPF program or one flower hash replaces a list; devices that can take filters over (skip_sw).";
    "send_gso":
        "Software cuts segments and computes sums only where the device cannot. ethtool -k DEVICE shows what it can: \
         tcp-segmentation-offload, tx-udp-segmentation, tx-checksumming, and tx-udp_tnl-segmentation for VXLAN and the like. \
         In virtual machines the host must offer it; cutting late, below the tunnel, is still cheaper than small packets.";
    "send_qdisc":
        "A shaper such as HTB has one lock for all CPUs, which is what makes it large on many of them. mq with fq or fq_codel \
         has a queue for each CPU; rate limits can be set by BPF and fq (earliest departure time) without that lock. \
         tc -s qdisc shows drops, overlimits and requeues.";
    "send_device":
        "CPUs that share a transmit queue wait for its lock here. Give the device as many queues as CPUs send (ethtool -L) and \
         map them (XPS). Packet taps copy here too: ss --packet -p lists who listens.";
    "send_driver":
        "For a real device that is mapping memory, writing descriptors and ringing the doorbell; a strict IOMMU makes mapping dear \
         (iommu.passthrough=1 trades isolation for it). In virtual machines every kick may leave the guest. On veth and \
         loopback it is the hand-over to the receiver, which then costs RX softirq time.";
    "send_socket", "receive_socket":
        "The call itself costs the same whatever it carries, so small messages make it large. Use sendmmsg, recvmmsg or \
         io_uring to make fewer calls. Security modules and BPF programs on cgroups run here for each of them, as do the \
         CPU's mitigations at each entry to the kernel.";
    "send_tracing", "receive_tracing", "tracing":
        "Every tracing program on this path costs something for each call or packet: netto's own probes, and those of bpftrace, \
         perf, security agents and observability tools. bpftool prog list names them, kernel.bpf_stats_enabled=1 says what \
         each takes. netto keeps its own part within --max-overhead, and needs no probe there with --method sampling.";
    "send_unattributed", "receive_unattributed", "rx_unattributed":
        "Where few stacks were taken, that is most of it: look at a longer stretch, or raise --frequency. Else the kernel has \
         functions that no rule knows, from a driver, a module loaded lately or a newer kernel; the flame graph shows them \
         by name. Stacks that end early point to code without frame pointers or ORC data.";
    "rx_syscall":
        "Most of it is copying, so it grows with the bytes received; with small messages it is the calls themselves. Read more \
         at once (recvmmsg, larger buffers, SO_RCVLOWAT), and let several messages gather before waking up. Keep the \
         reader on the NUMA node of the device.";
    "receive_copy":
        "It grows with bytes and with cache misses: data that were received on another node or long ago must come from memory. \
         Flow steering (RFS, aRFS) brings packets to the reader's CPU. TCP_ZEROCOPY_RECEIVE, splice and device memory TCP \
         avoid the copy where programs can use them.";
    "receive_wait":
        "Readers go to sleep and wake up once for each message where they are faster than the data. More data at each wake-up \
         helps: SO_RCVLOWAT, interrupt coalescing, epoll over many sockets instead of a thread for each. Where latency is \
         all, busy polling spends CPU time instead.";
    "receive_free":
        "Buffers that another CPU has allocated are dear to free, since they go back there. Bring packets and readers to one CPU \
         or at least to one node (RFS, aRFS, pinning). GRO and larger packets mean fewer buffers for the same bytes.";
    "receive_ack":
        "After each read TCP sees whether the sender should hear of new room, and an ACK is a packet that goes down the whole \
         stack. Small reads from a full window cause many: read more at once, and leave tcp_rmem large enough for \
         automatic tuning. The cost of sending them (netfilter, queueing, driver) is in it.";
    "receive_protocol":
        "Finding the next data is cheap unless queues are long or their lock is wanted by others. Several threads on one UDP \
         socket wait for each other: give each its own with SO_REUSEPORT. Long receive queues say that the program reads \
         too slowly: see Recv-Q in ss.";
    "tx_softirq":
        "It runs where a queueing discipline could not send at once, because the device's queue was full or its lock was taken, \
         and frees what some drivers have sent. Shapers and few transmit queues make it large: more queues (ethtool -L), \
         XPS, and mq with fq. tc -s qdisc counts requeues.";
    "rx_softirq":
        "Everything from the driver to the socket, or out again when forwarding, happens here, mostly by the packet: see which \
         part leads. Where one CPU carries it all, spread queues and their interrupts (ethtool -L and -X, irqbalance) or use \
         RPS. Time in ksoftirqd says that a CPU has more of it than it can take in passing.";
    "napi_loop":
        "It is small unless polls end after few packets or other CPUs have to be woken for RPS. Moderate interrupts so that each \
         poll finds more (ethtool -C). The third column of /proc/net/softnet_stat counts polls cut short: raise \
         net.core.netdev_budget and netdev_budget_usecs if it grows.";
    "driver_poll":
        "It costs by the packet and by its first touch of memory that the device wrote. Larger frames (MTU 9000), hardware GRO \
         (rx-gro-hw) and drivers with a page pool make it smaller; a strict IOMMU makes it larger. ethtool -S shows failed \
         allocations, ethtool -g whether rings are longer than caches can hold.";
    "backlog":
        "Packets on loopback, veth and tunnels, and those that RPS moved to this CPU, wait here. With hardware queues for every \
         CPU, RPS is better off. veth devices with GRO on (ethtool -K) poll by themselves and merge packets first. The \
         second column of /proc/net/softnet_stat counts drops: raise net.core.netdev_max_backlog.";
    "tx_completion":
        "Every packet sent must be unmapped and freed, often on another CPU than made it. TSO makes fewer and larger ones; \
         coalescing (ethtool -C tx-usecs, tx-frames) takes more of them at once. XPS and flow steering keep it on the CPU \
         that sent.";
    "xdp_native":
        "It is what the programs do: bpftool prog profile and kernel.bpf_stats_enabled=1 say which is dear. Look-ups in large maps \
         miss the caches; maps for each CPU need no locks. What is dropped or redirected here saves all that would come \
         after it.";
    "gro":
        "It grows with packets, and saves more behind it than it costs: without it (ethtool -K DEVICE gro off) local delivery \
         grows instead. Hardware GRO (rx-gro-hw) lets the device merge. gro_flush_timeout with napi_defer_hard_irqs gives it \
         more time to find packets of one flow; UDP_GRO lets programs take merged datagrams.";
    "xdp_generic":
        "Here a program runs on packets that are already buffers, which may have to be copied first to make room: none of XDP's \
         gain remains. Attach it in native mode (xdpdrv) to a driver that can, or use a BPF program on tc. ip link shows \
         xdpgeneric where that is the case.";
    "rx_core":
        "Every packet, or every list of them, passes here, so it follows packets; with GRO there are fewer. VLANs, taps and stacked \
         devices make packets come by more than once.";
    "taps":
        "Somebody listens to all packets: tcpdump, a DHCP or LLDP daemon, an intrusion detection. ss --packet -p says who. A filter \
         in the socket and a short capture length (tcpdump -s) make the copies rarer and smaller; rings of TPACKET_V3 save \
         system calls.";
    "nf_ingress":
        "Chains on ingress run for every packet of the device before anything else. Flow tables live here too: they spend a little \
         and save the whole way of routing and rules for known flows, so a large value with small forwarding is good. \
         Devices that can take a flow table over do so with flags offload.";
    "bridging":
        "Frames to addresses that the bridge has not learned go to every port: see bridge fdb and the number of ports. \
         net.bridge.bridge-nf-call-iptables=1 sends bridged packets through all of iptables: switch it off where nobody needs \
         it. Multicast snooping keeps multicast from ports that did not ask.";
    "rx_handler":
        "Devices stacked on others hand packets on from here. For Open vSwitch it is the flow look-up: ovs-appctl dpctl/show -s counts \
         hits and misses, and misses are dear because they go to user space. MACsec decrypts here; macvlan and \
         bonding are small unless broadcast is copied to many.";
    "ip_receive_v4", "ip_receive_v6":
        "It is the look-up of a route or, for known connections, of their socket. Routers should switch early demultiplexing off \
         (net.ipv4.ip_early_demux=0), for there it finds nothing. Strict rp_filter and every ip rule cost another \
         look-up; floods of ARP or neighbour discovery count here too.";
    "nf_prerouting_v4", "nf_prerouting_v6":
        "Every received packet goes through these rules one after the other. Replace long lists by sets and verdict maps, and let \
         raw rules with notrack spare what needs no tracking. Drops belong as early as possible: into a raw chain, on \
         ingress, or into XDP.";
    "conntrack":
        "Known flows cost one look-up, new connections several and a lock: many short ones make it large, and so do scans and \
         floods. Spare what needs no tracking by notrack, use flow tables for forwarded flows, and keep \
         nf_conntrack_buckets near the number of connections. conntrack -S counts failed inserts and full tables.";
    "forwarding_v4", "forwarding_v6":
        "It grows with packets and holds their transmission: queueing, segmentation and driver. A flow table (nftables) lets known \
         flows skip routing and rules, in hardware if the device can; XDP forwards before buffers are made. Leave GRO on: \
         packets are merged, routed once and cut again.";
    "local_delivery_v4", "local_delivery_v6":
        "TCP or UDP takes the packets, wakes the readers and sends ACKs, whose whole way down to the driver is in it. Fewer, \
         merged packets (GRO, UDP_GRO) help most; then fewer wake-ups, by interrupt coalescing or SO_RCVLOWAT. Losses and \
         packets out of order make TCP dear: see nstat for TcpExtTCPOFOQueue and retransmissions.";
    "io_worker":
        "io_uring's threads take over what could not be done at once, or all of it with SQPOLL. Multishot receives, registered \
         files and buffers, and larger batches make requests cheaper; DEFER_TASKRUN leaves completions to the program's own \
         thread. Requests that are forced to workers (IOSQE_ASYNC) rarely pay for sockets.";
    "nic_interrupt":
        "The handler itself is short, so many interrupts make it large. Adaptive coalescing (ethtool -C adaptive-rx on), or \
         napi_defer_hard_irqs with gro_flush_timeout, take more packets at each. /proc/interrupts shows how they are spread \
         over CPUs.";
    "net_hrtimer":
        "TCP with pacing (BBR, SO_MAX_PACING_RATE) sets a timer for each socket and burst unless the device has the qdisc fq, which \
         needs one for each queue. Shapers wake up by such timers too. Compressed ACKs use them on paths with \
         losses: tcp_comp_sack_delay_ns.";
    "tcp_small_queues":
        "TCP keeps only a little in a device's queue for each flow and goes on from here when that is sent. Devices that tell late what \
         they have sent, as Wi-Fi and heavy TX coalescing do, make it run often: coalesce less, or raise \
         net.ipv4.tcp_limit_output_bytes.";
    "net_timer":
        "Each connection has timers for retransmission, delayed ACKs and keepalive, so it follows the number of connections and \
         losses. nstat counts TcpRetransSegs and TcpExtDelayedACKs. Large tables of neighbours and IPv6 routes are cleaned up \
         here too: see gc_thresh and gc_interval.";
    "napi_thread":
        "Somebody has switched on threaded NAPI (/sys/class/net/DEVICE/threaded) or backlog threads: this is receive work that would \
         be RX softirq otherwise. What was said there holds here. The scheduler moves these threads: pin them near their \
         interrupts, or give them CPUs of their own.";
    "busy_poll_work":
        "These packets were fetched by the program that waits for them, not by the softirq: the work is the same, its place and latency \
         are better. It is switched on by net.core.busy_poll, busy_read or SO_BUSY_POLL. With SO_PREFER_BUSY_POLL and deferred \
         interrupts the softirq stays out of it.";
    "busy_poll_spin":
        "A program polls a device that has nothing: CPU time that is spent to save microseconds. It grows as load falls. Shorten the \
         time (net.core.busy_poll, busy_read, SO_BUSY_POLL), and let programs sleep where latency does not matter; \
         irq-suspend-timeout on newer kernels changes between both by itself.";
    "xdp_cpumap":
        "An XDP program spreads packets over CPUs, whose threads then do what the RX softirq does elsewhere. It follows packets. \
         Choose as many CPUs as needed and on the device's node; let the program drop what is not wanted before it is moved. \
         Where hardware queues spread well enough, this is a detour.";
    "net_worker":
        "WireGuard encrypts and decrypts here on all CPUs, so it grows with the tunnel's bytes and with small packets. NFS and other \
         users of sunrpc, kTLS and the collection of old connections are here as well; the flame graph says who it is. Larger \
         MTUs in tunnels, and nconnect for NFS, help.";
    "tun_write":
        "A VPN or a virtual machine without vhost hands each packet over by a system call of its own, and all of the receive path runs in \
         it. Offloads on TUN (TUNSETOFFLOAD, IFF_VNET_HDR) let it write many segments at once, IFF_NAPI lets GRO merge them. \
         Virtual machines do better with vhost-net; WireGuard in the kernel has no such detour.";
    "tun_read":
        "Each packet is one read, and mostly one sleep and wake-up before it. Offloads on TUN (IFF_VNET_HDR with TUNSETOFFLOAD) \
         make packets larger, several queues (IFF_MULTI_QUEUE) spread them over threads. Polls before every read are spared by reading \
         until there is nothing.";
    "vhost_net":
        "It follows the packets of virtual machines, in both directions, and holds the host's receive path for what they send. Large \
         packets help most: leave TSO and GRO on in the guest, and mergeable receive buffers. Several queues spread it over workers; a device \
         that is passed through (SR-IOV, vDPA) needs none.";
    "connections":
        "Many short connections make it large. Keep them open: pools, keep-alive, HTTP/2. Nearly used up ports make connect search: \
         widen net.ipv4.ip_local_port_range, use IP_BIND_ADDRESS_NO_PORT. One listening socket for each thread (SO_REUSEPORT) \
         keeps accepts from waiting for each other.";
    "socket_poll":
        "poll and select ask every socket each time, however few are ready: with hundreds of sockets use epoll, which asks those \
         that have changed. Level-triggered epoll asks again what was not read to its end. Several threads on one epoll \
         should use EPOLLEXCLUSIVE or wait one at a time.";
    "local_ipc":
        "Programs talk to each other on this host: databases and proxies over AF_UNIX, the journal, D-Bus, virtual machines over vsock. \
         Small messages make it large: write more at once, or share memory. Netlink is large where tools list \
         connections, routes or neighbours every few seconds.";
    "socket_unknown":
        "Only sampling without probes needs this row, and only until a call on the CPU has shown its family. It should fade within \
         seconds. If it stays, sockets of a family that netto does not know are in use, or stacks end early.";
    "io_other":
        "io_uring reads files, waits for timers or polls here, which is no networking. See which program it is: perf top -g or the \
         threads named iou-wrk and iou-sqp. Buffered reads that miss the page cache are what usually makes workers busy.";
    "io_spin":
        "With SQPOLL a thread looks for requests without end, and sleeps only after sq_thread_idle without any. Shorten that time, \
         let rings share one thread (IORING_SETUP_ATTACH_WQ), or do without SQPOLL where calls are few.";
    "other_softirq":
        "They are here to compare with. A softirq of another kind delays networking's on the same CPU, so a large one explains late \
         packets. See which of them leads.";
    "softirq_hi":
        "Hardly anything uses it but a few drivers, such as those of sound and media devices. If it is large, the flame graph of perf shows \
         the driver.";
    "softirq_timer":
        "Timers of drivers, file systems and programs expire here. Many short timers of one subsystem make it large: \
         perf top and the tracepoint timer:timer_expire_entry name the function.";
    "softirq_block":
        "It follows the number of disk requests. Where completions gather on one CPU, give the device more queues or set rq_affinity=2, so \
         that they complete where they were asked for. Larger requests mean fewer of them.";
    "softirq_irq_poll":
        "Some SCSI and RAID controllers poll for completions here as network drivers do with NAPI. It follows the number of requests: \
         larger ones mean fewer.";
    "softirq_tasklet":
        "Drivers put off work from their interrupts into tasklets: USB, graphics, InfiniBand, older disk controllers. perf top shows the \
         function; many interrupts of one device are the usual cause.";
    "softirq_sched":
        "The scheduler looks for CPUs with too much to do. It is large on hosts with many CPUs and many short tasks; fewer threads that \
         wake each other, and CPUs set aside (isolcpus, cpuset partitions), make it smaller.";
    "softirq_hrtimer":
        "Precise timers of programs that sleep very shortly, of virtual machines and of drivers. Programs that sleep in loops of \
         microseconds make it large: let them wait for events instead, or allow slack (PR_SET_TIMERSLACK).";
    "softirq_rcu":
        "What was taken out of shared structures is freed here later: closed files and sockets, routes, dentries. Much opening and \
         closing makes it large. rcu_nocbs moves it from chosen CPUs into threads.";
};

#[cfg(test)]
mod tests;
