package egress

import (
	"encoding/binary"
	"net/netip"
)

// A span is a range of addresses that is refused unless a rule names it.
type span struct {
	prefix netip.Prefix
	name   string
}

// metadata lists the single addresses at which clouds hand out credentials. Some
// are public or shared addresses, so they are listed one by one; an allowed range
// does not include them, they have to be allowed one by one too.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"),    // AWS, GCP, Azure, Oracle, DigitalOcean …
	netip.MustParseAddr("169.254.169.253"),    // AWS: DNS
	netip.MustParseAddr("169.254.169.123"),    // AWS: time
	netip.MustParseAddr("169.254.170.2"),      // AWS ECS: credentials of the task
	netip.MustParseAddr("169.254.170.23"),     // AWS EKS: credentials of the pod
	netip.MustParseAddr("169.254.0.23"),       // Tencent
	netip.MustParseAddr("169.254.42.42"),      // Scaleway
	netip.MustParseAddr("100.100.100.200"),    // Alibaba
	netip.MustParseAddr("168.63.129.16"),      // Azure: a public address that means the host
	netip.MustParseAddr("192.0.0.192"),        // Oracle, classic
	netip.MustParseAddr("fd00:ec2::254"),      // AWS
	netip.MustParseAddr("fd00:ec2::253"),      // AWS: DNS
	netip.MustParseAddr("fd00:ec2::23"),       // AWS EKS
	netip.MustParseAddr("fd20:ce::254"),       // GCP
	netip.MustParseAddr("fd00:42::42"),        // Scaleway
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"), // Oracle
}

// specialRanges is IANA's list of special addresses (RFC 6890 and its registries). The
// most specific name comes first.
var specialRanges = []span{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("192.31.196.0/24"), "reserved"},
	{netip.MustParsePrefix("192.52.193.0/24"), "reserved"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("192.175.48.0/24"), "reserved"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmark"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},

	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("::/96"), "IPv4-compatible"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "IPv4-translated"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "local NAT64"},
	{netip.MustParsePrefix("100::/64"), "discard"},
	{netip.MustParsePrefix("2001::/32"), "Teredo"},
	{netip.MustParsePrefix("2001:2::/48"), "benchmark"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("2001::/23"), "reserved"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "reserved"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
	{netip.MustParsePrefix("5f00::/16"), "segment routing"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

var (
	global    = netip.MustParsePrefix("2000::/3") // all that IANA has given out of IPv6
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// embedded returns the IPv4 address to which packets for a really go, or that
// they pass, if a is one of the forms that carry one.
func embedded(a netip.Addr) (v4 netip.Addr, form string, ok bool) {
	if !a.Is6() {
		return netip.Addr{}, "", false
	}
	b := a.As16()
	switch {
	case a.Is4In6():
		return a.Unmap(), "IPv4-mapped", true
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16])), "NAT64", true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), "6to4", true
	case binary.BigEndian.Uint32(b[8:12])&^0x02000000 == 0x00005efe:
		// RFC 5214: the interface is [00|02]00:5efe: and then the IPv4 address.
		return netip.AddrFrom4([4]byte(b[12:16])), "ISATAP", true
	}
	return netip.Addr{}, "", false
}

// special returns the span that a is in, if there is one.
func special(a netip.Addr) (span, bool) {
	for _, m := range metadata {
		if a == m {
			return span{netip.PrefixFrom(a, a.BitLen()), "metadata"}, true
		}
	}
	for _, s := range specialRanges {
		if s.prefix.Contains(a) {
			return s, true
		}
	}
	if a.Is6() && !global.Contains(a) && !nat64.Contains(a) {
		return span{netip.MustParsePrefix("::/0"), "reserved"}, true
	}
	return span{}, false
}
