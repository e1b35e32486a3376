package review

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"
)

// The bounds on the parser of shell. It descends without one of its own, and Go
// ends the whole process at 1 GB of stack.
const (
	maxFrames = 4_000 // calls inside each other: some 500 levels of shell
	parseTime = 2 * time.Second
	chunk     = 512 // bytes that the parser gets at once
	maxShells = 4   // scripts in texts in scripts
)

// errStopped says that the parser was stopped.
var errStopped = errors.New("it is nested too deep or takes too long to read")

// A meter gives the parser its text in small pieces, and ends it when it has
// gone too deep or taken too long: the reader is the only thing of ours that the
// parser calls, and it calls it from wherever it is.
type meter struct {
	ctx  context.Context // of the one parse that it is for
	text string
	end  time.Time
}

// Read gives the next piece, or says why there is none.
func (m *meter) Read(b []byte) (int, error) {
	var pc [1]uintptr
	switch {
	case m.ctx.Err() != nil:
		return 0, m.ctx.Err()
	case runtime.Callers(maxFrames, pc[:]) > 0, time.Now().After(m.end):
		return 0, errStopped
	case m.text == "":
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), chunk)], m.text)
	m.text = m.text[n:]
	return n, nil
}

// reviewBash looks at a script.
func reviewBash(n *notes, source string) {
	s := &shell{n: n}
	if line, err := s.read(source); err != nil {
		n.add(ruleUnreadable, line)
	}
}

// reviewCommand looks at a command line that a program in another language has a
// shell run. That it does not parse is for the shell to say.
func reviewCommand(n *notes, text string, line int) {
	s := &shell{n: n, line: line, depth: 1}
	_, err := s.read(text)
	_ = err // the text may be only part of a command
}

// A shell is the review of one script.
type shell struct {
	n     *notes
	line  int // of all findings, if the script stands in another source
	depth int // of scripts in scripts

	values     map[string][]*syntax.Word // what variables are set to; nil: anything
	downloaded map[string]bool           // files that were fetched, as they are written
	does       map[string]int            // what the script does somewhere, with the line
	steps      int                       // words and commands that were looked at
}

// maxSteps bounds the words and commands that one script has looked at: variables
// may stand for variables many times over.
const maxSteps = 1 << 17

// step counts one, and reports whether there may be another.
func (s *shell) step(node syntax.Node) bool {
	if s.steps++; s.steps == maxSteps {
		s.add(ruleComplex, node)
	}
	return s.steps < maxSteps && (s.steps%1024 != 0 || !s.n.stopped())
}

// read parses and looks at a script, and returns the line where that failed.
func (s *shell) read(source string) (line int, err error) {
	defer func() {
		if recover() != nil { // the parser's fault
			line, err = 1, errors.New("the parser failed")
		}
	}()
	text := withoutHead(source)
	m := &meter{ctx: s.n.ctx, text: text, end: time.Now().Add(parseTime)}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(m, "")
	if err != nil {
		var parse syntax.ParseError
		if errors.As(err, &parse) {
			return int(parse.Pos.Line()), err
		}
		return strings.Count(text[:len(text)-len(m.text)], "\n") + 1, err
	}
	s.values, s.downloaded, s.does = map[string][]*syntax.Word{}, map[string]bool{}, map[string]int{}
	syntax.Walk(file, s.gather)
	syntax.Walk(file, s.visit)
	s.together()
	return 0, nil
}

// withoutHead returns src with nothing on the lines of its first comments, which
// may be many: the parser descends for each line of a block of them.
func withoutHead(src string) string {
	n := 0
	for line := range strings.Lines(src) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && trimmed[0] != '#' {
			break
		}
		n += len(line)
	}
	return strings.Repeat("\n", strings.Count(src[:n], "\n")) + src[n:]
}

// add notes a finding.
func (s *shell) add(rule string, node syntax.Node) {
	s.n.add(rule, s.at(node))
}

// at is the line of a node, or of the script that stands in another source.
func (s *shell) at(node syntax.Node) int {
	if s.line > 0 {
		return s.line
	}
	return int(node.Pos().Line())
}

// mark remembers that the script does something.
func (s *shell) mark(what string, node syntax.Node) {
	if _, ok := s.does[what]; !ok {
		s.does[what] = s.at(node)
	}
}

// nested looks at a script that stands in a text of this one.
func (s *shell) nested(text string, node syntax.Node) {
	if s.depth >= maxShells || s.n.stopped() {
		s.add(ruleComplex, node)
		return
	}
	inner := &shell{n: s.n, line: s.at(node), depth: s.depth + 1}
	_, err := inner.read(text)
	_ = err // the text may be only part of a script
}

// gather learns what variables are set to.
func (s *shell) gather(node syntax.Node) bool {
	switch x := node.(type) {
	case *syntax.Assign:
		if x.Name == nil {
			return true
		}
		if x.Append || x.Index != nil || x.Array != nil || x.Value == nil {
			s.values[x.Name.Value] = append(s.values[x.Name.Value], nil)
		} else {
			s.values[x.Name.Value] = append(s.values[x.Name.Value], x.Value)
		}
	case *syntax.WordIter:
		s.values[x.Name.Value] = append(s.values[x.Name.Value], x.Items...)
		if len(x.Items) == 0 {
			s.values[x.Name.Value] = append(s.values[x.Name.Value], nil)
		}
	case *syntax.CallExpr:
		if len(x.Args) > 1 && (x.Args[0].Lit() == "read" || x.Args[0].Lit() == "mapfile" || x.Args[0].Lit() == "readarray" || x.Args[0].Lit() == "printf") {
			for _, a := range x.Args[1:] {
				if name := a.Lit(); name != "" && name[0] != '-' {
					s.values[name] = append(s.values[name], nil)
				}
			}
		}
	}
	return !s.n.stopped()
}

// visit holds a node against the rules.
func (s *shell) visit(node syntax.Node) bool {
	switch x := node.(type) {
	case *syntax.CallExpr:
		for _, a := range x.Assigns {
			s.assign(a)
		}
		if len(x.Args) > 0 {
			s.call(x)
		}
	case *syntax.DeclClause:
		for _, a := range x.Args {
			if a.Name != nil {
				s.assign(a)
			}
		}
	case *syntax.BinaryCmd:
		if x.Op == syntax.Pipe || x.Op == syntax.PipeAll {
			s.pipeline(x)
		}
	case *syntax.Stmt:
		s.redirects(x)
	case *syntax.FuncDecl:
		s.function(x)
	case *syntax.Word:
		reviewString(s.n, s.word(x).shown, s.at(x))
	}
	return !s.n.stopped()
}

// assign looks at what a variable is set to.
func (s *shell) assign(a *syntax.Assign) {
	value := word{}
	if a.Value != nil {
		value = s.word(a.Value)
	}
	switch name := a.Name.Value; name {
	case "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "PROMPT_COMMAND", "PYTHONSTARTUP", "NODE_OPTIONS", "PERL5OPT":
		s.add("bash-preload", a)
	case "HISTFILE", "HISTSIZE", "HISTFILESIZE", "HISTCONTROL":
		s.add("bash-history", a)
	case "IFS":
		if value.known && strings.ContainsAny(strings.ToLower(value.text), "abcdefghijklmnopqrstuvwxyz0123456789") {
			s.add("bash-ifs", a)
		}
	default:
		if mixed(name) {
			s.add(ruleMixed, a)
		}
	}
}

// function looks for one that calls itself beside itself, and for one that takes
// the place of a command.
func (s *shell) function(f *syntax.FuncDecl) {
	if f.Name == nil {
		return
	}
	name := f.Name.Value
	if replaced(name) {
		s.add("bash-alias", f)
	}
	if mixed(name) {
		s.add(ruleMixed, f)
	}
	calls, beside := 0, false
	syntax.Walk(f.Body, func(n syntax.Node) bool {
		switch x := n.(type) {
		case *syntax.CallExpr:
			if len(x.Args) > 0 && x.Args[0].Lit() == name {
				calls++
			}
		case *syntax.BinaryCmd:
			beside = beside || x.Op == syntax.Pipe || x.Op == syntax.PipeAll
		case *syntax.Stmt:
			beside = beside || x.Background
		}
		return true
	})
	if calls >= 2 && beside || calls == 1 && beside && strings.Trim(name, ":._") == "" {
		s.add("bash-fork-bomb", f)
	}
}

// replaced reports whether a name is one that people trust.
func replaced(name string) bool {
	switch name {
	case "sudo", "su", "ssh", "scp", "ls", "cat", "ps", "rm", "cp", "mv", "cd", "curl", "wget", "git", "python", "python3", "bash", "sh", "passwd",
		"grep", "find", "chmod", "chown", "mount", "kill", "docker", "kubectl", "test", "[", "echo", "read", "exit", "return", "export", "eval", "source", "builtin", "command":
		return true
	}
	return false
}

// redirects looks at where a statement reads and writes.
func (s *shell) redirects(st *syntax.Stmt) {
	for _, r := range st.Redirs {
		target := word{}
		if r.Word != nil {
			target = s.word(r.Word)
		}
		if strings.HasPrefix(target.lead, "/dev/tcp/") || strings.HasPrefix(target.lead, "/dev/udp/") {
			s.add("bash-tcp", r)
			s.mark("tcp", r)
			if c, ok := st.Cmd.(*syntax.CallExpr); ok && len(c.Args) > 0 {
				if name, _ := s.command(c); isShell(name) {
					s.add("bash-reverse-shell", r)
				}
			}
		}
		out := r.Op == syntax.RdrOut || r.Op == syntax.AppOut || r.Op == syntax.RdrAll || r.Op == syntax.AppAll || r.Op == syntax.RdrClob
		if out && rawDevice(target.text) {
			s.add("bash-device", r)
		}
		if out && systemPath(target.text) {
			s.add("bash-startup", r)
		}
		if out && strings.Contains(target.text, "bash_history") {
			s.add("bash-history", r)
		}
		if out && r.Word != nil {
			if c, ok := st.Cmd.(*syntax.CallExpr); ok && len(c.Args) > 0 {
				if name, _ := s.command(c); fetches(name) {
					s.downloaded[printed(r.Word)] = true
				}
			}
		}
	}
}

// rawDevice reports whether a path is a disk or the memory.
func rawDevice(path string) bool {
	for _, p := range []string{"/dev/sd", "/dev/nvme", "/dev/vd", "/dev/xvd", "/dev/mem", "/dev/kmem", "/dev/hd", "/dev/disk", "/dev/mmcblk"} {
		if strings.HasPrefix(path, p) {
			return true
		}
	}
	return false
}

// systemPath reports whether a path belongs to the machine and not to the tool.
func systemPath(path string) bool {
	for _, p := range []string{"/etc/", "/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/boot/", "/root/", "/proc/sys"} {
		if strings.HasPrefix(path, p) {
			return true
		}
	}
	return false
}

// together notes what only means something together.
func (s *shell) together() {
	_, tcp := s.does["tcp"]
	_, computed := s.does["computed"]
	_, interactive := s.does["interactive"]
	if tcp && (computed || interactive) {
		s.n.add("bash-reverse-shell", s.does["tcp"])
	}
	_, fifo := s.does["fifo"]
	nc, listens := s.does["nc"]
	_, shell := s.does["shell"]
	if fifo && listens && (shell || interactive) {
		s.n.add("bash-reverse-shell", nc)
	}
}
