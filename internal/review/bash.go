package review

import (
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"haft/internal/shell"
)

// maxShells is how many scripts may stand in texts of scripts.
const maxShells = 4

// reviewBash looks at a script.
func reviewBash(n *notes, source string) {
	s := &shellScript{n: n}
	if line, err := s.read(source); err != nil {
		n.add(ruleUnreadable, line)
	}
}

// reviewCommand looks at a command line that a program in another language passes to a
// shell. A syntax error is not reported: the shell will.
func reviewCommand(n *notes, text string, line int) {
	s := &shellScript{n: n, line: line, depth: 1}
	_, err := s.read(text)
	_ = err // the text may be only part of a command
}

// A shellScript is the review of one script.
type shellScript struct {
	n     *notes
	line  int // of all findings, if the script stands in another source
	depth int // of scripts in scripts

	values     map[string][]*syntax.Word // what variables are set to; nil: anything
	downloaded map[string]bool           // files that were fetched, as they are written
	marks      map[string]int            // what the script does somewhere, with the line
	steps      int                       // words and commands that were looked at
}

// maxSteps bounds the words and commands that one script has looked at: variables
// may stand for variables many times over.
const maxSteps = 1 << 17

// step counts one, and reports whether there may be another.
func (s *shellScript) step(node syntax.Node) bool {
	if s.steps++; s.steps == maxSteps {
		s.add(ruleComplex, node)
	}
	return s.steps < maxSteps && (s.steps%1024 != 0 || !s.n.stopped())
}

// read parses and looks at a script, and returns the line where that failed.
func (s *shellScript) read(source string) (line int, err error) {
	file, err := shell.Parse(s.n.ctx, source)
	var bad *shell.SyntaxError
	if errors.As(err, &bad) {
		return max(bad.Line, 1), err
	}
	if err != nil {
		return 1, err
	}
	s.values, s.downloaded, s.marks = map[string][]*syntax.Word{}, map[string]bool{}, map[string]int{}
	syntax.Walk(file, s.gather)
	syntax.Walk(file, s.visit)
	s.checkCombinations()
	return 0, nil
}

// add notes a finding.
func (s *shellScript) add(rule string, node syntax.Node) {
	s.n.add(rule, s.at(node))
}

// at is the line of a node, or of the script that stands in another source.
func (s *shellScript) at(node syntax.Node) int {
	if s.line > 0 {
		return s.line
	}
	return int(node.Pos().Line())
}

// mark remembers that the script does something.
func (s *shellScript) mark(what string, node syntax.Node) {
	if _, ok := s.marks[what]; !ok {
		s.marks[what] = s.at(node)
	}
}

// nested looks at a script that stands in a text of this one.
func (s *shellScript) nested(text string, node syntax.Node) {
	if s.depth >= maxShells || s.n.stopped() {
		s.add(ruleComplex, node)
		return
	}
	inner := &shellScript{n: s.n, line: s.at(node), depth: s.depth + 1}
	_, err := inner.read(text)
	_ = err // the text may be only part of a script
}

// gather learns what variables are set to.
func (s *shellScript) gather(node syntax.Node) bool {
	switch x := node.(type) {
	case *syntax.Assign:
		if x.Name == nil {
			return true
		}
		value := x.Value
		if x.Append || x.Index != nil || x.Array != nil {
			value = nil
		}
		s.bind(x.Name.Value, value)
	case *syntax.WordIter:
		s.bind(x.Name.Value, x.Items...)
		if len(x.Items) == 0 {
			s.bind(x.Name.Value, nil)
		}
	case *syntax.CallExpr:
		if len(x.Args) > 1 && slices.Contains([]string{"read", "mapfile", "readarray", "printf"}, x.Args[0].Lit()) {
			for _, a := range x.Args[1:] {
				if name := a.Lit(); name != "" && name[0] != '-' {
					s.bind(name, nil)
				}
			}
		}
	}
	return !s.n.stopped()
}

// bind notes what a variable is set to; nil means anything.
func (s *shellScript) bind(name string, values ...*syntax.Word) {
	s.values[name] = append(s.values[name], values...)
}

// visit holds a node against the rules.
func (s *shellScript) visit(node syntax.Node) bool {
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

// variableRules are about variables that are set; IFS only if it has letters.
var variableRules = map[string]string{"LD_PRELOAD": "bash-preload", "LD_AUDIT": "bash-preload",
	"DYLD_INSERT_LIBRARIES": "bash-preload", "BASH_ENV": "bash-preload", "PROMPT_COMMAND": "bash-preload",
	"PYTHONSTARTUP": "bash-preload", "NODE_OPTIONS": "bash-preload", "PERL5OPT": "bash-preload",
	"HISTFILE": "bash-history", "HISTSIZE": "bash-history", "HISTFILESIZE": "bash-history",
	"HISTCONTROL": "bash-history", "IFS": "bash-ifs"}

// assign looks at what a variable is set to.
func (s *shellScript) assign(a *syntax.Assign) {
	value := word{}
	if a.Value != nil {
		value = s.word(a.Value)
	}
	name := a.Name.Value
	switch rule := variableRules[name]; {
	case rule != "" && (name != "IFS" || value.known && strings.ContainsAny(value.text, strings.Trim(letters, "_"))):
		s.add(rule, a)
	case mixesScripts(name):
		s.add(ruleMixed, a)
	}
}

// function looks for one that calls itself beside itself, and for one that takes
// the place of a command.
func (s *shellScript) function(f *syntax.FuncDecl) {
	if f.Name == nil {
		return
	}
	name := f.Name.Value
	if isTrusted(name) {
		s.add("bash-alias", f)
	}
	if mixesScripts(name) {
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

// isTrusted reports whether a name is one that people trust.
func isTrusted(name string) bool {
	return slices.Contains(trusted, name)
}

// trusted are commands that people trust to be what they are.
var trusted = strings.Fields("sudo su ssh scp ls cat ps rm cp mv cd curl wget git python python3 bash sh passwd grep " +
	"find chmod chown mount kill docker kubectl test [ echo read exit return export eval source builtin command")

// redirects looks at where a statement reads and writes.
func (s *shellScript) redirects(st *syntax.Stmt) {
	for _, r := range st.Redirs {
		target, command := word{}, ""
		if r.Word != nil {
			target = s.word(r.Word)
		}
		if c, ok := st.Cmd.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			command, _ = s.command(c)
		}
		if hasPrefix(target.lead, "/dev/tcp/", "/dev/udp/") {
			s.add("bash-tcp", r)
			s.mark("tcp", r)
			if isShell(command) {
				s.add("bash-reverse-shell", r)
			}
		}
		out := slices.Contains([]syntax.RedirOperator{syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll,
			syntax.RdrClob}, r.Op)
		if out && rawDevice(target.text) {
			s.add("bash-device", r)
		}
		if out && systemPath(target.text) {
			s.add("bash-startup", r)
		}
		if out && strings.Contains(target.text, "bash_history") {
			s.add("bash-history", r)
		}
		if out && r.Word != nil && fetches(command) {
			s.downloaded[printed(r.Word)] = true
		}
	}
}

// rawDevice reports whether a path is a disk or the memory.
func rawDevice(path string) bool {
	return hasPrefix(path, "/dev/sd", "/dev/nvme", "/dev/vd", "/dev/xvd", "/dev/mem", "/dev/kmem", "/dev/hd",
		"/dev/disk",
		"/dev/mmcblk")
}

// systemPath reports whether a path belongs to the machine and not to the tool.
func systemPath(path string) bool {
	return hasPrefix(path, "/etc/", "/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/boot/", "/root/", "/proc/sys")
}

// checkCombinations notes what only means something together.
func (s *shellScript) checkCombinations() {
	has := func(what string) bool { return s.marks[what] > 0 }
	if has("tcp") && (has("computed") || has("interactive")) {
		s.n.add("bash-reverse-shell", s.marks["tcp"])
	}
	if has("fifo") && has("nc") && (has("shell") || has("interactive")) {
		s.n.add("bash-reverse-shell", s.marks["nc"])
	}
}
