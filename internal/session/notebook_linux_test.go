package session_test

import (
	"context"
	"strings"
	"testing"

	"haft/internal/session"
)

// Models write Python as notebooks know it.
func TestSession_code_of_notebooks(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	for _, c := range []struct{ source, text, printed string }{
		{"%matplotlib inline\n1 + 1", "2", ""},
		{"%load_ext autoreload\n%autoreload 2\nfor i in [1]:\n    %config X.y = 1\ni", "1", ""},
		{"print('a')\n!echo b; exit 3\n_exit_code", "3", "a\nb\n"},
		{"if True:\n  !echo \"a\" \\\n    b\n7", "7", "a b\n"},
		{"%%bash\nx=1\necho $x $BASH_VERSINFO >/dev/null; [[ -n $BASH ]] && echo $x", "", "1\n"},
		{"\n%%sh -e\ncase $- in *e*) echo options;; esac", "", "options\n"},
		{"%pip --version > version; cat version | cut -c 1-3", "", "pip\n"},
		// What is Python, or a part of a text or an expression, stays.
		{"a = '''\n!no\n%matplotlib\n'''\n!echo yes\na", "\n!no\n%matplotlib\n", "yes\n"},
		{"b = 7 \\\n%4\nc = (7\n%b)\n!echo \"it's (\"\nd = 'x\\\n!y'\nb, c, d", "(3, 1, 'x!y')", "it's (\n"},
		{"# ''' (\n!echo after", "", "after\n"},
		{"7 != 8", "True", ""},
	} {
		if text, printed := code(t, s, "python", c.source); text != c.text || printed != c.printed {
			t.Errorf("%q = %q, printed %q; want %q, %q", c.source, text, printed, c.text, c.printed)
		}
	}
	for _, c := range []struct {
		source, name, says string
		line               int
	}{
		{"%matplotlib inline\n!true \\\n  true\n1/0", "ZeroDivisionError", "1/0", 4},
		{"x = 1\nif x:\n    %timeit x", "SyntaxError", "the magic %timeit of notebooks is not available", 3},
		{"%%time\nx", "SyntaxError", "the magic %%time of notebooks is not available", 1},
		{"x = 1\n%%bash\nls", "SyntaxError", "%%bash must be the first line", 2},
		{"!true\ndef f(:", "SyntaxError", "def f(:", 2},
		{"\n%%bash\ntrue\nexit 3", "CalledProcessError", "exit status 3", 2},
		{"% x", "SyntaxError", "% x", 1},
		{"%", "SyntaxError", "", 1},
	} {
		out, _ := runCode(t, s, "python", c.source)
		if e := out.Error; e == nil || e.Name != c.name || e.Line != c.line || !strings.Contains(e.Traceback, c.says) {
			t.Errorf("%q: %+v, want %s in line %d that says %q", c.source, e, c.name, c.line, c.says)
		}
	}
	// Bash counts the lines of the code.
	var errs strings.Builder
	if _, err := s.Run(t.Context(), session.Code{Language: "python", Source: "%%bash\n\nno-such-command\ntrue",
		Stderr: func(b []byte) { errs.Write(b) }}); err != nil || !strings.Contains(errs.String(), "line 3: no-such") {
		t.Errorf("%q, %v", errs.String(), err)
	}
	// A command can be interrupted, and the variables stay.
	code(t, s, "python", "kept = 5")
	ctx, cancel := context.WithCancel(t.Context())
	out, err := s.Run(ctx, session.Code{Language: "python", Source: "!echo go; exec sleep 1000",
		Stdout: func([]byte) { cancel() }})
	if err == nil || out.Lost {
		t.Errorf("a command that is interrupted: %+v, %v", out, err)
	}
	if text, _ := code(t, s, "python", "kept"); text != "5" {
		t.Errorf("after that: %q", text)
	}
	// What it has started ends with it.
	out, err = s.Run(t.Context(), session.Code{Language: "python", Source: "!echo go; sleep 1001; true",
		Stdout: func([]byte) {
			if err := s.Interrupt(t.Context(), "python"); err != nil {
				t.Error(err)
			}
		}})
	if err != nil || out.Error == nil || out.Error.Name != "KeyboardInterrupt" {
		t.Errorf("a command that is interrupted by its session: %+v, %v", out, err)
	}
	if text, _ := code(t, s, "python", `import glob, time
def runs(name):
    try: return b"1001" in open(name, "rb").read()
    except OSError: return False # it has ended meanwhile
for _ in range(100):
    left = [f for f in glob.glob("/proc/[0-9]*/cmdline") if runs(f)]
    if not left: break
    time.sleep(0.1)
left`); text != "[]" {
		t.Errorf("after an interrupt there are still %s", text)
	}
	if text, _ := code(t, s, "python", "import concurrent.futures as f\nf.ThreadPoolExecutor().submit("+
		"lambda: _haft_shell('exit 3')).result()"); text != "3" {
		t.Errorf("a command of a thread: %q", text)
	}
	if text, printed := code(t, s, "python", "%%bash\r\necho a\r\n"); text != "" || printed != "a\n" {
		t.Errorf("a cell with the line breaks of Windows: %q, %q", text, printed)
	}
}
