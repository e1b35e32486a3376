package e2b

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
)

// A codeContext is an interpreter of a sandbox with its variables.
type codeContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Cwd      string `json:"cwd"`
}

// languages are those of code, by what clients call them.
var languages = map[string]string{"": "python", "python": "python", "javascript": "javascript", "js": "javascript",
	"typescript": "typescript", "ts": "typescript", "bash": "bash"}

// maxContexts bounds the contexts of a sandbox.
const maxContexts = 16

// silence is how long nothing is sent while code runs.
const silence = 5 * time.Second

// codeHandlers run code.
type codeHandlers struct{ *API }

// routes registers them.
func (a codeHandlers) routes() {
	a.inside.HandleFunc("POST /execute", a.onFiles(haft.CallsWrite, a.execute))
	a.inside.HandleFunc("POST /contexts", a.onFiles(haft.CallsWrite, a.makeContext))
	a.inside.HandleFunc("GET /contexts", a.onFiles(haft.CallsRead, a.listContexts))
	a.inside.HandleFunc("POST /contexts/{context}/restart", a.onFiles(haft.CallsWrite, a.restartContext))
	a.inside.HandleFunc("DELETE /contexts/{context}", a.onFiles(haft.CallsWrite, a.endContext))
}

// executeRequest is code to run.
type executeRequest struct {
	Code     string            `json:"code"`
	Context  string            `json:"context_id"`
	Language string            `json:"language"`
	Env      map[string]string `json:"env_vars"`
}

// context returns where the code runs.
func (s *sandbox) context(in executeRequest) (codeContext, error) {
	language, known := languages[strings.ToLower(in.Language)]
	switch {
	case in.Context != "" && in.Language != "":
		return codeContext{}, invalid("give either context_id or language")
	case !known:
		return codeContext{}, invalid("the languages here are python, javascript, typescript and bash")
	case in.Context == "":
		return codeContext{ID: language, Language: language, Cwd: home}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.contexts[in.Context]; c != nil {
		return *c, nil
	}
	return codeContext{}, missing("there is no such context")
}

// arguments returns those of a call of run_code.
func (s *sandbox) arguments(c codeContext, code string, env map[string]string) map[string]any {
	all := map[string]string{"HOME": home}
	maps.Copy(all, s.env)
	maps.Copy(all, env)
	pairs := []string{}
	for k, v := range all {
		pairs = append(pairs, k+"="+v)
	}
	args := map[string]any{"session": s.session, "language": c.Language, "code": code, "env": pairs, "forms": true}
	if c.ID != c.Language {
		args["context"] = c.ID
	} else if c.Language == "typescript" {
		args["context"] = "javascript"
	}
	return args
}

// execute runs code, and sends what it prints and shows, one JSON text on each line.
func (a codeHandlers) execute(w http.ResponseWriter, r *http.Request, p haft.Principal, s *sandbox) error {
	var in executeRequest
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	c, err := s.context(in)
	if err == nil {
		err = checkPairs("env_vars", in.Env)
	}
	if err != nil {
		return err
	}
	s.know(c)
	out := &lines{w: w}
	ctx, cancel := a.until(r, s, haft.CallsWrite)
	defer cancel()
	var beat sync.WaitGroup
	defer beat.Wait()
	beats, quiet := context.WithCancel(ctx)
	defer quiet()
	beat.Go(func() { out.keepAlive(beats) })
	res, _, err := a.call(ctx, s, p, "run_code", haft.NewCallID(), s.arguments(c, in.Code, in.Env), out.show)
	if err == nil {
		err = refusedCall(res)
	}
	quiet()
	beat.Wait()
	if err != nil && !out.begun {
		return err
	}
	if err != nil {
		out.put(map[string]any{"type": "error", "name": "Error", "value": faultOf(err).message, "traceback": ""})
	} else {
		out.results(res)
	}
	out.put(map[string]any{"type": "end_of_execution"})
	return nil
}

// know notes a context that code was run in without making it before.
func (s *sandbox) know(c codeContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.contexts[c.ID] == nil && len(s.contexts) < maxContexts {
		s.contexts[c.ID] = &c
	}
}

// lines is an answer of many lines.
type lines struct {
	w     http.ResponseWriter
	begun bool

	mu   sync.Mutex
	sent time.Time
}

// put sends one line.
func (l *lines) put(line map[string]any) {
	raw, err := json.Marshal(line)
	if err != nil {
		return // what this package makes can be written
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/x-ndjson")
		l.w.WriteHeader(http.StatusOK)
	}
	l.sent = time.Now()
	_, _ = l.w.Write(append(raw, '\n')) // a client that is gone ends the request
	_ = http.NewResponseController(l.w).Flush()
}

// keepAlive sends lines while nothing else is sent.
func (l *lines) keepAlive(ctx context.Context) {
	tick := time.NewTicker(silence)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.put(map[string]any{"type": "keepalive"})
		case <-ctx.Done():
			return
		}
	}
}

// show sends what code prints.
func (l *lines) show(ev haft.Event) {
	var data struct {
		Stream string `json:"stream"`
		Text   string `json:"text"`
	}
	if ev.Type != haft.EventOutput || json.Unmarshal(ev.Data, &data) != nil || data.Text == "" {
		return
	}
	l.put(map[string]any{"type": data.Stream, "text": data.Text, "timestamp": ev.Time.UTC().Format(time.RFC3339Nano)})
}

// codeError says why code failed.
type codeError struct {
	Kind      haft.FailureKind `json:"kind"`
	Type      string           `json:"type"`
	Message   string           `json:"message"`
	Traceback string           `json:"traceback"`
}

// results sends what code has shown, and why it failed.
func (l *lines) results(res *haft.Result) {
	var all struct {
		Count   int `json:"count"`
		Results []struct {
			Main bool                       `json:"main"`
			Data map[string]json.RawMessage `json:"data"`
		} `json:"results"`
	}
	for _, f := range res.Artifacts {
		if f.Name == "results.json" {
			_ = json.Unmarshal(f.Data, &all) // code can replace the file: then there are no results
			break
		}
	}
	for _, one := range all.Results {
		line := map[string]any{"type": "result", "is_main_result": one.Main}
		if plainValue(one.Data["text"]) {
			delete(one.Data, "json") // E2B has it for objects that show themselves as JSON
		}
		for form, raw := range one.Data {
			switch form {
			case "text", "html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "json", "javascript":
				line[form] = raw
			case "table":
				line["data"] = columns(raw)
			}
		}
		l.put(line)
	}
	var out struct {
		Count int        `json:"count"`
		Error *codeError `json:"error"`
	}
	_ = json.Unmarshal(res.Value, &out) // a value that was cut has no error to show
	if e := out.Error; e != nil && e.Kind != haft.FailExit {
		name := e.Type
		if name == "" {
			name = string(e.Kind)
		}
		l.put(map[string]any{"type": "error", "name": name, "value": e.Message, "traceback": e.Traceback})
	}
	count := max(all.Count, out.Count)
	l.put(map[string]any{"type": "number_of_executions", "execution_count": count})
}

// plainValue reports whether the text of a result is that of a number, a list or an object of plain values.
func plainValue(raw json.RawMessage) bool {
	var text string
	if json.Unmarshal(raw, &text) != nil || text == "" {
		return false
	}
	return strings.ContainsRune("[{(-0123456789", rune(text[0])) || text == "True" || text == "False" ||
		text == "true" || text == "false"
}

// columns returns a table by its columns.
func columns(raw json.RawMessage) map[string][]json.RawMessage {
	var table struct {
		Columns []any               `json:"columns"`
		Data    [][]json.RawMessage `json:"data"`
	}
	out := map[string][]json.RawMessage{}
	if json.Unmarshal(raw, &table) != nil {
		return out
	}
	lists := make([][]json.RawMessage, len(table.Columns))
	for _, row := range table.Data { // each cell once: the sandbox says how many columns and rows there are
		for i, cell := range row[:min(len(row), len(lists))] {
			lists[i] = append(lists[i], cell)
		}
	}
	for i, name := range table.Columns {
		out[fmt.Sprint(name)] = append([]json.RawMessage{}, lists[i]...)
	}
	return out
}

// makeContext makes a context, in which code begins to run in a directory.
func (a codeHandlers) makeContext(w http.ResponseWriter, r *http.Request, p haft.Principal, s *sandbox) error {
	var in struct {
		Language string `json:"language"`
		Cwd      string `json:"cwd"`
	}
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	language, known := languages[strings.ToLower(in.Language)]
	if !known {
		return invalid("the languages here are python, javascript, typescript and bash")
	}
	cwd, err := place(in.Cwd)
	if err != nil {
		return err
	}
	c := codeContext{ID: "ctx-" + strings.ToLower(rand.Text()[:12]), Language: language, Cwd: shown(cwd)}
	s.mu.Lock()
	full := len(s.contexts) >= maxContexts
	s.mu.Unlock()
	if full {
		return &haft.Error{Code: haft.CodeRateLimited,
			Message: fmt.Sprintf("a sandbox has at most %d contexts", maxContexts)}
	}
	if err := a.begin(r.Context(), p, s, c, cwd); err != nil {
		return err
	}
	s.know(c)
	writeJSON(w, http.StatusOK, c)
	return nil
}

// begin starts the interpreter of a context in a directory.
func (a codeHandlers) begin(ctx context.Context, p haft.Principal, s *sandbox, c codeContext, cwd string) error {
	quoted, err := json.Marshal(cwd) // a text of JSON is one of Python and of JavaScript
	if err != nil {
		return fmt.Errorf("quote a path: %w", err)
	}
	code := map[string]string{
		"python":     "import os as _os; _os.chdir(" + string(quoted) + "); del _os",
		"javascript": "process.chdir(" + string(quoted) + "); undefined",
		"typescript": "process.chdir(" + string(quoted) + "); undefined",
		"bash":       "cd '" + strings.ReplaceAll(cwd, "'", `'\''`) + "'",
	}[c.Language]
	res, _, err := a.call(ctx, s, p, "run_code", haft.NewCallID(), s.arguments(c, code, nil),
		func(haft.Event) {})
	if err != nil {
		return err
	}
	if err := refusedCall(res); err != nil {
		return err
	}
	var out struct {
		Error *codeError `json:"error"`
	}
	if err := json.Unmarshal(res.Value, &out); err != nil || out.Error != nil {
		return invalid("the context cannot begin in this directory")
	}
	return nil
}

func (a codeHandlers) listContexts(w http.ResponseWriter, _ *http.Request, _ haft.Principal, s *sandbox) error {
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.contexts))
	s.mu.Unlock()
	if list == nil {
		list = []*codeContext{}
	}
	slices.SortFunc(list, func(a, b *codeContext) int { return strings.Compare(a.ID, b.ID) })
	writeJSON(w, http.StatusOK, list)
	return nil
}

// stopContext ends the interpreter of a context.
func (a codeHandlers) stopContext(r *http.Request, p haft.Principal, s *sandbox) (codeContext, error) {
	c, err := s.context(executeRequest{Context: r.PathValue("context")})
	if err != nil {
		return c, err
	}
	err = a.cfg.Sessions.RestartContext(r.Context(), p, s.session, c.ID)
	if haft.CodeOf(err) == haft.CodeNotFound { // it has ended by itself, or the sandbox has
		if err = a.goneOr(r.Context(), p, s, err); haft.CodeOf(err) == haft.CodeNotFound {
			err = nil
		}
	}
	return c, err
}

func (a codeHandlers) restartContext(w http.ResponseWriter, r *http.Request, p haft.Principal, s *sandbox) error {
	c, err := a.stopContext(r, p, s)
	if err != nil {
		return err
	}
	cwd, err := place(c.Cwd)
	if err != nil {
		return err
	}
	if err := a.begin(r.Context(), p, s, c, cwd); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, nil)
	return nil
}

func (a codeHandlers) endContext(w http.ResponseWriter, r *http.Request, p haft.Principal, s *sandbox) error {
	c, err := a.stopContext(r, p, s)
	if err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.contexts, c.ID)
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, nil)
	return nil
}
