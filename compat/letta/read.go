package letta

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"haft"
)

// readBody returns the body, which the server has read and bounded.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	return b, nil
}

// unprocessable is the error for a request that does not fit, with the status that Letta's
// framework uses.
func unprocessable(format string, args ...any) error {
	return &httpError{http.StatusUnprocessableEntity, fmt.Sprintf(format, args...)}
}

// read reads the body into v. Fields that v does not have are refused, as Letta
// refuses them, but for those that are to be ignored.
func (q *request) read(v any, ignored ...string) error {
	if len(bytes.TrimSpace(q.body)) == 0 {
		return unprocessable("the body is missing")
	}
	body := q.body
	if len(ignored) > 0 {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			return unprocessable("the body is not a JSON object")
		}
		for _, name := range ignored {
			delete(fields, name)
		}
		var err error
		if body, err = json.Marshal(fields); err != nil {
			return fmt.Errorf("encode the body: %w", err)
		}
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return unprocessable("%s", misfit(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return unprocessable("there is something behind the body")
	}
	return nil
}

// lenient is read for bodies whose unknown fields Letta ignores. An empty body is
// accepted.
func (q *request) lenient(v any) error {
	if len(bytes.TrimSpace(q.body)) == 0 {
		return nil
	}
	if err := json.Unmarshal(q.body, v); err != nil {
		return unprocessable("%s", misfit(err))
	}
	return nil
}

// misfit says what is wrong with a body, without a value of it.
func misfit(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return fmt.Sprintf("body %s: expected %s", plainName(e.Field), kindName(e))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return "body " + plainName(strings.Trim(name, `"`)) + ": extra fields are not permitted"
	}
	return "the body does not fit, or is not JSON"
}

// kindName says in the words of JSON what was expected.
func kindName(e *json.UnmarshalTypeError) string {
	switch k := e.Type.Kind().String(); k {
	case "string", "bool":
		return k
	case "int", "int64", "float64":
		return "number"
	case "slice":
		return "array"
	}
	return "object"
}

// plainName returns the name of a field, unless it may be text that a client made up.
func plainName(s string) string {
	if len(s) > 60 || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '.'
	}) {
		return "field"
	}
	return s
}

// listParam returns the values of a parameter that is repeated or separated by commas.
func listParam(query url.Values, name string) []string {
	var all []string
	for _, v := range query[name] {
		for one := range strings.SplitSeq(v, ",") {
			if one = strings.TrimSpace(one); one != "" {
				all = append(all, one)
			}
		}
	}
	return all
}

// boolParam reads a boolean parameter as Letta's framework does.
func boolParam(query url.Values, name string) (bool, error) {
	switch strings.ToLower(query.Get(name)) {
	case "", "false", "0", "off", "no", "n", "f":
		return false, nil
	case "true", "1", "on", "yes", "y", "t":
		return true, nil
	}
	return false, unprocessable("query %s: expected a boolean", name)
}

// maxPage is the most that one page holds.
const maxPage = 1000

// A page says which part of a list is wanted.
type page struct {
	before, after string // ids
	limit         int
	oldest        bool // first
}

// paging reads the parameters of a list, which is ordered by creation, or by one of these fields if the query says so.
func paging(query url.Values, limit int, orders ...string) (page, error) {
	p := page{before: query.Get("before"), after: query.Get("after"), limit: limit}
	if p.before != "" && p.after != "" {
		return p, unprocessable("query before and after: only one of them can be given")
	}
	if s := query.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return p, unprocessable("query limit: expected a number from 1 on")
		}
		p.limit = min(n, maxPage)
	}
	switch s := query.Get("order"); s {
	case "", "desc":
	case "asc":
		p.oldest = true
	default:
		return p, unprocessable("query order: expected asc or desc")
	}
	if by := query.Get("order_by"); by != "" && by != "created_at" && !slices.Contains(orders, by) {
		return p, unprocessable("query order_by: expected %s",
			strings.Join(append([]string{"created_at"}, orders...), " or "))
	}
	return p, nil
}

// letters replaces characters that names in Haft cannot have.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
}

// ourName converts a name in Letta, such as "Customer support", to one that Haft allows.
func ourName(s string) string {
	name := letters(strings.TrimSpace(s))
	if name != "" && (name[0] >= '0' && name[0] <= '9' || name[0] == '-') {
		name = "_" + name
	}
	return name[:min(len(name), haft.MaxToolName)]
}
