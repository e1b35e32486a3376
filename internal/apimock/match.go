package apimock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Seen is a request that a mock got. Secrets that the proxy puts in stand in it by their names.
type Seen struct {
	Method string      `json:"method"`
	URL    *url.URL    `json:"-"`
	Header http.Header `json:"-"`
	Body   []byte      `json:"-"`
	// To is the URL as a text, Rule what answered, such as "rule 2", and Status the status of the answer.
	To     string `json:"url"`
	Rule   string `json:"rule,omitempty"`
	Status int    `json:"status,omitempty"`
}

// maxShown bounds what a message has of a request, in characters.
const maxShown = 200

// String returns the method and the URL for a message. A long URL is cut.
func (s Seen) String() string {
	text := s.Method + " " + s.To
	if r := []rune(text); len(r) > maxShown {
		return string(r[:maxShown]) + "…"
	}
	return text
}

// Differences returns how a request differs from what is expected, each as a sentence without a full stop; none
// means that it fits.
func (r Request) Differences(s Seen) []string {
	var out []string
	differ := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if methods := r.methods(); len(methods) > 0 && !slices.Contains(methods, s.Method) {
		differ("the method is %s, want %s", s.Method[:min(len(s.Method), maxShown)], strings.ToUpper(r.Method))
	}
	host := s.URL.Hostname()
	if strings.Contains(r.Host, ":") {
		host = s.URL.Host
	}
	if r.Host != "" && !matchGlob(strings.ToLower(r.Host), strings.ToLower(host)) {
		differ("the host is %s, want %s", quote(host), r.Host)
	}
	if path := pathOf(s.URL); r.Path != "" && !matchGlob(r.Path, path) {
		differ("the path is %s, want %s", quote(path), r.Path)
	}
	query := s.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(r.Query)) {
		differValues(differ, "the parameter "+name, query[name], r.Query[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		differValues(differ, "the header "+name, s.Header.Values(name), r.Headers[name])
	}
	if r.Body != nil && !r.Body.fits(string(s.Body)) && !(r.Body.absent && len(s.Body) == 0) {
		differ("the body is %s, want %s", quote(string(s.Body)), r.Body)
	}
	if len(r.JSON) > 0 {
		if d := differJSON(r.JSON, s.Body); d != "" {
			differ("%s", d)
		}
	}
	return out
}

// pathOf returns the path of a URL, without escapes.
func pathOf(u *url.URL) string {
	if u.Path == "" {
		return "/"
	}
	return u.Path
}

// differValues says how values differ from the one that is expected.
func differValues(differ func(string, ...any), what string, got []string, want Text) {
	switch {
	case want.absent && len(got) == 0 || slices.ContainsFunc(got, want.fits):
	case len(got) == 0:
		differ("%s is missing, want %s", what, want)
	default:
		differ("%s is %s, want %s", what, quote(strings.Join(got, ", ")), want)
	}
}

// matchGlob reports whether text is as pattern says, in which * stands for any characters.
func matchGlob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}

// maxDepth is how deep JSON is compared.
const maxDepth = 64

// differJSON says how a body differs from a part of it that is expected, or returns "".
func differJSON(want, body []byte) string {
	var w, g any
	if err := decode(want, &w); err != nil {
		return "the json of the rule cannot be read"
	}
	if err := decode(body, &g); err != nil {
		return "the body is not JSON"
	}
	return differValue("", w, g, 0)
}

// decode reads the one JSON value of a text, with its numbers as they are written.
func decode(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(to); err != nil {
		return err
	}
	if d.More() {
		return invalid("there is more than one value")
	}
	return nil
}

// differValue compares a value at a JSON Pointer with the part of it that is expected.
func differValue(at string, want, got any, depth int) string {
	where := "the body"
	if at != "" {
		where = at + " of the body"
	}
	if depth > maxDepth {
		return where + " is nested too deep"
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return where + " is no object"
		}
		for _, name := range slices.Sorted(maps.Keys(w)) {
			v, ok := g[name]
			if !ok {
				return where + " has no field " + quote(name)
			}
			if d := differValue(at+"/"+pointer(name), w[name], v, depth+1); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s is no list of %d", where, len(w))
		}
		for i := range w {
			if d := differValue(at+"/"+strconv.Itoa(i), w[i], g[i], depth+1); d != "" {
				return d
			}
		}
		return ""
	case json.Number:
		if g, ok := got.(json.Number); ok && sameNumber(w, g) {
			return ""
		}
	default:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf("%s is %s, want %s", where, brief(got), brief(want))
}

// pointer escapes a name for a JSON Pointer (RFC 6901).
func pointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(quoteLess(name))
}

// quoteLess bounds a name in a message.
func quoteLess(name string) string { return name[:min(len(name), 100)] }

// sameNumber compares numbers by their values.
func sameNumber(a, b json.Number) bool {
	x, errA := a.Float64()
	y, errB := b.Float64()
	return a == b || errA == nil && errB == nil && x == y
}

// brief writes a JSON value for a message.
func brief(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "a value"
	}
	if s := string(b); len(s) <= 200 {
		return s
	}
	return string(b[:200]) + "…"
}
