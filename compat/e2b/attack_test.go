package e2b

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"haft"
	"haft/server"
)

// A sandbox of somebody else is not there, whoever asks and for what.
func TestControl_of_others_is_not_found(t *testing.T) {
	w := newWorld(t)
	s := w.create("acme/alice")
	for _, key := range []string{"evil/alice", "acme/mallory"} {
		for _, r := range []struct{ method, path, body string }{
			{"GET", "", ""}, {"DELETE", "", ""}, {"POST", "/timeout", `{"timeout":9}`}, {"POST", "/connect", `{}`},
			{"POST", "/pause", `{}`}, {"GET", "/metrics", ""}, {"POST", "/snapshots", `{}`}, {"POST", "/resume", `{}`}, {"PUT", "/network", `{}`},
		} {
			if rec := w.ask(key, r.method, "/sandboxes/"+s.ID+r.path, r.body); rec.Code != http.StatusNotFound ||
				strings.Contains(rec.Body.String(), s.Token) {
				t.Errorf("%s: %s %s: %d %s", key, r.method, r.path, rec.Code, rec.Body)
			}
		}
		if rec := w.ask(key, "GET", "/v2/sandboxes", ""); rec.Body.String() != "[]" {
			t.Errorf("%s lists %s", key, rec.Body)
		}
	}
	if rec := w.ask("acme/alice", "GET", "/sandboxes/"+s.ID, ""); rec.Code != http.StatusOK {
		t.Errorf("her own: %d %s", rec.Code, rec.Body)
	}
	if rec := w.ask("no-key", "GET", "/sandboxes/"+s.ID, ""); rec.Code != http.StatusUnauthorized {
		t.Errorf("no key: %d", rec.Code)
	}
}

// Only the token of a sandbox opens it.
func TestSandbox_needs_its_token(t *testing.T) {
	w := newWorld(t)
	s, other := w.create("acme/alice"), w.create("acme/alice")
	const list = "/process.Process/List"
	for name, c := range map[string]struct {
		id, path string
		headers  []string
		want     int
	}{
		"its token":             {s.ID, list, []string{tokenHeader, s.Token}, 200},
		"no token":              {s.ID, list, nil, 401},
		"an empty token":        {s.ID, list, []string{tokenHeader, ""}, 401},
		"that of another":       {s.ID, list, []string{tokenHeader, other.Token}, 401},
		"a part of it":          {s.ID, list, []string{tokenHeader, s.Token[:20]}, 401},
		"the key":               {s.ID, list, []string{tokenHeader, "acme/alice", "X-Api-Key", "acme/alice"}, 401},
		"the token of ports":    {s.ID, list, []string{trafficHeader, s.Traffic}, 401},
		"ports for code":        {s.ID, "/contexts", []string{trafficHeader, s.Traffic, portHeader, "49999"}, 200},
		"ports to run code":     {s.ID, "/execute", []string{trafficHeader, s.Traffic, portHeader, "49999"}, 401},
		"a token to run code":   {s.ID, "/execute", []string{tokenHeader, s.Token, portHeader, "49999"}, 200},
		"ports, but not clean":  {s.ID, "//execute", []string{trafficHeader, s.Traffic, portHeader, "49999"}, 401},
		"code without a token":  {s.ID, "/contexts", []string{portHeader, "49999"}, 401},
		"code at the other":     {s.ID, "/contexts", []string{tokenHeader, s.Token}, 404},
		"another port":          {s.ID, "/", []string{trafficHeader, s.Traffic, portHeader, "3000"}, 502},
		"another port, no name": {s.ID, "/", []string{portHeader, "3000"}, 401},
		"no port":               {s.ID, "/", []string{tokenHeader, s.Token, portHeader, "0"}, 400},
		"no sandbox":            {"i00", list, []string{tokenHeader, s.Token}, 502},
		"no name":               {"", list, []string{tokenHeader, s.Token}, 502},
		"health":                {s.ID, "/health", nil, 204},
		"an orchestrator's":     {s.ID, "/init", []string{tokenHeader, s.Token}, 404},
	} {
		method := "POST"
		if strings.HasPrefix(c.path, "/contexts") || c.path == "/health" || c.path == "/" {
			method = "GET"
		}
		if rec := w.in(c.id, method, c.path, "{}", c.headers...); rec.Code != c.want {
			t.Errorf("%s: %d, want %d: %s", name, rec.Code, c.want, rec.Body)
		}
	}
	w.withdrawn.Store(true)
	if rec := w.in(s.ID, "POST", list, "{}", tokenHeader, s.Token); rec.Code != 401 {
		t.Errorf("a credential that was withdrawn: %d", rec.Code)
	}
}

// Tokens are not served on the connections that are kept for operators.
func TestSandbox_is_not_served_on_the_reserve(t *testing.T) {
	w := newWorld(t)
	s := w.create("acme/alice")
	w.busy = &haft.Error{Code: haft.CodeUnavailable, Message: "busy"}
	for _, path := range []string{"/health", FilesPath, "/process.Process/List"} {
		rec := w.in(s.ID, "POST", path, "{}", tokenHeader, s.Token, "Authorization", "Basic dXNlcjo=")
		if rec.Code != 503 {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
	if len(w.refused) != 3 {
		t.Errorf("%d refusals were reported", len(w.refused))
	}
}

// A body that is not what was signed is refused: the handler reads it through the check.
func TestControl_checks_signed_bodies(t *testing.T) {
	w := newWorld(t)
	identify := w.api.cfg.Identify
	w.api.cfg.Identify = func(out http.ResponseWriter, r *http.Request) (server.Identity, error) {
		r.Body = io.NopCloser(iotest.ErrReader(&haft.Error{Code: haft.CodeUnauthenticated, Message: "not signed"}))
		return identify(out, r)
	}
	rec := w.ask("acme/alice", "POST", "/sandboxes", `{"templateID":"base"}`)
	if rec.Code != 401 || len(w.calls) != 0 {
		t.Errorf("%d %s, %d calls", rec.Code, rec.Body, len(w.calls))
	}
}

// What is open ends when its key is withdrawn.
func TestStream_ends_with_its_key(t *testing.T) {
	w := newWorld(t)
	w.api.recheckEvery = time.Millisecond
	s := w.api.sandbox(w.create("acme/alice").ID)
	ctx, cancel := w.api.until(httptest.NewRequest("GET", "/", nil), s, haft.CallsRead)
	defer cancel()
	if ctx.Err() != nil {
		t.Fatal("it has ended before")
	}
	w.withdrawn.Store(true)
	<-ctx.Done()
	if err := context.Cause(ctx); haft.CodeOf(err) != haft.CodeUnauthenticated {
		t.Error(err)
	}
}

// A key that may do less never gets the tokens of another key of its user, and its own do no more than it may.
func TestConnect_gives_each_key_its_own_tokens(t *testing.T) {
	w := newWorld(t)
	s := w.create("acme/alice/broad")
	connect := func(key string) (out sandboxAnswer) {
		rec := w.ask(key, "POST", "/sandboxes/"+s.ID+"/connect", `{}`)
		if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil || rec.Code != http.StatusOK {
			t.Fatalf("%s: %d %s %v", key, rec.Code, rec.Body, err)
		}
		return out
	}
	if again := connect("acme/alice/broad"); again.Token != s.Token || again.Traffic != s.Traffic {
		t.Errorf("the same key gets %+v, not %+v", again, s)
	}
	narrow := connect("acme/alice/narrow")
	if narrow.Token == s.Token || narrow.Traffic == s.Traffic || narrow.Token == "" || narrow.Traffic == "" {
		t.Fatalf("another key gets %+v beside %+v", narrow, s)
	}
	for token, want := range map[string]int{s.Token: 200, narrow.Token: 401} {
		rec := w.in(s.ID, "POST", "/filesystem.Filesystem/Remove", `{"path":"x"}`, tokenHeader, token)
		if rec.Code != want {
			t.Errorf("%d, want %d", rec.Code, want)
		}
	}
	if rec := w.in(s.ID, "POST", "/process.Process/List", "{}", tokenHeader, narrow.Token); rec.Code != 200 {
		t.Errorf("what the key may do: %d", rec.Code)
	}
	w.files["/work/a"] = "text"
	if rec := w.in("", "GET", sign(narrow.Token, "a", "read", "", ""), ""); rec.Code != 200 {
		t.Errorf("a file it signs: %d", rec.Code)
	}
	if rec := w.in("", "POST", sign(narrow.Token, "a", "write", "", ""), ""); rec.Code != 401 {
		t.Errorf("a file it signs to write: %d", rec.Code)
	}
	if rec := w.in(s.ID, "GET", "/", "", trafficHeader, narrow.Traffic, portHeader, "3000"); rec.Code != 401 {
		t.Errorf("a port: %d", rec.Code)
	}
	for i := range maxGrants + 1 {
		rec := w.ask(fmt.Sprintf("acme/alice/k%d", i), "POST", "/sandboxes/"+s.ID+"/connect", `{}`)
		if want := map[bool]int{true: 200, false: 429}[i < maxGrants-2]; rec.Code != want {
			t.Errorf("key %d: %d, want %d", i, rec.Code, want)
		}
	}
}

// sign signs the address of a file as E2B's clients do.
func sign(token, path, operation, user, expiry string) string {
	text := path + ":" + operation + ":" + user + ":" + token
	q := url.Values{"path": {path}}
	if user != "" {
		q.Set("username", user)
	}
	if expiry != "" {
		text += ":" + expiry
		q.Set("signature_expiration", expiry)
	}
	sum := sha256.Sum256([]byte(text))
	q.Set("signature", "v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
	return FilesPath + "?" + q.Encode()
}

func TestFiles_by_signature(t *testing.T) {
	w := newWorld(t)
	s := w.create("acme/alice")
	w.files["/work/a"], w.files["/etc/passwd"] = "text", "x"
	later, before := fmt.Sprint(time.Now().Unix()+60), fmt.Sprint(time.Now().Unix()-60)
	signed, old := sign(s.Token, "a", "read", "", later), sign(s.Token, "a", "read", "", before)
	for name, c := range map[string]struct {
		address string
		want    int
	}{
		"signed":            {sign(s.Token, "a", "read", "", later), 200},
		"without an end":    {sign(s.Token, "a", "read", "", ""), 200},
		"with a user":       {sign(s.Token, "a", "read", "user", later), 200},
		"over":              {sign(s.Token, "a", "read", "", before), 401},
		"no number":         {sign(s.Token, "a", "read", "", "soon"), 401},
		"to write":          {sign(s.Token, "a", "write", "", later), 401},
		"by another":        {sign("other", "a", "read", "", later), 401},
		"by nobody":         {sign("", "a", "read", "", later), 401},
		"another path":      {strings.Replace(signed, "path=a", "path=%2Fetc%2Fpasswd", 1), 401},
		"a later end":       {strings.Replace(sign(s.Token, "a", "read", "", before), before, later, 1), 401},
		"the end cut":       {strings.Replace(old, "&signature_expiration="+before, "", 1), 401},
		"no signature":      {FilesPath + "?path=a", 401},
		"an empty one":      {FilesPath + "?path=a&signature=", 401},
		"for an other user": {sign(s.Token, "a", "read", "mallory", later), 401},
	} {
		w.refused = nil
		if rec := w.in(s.ID, "GET", c.address, ""); rec.Code != c.want {
			t.Errorf("%s: %d, want %d: %s", name, rec.Code, c.want, rec.Body)
		}
		// Without the name of the sandbox, its signature finds it.
		want := map[int]int{200: 200, 401: 502}[c.want]
		if name == "for an other user" {
			want = 401 // it is signed
		}
		if rec := w.in("", "GET", c.address, ""); rec.Code != want {
			t.Errorf("%s, without a name: %d, want %d", name, rec.Code, want)
		}
		if n := len(w.refused); (n == 2) != (want == 502) {
			t.Errorf("%s: %d refusals were reported", name, n)
		}
	}
}

// What cannot be a signature is held against no token.
func TestSignature_bounds(t *testing.T) {
	long := strings.Repeat("x", 30_000)
	for name, c := range map[string]struct {
		address string
		want    bool
	}{
		"signed":          {sign("t", "a", "read", "", ""), true},
		"a long path":     {sign("t", long, "read", "", ""), false},
		"a long name":     {sign("t", "a", "read", long, ""), false},
		"a long end":      {sign("t", "a", "read", "", long), false},
		"a short one":     {FilesPath + "?path=a&signature=v1_abc", false},
		"another version": {strings.Replace(sign("t", "a", "read", "", ""), "v1_", "v2_", 1), false},
	} {
		if _, ok := readSignature(httptest.NewRequest("GET", c.address, nil)); ok != c.want {
			t.Errorf("%s: %t", name, ok)
		}
	}
}

// A sandbox is forgotten at its end, though nobody asks for it.
func TestSandbox_is_dropped_at_its_end(t *testing.T) {
	w := newWorld(t)
	id := w.create("acme/alice").ID
	s := w.api.sandbox(id)
	s.setEnd(time.Now())
	<-s.ctx.Done()
	for known := true; known; {
		w.api.mu.Lock()
		_, known = w.api.sandboxes[id]
		w.api.mu.Unlock()
	}
}

// frame is a message of a stream.
func frame(flag byte, size uint32, text string) string {
	head := binary.BigEndian.AppendUint32([]byte{flag}, size)
	return string(head) + text
}

func TestFrames_of_attackers(t *testing.T) {
	w := newWorld(t)
	s := w.create("acme/alice")
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	many := `{"process":{"cmd":"x","args":[` + strings.Repeat(`"",`, 300_000) + `""]}}`
	for name, c := range map[string]struct{ body, want string }{
		"larger than it may be":  {frame(0, maxMessage+1, "{}"), "resource_exhausted"},
		"4 GiB":                  {frame(0, 1<<32-1, "{}"), "resource_exhausted"},
		"shorter than it says":   {frame(0, 100, "{}"), "invalid_argument"},
		"half a head":            {"\x00\x00", "invalid_argument"},
		"compressed":             {frame(1, 2, "{}"), "unimplemented"},
		"no JSON":                {frame(0, 3, "{]}"), "invalid_argument"},
		"deep":                   {frame(0, uint32(len(deep)), deep), "invalid_argument"},
		"many values":            {frame(0, uint32(len(many)), many), "invalid_argument"},
		"two messages":           {start(`{"process":{"cmd":"x"}}`) + start("{}"), "invalid_argument"},
		"no command":             {frame(0, 2, "{}"), "invalid_argument"},
		"a variable with a NUL":  {start(`{"process":{"cmd":"x","envs":{"A":"\u0000"}}}`), "invalid_argument"},
		"a directory with a NUL": {start(`{"process":{"cmd":"x","cwd":"/a\u0000"}}`), "invalid_argument"},
	} {
		rec := w.in(s.ID, "POST", "/process.Process/Start", c.body, tokenHeader, s.Token,
			"Content-Type", "application/connect+json")
		if !strings.Contains(rec.Body.String(), `"code":"`+c.want+`"`) {
			t.Errorf("%s: %q, want %s", name, rec.Body, c.want)
		}
	}
	if n := len(w.calls); n != 1 {
		t.Errorf("%d calls were made, of which one made the sandbox", n)
	}
}

func start(text string) string { return frame(0, uint32(len(text)), text) }

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte(start(`{"process":{"pid":1}}`)))
	f.Add([]byte(frame(2, 2, "{}")))
	f.Add([]byte(frame(0, 1<<31, "")))
	f.Fuzz(func(t *testing.T, data []byte) {
		var in startRequest
		err := readFrame(httptest.NewRecorder(), bytes.NewReader(data), readTime, &in)
		if err == nil && len(data) < 5 {
			t.Error("a message without a head was read")
		}
	})
}

func TestPlace(t *testing.T) {
	for in, want := range map[string]string{
		"": "/work", "a": "/work/a", "~": "/work", "~/a": "/work/a", "~a": "/work/~a", "/home/user": "/work",
		"/home/user/a/../b": "/work/b", "/home/username": "/home/username",
		"/home/user/../../etc/passwd": "/etc/passwd",
		"../x":                        "/home/x", "/tmp//x": "/tmp/x", "a/../../../..": "/",
	} {
		if got, err := place(in); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"a\x00b", strings.Repeat("a", maxPath+1)} {
		if _, err := place(in); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%.9q: %v", in, err)
		}
	}
	if got := shown("/workshop"); got != "/workshop" {
		t.Error(got)
	}
}

// timed is a writer that notes the deadlines of reads.
type timed struct {
	*httptest.ResponseRecorder
	set int
}

// SetReadDeadline is that of [http.ResponseController].
func (w *timed) SetReadDeadline(at time.Time) error {
	if !at.IsZero() {
		w.set++
	}
	return nil
}

// endless is a body that never ends.
type endless struct{ w *timed }

// Read implements [io.Reader]. Nothing is read without a deadline.
func (e endless) Read(b []byte) (int, error) {
	if e.w.set == 0 {
		return 0, io.ErrClosedPipe
	}
	clear(b)
	return len(b), nil
}

// Every read of a body has a deadline, and a bound.
func TestBodies_have_a_deadline_and_a_bound(t *testing.T) {
	for name, read := range map[string]func(w *timed) error{
		"a message": func(w *timed) error {
			return readJSON(w, httptest.NewRequest("POST", "/", endless{w}), new(any))
		},
		"a frame": func(w *timed) error {
			large := strings.NewReader(frame(0, maxMessage+1, ""))
			return readFrame(w, io.MultiReader(endlessOnce{w}, large), readTime, new(any))
		},
	} {
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		if f := faultOf(read(w)); w.set == 0 || f.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %+v, %d deadlines", name, f, w.set)
		}
	}
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	body := &timedBody{w: w, from: http.MaxBytesReader(w, io.NopCloser(endless{w}), 1<<20)}
	if _, err := io.Copy(io.Discard, body); err == nil || w.set < 2 {
		t.Errorf("a file: %v, %d deadlines", err, w.set)
	}
}

// endlessOnce fails if there is no deadline yet, and is empty.
type endlessOnce struct{ w *timed }

// Read implements [io.Reader].
func (e endlessOnce) Read([]byte) (int, error) {
	if e.w.set == 0 {
		return 0, io.ErrClosedPipe
	}
	return 0, io.EOF
}
