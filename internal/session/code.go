package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"haft"
)

// maxAnswer bounds the results of one code.
const maxAnswer = 16 << 20

// maxResults bounds how many things one code shows.
const maxResults = 200

// maxContexts bounds the contexts of a session.
const maxContexts = 16

// A Code is a piece of code that is run in a context of a session.
type Code struct {
	// Context names the context; empty means the one that is named by the language. A context
	// is made when it is needed.
	Context string
	// Language is python, javascript or bash.
	Language string
	Source   string
	// Env has variables of the environment while it runs.
	Env map[string]string
	// Stdout and Stderr get what it prints as it comes.
	Stdout, Stderr func([]byte)
}

// An Outcome is what became of a code, as the session says.
type Outcome struct {
	// Results are what the code shows: the value of its last expression, which is Main,
	// figures, and what it displays.
	Results []Result `json:"results,omitempty"`
	// Count is how many codes ran in the context.
	Count int `json:"count,omitempty"`
	// Status is that of the last command, in Bash.
	Status *int       `json:"status,omitempty"`
	Error  *CodeError `json:"error,omitempty"`
	// Lost says that the context has ended, and its variables with it.
	Lost bool `json:"lost,omitempty"`
}

// A Result is one thing in some forms, such as text, html, png (base64), json and table.
type Result struct {
	Main bool                       `json:"main,omitempty"`
	Cut  bool                       `json:"cut,omitempty"`
	Data map[string]json.RawMessage `json:"data"`
}

// A CodeError is an exception.
type CodeError struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Traceback string `json:"traceback"`
	Line      int    `json:"line,omitempty"`
}

// A Variable is a name of a context and what it has.
type Variable struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Text string `json:"text"`
}

// An answer is one message of a kernel.
type answer struct {
	Result    json.RawMessage `json:"result"` // an object of forms
	Main      bool            `json:"main"`
	Cut       bool            `json:"cut"`
	Done      bool            `json:"done"`
	Count     int             `json:"count"`
	Status    *int            `json:"status"`
	Error     *CodeError      `json:"error"`
	Variables json.RawMessage `json:"variables"` // a list
}

// Code can write answers itself: what has many small parts takes far more memory than its text.
const (
	maxForms     = 32
	maxVariables = 1000
)

// formsOf reads an object that has few members.
func formsOf(raw json.RawMessage) (map[string]json.RawMessage, error) {
	forms := map[string]json.RawMessage{}
	err := eachOf(raw, maxForms, func(d *json.Decoder) error {
		name, err := d.Token()
		if err != nil {
			return fmt.Errorf("read a result: %w", err)
		}
		var form json.RawMessage
		if err := d.Decode(&form); err != nil {
			return fmt.Errorf("read a result: %w", err)
		}
		text, _ := name.(string) // the names of members are
		forms[text] = form
		return nil
	})
	return forms, err
}

// variablesOf reads a list of variables.
func variablesOf(raw json.RawMessage) (list []Variable, err error) {
	err = eachOf(raw, maxVariables, func(d *json.Decoder) error {
		var v Variable
		if err := d.Decode(&v); err != nil {
			return fmt.Errorf("read a variable: %w", err)
		}
		list = append(list, v)
		return nil
	})
	return list, err
}

// eachOf reads the parts of an object or a list, of which there may be at most most.
func eachOf(raw json.RawMessage, most int, read func(*json.Decoder) error) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	for n := 0; d.More(); n++ {
		if n == most {
			return fmt.Errorf("%w: more than %d parts of an answer", errProtocol, most)
		}
		if err := read(d); err != nil {
			return err
		}
	}
	return nil
}

// A codeContext is an interpreter of the session.
type codeContext struct {
	ID       string
	Language string
	r        *request
	turn     chan struct{} // has an element while no code runs
}

// context returns the context of a code, made if there is none.
func (s *Session) context(ctx context.Context, code Code) (*codeContext, error) {
	id := cmp.Or(code.Context, code.Language)
	if err := s.making.take(ctx); err != nil {
		return nil, err
	}
	defer s.making.release()
	c := s.contexts[id]
	switch {
	case c == nil && code.Language == "":
		return nil, errNoContext
	case c != nil && code.Language != "" && c.Language != code.Language,
		code.Language != "" && id != code.Language &&
			slices.Contains([]string{"python", "javascript", "typescript", "bash"}, id):
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "the context is for code in another language"}
	case c != nil:
		return c, nil
	}
	if err := checkName("context", id); err != nil {
		return nil, err
	}
	return s.makeContext(ctx, id, code.Language, "")
}

// A timedMutex is a mutex that is not waited for longer than a context lasts. It has an element while
// it is held.
type timedMutex chan struct{}

// take waits until nobody holds the mutex.
func (m timedMutex) take(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release is the end of take.
func (m timedMutex) release() { <-m }

// errNoContext is the error for a context that is not there.
var errNoContext = &haft.Error{Code: haft.CodeNotFound, Message: "there is no such context in the session"}

// NewContext makes a further context and returns its name.
func (s *Session) NewContext(ctx context.Context, language, dir string) (string, error) {
	if err := s.making.take(ctx); err != nil {
		return "", err
	}
	defer s.making.release()
	s.named++
	c, err := s.makeContext(ctx, fmt.Sprintf("%s-%d", language, s.named), language, dir)
	if err != nil {
		return "", err
	}
	return c.ID, nil
}

// makeContext starts an interpreter. Preconditions: making is held.
func (s *Session) makeContext(ctx context.Context, id, language, dir string) (*codeContext, error) {
	if len(s.contexts) >= maxContexts {
		return nil, &haft.Error{Code: haft.CodeRateLimited,
			Message: fmt.Sprintf("a session has at most %d contexts; remove one", maxContexts)}
	}
	r, err := s.ch.start("context", map[string]any{"language": language, "cwd": dir})
	if err != nil {
		return nil, s.why(err)
	}
	if _, err := r.await(ctx, "started"); err != nil {
		_ = r.stop(syscall.SIGKILL) // it may start yet
		r.close()
		return nil, s.why(err)
	}
	r.ignore()
	c := &codeContext{ID: id, Language: language, r: r, turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	s.contexts[id] = c
	return c, nil
}

// EndContext ends a context with all that it started. The next code that names its
// language gets a new one.
func (s *Session) EndContext(ctx context.Context, id string) error {
	if err := s.making.take(ctx); err != nil {
		return err
	}
	defer s.making.release()
	c := s.contexts[id]
	if c == nil {
		return errNoContext
	}
	return s.endContext(c)
}

// endContext is EndContext. Preconditions: making is held.
func (s *Session) endContext(c *codeContext) error {
	delete(s.contexts, c.ID)
	err := c.r.control("signal", map[string]any{"signal": int(syscall.SIGKILL)})
	c.r.close()
	return err
}

// listTime bounds how long it takes to list the variables of one context.
const listTime = 2 * time.Second

// Contexts lists the contexts of the session, by name, with their variables. Those of one that
// runs code are not known.
func (s *Session) Contexts(ctx context.Context) ([]haft.SessionContext, error) {
	if err := s.making.take(ctx); err != nil {
		return nil, err
	}
	all := slices.Collect(maps.Values(s.contexts))
	s.making.release()
	slices.SortFunc(all, func(a, b *codeContext) int { return strings.Compare(a.ID, b.ID) })
	out := []haft.SessionContext{}
	for _, c := range all {
		info := haft.SessionContext{Name: c.ID, Language: c.Language, Busy: len(c.turn) == 0,
			Variables: []haft.SessionVariable{}}
		if !info.Busy && c.Language != "bash" {
			timed, cancel := context.WithTimeout(ctx, listTime)
			list, err := s.Variables(timed, c.ID)
			cancel()
			if err != nil && s.ctx.Err() != nil {
				return nil, s.why(err)
			}
			info.Busy = err != nil // other code began meanwhile, or it has ended
			for _, v := range list {
				info.Variables = append(info.Variables, haft.SessionVariable{Name: s.CleanText(v.Name),
					Type: s.CleanText(v.Type), Text: s.CleanText(v.Text)})
			}
		}
		out = append(out, info)
	}
	return out, nil
}

// Run runs code. There is no outcome if nothing ran. When ctx ends it is interrupted, and if
// that does not help, its context ends.
func (s *Session) Run(ctx context.Context, code Code) (*Outcome, error) {
	if code.Language == "bash" {
		// The kernel gets the names that it has to unset afterwards, then the code.
		var set strings.Builder
		names := slices.Sorted(maps.Keys(code.Env))
		for _, k := range names {
			fmt.Fprintf(&set, "export %s='%s'\n", k, strings.ReplaceAll(code.Env[k], "'", `'\''`))
		}
		code.Source = strings.Join(names, " ") + "\x00" + set.String() +
			strings.ReplaceAll(code.Source, "\x00", "")
	}
	out, _, err := s.run(ctx, code, map[string]any{"code": code.Source, "env": code.Env})
	return out, err
}

// Variables lists the variables of a context of Python or JavaScript.
func (s *Session) Variables(ctx context.Context, id string) ([]Variable, error) {
	_, list, err := s.run(ctx, Code{Context: id}, map[string]any{"variables": true, "code": "set"})
	return list, err
}

// run makes a request to the kernel of the context.
func (s *Session) run(ctx context.Context, code Code, fields map[string]any) (*Outcome, []Variable, error) {
	defer s.use()()
	c, err := s.context(ctx, code)
	if err != nil {
		return nil, nil, err
	}
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	fields["context"] = c.r.id
	r, err := s.ch.start("run", fields)
	if err != nil {
		return nil, nil, s.why(err)
	}
	defer r.close()
	run := &running{code: code, r: r}
	lost, err := run.follow(ctx)
	if lost {
		run.out.Lost = true
		if s.making.take(s.ctx) == nil { // else all of the session has ended
			if s.contexts[c.ID] == c {
				err = errors.Join(err, s.endContext(c))
			}
			s.making.release()
		}
	}
	return &run.out, run.variables, s.why(err)
}

// running is a code that runs.
type running struct {
	code      Code
	r         *request
	out       Outcome
	variables []Variable
	answer    []byte // that is not whole yet
	size      int    // of all answers
}

// follow hands on output and collects answers until the code is done. It reports whether the
// context is lost.
func (u *running) follow(ctx context.Context) (lost bool, err error) {
	waiting := ctx
	for {
		it, err := u.r.next(waiting)
		switch {
		case err != nil && ctx.Err() != nil && waiting == ctx:
			if err := u.r.stop(syscall.SIGINT); err != nil {
				return true, err
			}
			timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
			defer cancel()
			waiting = timed
		case err != nil && ctx.Err() != nil:
			return true, context.Cause(ctx)
		case err != nil:
			return true, err
		case it.event == nil:
			if err := u.data(it); err != nil {
				return true, err
			}
		case it.event.Event == "ran":
			return false, context.Cause(ctx)
		case it.event.Event == "exited":
			return true, context.Cause(ctx)
		case it.event.Event == "refused":
			return true, errProtocol // the context is there and idle, as far as the host knows
		}
	}
}

// data handles output and answers.
func (u *running) data(it item) error {
	switch it.stream {
	case streamOut:
		if u.code.Stdout != nil {
			u.code.Stdout(it.data)
		}
	case streamErr:
		if u.code.Stderr != nil {
			u.code.Stderr(it.data)
		}
	case streamAnswer:
		if u.size += len(it.data); u.size > maxAnswer {
			return &haft.Error{Code: haft.CodeInvalid,
				Message: fmt.Sprintf("the code shows more than %d MiB; write it to files", maxAnswer>>20)}
		}
		if !bytes.Equal(it.data, []byte{0}) {
			u.answer = append(u.answer, it.data...)
			return nil
		}
		return u.take()
	}
	return nil
}

// take handles an answer that is whole.
func (u *running) take() error {
	var a answer
	err := json.Unmarshal(u.answer, &a)
	u.answer = nil
	if err != nil {
		return fmt.Errorf("%w: an answer that is not JSON", errProtocol)
	}
	if len(a.Result) > 0 && len(u.out.Results) < maxResults {
		forms, err := formsOf(a.Result)
		if err != nil {
			return err
		}
		if len(forms) > 0 {
			u.out.Results = append(u.out.Results, Result{Main: a.Main, Cut: a.Cut, Data: forms})
		}
	}
	if a.Done {
		u.out.Count, u.out.Status, u.out.Error = a.Count, a.Status, a.Error
		u.variables, err = variablesOf(a.Variables)
	}
	return err
}

// Interrupt interrupts what runs in a context.
func (s *Session) Interrupt(ctx context.Context, id string) error {
	if err := s.making.take(ctx); err != nil {
		return err
	}
	defer s.making.release()
	c := s.contexts[id]
	if c == nil {
		return errNoContext
	}
	return c.r.control("signal", map[string]any{"signal": int(syscall.SIGINT)})
}
