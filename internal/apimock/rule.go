package apimock

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"haft"
	"haft/internal/yamltree"
)

// The bounds of rules.
const (
	maxRules   = 1000
	maxAnswers = 1000    // of one rule
	maxFields  = 100     // headers or parameters of one request or answer
	maxText    = 1 << 20 // bytes of a body
	maxPattern = 4 << 10
	maxDelay   = haft.Millis(10 * time.Minute)
	maxTimes   = 10_000
	maxRate    = 10_000
)

// A Rule says how requests are answered.
type Rule struct {
	At yamltree.Pos `json:"-"`
	// Request says which requests the rule is for: every one if it is empty.
	Request Request `json:"request"`
	// Answer is the answer to each of them, and Answers are those in order, of which the last is repeated.
	Answer  *Answer  `json:"answer"`
	Answers []Answer `json:"answers"`
	// Times is how many requests the rule has to get. Those after that are not for it. 0 means any number.
	Times int `json:"times"`
	// Rate is how many requests in a second, minute or hour are answered, such as 2/s. The others get status 429
	// with Retry-After, and do not count for Answers and Times.
	Rate string `json:"rate"`
	// Per is a header. Answers and Rate are counted for each of its values.
	Per string `json:"per"`
}

// A Request is what a request has to have. What is not given can be anything.
type Request struct {
	// Method is one, or several with | between them.
	Method string `json:"method"`
	// Host and Path may have *, which stands for any characters. A host without a port is on every port.
	Host string `json:"host"`
	Path string `json:"path"`
	// Query and Headers are some of the parameters and headers; null means that there must be none of the name.
	Query   map[string]Text `json:"query"`
	Headers map[string]Text `json:"headers"`
	// JSON is a part of the body: objects may have more fields.
	JSON json.RawMessage `json:"json"`
	// Body is the whole body, or /REGEXP/.
	Body *Text `json:"body"`
}

// The places where an answer can be cut.
const (
	CutBeforeHeaders = "before-headers"
	CutAfterHeaders  = "after-headers"
	CutInBody        = "in-body"
)

// An Answer is a response.
type Answer struct {
	// Status is 200 if it is not given.
	Status  int                 `json:"status"`
	Headers map[string][]string `json:"headers"`
	// JSON, Body and Base64 are the body: one of them.
	JSON   json.RawMessage `json:"json"`
	Body   string          `json:"body"`
	Base64 []byte          `json:"base64"`
	// Template says that the body is a template over the request.
	Template bool `json:"template"`
	// Malformed leaves out the second half of the body, as a server does that fails without noticing.
	Malformed bool `json:"malformed"`
	// Delay is how long the answer takes.
	Delay haft.Millis `json:"delay"`
	// Cut ends the connection: before-headers, after-headers or in-body.
	Cut string `json:"cut"`
}

// A Text is what a text has to be: the text itself, /REGEXP/, or null for none.
type Text struct {
	text    string
	pattern *regexp.Regexp
	absent  bool
}

// UnmarshalJSON reads a text. A number or truth value stands for its text.
func (t *Text) UnmarshalJSON(b []byte) error {
	*t = Text{absent: string(b) == "null"}
	if json.Unmarshal(b, &t.text) != nil {
		t.text = string(b)
	}
	if len(t.text) < 2 || t.text[0] != '/' || !strings.HasSuffix(t.text, "/") {
		return nil
	}
	if len(t.text) > maxPattern {
		return invalid("the regular expression has more than %d bytes", maxPattern)
	}
	p, err := regexp.Compile("(?s)" + t.text[1:len(t.text)-1])
	if err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: "this is no regular expression: " + err.Error(), Err: err}
	}
	t.pattern = p
	return nil
}

// fits reports whether a text is as expected.
func (t Text) fits(text string) bool {
	if t.pattern != nil {
		return t.pattern.MatchString(text)
	}
	return !t.absent && t.text == text
}

// String says what is expected.
func (t Text) String() string {
	switch {
	case t.absent:
		return "none"
	case t.pattern != nil:
		return t.text
	}
	return quote(t.text)
}

// invalid is the error about a rule.
func invalid(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// Check reports what is wrong with the rule.
func (r Rule) Check() error {
	answers := len(r.Answers)
	if r.Answer != nil {
		answers++
	}
	switch {
	case answers == 0 || r.Answer != nil && len(r.Answers) > 0:
		return invalid("a rule needs an answer, or answers")
	case answers > maxAnswers:
		return invalid("a rule has at most %d answers", maxAnswers)
	case r.Times < 0 || r.Times > maxTimes:
		return invalid("times must be between 0 and %d", maxTimes)
	case r.Per != "" && !isToken(r.Per):
		return invalid("per names a header")
	}
	if _, err := parseRate(r.Rate); err != nil {
		return err
	}
	for _, a := range r.answers() {
		if _, err := a.compile(); err != nil {
			return err
		}
	}
	return r.Request.Check()
}

// answers returns all answers of the rule.
func (r Rule) answers() []Answer {
	if r.Answer != nil {
		return []Answer{*r.Answer}
	}
	return r.Answers
}

// Check reports what is wrong with a request.
func (r Request) Check() error {
	switch {
	case slices.ContainsFunc(r.methods(), func(m string) bool { return !isToken(m) }):
		return invalid("method is one such as GET, or several: GET|POST")
	case strings.ContainsAny(r.Host, "/ @"):
		return invalid("host is a name without scheme and path, such as api.example.com or *.example.com")
	case r.Path != "" && !strings.HasPrefix(r.Path, "/") && !strings.HasPrefix(r.Path, "*"):
		return invalid("path must begin with /")
	case strings.Contains(r.Path, "?"):
		return invalid("path has no parameters: they belong in query")
	case len(r.Host) > maxPattern || len(r.Path) > maxPattern:
		return invalid("host and path have at most %d bytes", maxPattern)
	case len(r.Query) > maxFields || len(r.Headers) > maxFields:
		return invalid("a request has at most %d parameters and headers", maxFields)
	case len(r.JSON) > maxText || r.Body != nil && len(r.Body.text) > maxText:
		return invalid("a body has at most %d bytes", maxText)
	case len(r.JSON) > 0 && r.Body != nil:
		return invalid("a request has json or body, not both")
	case len(r.JSON) > 0 && !json.Valid(r.JSON):
		return invalid("the json of a request cannot be read")
	}
	return nil
}

// methods returns the methods of the request; none means every one.
func (r Request) methods() []string {
	if r.Method == "" {
		return nil
	}
	return strings.Split(strings.ToUpper(r.Method), "|")
}

// check reports what is wrong with an answer.
func (a Answer) check() error {
	bodies := 0
	for _, size := range []int{len(a.JSON), len(a.Body), len(a.Base64)} {
		if size > maxText {
			return invalid("the body of an answer has at most %d bytes", maxText)
		}
		bodies += min(size, 1)
	}
	switch {
	case a.Status != 0 && (a.Status < 200 || a.Status > 599):
		return invalid("the status of an answer is between 200 and 599")
	case bodies > 1:
		return invalid("an answer has one of json, body and base64")
	case len(a.JSON) > 0 && !json.Valid(a.JSON):
		return invalid("the json of an answer cannot be read")
	case a.Template && len(a.Base64) > 0:
		return invalid("a template is a text: use body")
	case a.Delay < 0 || a.Delay > maxDelay:
		return invalid("delay must be between 0 and %s", time.Duration(maxDelay))
	case !slices.Contains([]string{"", CutBeforeHeaders, CutAfterHeaders, CutInBody}, a.Cut):
		return invalid("cut is %s, %s or %s", CutBeforeHeaders, CutAfterHeaders, CutInBody)
	case len(a.Headers) > maxFields:
		return invalid("an answer has at most %d headers", maxFields)
	}
	for name, values := range a.Headers {
		if !isToken(name) || len(values) > maxFields {
			return invalid("the name of a header of an answer cannot be sent, or it has too many values")
		}
		switch http.CanonicalHeaderKey(name) {
		case "Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Upgrade":
			return invalid("the header %s of an answer cannot be set: cut and malformed make wrong answers", name)
		}
		for _, v := range values {
			control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
			if len(v) > maxPattern || strings.ContainsFunc(v, control) {
				return invalid("the header %s of an answer is too long or has control characters", name)
			}
		}
	}
	return nil
}

// isToken reports whether a text can be a method or the name of a header (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// A rate is a number of requests in a time.
type rate struct {
	count  int
	window time.Duration
}

// parseRate reads 2/s, 100/m or 5/h. An empty text is no rate.
func parseRate(text string) (rate, error) {
	if text == "" {
		return rate{}, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	window := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	if err != nil || n < 1 || n > maxRate || window == 0 {
		return rate{}, invalid("rate is a number from 1 to %d with a time, such as 2/s, 100/m or 5/h", maxRate)
	}
	return rate{n, window}, nil
}

// quote writes a text that may be long for a message.
func quote(s string) string {
	const most = 200
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
