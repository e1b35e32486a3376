package egress

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// maxName is the longest name of a host, RFC 1035.
const maxName = 253

// The reasons why a name is not one. They never repeat the name.
var (
	errNoName   = errors.New("the host must be a name of 1 to 253 characters")
	errBadName  = errors.New("the host has characters that no name has")
	errNumeric  = errors.New("the host is an address in disguise; write addresses as 192.0.2.1 or [2001:db8::1]")
	errZone     = errors.New("the address has a zone")
	errUnicode  = errors.New("the host is not a valid international name")
	errBrackets = errors.New("what stands in brackets is not an IPv6 address")
)

// Canonical returns the one spelling of a host: an IP literal as netip prints it,
// without brackets, IPv4 in IPv6 unmapped; or a name in lower case, punycode and
// without the final dot. Whatever could mean different things to different
// readers is an error: characters outside of names, percent signs, zones, and
// numbers that some libraries take for IPv4 (127.1, 0x7f.1, 2130706433).
func Canonical(host string) (string, error) {
	if host == "" || len(host) > 4*maxName {
		return "", errNoName
	}
	if inside, ok := strings.CutPrefix(host, "["); ok {
		inside, ok = strings.CutSuffix(inside, "]")
		a, err := netip.ParseAddr(inside)
		if !ok || err != nil || !a.Is6() {
			return "", errBrackets
		}
		return literal(a)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return literal(a)
	}
	name := host
	if !utf8.ValidString(name) {
		return "", errUnicode
	}
	if !ascii(name) || punycode(name) {
		mapped, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", errUnicode
		}
		name = mapped
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if name == "" || len(name) > maxName {
		return "", errNoName
	}
	for label := range strings.SplitSeq(name, ".") {
		if !validLabel(label) {
			return "", errBadName
		}
	}
	if endsInNumber(name) {
		return "", errNumeric
	}
	return name, nil
}

// literal returns a as text, if it can stand for itself on every machine.
func literal(a netip.Addr) (string, error) {
	if a.Zone() != "" {
		return "", errZone
	}
	return a.Unmap().String(), nil
}

// ascii reports whether s has no byte above 127.
func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 127 })
}

// punycode reports whether a label of name says that it is encoded. What it
// encodes has to be checked.
func punycode(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "."), func(l string) bool {
		return len(l) >= 4 && strings.EqualFold(l[:4], "xn--")
	})
}

// validLabel reports whether l may be part of a name. Underscores are not in the
// standard for hosts, but in names that people use.
func validLabel(l string) bool {
	if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for i := range len(l) {
		c := l[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// endsInNumber reports whether some reader takes name for an IPv4 address: the
// last label is a number, decimal, octal or hexadecimal (WHATWG URL, 3.5).
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// localSuffixes are suffixes of local names: they are never in the public DNS, or only
// point to local addresses.
var localSuffixes = []string{
	"localhost", "local", "internal", "intranet", "private", "corp", "home", "lan",
	"localdomain", "home.arpa", "svc", "cluster.local", "in-addr.arpa", "ip6.arpa",
}

// metadataNames are the names of the metadata services of clouds, which give out
// credentials.
var metadataNames = []string{
	"metadata", "instance-data", "metadata.google.internal", "metadata.goog",
	"metadata.azure.com", "metadata.tencentyun.com", "metadata.platformequinix.com",
	"instance-data.ec2.internal", "metadata.azure.internal",
}

// within reports whether name is suffix or below it.
func within(name, suffix string) bool {
	return name == suffix || strings.HasSuffix(name, "."+suffix)
}
