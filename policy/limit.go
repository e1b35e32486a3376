package policy

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"haft"
)

// A Rate is a token bucket, so many calls per second and Burst at once; or a window, Calls in any
// stretch of time as long as Within. Calls with equal Key share one. The key is made of who the principal is, so a
// new session or credential does not give a second bucket.
type Rate struct {
	Rule      string      `json:"rule"`
	Calls     int         `json:"calls,omitempty"`
	Within    haft.Millis `json:"within_ms,omitempty"`
	PerSecond float64     `json:"per_second"`
	Burst     int         `json:"burst"`
	Key       string      `json:"key"`
}

// A Concurrency bounds how many calls with equal Key run at once.
type Concurrency struct {
	Rule string `json:"rule"`
	Max  int    `json:"max"`
	Key  string `json:"key"`
}

// A Quota bounds how many calls with equal Key begin in one period.
type Quota struct {
	Rule   string `json:"rule"`
	Calls  int64  `json:"calls"`
	Period Period `json:"period"`
	Key    string `json:"key"`
}

// A Period is a stretch of the calendar, in UTC.
type Period string

// The periods.
const (
	Minute Period = "minute"
	Hour   Period = "hour"
	Day    Period = "day"
	Month  Period = "month"
)

// Window returns the period that t lies in: from start until before end. The
// time to wait for the next one is end.Sub(t).
func (p Period) Window(t time.Time) (start, end time.Time) {
	t = t.UTC()
	y, m, d := t.Date()
	switch p {
	case Minute:
		start = t.Truncate(time.Minute)
		return start, start.Add(time.Minute)
	case Hour:
		start = t.Truncate(time.Hour)
		return start, start.Add(time.Hour)
	case Month:
		start = time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(0, 1, 0)
	}
	start = time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	return start, start.AddDate(0, 0, 1)
}

// A Network bounds which hosts a tool may reach.
type Network struct {
	Rule  string   `json:"rule"`
	Hosts []string `json:"hosts"`
}

// dimension is something that calls are counted by.
type dimension string

// The dimensions, in the order of keys.
const (
	byOrg   dimension = "org"
	byUser  dimension = "user"
	byAgent dimension = "agent"
	byTool  dimension = "tool"
)

func dimensions() []dimension { return []dimension{byOrg, byUser, byAgent, byTool} }

// key names what is counted together: the limit and the values of its
// dimensions, quoted so that no two lists look alike.
func key(what, ref string, by []dimension, forced bool, req *Request) string {
	text := what + " " + ref
	for _, d := range dimensions() {
		if !slices.Contains(by, d) && (!forced || d != byOrg) {
			continue
		}
		v := ""
		switch d {
		case byOrg:
			v = req.Principal.Org
		case byUser:
			v = req.Principal.Owner() // keys without a user do not share a counter
		case byAgent:
			v = req.Principal.Agent
		case byTool: // the name may change hands
			v = cmp.Or(string(req.Tool.ID), req.Tool.Name)
		}
		text += " " + string(d) + "=" + strconv.Quote(v)
	}
	return text
}

// limited is a limit as a rule has it, without its rule and key, and what it is counted by.
type limited[T any] struct {
	limit T
	by    []dimension
}

// by reads the dimensions of a limit.
func (c *compiler) by(n ast.Node) []dimension {
	var all []dimension
	c.list(n, "by", func(v ast.Node) { all = append(all, oneOf(&c.document, v, "by", dimensions())) })
	return all
}

// rate reads a rate. Without by it is counted per organisation, user and tool.
func (c *compiler) rate(n ast.Node) *limited[Rate] {
	r := &limited[Rate]{by: []dimension{byOrg, byUser, byTool}}
	c.object(n, "rate", map[string]field{
		"calls":      func(n ast.Node) { r.limit.Calls = int(c.wholeNumber(n, "calls", 1e6)) },
		"within":     func(n ast.Node) { r.limit.Within = c.within(n) },
		"per_second": func(n ast.Node) { r.limit.PerSecond = c.number(n, "per_second", 1e-6, 1e6) },
		"burst":      func(n ast.Node) { r.limit.Burst = int(c.wholeNumber(n, "burst", 1e6)) },
		"by":         func(n ast.Node) { r.by = c.by(n) },
	})
	l := r.limit
	if (l.Calls > 0) == (l.PerSecond > 0) || (l.Calls > 0) != (l.Within > 0) || l.Burst > 0 && l.PerSecond == 0 {
		c.fail(n, "a rate needs calls and within, or per_second with a burst if there is one")
	}
	r.limit.Burst = cmp.Or(r.limit.Burst, int(math.Ceil(r.limit.PerSecond)))
	return r
}

// within reads the length of a window.
func (c *compiler) within(n ast.Node) haft.Millis {
	d, err := time.ParseDuration(c.text(n, "within", 20))
	if c.err == nil && (err != nil || d < time.Second || d > 24*time.Hour) {
		c.fail(n, "within is a duration between 1s and 24h, such as 1m")
	}
	return haft.Millis(d)
}

// concurrency reads a bound on calls at once. Without by it is counted per
// organisation and tool.
func (c *compiler) concurrency(n ast.Node) *limited[Concurrency] {
	r := &limited[Concurrency]{by: []dimension{byOrg, byTool}}
	c.object(n, "concurrency", map[string]field{
		"max": func(n ast.Node) { r.limit.Max = int(c.wholeNumber(n, "max", 1e6)) },
		"by":  func(n ast.Node) { r.by = c.by(n) },
	})
	if r.limit.Max == 0 {
		c.fail(n, "a concurrency needs max")
	}
	return r
}

// quota reads a quota. Without by it is counted per organisation and user.
func (c *compiler) quota(n ast.Node) *limited[Quota] {
	r := &limited[Quota]{by: []dimension{byOrg, byUser}}
	periods := []Period{Minute, Hour, Day, Month}
	c.object(n, "quota", map[string]field{
		"calls":  func(n ast.Node) { r.limit.Calls = c.wholeNumber(n, "calls", 1e12) },
		"period": func(n ast.Node) { r.limit.Period = oneOf(&c.document, n, "period", periods) },
		"by":     func(n ast.Node) { r.by = c.by(n) },
	})
	if r.limit.Calls == 0 || r.limit.Period == "" {
		c.fail(n, "a quota needs calls and period")
	}
	return r
}

// network reads which hosts may be reached at most. An empty list is none.
func (c *compiler) network(n ast.Node) []string {
	hosts := []string{}
	c.list(n, "network", func(v ast.Node) {
		host := strings.ToLower(c.text(v, "a host", 260))
		name := strings.TrimSuffix(strings.TrimPrefix(host, "*."), ":*")
		if c.err == nil && (strings.ContainsAny(name, "*/@ ") && host != "*" || name == "") {
			c.fail(v, "a host is a name or an address, with :PORT, :FROM-TO or :* if it is not about 80 and 443, "+
				"*.NAME for what is below a name, or *")
		}
		hosts = append(hosts, host)
	})
	return hosts
}

// Reach sorts the hosts that a tool wants into those that every rule lets it
// reach and the others. If no rule speaks of the network, all are allowed.
func (d Decision) Reach(want []string) (allowed, refused []string) {
	for _, host := range want {
		if slices.ContainsFunc(d.Networks, func(n Network) bool { return !n.covers(host) }) {
			refused = append(refused, host)
		} else {
			allowed = append(allowed, host)
		}
	}
	return allowed, refused
}

// covers reports whether everything that host names is among n's hosts. A host
// without a port means the same here as in the network of a tool: ports 80 and 443.
func (n Network) covers(host string) bool {
	want, ports := hostPorts(host)
	return slices.ContainsFunc(n.Hosts, func(h string) bool {
		if h == "*" {
			return true
		}
		name, spans := hostPorts(h)
		below, wide := strings.CutPrefix(name, "*")
		if name != want && !(wide && want != "*" && isBelow(want, below)) {
			return false
		}
		return !slices.ContainsFunc(ports, func(p [2]uint64) bool {
			return !slices.ContainsFunc(spans, func(s [2]uint64) bool { return s[0] <= p[0] && p[1] <= s[1] })
		})
	})
}

// hostPorts parts HOST, HOST:PORT, HOST:FROM-TO or HOST:* into the host and its
// spans of ports. What cannot be read is covered by nothing but all hosts.
func hostPorts(text string) (host string, spans [][2]uint64) {
	host = strings.ToLower(text)
	i := strings.LastIndexByte(host, ':')
	if i < 0 || i < strings.LastIndexByte(host, ']') {
		return strings.TrimSuffix(host, "."), [][2]uint64{{80, 80}, {443, 443}}
	}
	from, to, ranged := strings.Cut(host[i+1:], "-")
	host = strings.TrimSuffix(host[:i], ".")
	if from == "*" && !ranged {
		return host, [][2]uint64{{1, 65535}}
	}
	if !ranged {
		to = from
	}
	a, errA := strconv.ParseUint(from, 10, 16)
	b, errB := strconv.ParseUint(to, 10, 16)
	if errA != nil || errB != nil {
		return "", [][2]uint64{{0, 1 << 20}}
	}
	return host, [][2]uint64{{a, b}}
}

// isBelow reports whether host ends with below and has something before it.
func isBelow(host, below string) bool {
	return strings.HasSuffix(host, below) && len(host) > len(below)
}

// stronger returns the level that satisfies both demands.
func stronger(a, b haft.Level) haft.Level {
	if a == "" || b != "" && b.AtLeast(a) {
		return b
	}
	return a
}
