package egress_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"haft"
	"haft/internal/egress"
)

// spellings are rules and their one spelling, or "" if they are none.
var spellings = map[string]string{
	"api.example.com":                          "api.example.com",
	"API.Example.COM.":                         "api.example.com",
	"*.Example.com":                            "*.example.com",
	"bücher.example":                           "xn--bcher-kva.example",
	"example.com:443":                          "example.com:443",
	"example.com:8000-8010":                    "example.com:8000-8010",
	"example.com:*":                            "example.com:*",
	"example.com:80-80":                        "example.com:80",
	"https://example.com":                      "https://example.com",
	"tcp://example.com:443":                    "tcp://example.com:443",
	"GET https://api.example.com/v1/*":         "GET https://api.example.com/v1/*",
	"head,get https://a.example/x":             "GET,HEAD https://a.example/x",
	"GET,GET a.example":                        "GET a.example",
	"a.example/%7Euser/*/x":                    "a.example/~user/*/x",
	"a.example/a%20b":                          "a.example/a%20b",
	"192.0.2.1:443":                            "192.0.2.1:443",
	"[2001:DB8::1]:443":                        "[2001:db8::1]:443",
	"192.0.2.0/24:443":                         "192.0.2.0/24:443",
	"[2001:db8::/32]:443":                      "[2001:db8::/32]:443",
	"POST http://192.0.2.1:8080/a":             "POST http://192.0.2.1:8080/a",
	"localhost:8080":                           "localhost:8080",
	"https://192.0.2.0/24:443/v1/*":            "https://192.0.2.0/24:443/v1/*",
	"":                                         "",
	"*":                                        "",
	"*:443":                                    "",
	"*.com":                                    "",
	"a.*.example.com":                          "",
	"*example.com":                             "",
	"*.*.example.com":                          "",
	"example.com:":                             "",
	"example.com:0":                            "",
	"example.com:65536":                        "",
	"example.com:010":                          "",
	"example.com:+80":                          "",
	"example.com:90-80":                        "",
	"example.com:80-":                          "",
	"192.0.2.1":                                "",
	"*.192.0.2.1:80":                           "",
	"192.0.2.0/24":                             "",
	"192.0.2.1/24:443":                         "",
	"192.0.2.0/33:443":                         "",
	"2001:db8::1:443":                          "",
	"2001:db8::/32:443":                        "",
	"[fe80::1%eth0]:443":                       "",
	"[::ffff:192.0.2.0/120]:443":               "",
	"[2001:db8::/32:443":                       "",
	"127.1:80":                                 "",
	"0x7f.1:80":                                "",
	"2130706433:80":                            "",
	"ftp://example.com":                        "",
	"tcp://example.com":                        "",
	"GET tcp://example.com:443":                "",
	"GET  example.com":                         "",
	" example.com":                             "",
	"GET example.com /x":                       "",
	"CONNECT example.com":                      "",
	"G@T example.com":                          "",
	"user@example.com":                         "",
	"example.com/v1/../x":                      "",
	"example.com/v1/%2e%2e/x":                  "",
	"example.com/a%2fb":                        "",
	"example.com/a//b":                         "",
	"example.com/a?b=c":                        "",
	"example.com/a#b":                          "",
	"example.com/a*":                           "",
	"example.com/%2a":                          "",
	"example.com/%252e":                        "",
	"example.com\x00.evil.com":                 "",
	strings.Repeat("a.", 2000) + "com":         "",
	"example.com/" + strings.Repeat("a", 3000): "",
}

func TestParseRule_has_one_spelling(t *testing.T) {
	for text, want := range spellings {
		r, err := egress.ParseRule(text)
		if want == "" {
			if err == nil {
				t.Errorf("ParseRule(%q) = %q, want an error", text, r)
			} else if haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("ParseRule(%q): code %s", text, haft.CodeOf(err))
			}
			continue
		}
		if err != nil || r.String() != want {
			t.Errorf("ParseRule(%q) = %q, %v, want %q", text, r, err, want)
		}
	}
}

// dest reads "METHOD scheme host port path".
func dest(t testing.TB, s string) egress.Dest {
	t.Helper()
	var d egress.Dest
	if _, err := fmt.Sscan(s, &d.Method, &d.Scheme, &d.Host, &d.Port, &d.Path); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	if d.Method == "-" {
		d.Method = ""
	}
	if d.Path == "-" {
		d.Path = ""
	}
	return d
}

func TestRules_Allows(t *testing.T) {
	tests := []struct {
		rule      string
		yes, nope []string
	}{
		{"api.example.com",
			[]string{"GET http api.example.com 80 /", "- https api.example.com 443 -",
				"GET https API.EXAMPLE.COM. 443 /x/../y"},
			[]string{"GET http api.example.com 443 /", "- https api.example.com 80 -",
				"GET http api.example.com 8080 /", "- tcp api.example.com 443 -", "- tcp api.example.com 80 -",
				"GET http example.com 80 /", "GET http x.api.example.com 80 /",
				"GET http api.example.com.evil.com 80 /", "GET http evilapi.example.com 80 /", "- https 127.1 443 -"}},
		{"*.example.com",
			[]string{"- https a.example.com 443 -", "- https a.b.example.com 443 -"},
			[]string{"- https example.com 443 -", "- https aexample.com 443 -", "- https example.com.evil.com 443 -",
				"- tcp a.example.com 443 -"}},
		{"example.com:8443",
			[]string{"- https example.com 8443 -", "GET http example.com 8443 /", "- tcp example.com 8443 -"},
			[]string{"- https example.com 443 -", "- https a.example.com 8443 -", "- tcp example.com 8444 -"}},
		{"example.com:443", []string{"- https example.com 443 -", "GET http example.com 443 /"},
			[]string{"- tcp example.com 443 -", "GET http example.com 80 /"}},
		{"tcp://example.com:443", []string{"- tcp example.com 443 -", "- https example.com 443 -"},
			[]string{"- tcp example.com 80 -"}},
		{"example.com:8000-8010", []string{"- tcp example.com 8000 -", "- tcp example.com 8010 -"},
			[]string{"- tcp example.com 7999 -", "- tcp example.com 8011 -"}},
		{"https://example.com:8443", []string{"- https example.com 8443 -"},
			[]string{"GET http example.com 8443 /", "- tcp example.com 8443 -"}},
		{"GET https://api.example.com/v1/*",
			[]string{"GET https api.example.com 443 /v1/x", "GET https api.example.com 443 /v1/x/y",
				"GET https api.example.com 443 /v1/", "GET https api.example.com 443 /%76%31/x"},
			[]string{"POST https api.example.com 443 /v1/x", "get https api.example.com 443 /v1/x",
				"GET https api.example.com 443 /v1", "GET https api.example.com 443 /v2/x",
				"GET https api.example.com 443 /",
				"GET https api.example.com 443 /v1/../v2", "GET https api.example.com 443 /v1/%2e%2e/v2",
				"GET https api.example.com 443 /v1/..%2fv2", "GET https api.example.com 443 /v1/..;/v2",
				"GET https api.example.com 443 /v1//x", "GET https api.example.com 443 //v1/x",
				"GET https api.example.com 443 /v1/%2e%2e;a/x", "GET https api.example.com 443 /v1/a%5cb",
				`GET https api.example.com 443 /v1/a\b`,
				"GET https api.example.com 443 /v1/%252e%252e/v2", "GET https api.example.com 443 /v1/x%00",
				"GET https api.example.com 443 /v1/.", "GET https api.example.com 443 /V1/x",
				"- https api.example.com 443 -", "GET http api.example.com 80 /v1/x",
				"GET http api.example.com 443 /v1/x"}},
		{"a.example/x/*/y", []string{"GET http a.example 80 /x/1/y"},
			[]string{"GET http a.example 80 /x/1/2/y", "GET http a.example 80 /x//y", "GET http a.example 80 /x/1/y/z",
				"- tcp a.example 80 -"}},
		{"a.example:8080/x", []string{"PUT http a.example 8080 /x"},
			[]string{"- tcp a.example 8080 -", "PUT http a.example 8080 /x/"}},
		{"192.0.2.0/24:443", []string{"- https 192.0.2.7 443 -", "- https ::ffff:192.0.2.7 443 -"},
			[]string{"- https 192.0.3.7 443 -", "- https example.com 443 -", "- https 192.0.2.7 80 -",
				"- tcp 192.0.2.7 443 -"}},
		{"[2001:db8::/32]:22", []string{"- tcp 2001:db8::5 22 -"}, []string{"- tcp 2001:db9::5 22 -"}},
	}
	for _, tt := range tests {
		rules, err := egress.ParseRules([]string{tt.rule})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range tt.yes {
			if r, ok := rules.Allows(dest(t, s)); !ok || r.String() != rules[0].String() {
				t.Errorf("%q does not allow %q", tt.rule, s)
			}
		}
		for _, s := range tt.nope {
			if _, ok := rules.Allows(dest(t, s)); ok {
				t.Errorf("%q allows %q", tt.rule, s)
			}
		}
	}
	full := egress.Rules{egress.Full()}
	if _, ok := full.Allows(dest(t, "- https example.com 443 -")); !ok {
		t.Error("Full does not allow everything")
	}
	if _, ok := (egress.Rules{{}}).Allows(dest(t, "GET http example.com 80 /")); ok {
		t.Error("the zero Rule allows something")
	}
}

var (
	genHost = rapid.SampledFrom([]string{"a.example", "b.a.example", "c.b.a.example", "b.example", "192.0.2.1",
		"192.0.2.200", "2001:db8::1"})
	genRule = rapid.Custom(func(t *rapid.T) string {
		host := rapid.SampledFrom([]string{"a.example", "*.a.example", "b.a.example", "B.example.", "192.0.2.1",
			"192.0.2.0/24", "[2001:db8::1]"}).Draw(t, "host")
		port := rapid.SampledFrom([]string{"", ":80", ":443", ":8000-8002", ":*"}).Draw(t, "port")
		if port == "" && strings.ContainsAny(host, "0123456789") {
			port = ":443"
		}
		scheme := rapid.SampledFrom([]string{"", "", "http://", "https://", "tcp://"}).Draw(t, "scheme")
		method := rapid.SampledFrom([]string{"", "", "GET ", "GET,POST "}).Draw(t, "method")
		path := rapid.SampledFrom([]string{"", "", "/v1/*", "/v1/x", "/*/x"}).Draw(t, "path")
		if scheme == "tcp://" {
			method, path = "", ""
			if port == "" {
				port = ":443"
			}
		}
		if strings.Contains(host, "/24") {
			path = ""
		}
		return method + scheme + host + port + path
	})
	genDest = rapid.Custom(func(t *rapid.T) egress.Dest {
		return egress.Dest{
			Host:   genHost.Draw(t, "host"),
			Port:   rapid.SampledFrom([]uint16{80, 443, 8000, 8002, 22}).Draw(t, "port"),
			Scheme: rapid.SampledFrom([]string{"http", "https", "tcp"}).Draw(t, "scheme"),
			Method: rapid.SampledFrom([]string{"", "GET", "POST", "DELETE"}).Draw(t, "method"),
			Path:   rapid.SampledFrom([]string{"", "/", "/v1/x", "/v1/y", "/a/x", "/v1/../x"}).Draw(t, "path"),
		}
	})
)

// Rules add up. What a list allows is what its rules allow one by one,
// so a further rule never allows less, and nothing is allowed that none names.
func TestRules_property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(genRule, 0, 6).Draw(t, "rules")
		d := genDest.Draw(t, "dest")
		rules, err := egress.ParseRules(texts)
		if err != nil {
			t.Fatalf("ParseRules(%q): %v", texts, err)
		}
		one := slices.ContainsFunc(rules, func(r egress.Rule) bool {
			_, ok := egress.Rules{r}.Allows(d)
			return ok
		})
		r, all := rules.Allows(d)
		if all != one {
			t.Fatalf("%q allow %+v: %v, one of them alone: %v", texts, d, all, one)
		}
		if all {
			again, err := egress.ParseRule(r.String())
			if err != nil {
				t.Fatalf("ParseRule(%q): %v", r, err)
			}
			if _, ok := (egress.Rules{again}).Allows(d); !ok {
				t.Fatalf("%q allows %+v and its spelling does not", r, d)
			}
			more, err := egress.ParseRules(append([]string{genRule.Draw(t, "more")}, texts...))
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := more.Allows(d); !ok {
				t.Fatalf("a further rule took %+v away", d)
			}
		}
	})
}

// What can be read can be written and read again, and means the same host.
func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"a.example", "*.a.example:80-90", "GET,PUT https://a.example/v1/*", "192.0.2.0/24:443",
		"[2001:db8::/32]:1", "tcp://a.example:443", "a.example/%7e"} {
		f.Add(s, "a.example", "/v1/x")
	}
	f.Fuzz(func(t *testing.T, text, host, path string) {
		r, err := egress.ParseRule(text)
		if err != nil {
			return
		}
		again, err := egress.ParseRule(r.String())
		if err != nil || again.String() != r.String() {
			t.Fatalf("ParseRule(%q) = %q, and of that %q, %v", text, r, again, err)
		}
		for _, d := range []egress.Dest{{Host: host, Port: 443, Scheme: "https"},
			{Host: host, Port: 80, Scheme: "http", Method: "GET", Path: path}, {Host: host, Port: 22, Scheme: "tcp"}} {
			_, a := egress.Rules{r}.Allows(d)
			_, b := egress.Rules{again}.Allows(d)
			if a != b {
				t.Fatalf("%q and its spelling %q differ on %+v", text, r, d)
			}
			if c, err := egress.Canonical(host); a && (err != nil || strings.ContainsAny(c, "\x00/%")) {
				t.Fatalf("%q allows the host %q", text, host)
			}
		}
	})
}

func TestRules_Meet(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"api.example.com", "api.example.com", true},
		{"api.example.com", "GET https://api.example.com/v1/*", true},
		{"http://api.example.com", "https://api.example.com", false},
		{"api.example.com", "*.example.com", true},
		{"example.com", "*.example.com", false},
		{"*.example.com", "*.b.example.com", true},
		{"*.xexample.com", "*.example.com", false},
		{"api.example.com:8443", "api.example.com", false},
		{"api.example.com:8000-8443", "api.example.com:8443-9000", true},
		{"192.0.2.0/24:443", "192.0.2.7:443", true},
		{"192.0.2.0/24:443", "192.0.2.0/25:1-1000", true},
		{"192.0.2.0/24:443", "api.example.com", false},
	} {
		a, errA := egress.ParseRules([]string{tt.a})
		b, errB := egress.ParseRules([]string{tt.b})
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if a.Meet(b) != tt.want || b.Meet(a) != tt.want || !a.Meet(egress.Rules{egress.Full()}) ||
			(egress.Rules{}).Meet(a) {
			t.Errorf("%s and %s meet: %v, want %v", tt.a, tt.b, a.Meet(b), tt.want)
		}
	}
}
