package review

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/file"

	"haft"
	"haft/internal/javascript"
)

// A script is the review of one source in JavaScript or TypeScript.
type script struct {
	tree      *jsTree
	n         *notes
	values    *resolver
	ancestors ancestors
	modules   map[string]int // modules that are loaded, with the line
	shell     int            // the line where a shell is started
	pipes     bool           // something is piped
	madeLen   int            // of the texts that were put together and looked at
}

// reviewJS looks at a source in JavaScript or TypeScript.
func reviewJS(ctx context.Context, n *notes, kind haft.Kind, source string) error {
	if strings.TrimSpace(source) == "" {
		return nil
	}
	reviewSigns(n, source)
	tree, bad, err := readJS(ctx, kind, source)
	if err != nil {
		return err
	}
	s := &script{tree: tree, n: n, values: &resolver{tree: tree, n: n}, modules: map[string]int{}}
	s.reviewNames()
	if bad != nil {
		n.add(ruleUnreadable, tree.lineOf(bad.At))
		return nil
	}
	if tree.renamed {
		n.add(ruleComplex, 1)
	}
	s.values.learn()
	s.walk(tree.program)
	if s.values.tooManyRefs {
		n.add(ruleComplex, 1)
	}
	_, process := s.modules["child_process"]
	_, net := s.modules["net"]
	if process && net && s.shell > 0 && s.pipes {
		n.add("js-reverse-shell", s.shell)
	}
	return nil
}

// reviewSigns looks for JSFuck: any program can be written with six signs.
func reviewSigns(n *notes, source string) {
	signs, line := 0, 1
	for _, c := range source {
		switch {
		case c == '\n':
			line++
		case strings.ContainsRune("[]()!+", c):
			if signs++; signs == 150 {
				n.add("js-hidden", line)
			}
		case c > ' ' && !strings.ContainsRune("{}<>=;,.:?&|*/%^~-", c):
			signs = 0
		}
	}
}

// reviewNames looks at how names are written.
func (s *script) reviewNames() {
	for _, t := range s.tree.source.Tokens {
		if t.Kind != javascript.Ident {
			continue
		}
		name := s.tree.source.TextOf(t)
		if strings.Contains(name, `\`) {
			s.n.add("js-escaped-name", s.tree.lineOf(t.From))
		}
		if mixesScripts(name) {
			s.n.add(ruleMixed, s.tree.lineOf(t.From))
		}
	}
}

// found notes a finding at a place in the tree.
func (s *script) found(rule string, at file.Idx) { s.n.add(rule, s.tree.line(at)) }

// walk looks at a node and at those below it.
func (s *script) walk(n ast.Node) {
	if s.n.stopped() {
		return
	}
	s.ancestors = append(s.ancestors, n)
	if !s.visit(n) {
		eachChild(n, s.walk)
	}
	s.ancestors = s.ancestors[:len(s.ancestors)-1]
}

// visit looks at one node. It reports whether it has seen to those below it.
func (s *script) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportDeclaration:
		s.imported(n.ModuleSpecifier.String(), n.Idx)
		if n.FromClause != nil {
			s.imported(n.FromClause.ModuleSpecifier.String(), n.Idx)
		}
	case *ast.ExportDeclaration:
		if n.FromClause != nil {
			s.imported(n.FromClause.ModuleSpecifier.String(), n.Idx)
			if moduleName(n.FromClause.ModuleSpecifier.String()) == "child_process" {
				s.found("js-shell", n.Idx)
			}
		}
		if n.NamedExports != nil && n.FromClause == nil {
			for _, x := range n.NamedExports.ExportsList {
				for _, ref := range s.values.refs(&ast.Identifier{Name: x.IdentifierName}) {
					if rule := escapeRules[ref]; rule != "" && ref != x.IdentifierName.String() {
						s.found(rule, n.Idx)
					}
				}
			}
		}
	case *ast.WithStatement: // what the names in it are cannot be known
		s.found("js-computed-global", n.With)
	case *ast.ObjectPattern:
		s.patternKeys(n)
	case *ast.ThisExpression:
		s.this(n.Idx)
	case *ast.StringLiteral:
		if strings.ContainsAny(n.Literal[:min(1, len(n.Literal))], `"'`) { // not the name of a property
			s.reviewText(n.Value.String(), n.Idx)
		}
	case *ast.TemplateLiteral:
		for _, part := range n.Elements {
			s.reviewText(part.Parsed.String(), n.OpenQuote)
		}
		s.reviewMade(n)
	case *ast.BinaryExpression:
		s.reviewMade(n)
	case *ast.PropertyKeyed:
		s.property(n)
	case *ast.CallExpression:
		s.reviewMade(n)
		s.call(n)
	case *ast.Binding: // a name that is declared is not used
		if _, plain := n.Target.(*ast.Identifier); !plain {
			s.walk(n.Target)
		}
		if n.Initializer != nil {
			s.walk(n.Initializer)
		}
		return true
	case *ast.Identifier:
		s.reference(n, n.Idx)
	case *ast.DotExpression, *ast.BracketExpression:
		s.chain(n.(ast.Expression))
		return true
	}
	return false
}

// chain looks at a chain of members such as a.b["c"].d: at each member, and at
// what the longest known part of it from the left stands for.
func (s *script) chain(e ast.Expression) {
	depth := len(s.ancestors)
	defer func() { s.ancestors = s.ancestors[:depth] }()
	for known := false; ; s.ancestors = append(s.ancestors, e) {
		if !known && len(s.values.refs(e)) > 0 {
			known = true
			s.reference(e, e.Idx0())
		}
		switch n := e.(type) {
		case *ast.OptionalChain:
			e = n.Expression
		case *ast.Optional:
			e = n.Expression
		case *ast.DotExpression:
			s.member(n.Left, n.Identifier.Name.String(), n.Identifier.Idx)
			e = n.Left
		case *ast.BracketExpression:
			s.bracket(n)
			s.walk(n.Member)
			e = n.Left
		case *ast.Identifier:
			return
		case *ast.ThisExpression:
			s.this(n.Idx)
			return
		default:
			s.ancestors = s.ancestors[:len(s.ancestors)-1]
			s.walk(e)
			return
		}
	}
}

// reviewText looks at a text that stands in the source.
func (s *script) reviewText(text string, at file.Idx) {
	line := s.tree.line(at)
	reviewString(s.n, text, line)
	_, escapes := measureLiteral(s.tree.written(at))
	if escapes >= 4 && escapes*2 >= len(text) && strings.ContainsAny(text, letters) {
		s.n.add("js-char-codes", line)
	}
}

// maxMade bounds the texts that are put together and looked at.
const maxMade = 256 << 10

// reviewMade looks at a text that is put together.
func (s *script) reviewMade(e ast.Expression) {
	text, ok := s.values.constant(e)
	if !ok {
		return
	}
	if s.madeLen += len(text.text); s.madeLen > maxMade {
		s.found(ruleComplex, e.Idx0())
		return
	}
	reviewString(s.n, text.text, s.tree.line(e.Idx0()))
}

// property looks at name: value in an object.
func (s *script) property(n *ast.PropertyKeyed) {
	key, ok := n.Key.(*ast.StringLiteral)
	if !ok {
		return
	}
	switch key.Value {
	case "rejectUnauthorized":
		if isFalse(n.Value) {
			s.found("js-tls", key.Idx)
		}
	case "__proto__":
		if _, null := n.Value.(*ast.NullLiteral); !null && !n.Computed {
			s.found("js-prototype", key.Idx)
		}
	}
}

// isFalse reports whether an expression is the constant false.
func isFalse(e ast.Expression) bool {
	b, ok := e.(*ast.BooleanLiteral)
	return ok && !b.Value
}

// member looks at a member of anything.
func (s *script) member(left ast.Expression, name string, at file.Idx) {
	switch name {
	case "constructor":
		if s.makesFunction(unwrap(left)) {
			s.found("js-constructor", at)
		}
	case "__proto__":
		s.found("js-prototype", at)
	case "require":
		if len(s.values.refs(left)) == 0 { // of a module that is not known
			s.found("js-import-computed", at)
		}
	case "mainModule", "_linkedBinding", "dlopen":
		s.found("js-native", at)
	case "rejectUnauthorized":
		if isFalse(s.ancestors.assigned()) {
			s.found("js-tls", at)
		}
	case "NODE_TLS_REJECT_UNAUTHORIZED":
		if s.ancestors.assigned() != nil {
			s.found("js-tls", at)
		}
	case "pipe":
		s.pipes = true
	}
}

// makesFunction reports whether left.constructor, the current node, may be
// Function: the constructor of a constructor, or of anything that has no name.
func (s *script) makesFunction(left ast.Expression) bool {
	switch left := left.(type) {
	case *ast.DotExpression:
		if left.Identifier.Name == "constructor" {
			return true
		}
	case *ast.BracketExpression:
		if name, ok := s.values.constant(left.Member); ok && name.text == "constructor" {
			return true
		}
	case *ast.ThisExpression: // new this.constructor() makes another of the same class
		return s.ancestors.enclosingCall() != nil && !s.ancestors.constructed()
	case *ast.CallExpression:
		parent, _ := s.ancestors.parent()
		if name, ok := parent.(*ast.DotExpression); ok && name.Identifier.Name == "name" {
			return false
		}
		if callee, ok := unwrap(left.Callee).(*ast.DotExpression); ok && callee.Identifier.Name == "getPrototypeOf" {
			return true
		}
	}
	return s.ancestors.enclosingCall() != nil
}

// hiddenMembers are members whose names nobody puts together for an honest reason.
var hiddenMembers = []string{"eval", "Function", "require", "mainModule", "binding", "exec", "execSync", "spawn"}

// bracket looks at a member whose name is an expression.
func (s *script) bracket(n *ast.BracketExpression) {
	name, ok := s.values.constant(n.Member)
	switch {
	case !ok:
		if s.ancestors.enclosingCall() != nil && s.twiceComputed(n) {
			s.found("js-constructor", n.LeftBracket)
		}
	case name.text == "constructor":
		s.found("js-constructor", n.LeftBracket)
	default:
		s.member(n.Left, name.text, n.LeftBracket)
		if name.made == jsMade || name.made == jsJoined && slices.Contains(hiddenMembers, name.text) {
			s.found("js-computed-global", n.LeftBracket)
		}
	}
}

// twiceComputed reports whether an unknown member of an unknown member is taken as
// only the way to Function does: by the same name, as in x[k][k], or of a literal.
func (s *script) twiceComputed(n *ast.BracketExpression) bool {
	inner, ok := unwrap(n.Left).(*ast.BracketExpression)
	if !ok {
		return false
	}
	first, ok := inner.Member.(*ast.Identifier)
	second, same := n.Member.(*ast.Identifier)
	if ok && same && first.Name == second.Name {
		return true
	}
	switch of := inner.Left.(type) {
	case *ast.ArrayLiteral:
		return len(of.Value) == 0
	case *ast.StringLiteral, *ast.NumberLiteral, *ast.BooleanLiteral, *ast.RegExpLiteral, *ast.FunctionLiteral:
		return true
	}
	return false
}

// imported looks at a module that a statement names.
func (s *script) imported(name string, at file.Idx) {
	if name != "" {
		s.reviewText(name, at)
		s.loaded(moduleName(name), s.tree.line(at))
	}
}

// urlBlanks removes what addresses are read without.
var urlBlanks = strings.NewReplacer("\t", "", "\n", "", "\r", "")

// moduleRules are about modules that are loaded.
var moduleRules = map[string]string{"child_process": "js-process", "vm": "js-vm", "repl": "js-vm", "vm2": "js-vm",
	"worker_threads": "js-worker", "cluster": "js-worker", "net": "js-socket", "dgram": "js-socket",
	"inspector": "js-inspector", "ffi-napi": "js-native", "ffi": "js-native", "koffi": "js-native", "v8": "js-native",
	"process.binding": "js-native", "bindings": "js-native", "node-gyp-build": "js-native"}

// loaded looks at which module is loaded.
func (s *script) loaded(m string, line int) {
	if _, ok := s.modules[m]; !ok {
		s.modules[m] = line
	}
	if rule := moduleRules[m]; rule != "" {
		s.n.add(rule, line)
	}
	// The scheme of an address may be written in capitals, behind and with blanks in it.
	scheme := strings.ToLower(strings.TrimLeftFunc(urlBlanks.Replace(m), func(r rune) bool { return r <= ' ' }))
	if hasPrefix(scheme, "data:", "http:", "https:") {
		s.n.add("js-eval", line)
	}
	if s.n.several && strings.HasPrefix(m, ".") && !loadsCode(m) {
		s.n.add(ruleRunsFile, line)
	}
	if strings.HasSuffix(m, ".node") {
		s.n.add("js-native", line)
	}
}

// loadsCode reports whether a file of the tool is loaded that was reviewed as JavaScript, or
// JSON, by the ending that is written. Node.js runs any other as JavaScript.
func loadsCode(m string) bool {
	return slices.Contains([]string{"", ".", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".json"}, path.Ext(m))
}
