//! Names of services by their well-known ports (IANA's registry, and what is usual). Pure.

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// The name of the service at a port of a protocol, if it is well known.
pub fn service(protocol: u8, port: u16) -> Option<&'static str> {
    if !matches!(protocol, TCP | UDP | SCTP) {
        return None;
    }
    let of_udp = match (protocol, port) {
        (UDP, 67 | 68) => "dhcp",
        (UDP, 69) => "tftp",
        (UDP, 137 | 138) => "netbios",
        (UDP, 443) => "quic",
        (UDP, 500 | 4500) => "ipsec",
        (UDP, 514) => "syslog",
        (UDP, 546 | 547) => "dhcpv6",
        (UDP, 1900) => "ssdp",
        (UDP, 4789) => "vxlan",
        (UDP, 5353) => "mdns",
        (UDP, 5355) => "llmnr",
        (UDP, 6081) => "geneve",
        (UDP, 6343) => "sflow",
        (UDP, 51820) => "wireguard",
        _ => "",
    };
    if !of_udp.is_empty() {
        return Some(of_udp);
    }
    Some(match port {
        20 | 21 => "ftp",
        22 => "ssh",
        23 => "telnet",
        25 => "smtp",
        43 => "whois",
        53 => "dns",
        80 | 8080 => "http",
        88 => "kerberos",
        110 => "pop3",
        111 => "rpcbind",
        123 => "ntp",
        143 => "imap",
        161 | 162 => "snmp",
        179 => "bgp",
        389 => "ldap",
        443 | 8443 => "https",
        445 => "smb",
        465 | 587 => "submission",
        636 => "ldaps",
        853 => "dns-tls",
        873 => "rsync",
        993 => "imaps",
        995 => "pop3s",
        1194 => "openvpn",
        1433 => "mssql",
        1521 => "oracle",
        1883 => "mqtt",
        2049 => "nfs",
        2379 | 2380 => "etcd",
        3128 => "proxy",
        3260 => "iscsi",
        3306 => "mysql",
        3389 => "rdp",
        3478 => "stun",
        4317 | 4318 => "otlp",
        4739 => "ipfix",
        5060 | 5061 => "sip",
        5201 => "iperf3",
        5432 => "postgresql",
        5672 => "amqp",
        6379 => "redis",
        6443 => "kubernetes",
        8883 => "mqtts",
        9042 => "cassandra",
        9090 => "prometheus",
        9092 => "kafka",
        9100 => "node-exporter",
        9200 => "elasticsearch",
        10250 => "kubelet",
        11211 => "memcached",
        27017 => "mongodb",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_means_what_its_protocol_has_there() {
        assert_eq!(service(TCP, 443), Some("https"));
        assert_eq!(service(UDP, 443), Some("quic"));
        assert_eq!(service(UDP, 53), Some("dns"));
        assert_eq!(service(TCP, 51_820), None);
        assert_eq!(service(1, 53), None, "ICMP has no ports");
    }
}
