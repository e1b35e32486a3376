package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"haft"
)

// Bounds of what a person may write.
const (
	maxRule  = 2048 // bytes of one rule
	maxRules = 1000 // of one tool
)

// The schemes of a [Dest].
const (
	// HTTP is plain HTTP.
	HTTP = "http"
	// HTTPS is TLS, whatever is inside.
	HTTPS = "https"
	// TCP is anything else.
	TCP = "tcp"
)

// A Dest is where a request goes. Method and Path are "" where they cannot be
// seen, as inside TLS.
type Dest struct {
	Host   string
	Port   uint16
	Scheme string
	Method string
	Path   string // as it stands on the request line, still escaped, without query
}

// A Rule allows some destinations. Rules are written
//
//	api.example.com                      http on port 80, https on port 443
//	*.example.com                        the same for every name below
//	example.com:8443                     that port: http, https and plain TCP
//	example.com:8000-8010                those ports
//	https://example.com:8443             that port, TLS only
//	tcp://example.com:443                that port, plain TCP too
//	GET https://api.example.com/v1/*     that method, that path and all below
//	GET,HEAD api.example.com/a/*/b       those methods, any one segment for *
//	192.0.2.1:443  [2001:db8::1]:443     an address; the port must be there
//	192.0.2.0/24:443                     a range of addresses
//
// On ports 80 and 443 plain TCP has to be asked for with tcp://, since nothing of
// what passes there could be checked.
//
// The zero Rule allows nothing.
type Rule struct {
	methods []string // sorted; none means all
	scheme  string   // "" means any that fits the port
	host    string   // canonical name or address, "" for a range
	below   bool     // the names below host and not host itself
	prefix  netip.Prefix
	any     bool // every host
	from    uint16
	to      uint16 // 0: no port was named
	path    string // decoded; "" means all
}

// Full returns the rule that allows every host and port, which operators write as "full". The
// guard still refuses private addresses and the like.
func Full() Rule { return Rule{any: true, from: 1, to: 65535} }

// ParseRule reads one rule.
func ParseRule(text string) (Rule, error) {
	r, err := parseRule(text)
	if err != nil {
		return Rule{}, &haft.Error{Code: haft.CodeInvalid, Message: "network rule: " + err.Error(), Err: err}
	}
	return r, nil
}

// parseRule is ParseRule with the reason alone.
func parseRule(text string) (Rule, error) {
	var r Rule
	if len(text) > maxRule {
		return r, fmt.Errorf("longer than %d bytes", maxRule)
	}
	rest := text
	if methods, after, ok := strings.Cut(rest, " "); ok {
		if err := r.setMethods(methods); err != nil {
			return r, err
		}
		rest = after
	}
	if scheme, after, ok := strings.Cut(rest, "://"); ok {
		if r.scheme = strings.ToLower(scheme); r.scheme != HTTP && r.scheme != HTTPS && r.scheme != TCP {
			return r, fmt.Errorf("the scheme is http, https or tcp")
		}
		rest = after
	}
	rest, err := r.setRange(rest)
	if err != nil {
		return r, err
	}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		if r.path, err = rulePath(rest[i:]); err != nil {
			return r, err
		}
		rest = rest[:i]
	}
	if err := r.setAuthority(rest); err != nil {
		return r, err
	}
	if r.scheme == TCP && (r.limited() || r.to == 0) {
		return r, fmt.Errorf("tcp:// needs a port, and has neither methods nor paths")
	}
	return r, nil
}

// setMethods reads "GET" or "GET,HEAD".
func (r *Rule) setMethods(text string) error {
	for m := range strings.SplitSeq(strings.ToUpper(text), ",") {
		if !token(m) || len(m) > 32 || m == "CONNECT" {
			return fmt.Errorf("before the space stand methods, as in GET,HEAD")
		}
		r.methods = append(r.methods, m)
	}
	slices.Sort(r.methods)
	r.methods = slices.Compact(r.methods)
	return nil
}

// setRange takes ADDRESS/BITS off the front of text, if it is there. Its slash is
// not that of a path, and what follows it has to be a port.
func (r *Rule) setRange(text string) (string, error) {
	addr, after, ok := strings.Cut(text, "/")
	if !ok {
		return text, nil
	}
	a, err := netip.ParseAddr(strings.TrimPrefix(addr, "["))
	if err != nil {
		return text, nil // a name, and the slash is a path's
	}
	end := len(after) - len(strings.TrimLeft(after, "0123456789"))
	p, err := netip.ParsePrefix(a.String() + "/" + after[:end])
	if err != nil || a.Zone() != "" || a.Is4In6() {
		return text, fmt.Errorf("a range is ADDRESS/BITS:PORT")
	}
	if p != p.Masked() {
		return text, fmt.Errorf("the range has bits behind its mask; write %s", p.Masked())
	}
	rest := after[end:]
	if strings.HasPrefix(addr, "[") {
		if rest, ok = strings.CutPrefix(rest, "]"); !ok {
			return text, fmt.Errorf("a range of IPv6 is written [ADDRESS/BITS]:PORT")
		}
	} else if a.Is6() {
		return text, fmt.Errorf("a range of IPv6 is written [ADDRESS/BITS]:PORT")
	}
	r.prefix = p
	return rest, nil
}

// setAuthority reads HOST, HOST:PORT, or the rest of a range.
func (r *Rule) setAuthority(text string) error {
	host, ports, named := text, "", false
	if i := strings.LastIndexByte(text, ':'); i >= 0 && i > strings.LastIndexByte(text, ']') {
		host, ports, named = text[:i], text[i+1:], true
	}
	if named {
		if err := r.setPorts(ports); err != nil {
			return err
		}
	}
	if r.prefix.IsValid() {
		if host != "" || !named {
			return fmt.Errorf("a range of addresses needs a port, as in 192.0.2.0/24:443")
		}
		return nil
	}
	if name, ok := strings.CutPrefix(host, "*."); ok {
		host, r.below = name, true
	}
	if strings.Contains(host, "*") {
		return fmt.Errorf("* stands alone before a name, as in *.example.com; for every host there is network: full")
	}
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return fmt.Errorf("an IPv6 address is written [ADDRESS]:PORT")
	}
	canonical, err := Canonical(host)
	if err != nil {
		return err
	}
	r.host = canonical
	_, err = netip.ParseAddr(canonical)
	isAddr := err == nil
	switch {
	case isAddr && r.below:
		return fmt.Errorf("there are no names below an address")
	case isAddr && !named:
		return fmt.Errorf("an address needs a port, as in 192.0.2.1:443")
	case r.below && !strings.Contains(canonical, "."):
		return fmt.Errorf("*.%s is too wide; name the domain, as in *.example.%s", canonical, canonical)
	}
	return nil
}

// setPorts reads N, N-M or *.
func (r *Rule) setPorts(text string) error {
	if text == "*" {
		text = "1-65535"
	}
	from, to, ok := strings.Cut(text, "-")
	if !ok {
		to = from
	}
	a, errA := port(from)
	b, errB := port(to)
	if errA != nil || errB != nil || a > b {
		return fmt.Errorf("the port is a number from 1 to 65535, or two with a dash, or *")
	}
	r.from, r.to = a, b
	return nil
}

// port reads a port: digits only, no sign, no leading zero.
func port(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || text[0] == '0' || text[0] == '+' {
		return 0, fmt.Errorf("not a port: %w", strconv.ErrSyntax)
	}
	return uint16(n), nil
}

// limited reports whether r limits methods or paths.
func (r Rule) limited() bool { return len(r.methods) > 0 || r.path != "" }

// Host returns r without methods, scheme and path: what a policy about hosts checks.
func (r Rule) Host() string {
	return Rule{host: r.host, below: r.below, prefix: r.prefix, any: r.any, from: r.from, to: r.to}.String()
}

// String returns the one spelling of r, which ParseRule reads.
func (r Rule) String() string {
	var b strings.Builder
	if len(r.methods) > 0 {
		b.WriteString(strings.Join(r.methods, ",") + " ")
	}
	if r.scheme != "" {
		b.WriteString(r.scheme + "://")
	}
	switch {
	case r.any:
		b.WriteString("*")
	case r.prefix.IsValid() && r.prefix.Addr().Is6():
		b.WriteString("[" + r.prefix.String() + "]")
	case r.prefix.IsValid():
		b.WriteString(r.prefix.String())
	case strings.Contains(r.host, ":"):
		b.WriteString("[" + r.host + "]")
	case r.below:
		b.WriteString("*." + r.host)
	default:
		b.WriteString(r.host)
	}
	switch {
	case r.from == 1 && r.to == 65535:
		b.WriteString(":*")
	case r.from != r.to:
		fmt.Fprintf(&b, ":%d-%d", r.from, r.to)
	case r.to != 0:
		fmt.Fprintf(&b, ":%d", r.to)
	}
	b.WriteString(escapePath(r.path))
	return b.String()
}

// allows reports whether r names d, whose host is canonical.
func (r Rule) allows(d Dest) bool {
	if !r.reaches(d.Host, d.Port) || !r.speaks(d.Scheme, d.Port) {
		return false
	}
	if len(r.methods) > 0 && !slices.Contains(r.methods, d.Method) {
		return false
	}
	if r.path == "" {
		return true
	}
	clean, err := cleanPath(d.Path)
	return err == nil && matchPath(r.path, clean)
}

// reaches reports whether r names the host and the port.
func (r Rule) reaches(host string, port uint16) bool {
	switch {
	case r.to != 0 && (port < r.from || port > r.to):
		return false
	case r.to == 0 && port != 80 && port != 443,
		r.to == 0 && r.scheme == HTTP && port != 80,
		r.to == 0 && r.scheme == HTTPS && port != 443:
		return false
	}
	switch {
	case r.any:
		return true
	case r.prefix.IsValid():
		a, err := netip.ParseAddr(host)
		return err == nil && r.prefix.Contains(a)
	case r.host == "":
		return false
	case r.below:
		return strings.HasSuffix(host, "."+r.host)
	}
	return host == r.host
}

// speaks reports whether r allows the scheme on a port that it reaches.
func (r Rule) speaks(scheme string, port uint16) bool {
	web := port == 80 || port == 443
	switch {
	case r.scheme == TCP:
		return true
	case r.scheme != "":
		return scheme == r.scheme
	case scheme == TCP:
		return !web && !r.limited()
	case r.to == 0: // no port was named: each scheme on its own
		return scheme == HTTP && port == 80 || scheme == HTTPS && port == 443
	}
	return scheme == HTTP || scheme == HTTPS
}

// Rules are what one tool may reach: everything that one of them names, and
// nothing else. They are not changed after they were made.
type Rules []Rule

// ParseRules reads a list of rules.
func ParseRules(texts []string) (Rules, error) {
	if len(texts) > maxRules {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("more than %d network rules", maxRules)}
	}
	rules := make(Rules, 0, len(texts))
	for i, t := range texts {
		r, err := parseRule(t)
		if err != nil {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("network rule %d: %v", i+1, err),
				Err: err}
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// ParseBinding reads the rules of where a secret may go. They are written as other
// rules are, but one without a scheme is for https only: plain http, in which everybody
// on the way can read the secret, has to be asked for with http://.
func ParseBinding(texts []string) (Rules, error) {
	rules, err := ParseRules(texts)
	return rules.overTLS(), err
}

// overTLS returns the rules; those without a scheme get https.
func (rs Rules) overTLS() Rules {
	rs = slices.Clone(rs)
	for i := range rs {
		if rs[i].scheme == "" {
			rs[i].scheme = HTTPS
		}
	}
	return rs
}

// Allows returns the first rule that names d, if there is one.
func (rs Rules) Allows(d Dest) (Rule, bool) {
	host, err := Canonical(d.Host)
	if err != nil || d.Port == 0 {
		return Rule{}, false
	}
	d.Host = host
	for _, r := range rs {
		if r.allows(d) {
			return r, true
		}
	}
	return Rule{}, false
}

// reaching returns the rules that name the host and the port, whatever their methods and paths.
func (rs Rules) reaching(host string, port uint16) Rules {
	var some Rules
	for _, r := range rs {
		if r.reaches(host, port) {
			some = append(some, r)
		}
	}
	return some
}

// Meet reports whether there is a host and a port that both lists name.
func (rs Rules) Meet(others Rules) bool {
	return slices.ContainsFunc(rs, func(r Rule) bool { return slices.ContainsFunc(others, r.meets) })
}

// meets reports whether there is a host and a port that both rules name.
func (r Rule) meets(o Rule) bool {
	if !slices.ContainsFunc(r.spans(), func(a [2]uint16) bool {
		return slices.ContainsFunc(o.spans(), func(b [2]uint16) bool { return a[0] <= b[1] && b[0] <= a[1] })
	}) {
		return false
	}
	in := func(r, o Rule) bool { // whether the one host of o is among those of r
		return !o.below && o.host != "" && Rule{host: r.host, below: r.below, prefix: r.prefix, any: r.any, from: 1,
			to: 65535}.reaches(o.host, 1)
	}
	switch {
	case r.any || o.any:
		return true
	case r.prefix.IsValid() && o.prefix.IsValid():
		return r.prefix.Overlaps(o.prefix)
	case r.below && o.below:
		return r.host == o.host || strings.HasSuffix(r.host, "."+o.host) || strings.HasSuffix(o.host, "."+r.host)
	}
	return in(r, o) || in(o, r)
}

// spans returns the ports of r.
func (r Rule) spans() [][2]uint16 {
	switch {
	case r.to != 0:
		return [][2]uint16{{r.from, r.to}}
	case r.scheme == HTTP:
		return [][2]uint16{{80, 80}}
	case r.scheme == HTTPS:
		return [][2]uint16{{443, 443}}
	}
	return [][2]uint16{{80, 80}, {443, 443}}
}

// suggest returns the narrowest simple rule that would allow d.
func suggest(d Dest) string {
	host := d.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	_, err := netip.ParseAddr(d.Host)
	switch {
	case d.Scheme == TCP && (d.Port == 80 || d.Port == 443):
		return "tcp://" + net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port)))
	case err == nil || d.Port != 80 && d.Port != 443 ||
		d.Scheme == HTTP && d.Port == 443 || d.Scheme == HTTPS && d.Port == 80:
		return fmt.Sprintf("%s:%d", host, d.Port)
	}
	return host
}
