package egress_test

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"haft"
	"haft/internal/egress"
)

// refusalIn returns the refusal in err, which has to be one that callers can act
// on.
func refusalIn(t testing.TB, err error) *egress.Refusal {
	t.Helper()
	r, ok := errors.AsType[*egress.Refusal](err)
	if !ok {
		t.Fatalf("error %v holds no refusal", err)
	}
	if haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("code of %v is %q, want %q", err, haft.CodeOf(err), haft.CodeDenied)
	}
	if haft.MessageOf(err) == "" || r.Rule == "" || r.Reason == "" {
		t.Errorf("refusal %+v does not say why", r)
	}
	return r
}

// special has an address of every range, and of its edges.
var special = []struct{ addr, want string }{
	{"0.0.0.0", "unspecified"},
	{"0.1.2.3", "unspecified"},
	{"10.0.0.1", "private"},
	{"10.255.255.255", "private"},
	{"100.64.0.1", "carrier-grade NAT"},
	{"100.127.255.255", "carrier-grade NAT"},
	{"100.100.100.200", "metadata"},
	{"127.0.0.1", "loopback"},
	{"127.255.255.254", "loopback"},
	{"168.63.129.16", "metadata"},
	{"169.254.0.1", "link-local"},
	{"169.254.169.254", "metadata"},
	{"169.254.170.2", "metadata"},
	{"172.16.0.1", "private"},
	{"172.31.255.255", "private"},
	{"192.0.0.1", "reserved"},
	{"192.0.0.192", "metadata"},
	{"192.0.2.1", "documentation"},
	{"192.88.99.1", "6to4 relay"},
	{"192.168.1.1", "private"},
	{"198.18.0.1", "benchmark"},
	{"198.19.255.255", "benchmark"},
	{"198.51.100.1", "documentation"},
	{"203.0.113.1", "documentation"},
	{"224.0.0.1", "multicast"},
	{"239.255.255.255", "multicast"},
	{"240.0.0.1", "reserved"},
	{"255.255.255.255", "broadcast"},
	{"::", "unspecified"},
	{"::1", "loopback"},
	{"::127.0.0.1", "IPv4-compatible"},
	{"::8.8.8.8", "IPv4-compatible"},
	{"::ffff:127.0.0.1", "loopback (IPv4-mapped)"},
	{"::ffff:169.254.169.254", "metadata (IPv4-mapped)"},
	{"::ffff:0:127.0.0.1", "IPv4-translated"},
	{"64:ff9b::10.0.0.1", "private (NAT64)"},
	{"64:ff9b::a9fe:a9fe", "metadata (NAT64)"},
	{"64:ff9b:1::808:808", "local NAT64"},
	{"100::1", "discard"},
	{"2001::1", "Teredo"},
	{"2001:0:4136:e378:8000:63bf:3fff:fdd2", "Teredo"},
	{"2001:2::1", "benchmark"},
	{"2001:10::1", "reserved"},
	{"2001:db8::1", "documentation"},
	{"2002:7f00:1::", "loopback (6to4)"},
	{"2002:a9fe:a9fe::1", "metadata (6to4)"},
	{"2002:a00:1::1", "private (6to4)"},
	{"2606:4700::5efe:10.0.0.1", "private (ISATAP)"},
	{"2606:4700::200:5efe:127.0.0.1", "loopback (ISATAP)"},
	{"fe80::5efe:8.8.8.8", "link-local"},
	{"3fff::1", "documentation"},
	{"4000::1", "reserved"},
	{"5f00::1", "segment routing"},
	{"fc00::1", "private"},
	{"fd00:ec2::254", "metadata"},
	{"fd12:3456::1", "private"},
	{"fe80::1", "link-local"},
	{"fe80::1%eth0", "zone"},
	{"2606:4700::1%1", "zone"},
	{"fec0::1", "site-local"},
	{"ff02::1", "multicast"},
}

func TestGuard_CheckAddr_refuses(t *testing.T) {
	g := egress.New(egress.Config{})
	for _, tt := range special {
		t.Run(tt.addr, func(t *testing.T) {
			a := netip.MustParseAddr(tt.addr)
			err := g.CheckAddr(a)
			if err == nil {
				t.Fatalf("CheckAddr(%s) = nil", a)
			}
			if r := refusalIn(t, err); r.Range != tt.want || r.Rule != egress.RuleRange {
				t.Errorf("CheckAddr(%s): range %q (%s), want %q", a, r.Range, r.Rule, tt.want)
			}
		})
	}
	if err := g.CheckAddr(netip.Addr{}); err == nil {
		t.Error("CheckAddr of no address = nil")
	}
}

func TestGuard_CheckAddr_allows_public_addresses(t *testing.T) {
	g := egress.New(egress.Config{})
	for _, a := range []string{
		"1.1.1.1", "8.8.8.8", "11.0.0.1", "100.63.255.255", "100.128.0.1", "126.255.255.255", "128.0.0.1", "172.15.0.1",
		"172.32.0.1",
		"192.0.1.1", "192.167.1.1", "198.17.0.1", "198.20.0.1", "223.255.255.255", "::ffff:8.8.8.8",
		"2606:4700:4700::1111", "2a00:1450::1", "64:ff9b::8.8.8.8", "2002:808:808::1", "2606:4700::5efe:8.8.8.8",
	} {
		if err := g.CheckAddr(netip.MustParseAddr(a)); err != nil {
			t.Errorf("CheckAddr(%s) = %v", a, err)
		}
	}
}

func TestGuard_Allow_is_by_name(t *testing.T) {
	g := egress.New(egress.Config{Allow: []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("169.254.0.0/16"),
		netip.MustParsePrefix("0.0.0.0/0"),
		netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("64:ff9b::/96"),
	}})
	for addr, ok := range map[string]bool{
		"10.1.2.3": true, "127.0.0.1": true, "169.254.1.1": true, "::ffff:10.1.2.3": true, "64:ff9b::10.1.2.3": true,
		"169.254.169.254": false, "168.63.129.16": false, "64:ff9b::a9fe:a9fe": false, // never by a range
		"100.100.100.200": true, "fd00::1": false, "::1": false,
	} {
		if err := g.CheckAddr(netip.MustParseAddr(addr)); (err == nil) != ok {
			t.Errorf("CheckAddr(%s) = %v, want allowed %v", addr, err, ok)
		}
	}
}

func TestGuard_refuses_the_addresses_of_this_machine(t *testing.T) {
	own := netip.MustParseAddr("93.184.215.14")
	g := egress.New(egress.Config{Own: func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: own.AsSlice(), Mask: net.CIDRMask(24, 32)}}, nil
	}})
	err := g.CheckAddr(own)
	if err == nil {
		t.Fatal("an address of this machine was allowed")
	}
	if r := refusalIn(t, err); r.Range != "own" {
		t.Errorf("range %q, want own", r.Range)
	}
	if err := g.CheckAddr(netip.MustParseAddr("93.184.215.15")); err != nil {
		t.Errorf("its neighbour was refused: %v", err)
	}
}

func TestGuard_CheckHost_refuses(t *testing.T) {
	g := egress.New(egress.Config{})
	for _, host := range []string{
		"", ".", "..", "a..b", "example..com", "example.com..", ".example.com",
		"localhost", "LOCALHOST", "localhost.", "foo.localhost", "localhost.localdomain",
		"printer.local", "db.internal", "router.home.arpa", "api.default.svc", "api.default.svc.cluster.local",
		"nas.lan",
		"metadata", "metadata.google.internal", "METADATA.google.INTERNAL.", "metadata.goog", "instance-data",
		"intranet", "com",
		"127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0x7F.0.0.0x1", "0177.0.0.1",
		"017700000001", "127.0.0.1.", "0", "00", "1.2.3.4.5", "1.1.1.256", "0x", "127.0.0.0x",
		"[::1]", "::1", "[::ffff:127.0.0.1]", "::ffff:7f00:1", "[fe80::1%25eth0]", "fe80::1%eth0", "[127.0.0.1]",
		"[::1", "::1]", "[]",
		"127。0。0。1", "127．0．0．1", "１２７.0.0.1", "①②⑦.0.0.1", "ｌｏｃａｌｈｏｓｔ", "localhost。", "loca\u00adlhost",
		"127.0.0.1%00.example.com", "evil.com\x00.example.com", "evil.com%2eexample.com", "evil.com/.example.com",
		"evil.com\\.example.com",
		"user@example.com", "example.com:80", "exa mple.com", "example.com\r\nX: y", "example.com\t", "exam\x7fple.com",
		"ex*mple.com", "?.com",
		"-example.com", "example-.com", strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 127) + "com",
		"xn--zzzzzz-.com", "xn--.com", "\xff\xfe.com",
	} {
		if got, err := g.CheckHost(host); err == nil {
			t.Errorf("CheckHost(%q) = %q, want a refusal", host, got)
		} else {
			_ = refusalIn(t, err)
		}
	}
}

func TestGuard_CheckHost_has_one_spelling(t *testing.T) {
	g := egress.New(egress.Config{})
	for host, want := range map[string]string{
		"example.com": "example.com", "EXAMPLE.Com": "example.com", "example.com.": "example.com",
		"bücher.example": "xn--bcher-kva.example", "BÜCHER.example": "xn--bcher-kva.example",
		"XN--BCHER-kva.example": "xn--bcher-kva.example",
		"example。com":           "example.com", "ｅｘａｍｐｌｅ.com": "example.com", "a_b.example.com": "a_b.example.com",
		"8.8.8.8": "8.8.8.8", "[2606:4700::0001]": "2606:4700::1", "::ffff:8.8.8.8": "8.8.8.8",
		"1e100.net": "1e100.net", "0x7f.example": "0x7f.example",
	} {
		if got, err := g.CheckHost(host); err != nil || got != want {
			t.Errorf("CheckHost(%q) = %q, %v, want %q", host, got, err, want)
		}
	}
}

func TestGuard_Names_are_by_name(t *testing.T) {
	g := egress.New(egress.Config{Names: []string{"db.internal", "*.svc"},
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	for host, ok := range map[string]bool{
		"db.internal": true, "DB.internal.": true, "x.db.internal": false, "other.internal": false,
		"api.svc": true, "svc": false, "localhost": true, "a.localhost": true,
	} {
		if _, err := g.CheckHost(host); (err == nil) != ok {
			t.Errorf("CheckHost(%q) = %v, want allowed %v", host, err, ok)
		}
	}
}

// Whatever passes has one spelling, is a name that every resolver reads in the
// same way, and is not an address that CheckAddr refuses.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"example.com", "127.1", "0x7f.1", "[::1]", "bücher.example", "127。0。0。1", "a\x00b.com",
		"xn--bcher-kva.example", "::ffff:1.2.3.4", "EXAMPLE.COM."} {
		f.Add(s)
	}
	g := egress.New(egress.Config{})
	f.Fuzz(func(t *testing.T, s string) {
		got, err := egress.Canonical(s)
		if err != nil {
			return
		}
		if again, err := egress.Canonical(got); err != nil || again != got {
			t.Fatalf("Canonical(%q) = %q, and of that %q, %v", s, got, again, err)
		}
		if strings.ContainsAny(got, "\x00%/@\\ []\r\n*") || strings.ToLower(got) != got || strings.HasSuffix(got, ".") {
			t.Fatalf("Canonical(%q) = %q", s, got)
		}
		if a, err := netip.ParseAddr(got); err == nil {
			if _, herr := g.CheckHost(s); (herr == nil) != (g.CheckAddr(a) == nil) {
				t.Fatalf("CheckHost(%q) = %v, CheckAddr(%s) = %v", s, herr, a, g.CheckAddr(a))
			}
		} else if net.ParseIP(got) != nil {
			t.Fatalf("Canonical(%q) = %q, which net takes for an address", s, got)
		}
	})
}
