package review

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/file"
	"github.com/grafana/sobek/token"

	"haft/internal/shell"
)

// reference looks at what a name or a chain of members stands for.
func (s *script) reference(e ast.Expression, at file.Idx) {
	parent, _ := s.ancestors.parent()
	if f, ok := parent.(*ast.FunctionLiteral); ok && f.Name == e {
		return
	}
	if c, ok := parent.(*ast.ClassLiteral); ok && c.Name == e {
		return
	}
	for _, ref := range s.values.refs(e) {
		s.path(ref, at)
	}
}

// path looks at one path that the current node may stand for.
func (s *script) path(ref string, at file.Idx) {
	call := s.ancestors.enclosingCall()
	s.escape(ref, at)
	if call != nil && strings.HasSuffix(ref, ".constructor") &&
		(ref != "this.constructor" || !s.ancestors.constructed()) {
		s.found("js-constructor", at)
	}
	base, member, _ := strings.Cut(ref, ".")
	switch base {
	case moduleArguments:
		s.found("js-import-computed", at)
	case "eval":
		s.runs("js-eval", at)
	case "execScript":
		if call != nil {
			s.runs("js-eval", at)
		}
	case "Function":
		if s.isFunction(member) {
			s.runs("js-function", at)
		}
	case "setTimeout", "setInterval", "setImmediate":
		if call != nil && member == "" {
			s.timer(call, at)
		}
	case "process":
		s.process(member, at)
	case "require":
		if hasPrefix(member, "cache", "extensions") {
			s.found("js-native", at)
		}
	case "module":
		if hasPrefix(member, "_", "constructor", "Module._", "prototype", "Module.prototype", "register",
			"Module.register") {
			s.found("js-import-computed", at)
		}
	case "child_process":
		if call != nil {
			s.starts(member, call)
			if member == "then" { // its function gets the module
				s.found("js-shell", at)
			}
		}
	case "fs", "fs-extra":
		if call != nil {
			s.file(strings.TrimPrefix(member, "promises."), call)
		}
	case "Object", "Array":
		if strings.HasPrefix(member, "prototype.") && s.ancestors.assigned() != nil {
			s.found("js-prototype", at)
		}
	}
	if slices.Contains(guarded, ref) {
		// A member of it is reached whose name is not known.
		if parent, child := s.ancestors.parent(); parent != nil {
			if b, ok := parent.(*ast.BracketExpression); ok && b.Left == child {
				s.found("js-computed-global", at)
			}
		}
	}
}

// guarded are the objects that have dangerous members.
var guarded = []string{"globalThis", "global", "window", "child_process", "process", "require"}

// isFunction reports whether Function, the current node, may be used to make a
// function of text. Comparing something with it is fine.
func (s *script) isFunction(member string) bool {
	switch parent, _ := s.ancestors.parent(); n := parent.(type) {
	case *ast.BinaryExpression:
		return n.Operator == token.LOGICAL_OR || n.Operator == token.LOGICAL_AND || n.Operator == token.COALESCE
	case *ast.UnaryExpression:
		return false
	}
	if hasPrefix(member, "constructor", "prototype.constructor") {
		return true
	}
	return slices.Contains([]string{"", "call", "apply", "bind"}, member)
}

// timer looks at what a timer runs.
func (s *script) timer(call *ast.CallExpression, at file.Idx) {
	_, text := s.values.argument(call, 0)
	if len(call.ArgumentList) > 0 && !text {
		_, text = call.ArgumentList[0].(*ast.TemplateLiteral)
	}
	if text {
		s.found("js-timer-string", at)
	}
}

// process looks at a member of process.
func (s *script) process(member string, at file.Idx) {
	name, _, _ := strings.Cut(member, ".")
	switch name {
	case "env":
		if member == "env" && !s.ancestors.isHandedOn() {
			s.found("js-environ", at)
		}
	case "binding", "_linkedBinding", "dlopen", "mainModule":
		s.found("js-native", at)
	case "execve":
		s.found("js-shell", at)
	case "execPath", "argv0", "argv":
		if s.n.several {
			s.found(ruleRunsFile, at)
		}
	}
}

// isText reports whether an expression is a literal with this text.
func isText(e ast.Expression, text string) bool {
	literal, ok := e.(*ast.StringLiteral)
	return ok && literal.Value.String() == text
}

// call looks at a call: at modules that it loads and at texts that it makes.
func (s *script) call(n *ast.CallExpression) {
	if _, dynamic := n.Callee.(*ast.DynamicImportExpression); dynamic {
		s.load(n)
	}
	for _, ref := range s.values.refs(n) {
		s.escape(ref, n.LeftParenthesis)
	}
	for _, ref := range s.values.refs(n.Callee) {
		if loads(ref) {
			s.load(n)
		}
		switch ref {
		case "Reflect.get", "Object.getOwnPropertyDescriptor":
			if name, ok := s.values.argument(n, 1); ok && name.text == "constructor" {
				s.found("js-constructor", n.Idx0())
			}
		case "String.fromCharCode", "String.fromCodePoint":
			if text, ok := s.values.decoded(n); ok && utf8.RuneCountInString(text.text) >= 4 {
				s.found("js-char-codes", n.Idx0())
			}
		case "atob", "Buffer.from":
			text, ok := s.values.decoded(n)
			given, constant := s.values.argument(n, 0)
			if ok && constant && text.text != given.text && len(text.text) >= 8 {
				s.found("js-decode", n.Idx0())
			}
		}
	}
}

// load looks at a call that loads a module.
func (s *script) load(n *ast.CallExpression) {
	at := n.LeftParenthesis // the tree has no place for the word import
	m, ok := s.values.argument(n, 0)
	if !ok {
		s.found("js-import-computed", at)
		return
	}
	if m.made > jsWritten {
		s.found("js-computed-global", at)
	}
	s.loaded(moduleName(m.text), s.tree.line(at))
}

// decoders are functions that make a text which is not in the source.
var decoders = []string{"atob", "fromCharCode", "fromCodePoint", "unescape", "decodeURIComponent", "inflateSync",
	"gunzipSync", "base64", "fetch", "get"}

// runs notes that text is run as code, and whether the text is decoded.
func (s *script) runs(rule string, at file.Idx) {
	s.found(rule, at)
	if call := s.ancestors.callAround(); call != nil {
		for _, arg := range call.ArgumentList {
			if s.decodes(arg) {
				s.found("js-exec-decoded", at)
			}
		}
	}
}

// decodes reports whether something below a node makes a text which is not in the source.
func (s *script) decodes(n ast.Node) bool {
	found := false
	switch n := n.(type) {
	case *ast.Identifier:
		refs := s.values.names[n.Name.String()]
		found = slices.Contains(decoders, n.Name.String()) || slices.Contains(refs, "atob") ||
			slices.Contains(refs, "Buffer.from")
	case *ast.StringLiteral:
		_, escapes := measureLiteral(s.tree.written(n.Idx))
		found = n.Value == "base64" || n.Value == "hex" || escapes > 8
	}
	eachChild(n, func(below ast.Node) { found = found || s.decodes(below) })
	return found
}

// starts looks at what child_process starts.
func (s *script) starts(how string, call *ast.CallExpression) {
	at := call.LeftParenthesis
	command, constant := s.values.argument(call, 0)
	if command.made == jsMade {
		s.found("js-computed-global", at)
	}
	if s.n.several && (how == "fork" || constant && shell.RunsCode(path.Base(command.text))) {
		s.found(ruleRunsFile, at)
	}
	switch {
	case how == "exec" || how == "execSync" || slices.ContainsFunc(call.ArgumentList, asksForShell):
		if !constant {
			s.found("js-shell", at)
		}
		s.command(call.ArgumentList, at)
	case constant && isShell(command.text[strings.LastIndexByte(command.text, '/')+1:]):
		s.shell = s.tree.line(at)
		if len(call.ArgumentList) > 1 {
			s.shellArguments(call.ArgumentList[1], at)
		}
	}
}

// command looks at a command of a shell, or at the part of it that is written.
func (s *script) command(args []ast.Expression, at file.Idx) {
	if len(args) == 0 {
		return
	}
	if text, ok := s.values.constant(args[0]); ok {
		reviewCommand(s.n, text.text, s.tree.line(at))
	} else if t, ok := args[0].(*ast.TemplateLiteral); ok && len(t.Elements) > 0 {
		reviewCommand(s.n, t.Elements[0].Parsed.String(), s.tree.line(at))
	}
}

// asksForShell reports whether an argument has the option shell.
func asksForShell(e ast.Expression) bool {
	options, ok := e.(*ast.ObjectLiteral)
	return ok && slices.ContainsFunc(options.Value, func(p ast.Property) bool {
		switch p := p.(type) {
		case *ast.PropertyShort:
			return p.Name.Name == "shell"
		case *ast.PropertyKeyed:
			return isText(p.Key, "shell") && !isFalse(p.Value)
		}
		return false
	})
}

// shellArguments looks at the arguments of a shell.
func (s *script) shellArguments(e ast.Expression, at file.Idx) {
	list, ok := e.(*ast.ArrayLiteral)
	if !ok {
		return
	}
	for i, arg := range list.Value {
		flag, ok := s.values.constant(arg)
		if !ok || !strings.HasPrefix(flag.text, "-") || !strings.HasSuffix(flag.text, "c") || i+1 == len(list.Value) {
			continue
		}
		if code, ok := s.values.constant(list.Value[i+1]); ok {
			reviewCommand(s.n, code.text, s.tree.line(at))
		} else {
			s.found("js-shell", at)
		}
	}
}

// file looks at what is done to files by constant names.
func (s *script) file(how string, call *ast.CallExpression) {
	at := call.LeftParenthesis
	if len(call.ArgumentList) == 0 {
		return
	}
	number, ok := call.ArgumentList[0].(*ast.NumberLiteral)
	if ok && (how == "writeSync" || how == "write" || how == "closeSync") {
		if v, err := strconv.ParseUint(number.Literal, 0, 32); err == nil && v == 3 {
			s.found("js-channel", at)
		}
		return
	}
	path, ok := s.values.argument(call, 0)
	target, _ := s.values.argument(call, 1)
	writes := hasPrefix(how, "write", "append", "createWrite", "chmod", "chown", "truncate", "unlink", "symlink",
		"rename") ||
		strings.HasPrefix(how, "open") && strings.ContainsAny(target.text, "wa+")
	switch {
	case hasPrefix(how, "copyFile", "cp", "rename", "link", "symlink") && systemPath(target.text):
		s.found("js-system-write", at)
	case !ok:
	case writes && systemPath(path.text):
		s.found("js-system-write", at)
	case strings.HasPrefix(how, "rm") && wholeTree(path.text):
		s.found("js-delete-root", at)
	}
}

// hasPrefix reports whether text begins with one of these.
func hasPrefix(text string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}
