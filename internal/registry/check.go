package registry

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"haft"
	"haft/internal/requirement"
	"haft/internal/value"
	"haft/schema"
)

// The bounds on a draft.
const (
	MaxSource      = schema.MaxSource // bytes of the source
	MaxSchema      = 256 << 10        // bytes of a schema that is given
	MaxDescription = 16 << 10         // bytes of the description
	MaxTags        = 32
	MaxTag         = 64 // characters of a tag or category
	MaxHosts       = 64
	MaxRoles       = 32
	MaxRole        = 128 // characters of a role
	MaxPackages    = 100
	maxPackage     = 200 // characters of a requirement
	maxFunction    = 200
	maxRate        = 1e6
	maxSlots       = 100_000
	maxChars       = 50_000_000
	maxCacheFor    = 30 * 24 * time.Hour
	maxMisfits     = 20
)

// sourceKinds are the kinds that a draft can have.
func sourceKinds() []haft.Kind {
	return []haft.Kind{haft.KindPython, haft.KindTypeScript, haft.KindJavaScript, haft.KindBash}
}

var (
	sandboxName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`) })
	hostLabel   = sync.OnceValue(
		func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`) })
)

// checker collects what is wrong with a draft, all of it.
type checker struct {
	network func(entry string) error // nil means isHost
	misfits []haft.Misfit
}

// fail notes what is wrong at a place of the draft's JSON.
func (c *checker) fail(pointer, format string, args ...any) {
	if len(c.misfits) < maxMisfits {
		c.misfits = append(c.misfits, haft.Misfit{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
	}
}

// err returns what was found.
func (c *checker) err(what string) error {
	if len(c.misfits) == 0 {
		return nil
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: what + ": " + inWords(c.misfits), Misfits: c.misfits}
}

// checkDraft reports everything in a draft that can be seen to be wrong without
// reading its source, at once. The kind must be set.
func checkDraft(d haft.Draft, network func(entry string) error) error {
	c := checker{network: network}
	if d.Name != "" {
		if err := haft.CheckToolName(d.Name); err != nil {
			c.fail("/name", "%s", haft.MessageOf(err))
		}
	}
	switch {
	case d.Kind == haft.KindBuiltin:
		c.fail("/source_type", "built-in tools are part of the program")
	case d.Kind == haft.KindMCP:
		c.fail("/source_type", "tools of an MCP server are registered with the server")
	case !slices.Contains(sourceKinds(), d.Kind):
		c.fail("/source_type", "must be python, typescript, javascript or bash")
	}
	switch {
	case strings.TrimSpace(d.Source) == "":
		c.fail("/source_code", "a tool needs source")
	case len(d.Source) > MaxSource:
		c.fail("/source_code", "is %d bytes long, %d is the most", len(d.Source), MaxSource)
	}
	c.text("/source_code", d.Source, math.MaxInt)
	c.text("/function", d.Function, maxFunction)
	c.text("/description", d.Description, MaxDescription)
	c.text("/annotations/title", d.Annotations.Title, 200)
	c.label("/category", d.Category, true)
	c.tags("/tags", d.Tags)
	c.packages(d.Needs, d.Kind)
	for pointer, s := range map[string]json.RawMessage{"/parameters": d.Parameters, "/args_json_schema": d.ArgsSchema,
		"/returns": d.Returns} {
		if len(s) > MaxSchema {
			c.fail(pointer, "is %d bytes long, %d is the most", len(s), MaxSchema)
		}
	}
	c.settings(d.Settings)
	if d.Name != "" && d.Settings.Fallback == d.Name {
		c.fail("/settings/fallback", "a tool cannot be its own fallback")
	}
	slices.SortStableFunc(c.misfits, func(a, b haft.Misfit) int { return strings.Compare(a.Pointer, b.Pointer) })
	return c.err("the tool cannot be registered")
}

// settings checks how a tool is to be run.
func (c *checker) settings(s haft.Settings) {
	const at = "/settings"
	c.limits(at+"/limits", s.Limits)
	c.hosts(at+"/network", s.Network)
	if s.Sandbox != "" && !sandboxName().MatchString(s.Sandbox) {
		c.fail(at+"/sandbox", "is not the name of a sandbox")
	}
	if s.MinIsolation != "" && !slices.Contains(haft.Levels(), s.MinIsolation) {
		c.fail(at+"/min_isolation", "is not a level of isolation")
	}
	if s.CacheFor < 0 || s.CacheFor.D() > maxCacheFor {
		c.fail(at+"/cache_ms", "must be between 0 and 30 days")
	}
	if len(s.Roles) > MaxRoles {
		c.fail(at+"/roles", "names %d roles, %d is the most", len(s.Roles), MaxRoles)
	}
	for i, r := range s.Roles[:min(len(s.Roles), MaxRoles)] {
		pointer := fmt.Sprintf("%s/roles/%d", at, i)
		c.text(pointer, r, MaxRole)
		if r == "" || r != strings.TrimSpace(r) {
			c.fail(pointer, "is not the name of a role")
		}
	}
	if len(s.Secrets) > MaxRoles {
		c.fail(at+"/secrets", "names %d variables, %d is the most", len(s.Secrets), MaxRoles)
	}
	for i, name := range s.Secrets[:min(len(s.Secrets), MaxRoles)] {
		if !variable().MatchString(name) {
			c.fail(fmt.Sprintf("%s/secrets/%d", at, i), "is not the name of a variable")
		}
	}
	if err := s.Retry.Check(); err != nil {
		c.fail(at+"/retry", "%s", haft.MessageOf(err))
	}
	switch r := s.Rate; {
	case !(r.PerSecond >= 0 && r.PerSecond <= maxRate) || r.Burst < 0 || r.Burst > maxRate:
		c.fail(at+"/rate", "must be between 0 and %d", int(maxRate))
	case r.Burst > 0 && r.PerSecond == 0:
		c.fail(at+"/rate", "a burst needs per_second too")
	}
	if s.Concurrency < 0 || s.Concurrency > maxSlots {
		c.fail(at+"/concurrency", "must be between 0 and %d", maxSlots)
	}
	c.text(at+"/fallback", s.Fallback, 128)
	c.output(at+"/output", s.Output)
}

// hosts checks what a tool may reach.
func (c *checker) hosts(at string, hosts []string) {
	if len(hosts) > MaxHosts {
		c.fail(at, "names %d hosts, %d is the most", len(hosts), MaxHosts)
	}
	for i, h := range hosts[:min(len(hosts), MaxHosts)] {
		if h == "full" {
			continue // every public host, which policy has to allow by name
		}
		if c.network != nil {
			if err := c.network(h); err != nil {
				c.fail(fmt.Sprintf("%s/%d", at, i), "%s", haft.MessageOf(err))
			}
		} else if !isHost(h) {
			c.fail(fmt.Sprintf("%s/%d", at, i),
				"a host is a name or an address, with :PORT if need be, or *.NAME for what is below a name")
		}
	}
}

// output checks what a tool is expected to give back.
func (c *checker) output(at string, o haft.Output) {
	if o.Type != haft.OutputAny && !slices.Contains(haft.OutputTypes(), o.Type) {
		c.fail(at+"/type", "must be json, text, number, boolean or list")
	}
	if o.MaxChars < 0 || o.MaxChars > maxChars {
		c.fail(at+"/max_chars", "must be between 0 and %d", maxChars)
	}
	if _, err := value.CompileValidators(o.Validators); err != nil {
		c.fail(at+"/validators", "%s", haft.MessageOf(err))
	}
}

// limits checks each limit against its ceiling, whatever limits there are.
func (c *checker) limits(at string, l haft.Limits) {
	have, most := reflect.ValueOf(l), reflect.ValueOf(haft.LimitCeilings())
	for i := range have.NumField() {
		name, _, _ := strings.Cut(have.Type().Field(i).Tag.Get("json"), ",")
		switch n, top := have.Field(i).Int(), most.Field(i).Int(); {
		case n < 0:
			c.fail(at+"/"+name, "is negative")
		case n > top:
			c.fail(at+"/"+name, "is more than the most there is")
		}
	}
}

// packages checks that requirements name packages and nothing else.
func (c *checker) packages(n haft.Requirements, kind haft.Kind) {
	for _, e := range []struct {
		at    string
		names []string
		read  func(string) error
		kinds []haft.Kind
	}{
		{"/requirements/pip", n.Pip, func(s string) error { _, err := requirement.ParsePip(s); return err },
			[]haft.Kind{haft.KindPython}},
		{"/requirements/npm", n.NPM, func(s string) error { _, err := requirement.ParseNPM(s); return err },
			[]haft.Kind{haft.KindTypeScript, haft.KindJavaScript}},
	} {
		switch {
		case len(e.names) > MaxPackages:
			c.fail(e.at, "names %d packages, %d is the most", len(e.names), MaxPackages)
			continue
		case len(e.names) > 0 && !slices.Contains(e.kinds, kind):
			c.fail(e.at, "tools of this kind cannot have such packages")
		}
		for i, p := range e.names {
			if err := e.read(p); err != nil {
				c.fail(fmt.Sprintf("%s/%d", e.at, i), "%s", haft.MessageOf(err))
			}
		}
	}
}

// tags checks a list of tags.
func (c *checker) tags(at string, tags []string) {
	if len(tags) > MaxTags {
		c.fail(at, "there are %d tags, %d is the most", len(tags), MaxTags)
	}
	for i, tag := range tags[:min(len(tags), MaxTags)] {
		c.label(fmt.Sprintf("%s/%d", at, i), tag, false)
	}
}

// label checks a tag or category: a word or a few that policies can name, in
// which * means something else.
func (c *checker) label(at, s string, optional bool) {
	c.text(at, s, MaxTag)
	switch {
	case s == "" && !optional:
		c.fail(at, "is empty")
	case s != strings.TrimSpace(s) || strings.ContainsFunc(s,
		func(r rune) bool { return r == '*' || r == ',' || unicode.IsControl(r) }):
		c.fail(at, "must not hold *, commas, control characters or white space around it")
	}
}

// text checks that a text can be kept and hashed without loss.
func (c *checker) text(at, s string, most int) {
	switch {
	case !utf8.ValidString(s):
		c.fail(at, "is not valid UTF-8")
	case strings.ContainsRune(s, 0):
		c.fail(at, "holds a NUL character")
	case len(s) > most:
		c.fail(at, "is %d bytes long, %d is the most", len(s), most)
	}
}

// variable is what a variable of an environment can be called.
var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`) })

// isHost reports whether h names hosts that a tool may reach: NAME, *.NAME or an
// address, with or without a port.
func isHost(h string) bool {
	h = strings.ToLower(h)
	host := h
	if a, err := netip.ParseAddr(h); err == nil {
		return a.Zone() == ""
	}
	if i := strings.LastIndexByte(h, ':'); i >= 0 {
		port, err := strconv.ParseUint(h[i+1:], 10, 16)
		if err != nil || port == 0 || h[i+1] == '+' {
			return false
		}
		host = h[:i]
		if inner, ok := strings.CutPrefix(host, "["); ok {
			a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
			return err == nil && a.Is6() && a.Zone() == "" && strings.HasSuffix(inner, "]")
		}
		if _, err := netip.ParseAddr(host); err == nil {
			return !strings.Contains(host, ":")
		}
	}
	name := strings.TrimSuffix(strings.TrimPrefix(host, "*."), ".")
	if len(name) > 253 {
		return false
	}
	labels := strings.Split(name, ".")
	if strings.HasPrefix(host, "*.") && len(labels) < 2 {
		return false // *.com would be half the world
	}
	// A name whose last label is a number is read as an address by some and not by
	// others: https://url.spec.whatwg.org/#ends-in-a-number-checker.
	last := labels[len(labels)-1]
	if last == "" || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return false
	}
	return !slices.ContainsFunc(labels, func(l string) bool { return !hostLabel().MatchString(l) })
}
