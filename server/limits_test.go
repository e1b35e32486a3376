package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/internal/bounds"
	"haft/server"
)

// A place is somewhere in a request where something stands that can be large.
type place struct {
	op      string // METHOD /path
	in      string // body, query, path or header
	name    string // of the parameter
	path    []any  // within the body: names and indexes
	kind    string // text, list, map or any
	most    int    // 0 means that there is no bound
	schema  map[string]any
	content map[string]any // the schema of the body
	text    string         // the body, where it is no JSON
}

func (p place) String() string {
	s := p.op + " " + p.in + " " + p.name
	for _, part := range p.path {
		s += fmt.Sprintf("/%v", part)
	}
	return s + " (" + p.kind + ")"
}

// pointer is where in the body the place is.
func (p place) pointer() string {
	s := ""
	for _, part := range p.path {
		s += fmt.Sprintf("/%v", part)
	}
	return s
}

// A walker finds the places of a document.
type walker struct {
	doc      map[string]any
	places   []place
	required map[string][]string // parameters of the query that an operation demands
}

// walk finds every place of every request.
func walk(t testing.TB, raw []byte) *walker {
	w := &walker{required: map[string][]string{}}
	if err := json.Unmarshal(raw, &w.doc); err != nil {
		t.Fatal(err)
	}
	paths := w.doc["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path].(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			op := item[method].(map[string]any)
			at := place{op: strings.ToUpper(method) + " " + path}
			if body, ok := op["requestBody"].(map[string]any); ok {
				if content, ok := body["content"].(map[string]any)["application/json"].(map[string]any); ok {
					at.content = content["schema"].(map[string]any)
				} else {
					at.text = "version: 1\n" // a policy, which is YAML and bounded by what reads it
				}
			}
			params, _ := op["parameters"].([]any)
			for _, p := range params {
				param := w.resolve(p.(map[string]any))
				at := at
				at.in, at.name = param["in"].(string), param["name"].(string)
				if param["in"] == "query" && param["required"] == true {
					w.required[at.op] = append(w.required[at.op], at.name)
				}
				w.visit(at, param["schema"].(map[string]any), nil)
			}
			if at.content != nil {
				at.in = "body"
				w.visit(at, at.content, nil)
			}
		}
	}
	return w
}

// resolve follows references.
func (w *walker) resolve(s map[string]any) map[string]any {
	for {
		ref, ok := s["$ref"].(string)
		if !ok {
			return s
		}
		var at any = w.doc
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[part]
		}
		s = at.(map[string]any)
	}
}

// is reports whether a schema allows a type, and whether it says any.
func is(s map[string]any, typ string) bool {
	switch t := s["type"].(type) {
	case string:
		return t == typ
	case []any:
		return slices.Contains(t, any(typ))
	}
	return false
}

func number(s map[string]any, key string) int {
	f, _ := s[key].(float64)
	return int(f)
}

// visit notes what stands at a place, and goes on within it.
func (w *walker) visit(at place, s map[string]any, within []string) {
	if ref, ok := s["$ref"].(string); ok {
		if slices.Contains(within, ref) {
			return
		}
		within = append(slices.Clone(within), ref)
	}
	s = w.resolve(s)
	at.schema = s
	note := func(kind string, most int) {
		at.kind, at.most = kind, most
		w.places = append(w.places, at)
	}
	inner := func(part any, s map[string]any) {
		next := at
		next.path = append(slices.Clone(at.path), part)
		w.visit(next, s, within)
	}
	switch {
	case is(s, "string"):
		if s["enum"] == nil && s["format"] != "date-time" { // whose form bounds them
			note("text", number(s, "maxLength"))
		}
	case is(s, "array"):
		note("list", number(s, "maxItems"))
		inner(0, s["items"].(map[string]any))
	case is(s, "object"):
		props, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(props)) {
			inner(name, props[name].(map[string]any))
		}
		switch more := s["additionalProperties"].(type) {
		case map[string]any:
			note("map", number(s, "maxProperties"))
			inner("K0", more)
		case bool:
			if more {
				note("map", number(s, "maxProperties"))
			}
		default:
			note("map", number(s, "maxProperties"))
		}
	case s["type"] == nil && s["oneOf"] == nil:
		note("any", bounds.MaxValues)
	default:
		for _, one := range []string{"oneOf", "anyOf", "allOf"} {
			list, _ := s[one].([]any)
			for _, alternative := range list {
				w.visit(at, alternative.(map[string]any), within)
			}
		}
	}
}

func TestOpenAPI_bounds_every_list_map_and_text_of_requests(t *testing.T) {
	w := setup(t, nil)
	seen := 0
	for _, p := range walk(t, w.server.OpenAPI()).places {
		if seen++; p.most == 0 {
			t.Errorf("%s has no bound: give its field maxLength, maxItems or maxProperties, or an entry in limits", p)
		}
	}
	if seen < 200 {
		t.Errorf("the walk found only %d places", seen)
	}
}

// least is the smallest value that fits a schema.
func (w *walker) least(s map[string]any) any {
	s = w.resolve(s)
	if list, ok := s["enum"].([]any); ok {
		return list[0]
	}
	switch {
	case is(s, "string"):
		if s["format"] == "date-time" {
			return "2030-01-01T00:00:00Z"
		}
		return "a"
	case is(s, "array"):
		if number(s, "minItems") > 0 {
			return []any{w.least(s["items"].(map[string]any))}
		}
		return []any{}
	case is(s, "object"):
		o := map[string]any{}
		props, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		for _, name := range required {
			o[name.(string)] = w.least(props[name.(string)].(map[string]any))
		}
		return o
	case is(s, "number") || is(s, "integer"):
		return number(s, "minimum")
	}
	return true
}

// put puts value at a place of the smallest body that has the place.
func (w *walker) put(s map[string]any, path []any, value any) any {
	if len(path) == 0 {
		return value
	}
	s = w.resolve(s)
	if name, ok := path[0].(string); ok {
		o := w.least(s).(map[string]any)
		props, _ := s["properties"].(map[string]any)
		inner, ok := props[name].(map[string]any)
		if !ok {
			inner = s["additionalProperties"].(map[string]any)
		}
		o[name] = w.put(inner, path[1:], value)
		return o
	}
	return []any{w.put(s["items"].(map[string]any), path[1:], value)}
}

// filled is a value of a place that has n characters, elements, members or values.
func (w *walker) filled(p place, n int) any {
	switch p.kind {
	case "text":
		if p.schema["pattern"] != nil {
			return strings.Repeat("1", n)
		}
		if at := p.pointer(); strings.Contains(at, "requirements/pip") {
			return "a==" + strings.Repeat("1", n-3) // a name has a shorter bound of its own
		}
		return strings.Repeat("a", n)
	case "list":
		list := make([]any, n)
		for i := range list {
			list[i] = w.least(p.schema["items"].(map[string]any))
		}
		return list
	case "map":
		o := map[string]any{}
		more, ok := p.schema["additionalProperties"].(map[string]any)
		for i := range n {
			if o[fmt.Sprintf("K%d", i)] = any(1); ok {
				o[fmt.Sprintf("K%d", i)] = w.least(more)
			}
		}
		return o
	}
	list := make([]any, max(n-1-w.around(p), 0)) // the list is a value too
	for i := range list {
		list[i] = 1
	}
	return list
}

// around is how many values stand around a place.
func (w *walker) around(p place) int {
	var count func(v any) int
	count = func(v any) int {
		n := 1
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				n += count(e)
			}
		case map[string]any:
			for _, e := range v {
				n += count(e)
			}
		}
		return n
	}
	return count(w.put(p.content, p.path, nil)) - 1
}

// request makes the request with a value at a place.
func (w *walker) request(t testing.TB, p place, value any) (*http.Request, int) {
	method, path, _ := strings.Cut(p.op, " ")
	text := func() string {
		if list, ok := value.([]any); ok {
			parts := make([]string, len(list))
			for i := range list {
				parts[i] = fmt.Sprint(list[i])
			}
			return strings.Join(parts, ",")
		}
		return fmt.Sprint(value)
	}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			switch name = strings.TrimSuffix(name, "}"); {
			case p.in == "path" && p.name == name:
				parts[i] = text()
			case name == "of":
				parts[i] = "organisation"
			default:
				parts[i] = "1"
			}
		}
	}
	path = strings.Join(parts, "/")
	query := url.Values{}
	for _, name := range w.required[p.op] {
		query.Set(name, "1")
	}
	if p.in == "query" {
		query.Set(p.name, text())
	}
	body, sent := []byte(p.text), any(nil)
	switch {
	case p.in == "body":
		sent = value
	case p.content != nil:
		sent = w.least(p.content)
	}
	if block, ok := sent.(map[string]any); ok && p.op == "POST /v1/blocks" {
		block["limit"] = haft.MaxBlockLimit // else the value is bounded by the default
	}
	if sent != nil {
		var err error
		if body, err = json.Marshal(sent); err != nil {
			t.Fatal(err)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path+"?"+query.Encode(), strings.NewReader(string(body)))
	r.Host = "localhost"
	if p.in == "header" {
		r.Header.Set(p.name, text())
	}
	if p.content != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	who := admin
	if path == "/v1/stop" || path == "/v1/resume" {
		who = operator // whoever else asks is refused before anything is read
	}
	if p.op == "GET /v1/events" {
		who = "acme/brief/user" // whose streams end
	}
	r.Header.Set("Authorization", "Bearer "+who)
	return r, len(body) + len(r.URL.RequestURI())
}

// answered is what a request got, and how many bytes answering it took.
type answeredIn struct {
	status int
	body   string
	bytes  uint64
}

// serve answers a request in this goroutine.
func serve(h http.Handler, r *http.Request) answeredIn {
	rec := httptest.NewRecorder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h.ServeHTTP(rec, r)
	runtime.ReadMemStats(&after)
	return answeredIn{rec.Code, rec.Body.String(), after.TotalAlloc - before.TotalAlloc}
}

// sizes are the words in which somebody is told that something is too large.
var sizes = []string{"<=", "at most", "too long", "too many", "too large", "is the most", "are the most", "longer than",
	"more than"}

// A server that is sent every list, map and text of the document at its limit takes
// it, and refuses it past that with the place. Both cost memory in proportion to the
// request, and so does a list that is full of what does not fit.
func TestRequests_at_and_past_every_bound(t *testing.T) {
	world := setup(t, nil)
	w := walk(t, world.server.OpenAPI())
	h := world.server.Handler()
	const perByte, fixed = 40, 4 << 20
	cheap := func(t *testing.T, what string, got answeredIn, size, fixed int) {
		t.Helper()
		if most := uint64(perByte*size + fixed); got.bytes > most {
			t.Errorf("%s: a request of %d bytes took %d bytes of memory, %d is the most", what, size, got.bytes, most)
		}
	}
	for _, p := range w.places {
		if p.in == "body" && len(p.path) == 0 && p.kind == "any" {
			continue // what a model answered: see TestToolCalls_are_not_decoded_as_a_whole
		}
		t.Run(p.String(), func(t *testing.T) {
			build := func(n int) any {
				v := w.filled(p, n)
				if p.in == "body" {
					return w.put(p.content, p.path, v)
				}
				return v
			}
			r, size := w.request(t, p, build(p.most))
			got := serve(h, r)
			cheap(t, "at the limit", got, size, 64<<20)
			if got.status >= 400 {
				for _, word := range sizes {
					if strings.Contains(got.body, word) {
						t.Errorf("at the limit of %d: %d %s", p.most, got.status, got.body)
						break
					}
				}
			}
			r, size = w.request(t, p, build(p.most+1))
			got = serve(h, r)
			cheap(t, "past the limit", got, size, fixed)
			named(t, p, got)
			if p.in == "body" && (p.kind == "list" || p.kind == "any") {
				n := 30_000
				if p.kind == "any" {
					n = bounds.MaxValues
				}
				flood := json.RawMessage("[" + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]")
				r, size = w.request(t, p, w.put(p.content, p.path, flood))
				got = serve(h, r)
				cheap(t, "full of what does not fit", got, size, fixed)
				named(t, p, got)
			}
		})
	}
}

// named checks that a refusal says where the request is too large.
func named(t *testing.T, p place, got answeredIn) {
	t.Helper()
	var problem server.Problem
	if err := json.Unmarshal([]byte(got.body), &problem); err != nil || got.status != http.StatusUnprocessableEntity {
		t.Errorf("past the limit of %d: %d %.300s", p.most, got.status, got.body)
		return
	}
	if p.in != "body" && p.name == "as" {
		return // who is named is looked at before the operation is
	}
	if len(problem.Misfits) == 0 {
		t.Errorf("past the limit of %d nobody says where: %s", p.most, got.body)
		return
	}
	m := problem.Misfits[0]
	if p.in == "body" && !strings.HasPrefix(m.Pointer, p.pointer()) && !strings.Contains(m.Message, "in all") {
		t.Errorf("the place is said to be %q: %s", m.Pointer, m.Message)
	}
	if p.in != "body" && !strings.Contains(m.Message, p.in+" parameter "+p.name+":") {
		t.Errorf("the place is said to be %q", m.Message)
	}
}

// What a model answered may have much that is no call, such as the probabilities of
// tokens: it is taken, and not decoded as a whole.
func TestToolCalls_are_not_decoded_as_a_whole(t *testing.T) {
	world := setup(t, nil)
	body := `{"choices":[],"logprobs":[` + strings.TrimSuffix(strings.Repeat("{},", 2_000_000), ",") + `]}`
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/tool_calls", strings.NewReader(body))
	r.Host = "localhost"
	r.Header.Set("Authorization", "Bearer "+admin)
	got := serve(world.server.Handler(), r)
	if got.status != 200 || got.bytes > uint64(40*len(body)) {
		t.Errorf("%d with %d bytes for %d", got.status, got.bytes, len(body))
	}
}
