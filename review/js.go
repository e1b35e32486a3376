package review

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// reviewJS looks at a source in JavaScript or TypeScript.
func reviewJS(n *notes, source string) {
	tokens, broken := scanJS(source, n.stopped)
	if broken > 0 {
		n.add(ruleUnreadable, broken)
	}
	s := &script{n: n, tokens: tokens, uses: map[string]int{}}
	s.match()
	s.learn()
	signs := 0
	for i, t := range tokens {
		if n.stopped() {
			return
		}
		if t.kind == jsPunct && strings.Contains("[]()!+", t.text) {
			if signs++; signs == 150 { // JSFuck: any program can be written with these six
				n.add("js-hidden", t.line)
			}
		} else if t.kind != jsPunct {
			signs = 0
		}
		switch t.kind {
		case jsName:
			s.name(i)
		case jsString:
			s.str(i)
		case jsRegexp:
			if hides().MatchString(t.text) {
				n.add(ruleComplex, t.line)
			}
		case jsPunct:
			s.sign(i)
		}
	}
	s.together()
}

// hides finds code in a regular expression, in case it is none.
var hides = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(?:eval|require|Function|import)\(|child_process`)
})

// str looks at a string.
func (s *script) str(i int) {
	t := s.tok(i)
	reviewString(s.n, t.text, t.line)
	if t.escapes >= 4 && t.escapes*2 >= len(t.text) && strings.ContainsAny(t.text, letters) {
		s.n.add("js-char-codes", t.line)
	}
	if s.is(i-1, "+") {
		return
	}
	if text, made, _, ok := s.constant(i); ok && made > jsWritten {
		reviewString(s.n, text, t.line)
	}
}

// name looks at a name and at the chain that it begins.
func (s *script) name(i int) {
	t := s.tok(i)
	if t.escapes > 0 {
		s.n.add("js-escaped-name", t.line)
	}
	if mixed(t.text) {
		s.n.add(ruleMixed, t.line)
	}
	if s.oneOf(i-1, ".", "?.") {
		s.member(i)
		return
	}
	if s.is(i+1, ":") && s.oneOf(i-1, "{", ",") || s.is(i+1, "(") && s.oneOf(i-1, "{", "}", "async", "static", "get", "set", "function") && s.is(s.close(i+1)+1, "{") {
		s.key(i)
		return // a key or a method
	}
	if s.is(i, "import") || s.is(i, "export") {
		s.statement(i)
	}
	ref, end := s.path(i)
	s.reference(ref, i, end)
}

// key looks at name: value in an object.
func (s *script) key(i int) {
	if s.is(i, "rejectUnauthorized") && s.is(i+2, "false") {
		s.n.add("js-tls", s.tok(i).line)
	}
	if s.is(i, "__proto__") && !s.is(i+2, "null") {
		s.n.add("js-prototype", s.tok(i).line)
	}
}

// member looks at .name after anything.
func (s *script) member(i int) {
	line := s.tok(i).line
	switch s.tok(i).text {
	case "constructor":
		prototype := false
		for j := i - 3; j > max(0, i-40) && !s.is(j, ";"); j-- {
			prototype = prototype || s.is(j, "getPrototypeOf")
		}
		if s.oneOf(i+1, ".", "?.") && s.is(i+2, "constructor") || s.is(i-2, ")") && prototype && !s.is(i+2, "name") ||
			s.is(i+1, "(") && s.tok(i-2).kind != jsName {
			s.n.add("js-constructor", line)
		}
	case "__proto__":
		s.n.add("js-prototype", line)
	case "mainModule", "_linkedBinding", "dlopen":
		s.n.add("js-native", line)
	case "rejectUnauthorized":
		if s.is(i+1, "=") && s.is(i+2, "false") {
			s.n.add("js-tls", line)
		}
	case "NODE_TLS_REJECT_UNAUTHORIZED":
		if s.is(i+1, "=") {
			s.n.add("js-tls", line)
		}
	}
}

// sign looks at brackets that reach into something: x["constructor"]["constructor"].
func (s *script) sign(i int) {
	if !s.is(i, "[") || !(s.tok(i-1).kind == jsName || s.oneOf(i-1, ")", "]", "?.")) {
		return
	}
	text, made, end, ok := s.constant(i + 1)
	if !ok || !s.is(end, "]") {
		return
	}
	line := s.tok(i).line
	switch text {
	case "constructor":
		s.n.add("js-constructor", line)
	case "__proto__":
		s.n.add("js-prototype", line)
	default:
		if made == jsMade || made == jsJoined && slices.Contains([]string{"eval", "Function", "require", "mainModule", "binding", "exec", "execSync", "spawn"}, text) {
			s.n.add("js-computed-global", line)
		}
	}
}

// statement looks at import "m" and export ... from "m".
func (s *script) statement(i int) {
	if s.is(i+1, "type") && !s.is(i+2, "from") || s.oneOf(i+1, "(", ".") {
		return
	}
	for j := i + 1; j < len(s.tokens) && j < i+400; j++ {
		switch {
		case s.is(j, "from") && s.tok(j+1).kind == jsString:
			s.loaded(module(s.tok(j+1).text), s.tok(j+1).line)
			return
		case j == i+1 && s.tok(j).kind == jsString:
			s.loaded(module(s.tok(j).text), s.tok(j).line)
			return
		case s.oneOf(j, ";", "=", "(", "function", "class", "const", "let", "var", "default", "interface", "enum"):
			return
		}
	}
}

// loaded looks at which module is loaded.
func (s *script) loaded(m string, line int) {
	if _, ok := s.uses[m]; !ok {
		s.uses[m] = line
	}
	switch m {
	case "child_process":
		s.n.add("js-process", line)
	case "vm", "repl", "vm2":
		s.n.add("js-vm", line)
	case "worker_threads", "cluster":
		s.n.add("js-worker", line)
	case "net", "dgram":
		s.n.add("js-socket", line)
	case "inspector":
		s.n.add("js-inspector", line)
	case "ffi-napi", "ffi", "koffi", "v8", "process.binding", "bindings", "node-gyp-build":
		s.n.add("js-native", line)
	}
	if strings.HasPrefix(m, "data:") || strings.HasPrefix(m, "http:") || strings.HasPrefix(m, "https:") {
		s.n.add("js-eval", line)
	}
	if strings.HasSuffix(m, ".node") {
		s.n.add("js-native", line)
	}
}

// reference looks at what a chain from i to end stands for.
func (s *script) reference(ref string, i, end int) {
	line := s.tok(i).line
	called := s.oneOf(end, "(") || s.is(end, "?.") && s.is(end+1, "(")
	base, _, _ := strings.Cut(ref, ".")
	if slices.Contains([]string{"require", "import"}, s.alias(i)) {
		s.require(i, ref)
	}
	switch {
	case ref == "eval" || strings.HasPrefix(ref, "eval.") || ref == "execScript" && called:
		if !s.typed(i) && !s.is(i-1, "function") {
			s.runs("js-eval", i, end)
		}
	case ref == "Function" || ref == "Function.constructor" || ref == "Function.prototype.constructor" || strings.HasPrefix(ref, "Function.") && strings.HasSuffix(ref, "l"):
		if called || strings.HasPrefix(ref, "Function.") && !strings.HasPrefix(ref, "Function.prototype.") || s.oneOf(i-1, "(", ",", "=") && s.oneOf(end, ")", ",", ";") {
			s.runs("js-function", i, end)
		}
	case (ref == "setTimeout" || ref == "setInterval" || ref == "setImmediate") && called:
		if _, _, _, ok := s.constant(end + 1); ok || s.tok(end+1).template {
			s.n.add("js-timer-string", line)
		}
	case ref == "process.env":
		s.environ(i, end)
	case strings.HasPrefix(ref, "process.binding"), strings.HasPrefix(ref, "process._linkedBinding"), strings.HasPrefix(ref, "process.dlopen"), strings.HasPrefix(ref, "process.mainModule"):
		s.n.add("js-native", line)
	case ref == "process.env.NODE_TLS_REJECT_UNAUTHORIZED" && s.is(end, "="):
		s.n.add("js-tls", line)
	case base == "module" && (strings.HasPrefix(ref, "module._") || strings.HasPrefix(ref, "module.constructor")), strings.HasPrefix(ref, "module.Module._"):
		s.n.add("js-import-computed", line)
	case base == "child_process" && called:
		s.starts(strings.TrimPrefix(ref, "child_process."), end)
	case (base == "fs" || base == "fs-extra") && called:
		s.file(strings.TrimPrefix(strings.TrimPrefix(ref, "fs."), "promises."), end)
	case strings.HasSuffix(ref, "__proto__"), strings.HasPrefix(ref, "Object.prototype.") && s.is(end, "="), strings.HasPrefix(ref, "Array.prototype.") && s.is(end, "="):
		s.n.add("js-prototype", line)
	case (ref == "String.fromCharCode" || ref == "String.fromCodePoint") && called:
		if text, _, _, ok := s.function(i); ok && len([]rune(text)) >= 4 {
			s.n.add("js-char-codes", line)
			reviewString(s.n, text, line)
		}
	case (ref == "atob" || ref == "Buffer.from") && called:
		if text, _, _, ok := s.function(i); ok && s.tok(end+1).kind == jsString && text != s.tok(end+1).text && len(text) >= 8 {
			s.n.add("js-decode", line)
			reviewString(s.n, text, line)
		}
	}
	// The global object, reached into by something that is not known.
	if slices.Contains(globals[:3], ref) && s.is(end, "[") {
		s.n.add("js-computed-global", line)
	}
}

// alias is what the name at i stands for.
func (s *script) alias(i int) string {
	name := s.tok(i).text
	if to, ok := s.names[name]; ok {
		return to
	}
	return name
}

// typed reports whether the name at i is a key or declared rather than used.
func (s *script) typed(i int) bool { return s.is(i+1, ":") && s.oneOf(i-1, "{", ",") }

// require looks at require(...) and import(...).
func (s *script) require(i int, ref string) {
	line := s.tok(i).line
	if s.is(i+1, ".") || !s.is(i+1, "(") {
		if strings.HasPrefix(ref, "require.cache") || strings.HasPrefix(ref, "require.extensions") {
			s.n.add("js-native", line)
		}
		return
	}
	m, made, end, ok := s.constant(i + 2)
	switch {
	case !ok || !s.oneOf(end, ")", ","):
		s.n.add("js-import-computed", line)
	case made > jsWritten:
		s.n.add("js-computed-global", line)
		fallthrough
	default:
		s.loaded(module(m), line)
	}
}

// maxArguments bounds the tokens of a call that are looked at again for it.
const maxArguments = 2000

// runs notes that text is run as code, and what kind of text.
func (s *script) runs(rule string, i, end int) {
	line := s.tok(i).line
	open := end
	for open < len(s.tokens) && s.is(open, ")") {
		open++ // (0, eval)(...)
	}
	if s.is(open, "(") {
		for j, closing := open, min(s.close(open), open+maxArguments); j < closing; j++ {
			t := s.tok(j)
			decodes := t.kind == jsName && slices.Contains([]string{"atob", "fromCharCode", "fromCodePoint", "unescape", "decodeURIComponent", "inflateSync", "gunzipSync", "base64", "fetch", "get"}, t.text) ||
				t.kind == jsString && (t.text == "base64" || t.text == "hex" || t.escapes > 8)
			if decodes {
				s.n.add("js-exec-decoded", line)
			}
			if v, ok := s.names[t.text]; ok && t.kind == jsName && (v == "atob" || v == "Buffer.from") {
				s.n.add("js-exec-decoded", line)
			}
		}
	}
	s.n.add(rule, line)
}

// environ looks at process.env: one variable of it is fine, and so is handing it
// on to a child.
func (s *script) environ(i, end int) {
	switch {
	case s.is(i-1, "...") || s.is(i-1, ":") && s.is(i-2, "env"):
		return
	case s.oneOf(i-1, "{", ",") && s.oneOf(end, "}", ",") && s.is(s.inside[i], "{"):
		return // { env } = process, and { env } as the options of a child
	case s.is(i-1, "=") && (s.is(i-2, "}") || s.ends(end)):
		return
	case s.is(end, "[") || s.oneOf(i-1, "in", "typeof") || s.oneOf(end, "?", "=", "&&", "||", "as", "??"):
		return
	}
	s.n.add("js-environ", s.tok(i).line)
}

// starts looks at what child_process starts.
func (s *script) starts(how string, open int) {
	line := s.tok(open).line
	text, made, end, ok := s.constant(open + 1)
	shell := false
	for j, closing := open, min(s.close(open), open+maxArguments); j < closing; j++ {
		shell = shell || s.is(j, "shell") && s.is(j+1, ":") && !s.is(j+2, "false")
	}
	if made == jsMade {
		s.n.add("js-computed-global", line)
	}
	switch {
	case (how == "exec" || how == "execSync" || shell) && !ok:
		s.n.add("js-shell", line)
		if t := s.tok(open + 1); t.template {
			reviewCommand(s.n, t.text, line)
		}
	case how == "exec" || how == "execSync" || shell:
		reviewCommand(s.n, text, line)
	case ok && isShell(text[strings.LastIndexByte(text, '/')+1:]):
		s.uses["shell"] = line
		if s.is(end, ",") && s.is(end+1, "[") {
			for j, closing := end+2, min(s.close(end+1), end+maxArguments); j < closing; j++ {
				if s.tok(j).text != "-c" || !s.is(j+1, ",") {
					continue
				}
				if code, _, after, ok := s.constant(j + 2); ok && s.oneOf(after, ",", "]") {
					reviewCommand(s.n, code, line)
				} else {
					s.n.add("js-shell", line)
				}
			}
		}
	}
}

// file looks at what is done to files by constant names.
func (s *script) file(how string, open int) {
	line := s.tok(open).line
	if (how == "writeSync" || how == "write" || how == "closeSync") && s.tok(open+1).kind == jsNumber {
		if v, err := strconv.ParseUint(s.tok(open+1).text, 0, 32); err == nil && v == 3 {
			s.n.add("js-channel", line)
		}
		return
	}
	path, _, _, ok := s.constant(open + 1)
	if !ok {
		return
	}
	switch {
	case strings.HasPrefix(how, "write"), strings.HasPrefix(how, "append"), strings.HasPrefix(how, "createWrite"), strings.HasPrefix(how, "chmod"), strings.HasPrefix(how, "unlink"), strings.HasPrefix(how, "symlink"):
		if systemPath(path) {
			s.n.add("js-system-write", line)
		}
	case strings.HasPrefix(how, "rm"):
		if wholeTree(path) {
			s.n.add("js-delete-root", line)
		}
	}
}

// together notes what only means something together.
func (s *script) together() {
	_, process := s.uses["child_process"]
	_, net := s.uses["net"]
	line, shell := s.uses["shell"]
	for i := range s.tokens {
		if process && net && shell && s.is(i, "pipe") && s.is(i-1, ".") {
			s.n.add("js-reverse-shell", line)
			return
		}
	}
}
