package registry

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"haft"
	"haft/internal/egress"
	"haft/internal/jsontree"
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
	maxFileName    = 200
	MaxPrograms    = 16
	maxRate        = 1e6
	maxSlots       = 100_000
	maxChars       = 50_000_000
	maxCacheFor    = 30 * 24 * time.Hour
	maxMisfits     = 20
	maxValues      = 100      // of metadata
	maxMetadata    = 64 << 10 // bytes
)

var (
	sandboxName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`) })
	// variableName is what a variable of an environment can be called.
	variableName = sync.OnceValue(
		func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`) })
	// programName is what a program of a directory of the system is called.
	programName = sync.OnceValue(
		func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}$`) })
)

// checker collects everything that is wrong with a draft.
type checker struct {
	misfits []haft.Misfit
}

// fail notes a mistake at a place of the draft's JSON.
func (c *checker) fail(pointer, format string, args ...any) {
	if len(c.misfits) < maxMisfits {
		c.misfits = append(c.misfits, haft.Misfit{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
	}
}

// failIf notes err, if there is one.
func (c *checker) failIf(pointer string, err error) {
	if err != nil {
		c.fail(pointer, "%s", haft.MessageOf(err))
	}
}

// each checks the entries of a list that may have so many.
func (c *checker) each(at string, list []string, most int, what string, check func(at, entry string)) {
	if len(list) > most {
		c.fail(at, "names %d %s, %d is the most", len(list), what, most)
	}
	for i, entry := range list[:min(len(list), most)] {
		check(fmt.Sprintf("%s/%d", at, i), entry)
	}
}

// err returns what was found, ordered by place.
func (c *checker) err(what string) error {
	if len(c.misfits) == 0 {
		return nil
	}
	slices.SortStableFunc(c.misfits, func(a, b haft.Misfit) int { return strings.Compare(a.Pointer, b.Pointer) })
	return &haft.Error{Code: haft.CodeInvalid, Message: what + ": " + inWords(c.misfits), Misfits: c.misfits}
}

// checkDraft reports all mistakes of a draft that can be found without reading its
// source. The kind must be set.
func checkDraft(d haft.Draft) error {
	var c checker
	if d.Name != "" {
		c.failIf("/name", haft.CheckToolName(d.Name))
	}
	switch _, isSource := endings()[d.Kind]; {
	case d.Kind == haft.KindBuiltin:
		c.fail("/source_type", "built-in tools are part of the program")
	case d.Kind == haft.KindMCP:
		c.fail("/source_type", "tools of an MCP server are registered with the server")
	case !isSource:
		c.fail("/source_type", "must be python, typescript, javascript or bash")
	}
	switch {
	case strings.TrimSpace(d.Source) == "":
		c.fail("/source_code", "a tool needs source")
	case len(d.Source) > MaxSource:
		c.fail("/source_code", "is %d bytes long, %d is the most", len(d.Source), MaxSource)
	}
	c.text("/source_code", d.Source, math.MaxInt)
	if d.File != "" && !isFileName(d.File) {
		c.fail("/file", "must be the name of a file without directories, of at most %d bytes", maxFileName)
	}
	c.text("/function", d.Function, maxFunction)
	c.text("/description", d.Description, MaxDescription)
	c.text("/annotations/title", d.Annotations.Title, 200)
	c.label("/category", d.Category, true)
	c.tags("/tags", d.Tags)
	c.files(d.Files, d.Kind)
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
	return c.err("the tool cannot be registered")
}

// isFileName reports whether a text can be what tracebacks call a source.
func isFileName(s string) bool {
	return len(s) <= maxFileName && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(c rune) bool { return c == '/' || c == '\\' || unicode.IsControl(c) })
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
	c.each(at+"/roles", s.Roles, MaxRoles, "roles", func(at, role string) {
		c.text(at, role, MaxRole)
		if role == "" || role != strings.TrimSpace(role) {
			c.fail(at, "is not the name of a role")
		}
	})
	c.each(at+"/secrets", s.Secrets, MaxRoles, "variables", func(at, name string) {
		if !variableName().MatchString(name) {
			c.fail(at, "is not the name of a variable")
		}
	})
	c.each(at+"/programs", s.Programs, MaxPrograms, "programs", func(at, name string) {
		if !programName().MatchString(name) {
			c.fail(at, "is not the name of a program: a name without directories, such as git")
		}
	})
	c.failIf(at+"/retry", s.Retry.Check())
	switch r := s.Rate; {
	case !(r.PerSecond >= 0 && r.PerSecond <= maxRate) || r.Burst < 0 || r.Burst > maxRate:
		c.fail(at+"/rate", "must be between 0 and %d", int(maxRate))
	case r.Burst > 0 && r.PerSecond == 0:
		c.fail(at+"/rate", "a burst needs per_second too")
	case r.Calls < 0 || r.Calls > maxRate || (r.Calls > 0) != (r.Within > 0) || r.Within > haft.Millis(24*time.Hour):
		c.fail(at+"/rate", "needs calls and within_ms together: up to %d calls in up to 24 h", int(maxRate))
	}
	if s.Concurrency < 0 || s.Concurrency > maxSlots {
		c.fail(at+"/concurrency", "must be between 0 and %d", maxSlots)
	}
	c.text(at+"/fallback", s.Fallback, 128)
	if len(s.OnError) > haft.MaxReactions {
		c.fail(at+"/on_error", "has %d reactions, %d is the most", len(s.OnError), haft.MaxReactions)
	}
	for i, r := range s.OnError[:min(len(s.OnError), haft.MaxReactions)] {
		at := fmt.Sprintf("%s/on_error/%d", at, i)
		c.failIf(at, r.Check())
		if len(r.Args) > 0 && !s.Idempotent {
			c.fail(at+"/args", "runs the tool again, which needs idempotent: true in the settings")
		}
	}
	c.output(at+"/output", s.Output)
}

// hosts checks the network rules of a tool.
func (c *checker) hosts(at string, hosts []string) {
	c.each(at, hosts, MaxHosts, "hosts", func(at, host string) {
		if host == "full" {
			return // every public host, which policy has to allow by name
		}
		_, err := egress.ParseRule(host)
		c.failIf(at, err)
	})
}

// output checks the settings of a tool's output.
func (c *checker) output(at string, o haft.Output) {
	if o.Type != haft.OutputAny && !slices.Contains(haft.OutputTypes(), o.Type) {
		c.fail(at+"/type", "must be json, text, number, boolean or list")
	}
	if o.MaxChars < 0 || o.MaxChars > maxChars {
		c.fail(at+"/max_chars", "must be between 0 and %d", maxChars)
	}
	_, err := value.CompileValidators(o.Validators)
	c.failIf(at+"/validators", err)
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
func (c *checker) packages(n haft.Requirements, kind haft.Kind) { c.packagesAt("", n, kind) }

// CheckPackages reports what is wrong with packages that code brings with it.
func CheckPackages(n haft.Requirements) error {
	var c checker
	c.packages(haft.Requirements{Pip: n.Pip}, haft.KindPython)
	c.packages(haft.Requirements{NPM: n.NPM}, haft.KindJavaScript)
	return c.err("the packages cannot be installed")
}

// packagesAt is packages of a part of what is checked.
func (c *checker) packagesAt(part string, n haft.Requirements, kind haft.Kind) {
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
		e.at = part + e.at
		if len(e.names) > 0 && !slices.Contains(e.kinds, kind) {
			c.fail(e.at, "tools of this kind cannot have such packages")
		}
		c.each(e.at, e.names, MaxPackages, "packages", func(at, name string) { c.failIf(at, e.read(name)) })
	}
}

// tags checks a list of tags.
func (c *checker) tags(at string, tags []string) {
	c.each(at, tags, MaxTags, "tags", func(at, tag string) { c.label(at, tag, false) })
}

// metadata checks what programs keep with a tool.
func (c *checker) metadata(at string, m map[string]json.RawMessage) {
	size := 0
	for name, value := range m {
		size += len(name) + len(value)
	}
	if len(m) > maxValues || size > maxMetadata {
		c.fail(at, "takes %d values with %d bytes in all, and not that much", maxValues, maxMetadata)
		return
	}
	for name, value := range m {
		c.text(at, name, maxMetadata)
		if _, err := jsontree.Decode(value, jsontree.Limits{Bytes: maxMetadata, Depth: 64}); err != nil {
			c.fail(at, "has a value that is not JSON in UTF-8, nested at most 64 deep")
		}
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
