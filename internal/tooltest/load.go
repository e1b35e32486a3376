package tooltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"haft"
	"haft/internal/apimock"
	"haft/internal/toolfile"
	"haft/internal/yamltree"
)

// The bounds on test files.
const (
	maxFiles = 1000
	maxCases = 20_000 // of one file
	maxSteps = haft.MaxSteps
)

// textOr reads a JSON text into text, or anything else into fields, strictly.
func textOr(b []byte, text *string, fields any) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, text)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(fields); err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: strings.TrimPrefix(err.Error(), "json: "), Err: err}
	}
	return nil
}

// A Text is what a text has to be: /REGEXP/, or the text itself, without blanks at its end.
type Text struct {
	text    string
	pattern *regexp.Regexp
}

// UnmarshalJSON reads the text, or compiles the expression.
func (t *Text) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &t.text) != nil {
		t.text = string(b)
	}
	if len(t.text) < 2 || t.text[0] != '/' || !strings.HasSuffix(t.text, "/") {
		return nil
	}
	p, err := regexp.Compile("(?s)" + t.text[1:len(t.text)-1])
	if err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: "this is no regular expression: " + err.Error(), Err: err}
	}
	t.pattern = p
	return nil
}

// fits reports whether a text is as expected.
func (t *Text) fits(text string) bool {
	if t.pattern != nil {
		return t.pattern.MatchString(text)
	}
	return strings.TrimRight(t.text, " \n") == strings.TrimRight(text, " \n")
}

// IsTestFile reports whether a file is a test file by its name.
func IsTestFile(name string) bool {
	base := filepath.Base(name)
	for _, end := range []string{".yaml", ".yml"} {
		if stem, ok := strings.CutSuffix(base, end); ok {
			return strings.HasSuffix(stem, "_test") || strings.HasSuffix(stem, ".test")
		}
	}
	return false
}

// Find returns the test files of names: of a directory all that are below it.
func Find(names []string) ([]string, error) {
	var found []string
	for _, name := range names {
		if !toolfile.IsDir(name) {
			found = append(found, name)
			continue
		}
		err := filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			switch base := filepath.Base(path); {
			case err != nil:
				return err
			case d.IsDir() && path != name && (strings.HasPrefix(base, ".") || base == "node_modules"):
				return filepath.SkipDir
			case d.Type().IsRegular() && IsTestFile(path):
				found = append(found, path)
			}
			if len(found) > maxFiles {
				return fmt.Errorf("there are more than %d test files below %s", maxFiles, name)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for test files: %w", err)
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) == 0 {
		return nil, &haft.Error{Code: haft.CodeNotFound,
			Message: "there are no test files, which are called NAME_test.yaml or NAME.test.yaml"}
	}
	return found, nil
}

// Load reads a test file.
func Load(path string) (*File, error) {
	if strings.ContainsFunc(path, unicode.IsControl) {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("the name of the test file %q is not one line of text", path)}
	}
	text, err := toolfile.ReadBounded(path, yamltree.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: path + ": there is no such file", Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("read the test file: %w", err)
	}
	f, err := Parse(path, text)
	if err != nil {
		return nil, err
	}
	if len(f.Tool) == 0 {
		f.Tool = toolBeside(path)
	}
	return f, f.addGates()
}

// addGates takes the gates from haft-test.yaml beside the file, where the file has none.
func (f *File) addGates() error {
	path := filepath.Join(filepath.Dir(f.Path), GatesFile)
	if _, err := f.within(GatesFile); err != nil {
		return err
	}
	text, err := toolfile.ReadBounded(path, yamltree.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var project struct {
		Gates Gates `json:"gates"`
	}
	if err == nil {
		err = yamltree.Read(path, text, &project)
	}
	if err != nil {
		return err
	}
	inherit(reflect.ValueOf(&f.Gates).Elem(), reflect.ValueOf(project.Gates))
	return nil
}

// GatesFile has the gates of the test files in its directory.
const GatesFile = "haft-test.yaml"

// toolBeside returns the tool that a test file is named after, if it is there.
func toolBeside(path string) []string {
	stem := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), "_test")
	stem = strings.TrimSuffix(stem, ".test")
	for _, end := range []string{".py", ".ts", ".js", ".sh"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), stem+end)); err == nil {
			return []string{stem + end}
		}
	}
	return nil
}

// Parse reads the text of a test file, and makes a case of each row of a table.
func Parse(path string, text []byte) (*File, error) {
	f := &File{Path: path}
	if err := yamltree.Read(path, text, f); err != nil {
		return nil, err
	}
	var all []Case
	for i, c := range f.Cases {
		if c.Name == "" {
			c.Name = fmt.Sprintf("case %d", i+1)
		}
		if len(f.Defaults.Table) > 0 {
			return nil, f.fail(f.Defaults.At, "defaults have no table")
		}
		if len(c.Steps) > 0 && (len(c.Args) > 0 || c.Raw != "" || c.Message != "") {
			return nil, f.fail(c.At, "a case has steps or args or a message, not two of them")
		}
		inherit(reflect.ValueOf(&c).Elem(), reflect.ValueOf(f.Defaults))
		rows := c.Table
		if c.Table = nil; len(rows) == 0 {
			rows = []Case{{At: c.At}}
		}
		for j, row := range rows {
			if row.Name == "" && len(rows) > 1 {
				row.Name = fmt.Sprintf("row %d", j+1)
			}
			if row.Name = strings.TrimSuffix(c.Name+"/"+row.Name, "/"); len(row.Table) > 0 {
				return nil, f.fail(row.At, "a row of a table has no table")
			}
			inherit(reflect.ValueOf(&row).Elem(), reflect.ValueOf(c))
			row.Mock = slices.Concat(row.Mock, f.Mock)
			all = append(all, row)
		}
		if len(all) > maxCases {
			return nil, f.fail(c.At, "the file has more than %d cases", maxCases)
		}
	}
	f.Cases = all
	return f, f.check()
}

// fail returns an error about a place of the file.
func (f *File) fail(at yamltree.Pos, format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid,
		Message: fmt.Sprintf("%s:%d:%d: ", f.Path, max(at.Line, 1), max(at.Column, 1)) + fmt.Sprintf(format, args...)}
}

// inherit sets the fields of a struct that are zero to those of another. Maps are put together, and so are structs.
func inherit(to, from reflect.Value) {
	for i := range to.NumField() {
		f, t := from.Field(i), to.Field(i)
		switch {
		case !t.CanSet():
		case t.Type() == reflect.TypeFor[haft.Limits]() || t.Type() == reflect.TypeFor[Expect]() ||
			t.Type() == reflect.TypeFor[Call]() || t.Type() == reflect.TypeFor[ExpectTurn]():
			inherit(t, f)
		case t.IsZero():
			t.Set(f)
		case t.Kind() == reflect.Map && f.Len() > 0:
			whole := reflect.MakeMap(t.Type())
			for _, m := range []reflect.Value{f, t} {
				for it := m.MapRange(); it.Next(); {
					whole.SetMapIndex(it.Key(), it.Value())
				}
			}
			t.Set(whole)
		}
	}
}

// check reports what is wrong with the cases of a file.
func (f *File) check() error {
	if f.Touches != nil {
		if err := f.Touches.Check(); err != nil {
			return f.fail(yamltree.Pos{}, "%s", haft.MessageOf(err))
		}
	}
	names, seen := map[string]bool{}, map[string]*compiled{}
	if err := f.checkRules(f.Mock); err != nil {
		return err
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		if names[c.Name] {
			return f.fail(c.At, "there is another case called %q", c.Name)
		}
		names[c.Name] = true
		switch {
		case strings.ContainsFunc(c.Name, unicode.IsControl):
			return f.fail(c.At, "the name of a case is one line of text")
		case len(c.Setup)+len(c.Steps)+len(c.Teardown) > maxSteps:
			return f.fail(c.At, "the case has more than %d steps", maxSteps)
		case c.Parallel < 0 || c.Parallel > maxParallel:
			return f.fail(c.At, "parallel must be between 1 and %d", maxParallel)
		case c.Parallel > 1 && c.Message != "":
			return f.fail(c.At, "an agent answers one message of somebody at a time: leave out parallel")
		case c.Network != "" && c.Network != networkReal:
			return f.fail(c.At, "network is real, or not given, which mocks it")
		}
		if err := f.checkRules(c.Mock); err != nil {
			return err
		}
		if err := c.Call.check(seen); err != nil {
			return f.fail(c.At, "%s", haft.MessageOf(err))
		}
		steps := map[string]bool{}
		for s := range c.steps() {
			if s.Name != "" && steps[s.Name] {
				return f.fail(s.At, "there is another step called %q", s.Name)
			}
			steps[s.Name] = true
			if err := s.Call.check(seen); err != nil {
				return f.fail(s.At, "%s", haft.MessageOf(err))
			}
		}
	}
	return nil
}

// checkRules reports what is wrong with rules of a mock.
func (f *File) checkRules(rules []apimock.Rule) error {
	for _, r := range rules {
		if err := r.Check(); err != nil {
			return f.fail(r.At, "%s", haft.MessageOf(err))
		}
	}
	return nil
}

// check reports what is wrong with a call or a message, and compiles what is expected of it.
func (c *Call) check(seen map[string]*compiled) error {
	invalid := func(text string) error { return &haft.Error{Code: haft.CodeInvalid, Message: text} }
	switch of := c.Expect.ofCall(); {
	case c.Message == "" && (len(c.Answers)+len(c.Format) > 0 || c.Budget != haft.Budget{} ||
		c.Expect.isGiven()):
		return invalid("answers, format, budget, and what is expected of turn, stop, reply, calls, messages and " +
			"approvals are for a message")
	case c.Message == "":
	case c.Format != "" && !slices.Contains(modelForms(), c.Format):
		return invalid(fmt.Sprintf("the format of a model is one of %v", modelForms()))
	case of != "":
		return invalid("a message has no " + of + ": expect it of one of the calls, or the turn to be failed")
	case len(c.Tool)+len(c.Args)+len(c.Raw)+len(c.Env)+len(c.Files)+len(c.Sandbox)+len(c.Key) > 0 ||
		c.Limits != haft.Limits{}:
		return invalid("a message is no call: tool and args are in the answers, env in the agent; there are no " +
			"files, limits, sandbox and key")
	}
	for _, a := range c.Answers {
		if a.For != "" {
			return invalid("answers are given in order: leave out for")
		}
	}
	if err := c.Expect.check(seen); err != nil || c.Expect.Calls == nil {
		return err
	}
	for i := range *c.Expect.Calls {
		e := &(*c.Expect.Calls)[i].Expect
		if e.isGiven() {
			return invalid("turn, stop, reply, calls, messages and approvals are not of a call")
		}
		if err := e.check(seen); err != nil {
			return err
		}
	}
	return nil
}

// talks reports whether something is said to the agent of a case.
func (c *Case) talks() bool {
	if c.Message != "" {
		return true
	}
	for s := range c.steps() {
		if s.Message != "" {
			return true
		}
	}
	return false
}

// steps returns all steps of a case.
func (c *Case) steps() iter.Seq[*Step] {
	return func(yield func(*Step) bool) {
		for _, list := range [][]Step{c.Setup, c.Steps, c.Teardown} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// maxParallel bounds how often a case is called at once.
const maxParallel = 100

// statuses are those that an expectation may name.
var statuses = sync.OnceValue(func() []string {
	all := []string{"ok", "failure"}
	for _, s := range haft.Statuses() {
		all = append(all, string(s))
	}
	return all
})

// check reports what is wrong with an expectation, and compiles it. Seen has those that were compiled before.
func (e *Expect) check(seen map[string]*compiled) error {
	invalid := func(format string, args ...any) error {
		return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case e.Status != "" && !slices.Contains(statuses(), e.Status):
		return invalid("the status is one of %s", strings.Join(statuses(), ", "))
	case e.Failure != nil && e.Failure.Kind != "" && !slices.Contains(haft.FailureKinds(), e.Failure.Kind):
		return invalid("the kind of failure is one of %v", haft.FailureKinds())
	case e.Limit != "" && !slices.Contains(haft.FailureKinds(), limitKind(e.Limit)):
		return invalid("the limit is one of timeout, cpu, memory, pids, files, file_size, disk, inodes, output, " +
			"result and artifacts")
	case e.Error != "" && !slices.Contains(haft.Codes(), haft.Code(e.Error)):
		return invalid("the error is one of %v", haft.Codes())
	case e.Isolation != "" && !slices.Contains(haft.Levels(), e.Isolation):
		return invalid("the isolation is one of %v", haft.Levels())
	case e.TimeRatio < 0 || e.MemoryRatio < 0:
		return invalid("a ratio must not be negative")
	}
	if e.Requests != nil {
		for _, r := range *e.Requests {
			if err := r.Check(); err != nil {
				return err
			}
		}
	}
	if len(e.Schema)+len(e.Check) == 0 {
		return nil
	}
	key := string(e.Schema) + "\x00" + strings.Join(e.Check, "\x00")
	if e.ready = seen[key]; e.ready != nil {
		return nil
	}
	c, err := e.compile()
	e.ready, seen[key] = &c, &c
	return err
}

// limitKind is the kind of failure of a limit.
func limitKind(limit string) haft.FailureKind {
	if limit == "timeout" {
		return haft.FailTimeout
	}
	return haft.FailureKind("limit_" + limit)
}
